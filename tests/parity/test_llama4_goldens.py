"""Llama 4's row against its publisher's code, llama-models 0.3.0; goldens made by make_llama4_goldens.py."""

import json
from pathlib import Path

from torchpipe.tokenizers import chat_format_tokenizer

GOLDENS = json.loads(Path(__file__).with_name("llama4_goldens.json").read_text(encoding="utf-8"))


def test_every_conversation_has_the_ids_of_the_publishers_code(oracle_file):
    tokenizer = chat_format_tokenizer("llama4_instruct", oracle_file("llama_models", "llama4", "tokenizer.model"))
    for golden in GOLDENS:
        ids, mask = tokenizer.tokenize_messages(golden["messages"], add_generation_prompt=True)
        assert ids == golden["token_ids"]
        assert all(mask)
    assert len(GOLDENS) == 5
