"""Tokenizers of torchpipe.modules.tokenizers."""

from collections.abc import Callable
from typing import Any

from torchpipe.modules import tokenizers as base
from torchpipe.tokenizers import GPT2_PATTERN


def cases(case: Callable[..., Any], inputs: Any) -> list[Any]:
    config = inputs.three("config.json", b'{"bos_token": "!", "eos_token": "!"}')
    config_2 = inputs.three("config_2.json", b'{"bos_token": "!", "eos_token": "#"}')
    generation = inputs.three("generation.json", b'{"bos_token_id": 0, "eos_token_id": 1}')
    return [
        case(
            cls=base.GPT2BaseTokenizer,
            given={"vocab_path": inputs.vocab_json[0], "merges_path": inputs.merges[0]},
            same={"vocab_path": inputs.vocab_json[1], "merges_path": inputs.merges[1]},
            other={
                "vocab_path": inputs.vocab_json[2],
                "merges_path": inputs.merges[2],
                "pattern": GPT2_PATTERN + "|x",
                "unk_id": 257,
                "bos_id": 1,
                "eos_id": 1,
                "pad_id": 1,
            },
        ),
        case(
            cls=base.HuggingFaceBaseTokenizer,
            given={"tokenizer_json_path": inputs.tokenizer_json[0], "tokenizer_config_json_path": config[0]},
            same={"tokenizer_json_path": inputs.tokenizer_json[1], "tokenizer_config_json_path": config[1]},
            other={
                "tokenizer_json_path": inputs.tokenizer_json[2],
                "tokenizer_config_json_path": config_2[0],
                "generation_config_path": generation[0],
            },
        ),
        inputs.of_path(base.SentencePieceBaseTokenizer, inputs.spm),
        case(
            cls=base.TikTokenBaseTokenizer,
            given={
                "path": inputs.ranks[0],
                "name": "a",
                "pattern": GPT2_PATTERN,
                "bos_id": 1,
                "eos_id": 2,
                "special_tokens": inputs.marks,
            },
            same={"path": inputs.ranks[1], "special_tokens": dict(reversed(inputs.marks.items()))},
            other={
                "path": inputs.ranks[2],
                "name": "b",
                "pattern": GPT2_PATTERN + "|x",
                "bos_id": 2,
                "eos_id": 3,
                "special_tokens": {"<|im_end|>": 3001},
            },
        ),
    ]
