"""The ids of a training row are those that a server feeds and samples: the whole prompt, then the reply."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from torchpipe.data import OpenAIToMessages, ShareGPTToMessages
from torchpipe.tokenizers import Backend, ChatTemplateTokenizer

TEMPLATES = {
    "qwen2.5": ("Qwen-Qwen2.5-7B-Instruct", None, "<|im_end|>"),
    "qwen3": ("Qwen-Qwen3-0.6B", None, "<|im_end|>"),
    "llama3.1": ("meta-llama-Llama-3.1-8B-Instruct", "<|begin_of_text|>", "<|eot_id|>"),
}
# Turns compared, and those whose ids differ. They could after an earlier reply that starts with a line break, which a
# server that encodes the history anew merges into the header.
COMPARED = {"qwen2.5": (1194, 0), "qwen3": (537, 0), "llama3.1": (1194, 0)}


def conversations(shared_data: Path) -> Iterator[dict[str, Any]]:
    """Real conversations without reasoning: with calls in English and Chinese, and of several turns."""
    for name in ("glaive_toolcall_en_demo.json", "glaive_toolcall_zh_demo.json"):
        transform = ShareGPTToMessages()
        for row in json.loads((shared_data / "llamafactory" / name).read_text(encoding="utf-8")):
            yield dict(transform(row))
    for name in ("messages/tinker_conversations.jsonl", "xtuner/mllm_sft_text_example_data.jsonl"):
        for line in (shared_data / name).read_text(encoding="utf-8").splitlines():
            yield dict(OpenAIToMessages()(json.loads(line)))


@pytest.mark.parametrize("name", TEMPLATES)
def test_rows_have_the_ids_of_prompt_and_reply(
    name: str, shared_data: Path, golden_tokenizer: Callable[[str], tuple[Backend, dict[str, int]]]
) -> None:
    backend, control_tokens = golden_tokenizer(name)
    template, bos_token, eos_token = TEMPLATES[name]
    text = (shared_data / "templates" / "llama_cpp" / f"{template}.jinja").read_text(encoding="utf-8")
    arguments: dict[str, Any] = {"special_tokens": control_tokens, "bos_token": bos_token, "eos_token": eos_token}
    options = {"strftime_now": lambda format: "26 Jul 2024"}
    rows = ChatTemplateTokenizer(backend, text, **arguments, on_unproved="common_prefix", template_kwargs=options)
    thinking = {"enable_thinking": False} if name == "qwen3" else {}
    served = ChatTemplateTokenizer(backend, text, **arguments, template_kwargs=options | thinking)
    compared = different = 0
    for row in conversations(shared_data):
        (sample,) = rows.tokenize_conversation(row["messages"], row.get("tools"), trace=True)
        assert sample.trace is not None
        starts: dict[int, int] = {}
        for place, origin in enumerate(sample.trace):
            if origin.trained and origin.proof in ("causal", "exact"):
                starts.setdefault(origin.message, place)
        for message, start in starts.items():
            prompt, _ = served.tokenize_messages(
                row["messages"][:message], row.get("tools"), add_generation_prompt=True
            )
            compared += 1
            different += sample.tokens[:start] != prompt
    assert different <= compared / 100
    assert (compared, different) == COMPARED[name]
