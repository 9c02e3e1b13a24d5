"""Rows of files, which say that several threads may read them at once."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from torchpipe.data.protocols import can_be_read_ahead
from torchpipe.sources import load_rows
from torchpipe.sources.views import JoinedRows, KeptRows

FILES = {
    "json": "".join(f'{{"text": "row {number}"}}\n' for number in range(300)),
    "csv": "text\n" + "".join(f'"row\n{number}"\n' for number in range(300)),
    "text": "".join(f"row {number}\n" for number in range(300)),
}


@pytest.mark.usefixtures("threads_take_turns")
@pytest.mark.parametrize("options", [{}, {"split": "train[20:]"}], ids=["whole", "a part"])
@pytest.mark.parametrize("kind", FILES)
def test_threads_that_read_at_once_get_the_rows_that_one_gets(kind: str, options: Any, tmp_path: Path) -> None:
    files = [tmp_path / f"{number}.{kind}" for number in range(3)]
    for file in files:
        file.write_text(FILES[kind])
    rows = load_rows(kind, data_files=[str(file) for file in files], **options)
    assert can_be_read_ahead(rows)
    numbers = [number * 7 % len(rows) for number in range(len(rows))]
    alone = [rows[number] for number in numbers]
    with ThreadPoolExecutor(8) as threads:
        assert list(threads.map(rows.__getitem__, numbers)) == alone


def test_a_view_of_rows_that_do_not_say_so_does_not_either() -> None:
    rows = [{"text": "a"}, {"text": "b"}]
    assert not can_be_read_ahead(KeptRows(rows, np.array([1])))
    assert not can_be_read_ahead(JoinedRows([rows, rows]))
