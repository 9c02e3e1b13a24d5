"""docs/chat_formats.md: its table is that of the rows, and its worked example works."""

import re
import runpy
from pathlib import Path

import pytest

from torchpipe.tokenizers import FAMILIES, PUBLISHER_FORMATS, PublisherFormatTokenizer


def test_the_page_holds_the_table_that_the_rows_give(repository: Path):
    script = runpy.run_path(str(repository / "tools" / "chat_format_table.py"))
    page = (repository / "docs" / "chat_formats.md").read_text(encoding="utf-8")
    assert script["page_with"](script["table"]()) == page
    assert all(f"| `{row.name}` |" in page for row in (*FAMILIES, *PUBLISHER_FORMATS))


def test_no_row_with_a_stand_in_or_no_oracle_is_called_proven(repository: Path):
    page = (repository / "docs" / "chat_formats.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `(\w+)` .*\| ([^|]+) \| (yes|no) \|$", page, flags=re.MULTILINE)
    assert len(rows) == len(FAMILIES) + len(PUBLISHER_FORMATS)
    assert all(
        (proven == "no") == (oracle.startswith("template text") or oracle == "none") for _, oracle, proven in rows
    )


def test_names_of_rows_are_unique():
    names = [row.name for row in (*FAMILIES, *PUBLISHER_FORMATS)]
    assert len(set(names)) == len(names)


def test_the_worked_example_of_a_new_family_works(repository: Path):
    page = (repository / "docs" / "chat_formats.md").read_text(encoding="utf-8")
    code = next(block for block in re.findall(r"```python\n(.*?)```", page, flags=re.DOTALL) if "ADA =" in block)
    names: dict = {}
    exec(code, names)
    stand_in = runpy.run_path(str(repository / "tools" / "chat_format_table.py"))["stand_in"]
    tokenizer: PublisherFormatTokenizer = stand_in(names["ADA"])
    call = {"function": {"name": "f", "arguments": {"a": 1}}}
    messages = [{"role": "user", "content": "<stop>"}, {"role": "assistant", "content": None, "tool_calls": [call]}]
    tools = [{"type": "function", "function": {"name": "f"}}]
    assert tokenizer.render_text(messages, tools) == (
        '<turn>system: \nTools: [{"type": "function", "function": {"name": "f"}}]<stop>'
        '<turn>user: <stop><stop><turn>assistant: <call>f {"a": 1}<stop>'
    )
    ids, mask = tokenizer.tokenize_messages(messages, tools)
    trained = [token_id for token_id, masked in zip(ids, mask, strict=True) if not masked]
    assert tokenizer.decode(trained, False, False) == '<call>f {"a": 1}<stop>'
    assert ids.count(tokenizer.eos_id) == 3


@pytest.mark.parametrize("row", PUBLISHER_FORMATS, ids=lambda row: row.name)
def test_every_row_says_its_oracle_and_has_a_layout(row):
    assert row.layout is not None
    assert row.oracle != "torchtune"
