"""Grouped alternatives of split expressions: the same tokens, and no group where one could be seen."""

from collections.abc import Callable
from pathlib import Path

import pytest
import tiktoken
from hypothesis import given, settings
from hypothesis import strategies as st

from torchpipe.tokenizers.byte_level import GPT2_PATTERN
from torchpipe.tokenizers.control_tokens import LLAMA3_PATTERN, LLAMA4_PATTERN, QWEN_PATTERN
from torchpipe.tokenizers.split_patterns import grouped
from torchpipe.tokenizers.tiktoken import _ranks

PATTERNS = {"gpt-2": GPT2_PATTERN, "llama 3": LLAMA3_PATTERN, "llama 4": LLAMA4_PATTERN, "qwen": QWEN_PATTERN}
PARTS = (
    " ",
    "  ",
    "\t",
    "\n",
    "\r\n",
    "\u00a0",
    "\u2003",
    "a",
    "Wörter",
    "don't",
    "'S",
    "12345",
    "!?",
    "/",
    "日本",
    "é́",
)
texts = st.one_of(
    st.lists(st.sampled_from(PARTS)).map("".join), st.text(st.characters(exclude_categories=["Cs"]), max_size=30)
)


@pytest.fixture(scope="module")
def encoders(oracle_file: Callable[..., Path]) -> dict[str, tuple[tiktoken.Encoding, tiktoken.Encoding]]:
    file = oracle_file("llama_models", "llama3", "tokenizer.model")
    ranks = _ranks(file, file.read_bytes())
    return {
        name: (
            tiktoken.Encoding("given", pat_str=pattern, mergeable_ranks=ranks, special_tokens={}),
            tiktoken.Encoding("grouped", pat_str=grouped(pattern), mergeable_ranks=ranks, special_tokens={}),
        )
        for name, pattern in PATTERNS.items()
    }


@settings(deadline=None, max_examples=300)
@given(texts)
def test_a_grouped_expression_gives_the_same_tokens(
    encoders: dict[str, tuple[tiktoken.Encoding, tiktoken.Encoding]], text: str
) -> None:
    for as_given, as_grouped in encoders.values():
        assert as_grouped.encode_ordinary(text) == as_given.encode_ordinary(text)


@pytest.mark.parametrize("pattern", PATTERNS.values(), ids=PATTERNS)
def test_all_before_the_look_ahead_is_one_group(pattern: str) -> None:
    before, found, after = pattern.rpartition(r"|\s+(?!\S)")
    assert found
    assert grouped(pattern) == f"(?:{before}){found}{after}"


def test_alternatives_that_look_around_or_never_give_back_stay_alone() -> None:
    assert grouped(r"a|b(?=c)|d|[e|f]+|(?:g|h)|i++|j|k") == r"a|b(?=c)|(?:d|[e|f]+|(?:g|h))|i++|(?:j|k)"


@pytest.mark.parametrize(
    "pattern",
    [
        r"a|b|c",  # the automaton takes all of it already
        r"a|(b)|c(?!d)",  # captures have numbers
        r"a|(?P<n>b)|c(?!d)",
        r"(?i)a|b|c(?!d)",  # the flag holds for all that follows
        r"a|b|(c)\1(?!d)",
        r"(?x) a | b | c(?!d)  # a comment",
        r"a|b|[c[d]](?!e)",
        r"a|b|[c&&d](?!e)",
        r"a|b|^c(?!d)",
        r"a|b|\bc(?!d)",
        r"a|b|c(?!d",
        r"a|b)|c(?!d)",
        "",
    ],
)
def test_what_could_see_a_group_comes_back_as_it_is(pattern: str) -> None:
    assert grouped(pattern) == pattern
