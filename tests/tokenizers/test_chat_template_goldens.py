"""Conversations through chat templates, against what the publishers' own tokenizers made of them."""

import json
from collections import Counter
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from torchpipe.errors import TokenizerError
from torchpipe.tokenizers import Backend
from torchpipe.tokenizers.chat_template import ChatTemplateTokenizer

GoldenTokenizer = Callable[[str], tuple[Backend, dict[str, int]]]
TokenizerOf = Callable[..., ChatTemplateTokenizer]
GoldenRecords = Callable[[str], list[dict[str, Any]]]

# What the publishers' tokenizers call BOS and EOS.
NAMED = {
    "qwen2.5": (None, "<|im_end|>"),
    "qwen3": (None, "<|im_end|>"),
    "qwen3.6": (None, "<|im_end|>"),
    "llama3.1": ("<|begin_of_text|>", "<|eot_id|>"),
    "llama3.2": ("<|begin_of_text|>", "<|eot_id|>"),
    "deepseek-v3.1": ("<｜begin▁of▁sentence｜>", "<｜end▁of▁sentence｜>"),
    "deepseek-v4": ("<｜begin▁of▁sentence｜>", "<｜end▁of▁sentence｜>"),
    "gpt-oss": ("<|startoftext|>", "<|return|>"),
}
STRFTIME = datetime(2024, 7, 26).strftime
RECORDS = {
    "deepseek-v3.1": 26,
    "deepseek-v4": 26,
    "gpt-oss": 24,
    "llama3.1": 24,
    "llama3.2": 24,
    "qwen2.5": 24,
    "qwen3": 26,
    "qwen3.6": 26,
}


def template_file(shared_data: Path, record: dict[str, Any]) -> Path:
    name = record["template"].rsplit("/", 1)[-1].removesuffix(".jinja")
    (found,) = [file for file in shared_data.glob("templates/*/*.jinja") if file.name == f"{name}.jinja"]
    return found


@pytest.fixture(scope="module")
def tokenizer_of(golden_tokenizer: GoldenTokenizer) -> TokenizerOf:
    """Function (name of a golden file, template's file, **options) -> its tokenizer; the same one for the same options.

    Most records of a file have the same.
    """
    made: dict[str, ChatTemplateTokenizer] = {}

    def build(name: str, template: Path, **options: Any) -> ChatTemplateTokenizer:
        key = f"{name} {template} {sorted(options.items())}"
        if key not in made:
            backend, control_tokens = golden_tokenizer(name)
            bos_token, eos_token = NAMED[name]
            made[key] = ChatTemplateTokenizer(
                backend,
                template.read_text(encoding="utf-8"),
                special_tokens=control_tokens,
                bos_token=bos_token,
                eos_token=eos_token,
                on_unproved="common_prefix",
                **options,
            )
        return made[key]

    return build


@pytest.mark.parametrize("name", RECORDS)
def test_ids_are_the_publishers(
    name: str,
    shared_data: Path,
    golden_tokenizer: GoldenTokenizer,
    golden_records: GoldenRecords,
    tokenizer_of: TokenizerOf,
) -> None:
    _, control_tokens = golden_tokenizer(name)
    compared = Counter()
    for record in golden_records(name):
        tokenizer = tokenizer_of(
            name,
            template_file(shared_data, record),
            template_kwargs={**record["template_kwargs"], "strftime_now": STRFTIME},
            allowed_special=spelled(record, control_tokens),
        )
        arguments = (record["messages"], record["tools"], record["add_generation_prompt"])
        if "error" in record:
            with pytest.raises(TokenizerError):
                tokenizer.tokenize_messages(*arguments)
            compared["refused"] += 1
            continue
        tokens, mask = tokenizer.tokenize_messages(*arguments)
        assert len(mask) == len(tokens)
        assert tokens == record["token_ids"], record["id"]
        compared["equal"] += 1
    assert compared.total() == RECORDS[name]


# Tokens whose masks are equal; which only the marked template trains, since the prompt holds them already; which only
# it trains, though the model stops before them.
MASKED = {
    "deepseek-v3.1": (818, 31, 0),
    "llama3.1": (944, 0, 0),
    "qwen2.5": (2269, 31, 31),
    "qwen3": (1933, 112, 31),
    "qwen3.6": (2458, 118, 31),
}


@pytest.mark.parametrize("name", MASKED)
def test_masks_differ_from_marked_templates_by_two_rules(
    name: str,
    shared_data: Path,
    golden_tokenizer: GoldenTokenizer,
    golden_records: GoldenRecords,
    tokenizer_of: TokenizerOf,
) -> None:
    _, control_tokens = golden_tokenizer(name)
    equal = prompt = after_stop = 0
    for record in golden_records(name):
        if "assistant_masks" not in record:
            continue
        template = shared_data / "templates" / "trl" / Path(record["training_template"]).name
        tokenizer = tokenizer_of(name, template, allowed_special=spelled(record, control_tokens))
        (one,) = tokenizer.tokenize_conversation(record["messages"], record["tools"], trace=True)
        assert one.tokens == record["training_token_ids"], record["id"]
        assert one.trace is not None
        for masked, theirs, origin in zip(one.mask, record["assistant_masks"], one.trace, strict=True):
            if masked != bool(theirs):
                equal += 1
                continue
            assert masked, (record["id"], origin)
            assert origin.kind in ("header", "prefill", "footer", "eos"), (record["id"], origin)
            prompt += origin.kind in ("header", "prefill")
            after_stop += origin.kind in ("footer", "eos")
    assert (equal, prompt, after_stop) == MASKED[name]


def test_what_a_row_spells_becomes_no_control_token(
    shared_data: Path,
    golden_tokenizer: GoldenTokenizer,
    golden_records: GoldenRecords,
    tokenizer_of: TokenizerOf,
) -> None:
    compared = 0
    for name in RECORDS:
        _, control_tokens = golden_tokenizer(name)
        for record in golden_records(name):
            if "error" in record or not spelled(record, control_tokens):
                continue
            tokenizer = tokenizer_of(
                name,
                template_file(shared_data, record),
                template_kwargs={**record["template_kwargs"], "strftime_now": STRFTIME},
            )
            tokens, _, trace = tokenizer.tokenize_messages(
                record["messages"], record["tools"], record["add_generation_prompt"], trace=True
            )
            assert tokenizer.decode(tokens, truncate_at_eos=False, skip_special_tokens=False) == record["rendered_text"]
            control_ids = set(control_tokens.values())
            assert not any(token in control_ids for token, origin in zip(tokens, trace, strict=True) if origin.part)
            compared += tokens != record["token_ids"]  # there, what was spelled became control tokens
    assert compared == 12


def spelled(record: dict[str, Any], control_tokens: dict[str, int]) -> list[str]:
    """The control tokens that a record's messages spell."""
    text = json.dumps(record["messages"], ensure_ascii=False)
    return [token for token in control_tokens if token in text]
