"""Back ends and tokenizers of torchpipe.tokenizers."""

import base64
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from torchpipe import tokenizers
from torchpipe.tokenizers import GPT2_PATTERN, LLAMA3, PUBLISHER_FORMATS, TokenFlags

CHATML = (
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{{ hint }}{% endif %}"
)
TOOL_CHATML = CHATML.replace("{{ hint }}", "{{ tools }}{{ hint }}")


def cases(case: Callable[..., Any], inputs: Any) -> list[Any]:
    hf_config = inputs.three(
        "hf_config.json", json.dumps({"chat_template": CHATML, "eos_token": "<|im_end|>"}).encode()
    )
    hf_config_2 = inputs.three("hf_config_2.json", json.dumps({"chat_template": CHATML + " "}).encode())
    spec = json.loads(Path(inputs.tokenizer_json[0]).read_bytes())
    spec["added_tokens"].append({"content": "<|more|>", "id": 2003, "special": True})
    hf_json = inputs.three("hf.json", json.dumps(spec).encode())
    hf_generation = inputs.three("hf_generation.json", b'{"eos_token_id": 2003}')
    tekken_spec = {
        "config": {
            "pattern": GPT2_PATTERN,
            "default_vocab_size": 258,
            "default_num_special_tokens": 2,
            "version": "v7",
        },
        "vocab": [{"rank": b, "token_bytes": base64.b64encode(bytes([b])).decode()} for b in range(256)],
        "special_tokens": [{"token_str": "<s>", "rank": 0}, {"token_str": "</s>", "rank": 1}],
    }
    tekken = inputs.three("tekken.json", json.dumps(tekken_spec).encode())
    backend = tokenizers.TikTokenBackend(inputs.ranks[0], GPT2_PATTERN)
    backend_2 = tokenizers.TikTokenBackend(inputs.ranks[0], GPT2_PATTERN + "|x")
    template_options = {
        "allowed_special": ["<|more|>"],
        "max_seq_len": 7,
        "truncation_type": "left",
        "template_kwargs": {"hint": "x"},
        "mask_policy": "message",
        "on_unproved": "drop",
        "train_on": {"turn_end": "last"},
        "tool_arguments": "parsed",
        "max_exact_turns": 3,
        "append_stop": True,
    }
    layout = next(row for row in PUBLISHER_FORMATS if row.name == "llama3_1_instruct")
    return [
        inputs.of_path(tokenizers.HuggingFaceBackend, inputs.tokenizer_json),
        inputs.of_path(tokenizers.TekkenBackend, tekken),
        inputs.of_path(tokenizers.SentencePieceBackend, inputs.spm, control_tokens=["a"], prefix_scheme="first"),
        case(
            cls=tokenizers.TikTokenBackend,
            given={"path": inputs.ranks[0], "pattern": GPT2_PATTERN},
            same={"path": inputs.ranks[1]},
            other={"path": inputs.ranks[2], "pattern": GPT2_PATTERN + "|x", "normalization": "NFC"},
        ),
        case(
            cls=tokenizers.ByteLevelBackend,
            given={"vocab_path": inputs.vocab_json[0], "merges_path": inputs.merges[0]},
            same={"vocab_path": inputs.vocab_json[1], "merges_path": inputs.merges[1]},
            other={
                "vocab_path": inputs.vocab_json[2],
                "merges_path": inputs.merges[2],
                "pattern": GPT2_PATTERN + "|x",
                "normalization": "NFC",
                "unknown_id": 257,
            },
        ),
        case(
            cls=tokenizers.ChatFormatTokenizer,
            given={"backend": backend, "chat_format": LLAMA3},
            other={
                "backend": backend_2,
                "chat_format": replace(LLAMA3, whitespace="keep"),
                "special_tokens": inputs.numbered(LLAMA3.control_tokens),
                **inputs.common,
            },
        ),
        case(
            cls=tokenizers.PublisherFormatTokenizer,
            given={"backend": backend, "chat_format": layout},
            other={
                "backend": backend_2,
                "chat_format": replace(layout, whitespace="strip_end_of_parts"),
                "special_tokens": inputs.numbered(layout.control_tokens),
                "max_seq_len": 7,
                "truncation_type": "left",
                "mask_policy": "message",
                "train_on": {"turn_end": "last"},
                "on_unproved": "common_prefix",
                "options": {"date_string": "27 Jul 2024"},
                "allowed_special": ["<|eot_id|>"],
            },
        ),
        case(
            cls=tokenizers.ChatTemplateTokenizer,
            given={
                "backend": backend,
                "chat_template": CHATML,
                "special_tokens": inputs.marks,
                "eos_token": "<|im_end|>",
            },
            same={"special_tokens": dict(reversed(inputs.marks.items()))},
            other={
                "backend": backend_2,
                "chat_template": CHATML.replace("assistant\n", "assistant "),
                "tool_template": TOOL_CHATML,
                "special_tokens": {**inputs.marks, "<|more|>": 3004},
                "token_flags": {"<|more|>": TokenFlags(lstrip=True)},
                "bos_token": "<|endoftext|>",
                "eos_token": "<|endoftext|>",
                "pad_token": "<|endoftext|>",
                "stop_tokens": ["<|more|>"],
                **template_options,
            },
        ),
        case(
            cls=tokenizers.HuggingFaceModelTokenizer,
            given={"tokenizer_json_path": hf_json[0], "tokenizer_config_json_path": hf_config[0]},
            same={"tokenizer_json_path": hf_json[1], "tokenizer_config_json_path": hf_config[2]},
            other={
                "tokenizer_json_path": hf_json[2],
                "tokenizer_config_json_path": hf_config_2[0],
                "generation_config_path": hf_generation[0],
                **template_options,
            },
        ),
    ]
