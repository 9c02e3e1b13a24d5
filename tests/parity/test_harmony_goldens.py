"""gpt-oss's row against openai-harmony 0.0.8; goldens made by make_harmony_goldens.py."""

import json
from pathlib import Path

import pytest

from torchpipe.tokenizers import chat_format_tokenizer

GOLDENS = json.loads(Path(__file__).with_name("harmony_goldens.json").read_text(encoding="utf-8"))
_RANKS = ("litellm", "litellm_core_utils", "tokenizers", "fb374d419588a4632f3f557e76b4b70aebbca790")


@pytest.fixture(scope="module")
def ranks(oracle_file) -> str:
    return str(oracle_file(*_RANKS))


def _text(tokenizer, messages, tools=None) -> str:
    ids, _ = tokenizer.tokenize_messages(messages, tools)
    return tokenizer.decode(ids, truncate_at_eos=False, skip_special_tokens=False)


def test_every_schema_is_told_as_harmony_tells_it(ranks: str):
    tokenizer = chat_format_tokenizer("gpt_oss", ranks)
    for golden in GOLDENS["schemas"]:
        tool = {"name": "f", "description": "one\ntwo"}
        tool |= {} if golden["schema"] is None else {"parameters": golden["schema"]}
        text = _text(tokenizer, [{"role": "user", "content": "u"}], [{"type": "function", "function": tool}])
        start = text.index("<|start|>developer")
        assert text[start : text.index("<|start|>user")] == golden["text"]
    assert len(GOLDENS["schemas"]) == 14


def test_every_conversation_is_written_as_harmony_writes_it(ranks: str):
    tokenizers = {
        drops: chat_format_tokenizer(
            "gpt_oss", ranks, on_unproved="common_prefix", options={"auto_drop_analysis": drops}
        )
        for drops in (True, False)
    }
    for golden in GOLDENS["conversations"]:
        assert _text(tokenizers[golden["drops"]], golden["messages"]) == golden["text"]
    assert len(GOLDENS["conversations"]) == 12
