"""The table of sizes and the tests that use it."""

import re
import tomllib
from pathlib import Path


def test_every_row_of_sizes_is_used_and_every_larger_size_is_in_the_table(repository: Path) -> None:
    rows = tomllib.loads((repository / "tests" / "soak.toml").read_text(encoding="utf-8"))
    texts = [file.read_text(encoding="utf-8") for file in (repository / "tests").rglob("test_*.py")]
    used = {row for text in texts for row in re.findall(r'mark\.sized\(\s*"\w+", "(\w+)"', text)}
    assert used == set(rows)
    assert all(set(row) == {"what", "test", "soak"} and row["test"] < row["soak"] for row in rows.values())
    assert [text for text in texts if "marks=pytest.mark." + "soak" in text] == []
