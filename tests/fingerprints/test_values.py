"""Data: what it holds counts, and its kind; processes and machines don't."""

import math
import re
import subprocess
import sys
from collections import Counter, OrderedDict, defaultdict, deque
from datetime import date
from decimal import Decimal
from enum import Enum
from functools import partial
from operator import itemgetter
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from torchpipe._fingerprint import fingerprint
from torchpipe.data import PromptTemplate, Role, ShareGPTToMessages
from torchpipe.data.sample_transforms import SFTTransform
from torchpipe.errors import NoFingerprint


class Color(Enum):
    RED = 1
    GREEN = 2


SORTED: Any = sorted
DIFFERENT: list[Any] = [
    None, True, False, 0, 1, -1, 2**70, 0.0, -0.0, 1.0, math.inf, 1j, "", "1", "\ud800", b"", b"1", ...,
    [], [1], [True], [1.0], ["1"], [[1]], [1, 1], [[], 1], (), (1,), ((1,),), {}, {"a": 1}, {"a": "1"}, {1: "a"},
    {"a": 1, "b": 2}, {"b": 2, "a": 1}, {"a": {"b": 2}}, set(), {1}, {1, 2}, {"1"}, {(1,)},
    range(3), range(1, 3), slice(3), Path("a"), Path("b"), Color.RED, Color.GREEN, date(2024, 1, 1), Decimal("1"),
    re.compile("a"), re.compile("a", re.I), re.compile(b"a"), partial(len), partial(SORTED, key=len),
    partial(SORTED, key=str), itemgetter(1), itemgetter(2), itemgetter("1"), len, max, str.upper, str.lower, "a".upper,
    "b".upper, str, int, list, np.array([1, 2]), np.array([1, 3]), np.array([1, 2], np.int32), np.array([[1, 2]]),
    np.array(["a"]), np.array([None], object), np.array([1], object), np.float32(1), np.dtype("int32"),
    torch.tensor([1]), torch.tensor([1.0]), torch.tensor([[1.0]]), torch.tensor([1.0], dtype=torch.bfloat16),
    torch.bfloat16, torch.float32, deque([1]), deque([1], 2), OrderedDict(a=1), defaultdict(list, a=1),
    defaultdict(int, a=1), Counter("a"), MappingProxyType({"a": 1}), bytearray(b"1"),
]  # fmt: skip


def test_values_that_differ_in_kind_or_content_have_different_fingerprints() -> None:
    found = [fingerprint(value) for value in DIFFERENT]
    assert all(re.fullmatch("[0-9a-f]{32}", text) for text in found)
    twice = [(a, b) for i, a in enumerate(DIFFERENT) for j, b in enumerate(DIFFERENT[:i]) if found[i] == found[j]]
    assert twice == []
    assert found == [fingerprint(value) for value in DIFFERENT]


data = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text() | st.binary(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner) | st.tuples(inner, inner),
    max_leaves=8,
)


@given(data, data)
def test_equal_data_and_only_equal_data_share_a_fingerprint(one: Any, other: Any) -> None:
    assert (fingerprint(one) == fingerprint(other)) == (repr(one) == repr(other))
    assert fingerprint([one, one]) == fingerprint([one, eval(repr(one).replace("inf", "math.inf"))])


def test_an_array_counts_by_what_it_holds_however_it_lies_in_memory() -> None:
    table = np.arange(12).reshape(3, 4)
    assert fingerprint(table.T) == fingerprint(np.ascontiguousarray(table.T)) != fingerprint(table)
    assert fingerprint(table[:, ::2]) == fingerprint(table[:, ::2].copy())
    assert fingerprint(torch.from_numpy(table).T) == fingerprint(torch.from_numpy(table).T.contiguous())


def test_options_in_another_order_change_nothing_in_our_objects() -> None:
    table: dict[Role, tuple[str, str]] = {"user": ("a", "b"), "assistant": ("c", "d")}
    assert fingerprint(PromptTemplate(table)) == fingerprint(PromptTemplate(dict(reversed(table.items()))))
    columns = {"conversations": "a", "tools": "b"}
    one, other = (ShareGPTToMessages(column_map=dict(each)) for each in (columns.items(), reversed(columns.items())))
    assert fingerprint(one) == fingerprint(other)
    assert fingerprint(SFTTransform(one)) != fingerprint(
        SFTTransform(ShareGPTToMessages(column_map={"conversations": "b"}))
    )


def test_a_character_of_a_template_counts() -> None:
    texts = ["Q: ", "Q:", "q: ", "Q:  "]
    assert len({fingerprint(PromptTemplate({"user": (text, "\n")})) for text in texts}) == len(texts)


def test_objects_in_a_set_are_refused() -> None:
    with pytest.raises(NoFingerprint, match="^The value holds a set with a builtin_function_or_method, whose place in"):
        fingerprint({len})


MODULE = """
from types import MappingProxyType
from torchpipe.data import OpenAIToMessages

WORDS = frozenset({"a", "b", "c", "d", "e"})
TABLE = MappingProxyType({"x": ("y", 1.5), "z": (1, 2)})
PAIR = ("x", ("y", 1.5))

class Mine(OpenAIToMessages):
    FIRST = ("y", 1.5)

    def __call__(self, sample, words=("y", 1.5)):
        return super().__call__({"messages": [m for m in sample["t"] if m["role"] in {"user", "assistant", "tool"}]})

def keeps(row):
    return any(word in WORDS for word in row["text"].split()) and row["kind"] in TABLE and PAIR[1] == ("y", 1.5)
"""

SCRIPT = """
import sys
sys.path.insert(0, {folder!r})
import users_transforms
from torchpipe._fingerprint import fingerprint
from torchpipe.models.llama3 import llama3_tokenizer
print(fingerprint(users_transforms.Mine()), fingerprint(users_transforms.keeps), fingerprint({{"a", "b", "c"}}))
print(fingerprint(llama3_tokenizer({file!r})))
"""


def test_another_process_finds_the_same(tmp_path: Path, shared_data: Path) -> None:
    """With other hashes of strings, and with code that is compiled at once or read from a .pyc file."""
    (tmp_path / "users_transforms.py").write_text(MODULE)
    file = shared_data / "tokenizers" / "torchtune" / "tiktoken_small.model"
    script = SCRIPT.format(folder=str(tmp_path), file=str(file))
    found = set()
    for seed in ("1", "2"):
        environment = {"PYTHONHASHSEED": seed, "PYTHONPATH": str(Path(__file__).parents[2]), "PATH": ""}
        done = subprocess.run(
            [sys.executable, "-c", script], env=environment, capture_output=True, text=True, check=True, cwd=tmp_path
        )
        found.add(done.stdout)
    assert len(found) == 1
    assert len(found.pop().split()) == 4
    assert list((tmp_path / "__pycache__").glob("*.pyc"))
