"""Collaters, prompt templates and preference rows against torchtune 0.6.1: shapes, types and values."""

import json
import runpy
from pathlib import Path
from typing import Any

import pytest

import torchpipe.data

HERE = Path(__file__).parent
MAKER = runpy.run_path(str(HERE / "make_collate_goldens.py"))
GOLDENS: dict[str, Any] = json.loads((HERE / "collate_goldens.json").read_text(encoding="utf-8"))["cases"]


@pytest.mark.parametrize("name", GOLDENS)
def test_the_output_equals_torchtunes(name: str, shared_data: Path):
    assert MAKER["outcomes"](torchpipe.data, shared_data)[name] == GOLDENS[name]


def test_the_goldens_are_those_of_the_cases_in_the_script(shared_data: Path):
    assert set(GOLDENS) == set(MAKER["outcomes"](torchpipe.data, shared_data))
