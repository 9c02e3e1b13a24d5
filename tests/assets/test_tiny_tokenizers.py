"""The tiny tokenizers: two files, one tokenizer, reproducible from the sample chats."""

import base64
import importlib.util
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest
import tiktoken
from tokenizers import Tokenizer

import torchpipe
from torchpipe.tokenizers.families import LLAMA3_CONTROL_TOKENS, LLAMA3_PATTERN

ASSETS = Path(torchpipe.__file__).parent / "assets"
FOLDER = ASSETS / "tiny_llama3"
NUM_TOKENS = 2048

TEXTS = [
    "",
    " ",
    "a",
    "  leading and   inner spaces ",
    "\n\n\n  x\n \n",
    "tabs\t\tand\r\nCRLF\r\n",
    "It's we'LL they'Re I'm x'S",
    "1234567 3.14159 0001 ٣٤٥ १२३",
    "日本語のテキストと漢字、カタカナ。",
    "简体中文和繁體中文。",
    "Съешь ещё этих мягких французских булок",
    "نص عربي مع أرقام ١٢٣ وعلامات؟",
    "हिन्दी में एक वाक्य।",
    "ภาษาไทยไม่เว้นวรรค",
    "Ελληνικά με τόνους",
    "한국어 문장입니다.",
    "עברית",
    "naïve café Ångström ﬁ ǆ e\u0301",
    "👩‍👩‍👧‍👦 🇯🇵 🙂🏽",
    "\x00\x01\x7f\u200b\ufeff\u2028\U0010ffff",
    "a" * 1000,
    "aaa aaaa aaaaa " * 20,
    "-" * 77 + "=" * 33,
    "{{name}} {% raw %} [INST] <s>",
    "def f(x):\n    return {\n\t'k': x ** 2,\n    }\n",
]


@pytest.fixture(scope="module")
def script(repository: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(
        "train_tiny_tokenizers", repository / "tools/train_tiny_tokenizers.py"
    )
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def ranks() -> dict[bytes, int]:
    lines = (FOLDER / "tokenizer.model").read_text().splitlines()
    return {base64.b64decode(token): int(rank) for token, rank in (line.split() for line in lines)}


@pytest.fixture(scope="module")
def from_ranks(ranks: dict[bytes, int]) -> tiktoken.Encoding:
    return tiktoken.Encoding("tiny", pat_str=LLAMA3_PATTERN, mergeable_ranks=ranks, special_tokens={})


@pytest.fixture(scope="module")
def from_json() -> Tokenizer:
    """``tokenizer.json`` without its added tokens, so that text that looks like them stays text."""
    content = json.loads((FOLDER / "tokenizer.json").read_text(encoding="utf-8"))
    return Tokenizer.from_str(json.dumps(content | {"added_tokens": []}))


@pytest.fixture(scope="module")
def same_ids(from_ranks: tiktoken.Encoding, from_json: Tokenizer) -> Callable[[list[str]], None]:
    """Fails unless both files give the same ids for every text, and the ids give the text back."""

    def check(texts: list[str]) -> None:
        for text in texts:
            ids = from_ranks.encode_ordinary(text)
            assert from_json.encode(text, add_special_tokens=False).ids == ids, text
            assert from_ranks.decode(ids) == text
            assert from_json.decode(ids) == text

    return check


def sample_texts() -> list[str]:
    chats = json.loads((ASSETS / "sample_chats.json").read_text(encoding="utf-8"))
    return [message["content"] for chat in chats for message in chat["messages"]]


def test_check_finds_the_files_as_the_script_would_write_them(script: ModuleType):
    assert script.main(["--check"]) == 0


def test_check_names_a_file_that_differs(
    script: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.setattr(script, "FOLDER", tmp_path / "tiny")
    assert script.main([]) == 0
    model = tmp_path / "tiny" / "tokenizer.model"
    assert model.read_bytes() == (FOLDER / "tokenizer.model").read_bytes()
    model.write_text(model.read_text().replace(" 300\n", " 301\n"))
    assert script.main(["--check"]) == 1
    assert f"{model} is not what sample_chats.json gives. Run this without --check." in capsys.readouterr().err


def test_training_does_not_depend_on_the_hash_seed(repository: Path):
    environment = os.environ | {"PYTHONHASHSEED": "12345", "PYTHONPATH": str(repository)}
    command = [sys.executable, "tools/train_tiny_tokenizers.py", "--check"]
    subprocess.run(command, cwd=repository, env=environment, check=True)


def test_ranks_run_from_0_to_2047_and_begin_with_all_bytes(ranks: dict[bytes, int]):
    assert list(ranks.values()) == list(range(NUM_TOKENS))
    assert {token for token, rank in ranks.items() if rank < 256} == {bytes([byte]) for byte in range(256)}


def test_the_json_file_lists_llama3s_control_tokens_after_the_ranks():
    tokenizer = Tokenizer.from_file(str(FOLDER / "tokenizer.json"))
    added = tokenizer.get_added_tokens_decoder()
    assert {index: token.content for index, token in added.items()} == dict(
        enumerate(LLAMA3_CONTROL_TOKENS, NUM_TOKENS)
    )
    assert all(token.special for token in added.values())
    assert tokenizer.get_vocab_size() == NUM_TOKENS + 257
    assert tokenizer.token_to_id("<|begin_of_text|>") == NUM_TOKENS
    assert tokenizer.token_to_id("<|eot_id|>") == NUM_TOKENS + 9
    assert tokenizer.token_to_id("<|image|>") == NUM_TOKENS + 256


def test_both_files_agree_and_round_trip_on_every_sample_message(same_ids: Callable[[list[str]], None]):
    same_ids(sample_texts())


def test_both_files_agree_on_spaces_scripts_digits_and_control_characters(same_ids: Callable[[list[str]], None]):
    same_ids([*TEXTS, "".join(TEXTS), *LLAMA3_CONTROL_TOKENS[:12]])


def test_both_files_agree_on_the_text_of_each_token(same_ids: Callable[[list[str]], None], ranks: dict[bytes, int]):
    same_ids([token.decode(errors="ignore") for token in ranks])


def test_both_files_agree_on_real_data(same_ids: Callable[[list[str]], None], shared_data: Path):
    lines = (shared_data / "gsm8k/train.jsonl").read_text(encoding="utf-8").splitlines()[::10]
    same_ids([value for line in lines for value in json.loads(line).values()])
    rows = json.loads((shared_data / "llamafactory/identity.json").read_text(encoding="utf-8"))
    same_ids([value for row in rows for value in row.values()])
    rows = json.loads((shared_data / "llamafactory/glaive_toolcall_zh_demo.json").read_text(encoding="utf-8"))
    same_ids([message["value"] for row in rows[:20] for message in row["conversations"]])


def test_role_names_and_the_blank_line_after_a_header_are_one_token_each(from_ranks: tiktoken.Encoding):
    assert all(len(from_ranks.encode_ordinary(text)) == 1 for text in ["system", "user", "assistant", "\n\n"])


def test_english_takes_fewer_than_four_tokens_for_ten_characters(from_ranks: tiktoken.Encoding):
    texts = [text for text in sample_texts() if text.isascii()]
    assert sum(len(from_ranks.encode_ordinary(text)) for text in texts) < 0.4 * sum(map(len, texts))
