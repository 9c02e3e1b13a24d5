"""Tokenizers, transforms and templates, and for each of their options another value."""

import base64
import json
import sys
import textwrap
import types
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
import torch

from torchpipe import data, tokenizers, vision
from torchpipe.data.kto_transform import KTOTransform
from torchpipe.data.overflow import OverflowPolicy
from torchpipe.data.pair_transform import PairTransform
from torchpipe.data.prompt_transform import PromptTransform
from torchpipe.data.sample_transforms import SFTTransform
from torchpipe.models import gemma, llama2, mistral, phi3, phi4, qwen2, qwen2_5, qwen3
from torchpipe.models.clip import CLIPTokenizer
from torchpipe.models.clip.inference import CLIPImageTransform as ExportedCLIPImageTransform
from torchpipe.models.image_text import ImageTextTransform
from torchpipe.models.llama3 import Llama3Tokenizer
from torchpipe.models.llama3_2_vision import Llama3VisionTransform
from torchpipe.models.llama4 import Llama4Tokenizer, Llama4Transform
from torchpipe.models.t5 import T5Tokenizer
from torchpipe.modules import tokenizers as base
from torchpipe.tokenizers import GPT2_PATTERN, LLAMA3, PUBLISHER_FORMATS, TokenFlags
from torchpipe.tokenizers.byte_level import byte_alphabet
from torchpipe.tokenizers.families import LLAMA4

CHATML = (
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{{ hint }}{% endif %}"
)
TOOL_CHATML = CHATML.replace("{{ hint }}", "{{ tools }}{{ hint }}")
MARKS = {"<|im_start|>": 3000, "<|im_end|>": 3001, "<|endoftext|>": 3002, "<|more|>": 3003}


@dataclass(kw_only=True)
class Case:
    """A class, what it is built with, and of each option another value: one that changes it, or one that does not."""

    cls: Callable[..., Any]
    given: dict[str, Any] = field(default_factory=dict)
    other: dict[str, Any] = field(default_factory=dict)
    same: dict[str, Any] = field(default_factory=dict)

    def made(self, **changes: Any) -> Any:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # deprecated options, and those without effect
            return self.cls(**{**self.given, **changes})


@dataclass
class Files:
    """Small tokenizer files: as they are, the same at another path, and with a byte more."""

    folder: Path
    shared: Path

    def three(self, name: str, content: bytes, more: bytes = b"\n") -> tuple[str, str, str]:
        paths = [self.folder / f"{number}_{name}" for number in range(3)]
        for path, written in zip(paths, (content, content, content + more), strict=True):
            path.write_bytes(written)
        return str(paths[0]), str(paths[1]), str(paths[2])

    def special_tokens(self, control_tokens: Sequence[str]) -> str:
        added = [{"content": text, "id": token_id} for text, token_id in numbered(control_tokens).items()]
        return self.three(f"special_{len(control_tokens)}.json", json.dumps({"added_tokens": added}).encode())[0]


def numbered(control_tokens: Sequence[str]) -> dict[str, int]:
    return {text: 5000 + number for number, text in enumerate(control_tokens)}


@pytest.fixture(scope="session")
def option_cases(shared_data: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[Any, Case]:
    """For each class, how its options are changed."""
    files = Files(tmp_path_factory.mktemp("fingerprints"), shared_data)
    held = files.shared / "tokenizers" / "torchtune"
    ranks = files.three("ranks.model", (held / "tiktoken_small.model").read_bytes())
    # An empty field 1 of the trainer's part (2) follows: the same model in other bytes.
    spm = files.three("spm.model", (held / "m.model").read_bytes(), b"\x12\x00")
    tokenizer_json = files.three("tokenizer.json", (held / "tiny_bpe_tokenizer.json").read_bytes())
    vocab = {char: number for number, char in enumerate([*byte_alphabet().values(), "ab", "<x>"])}
    vocab_json = files.three("vocab.json", json.dumps(vocab).encode())
    merges = files.three("merges.txt", b"a b\n")
    config = files.three("config.json", b'{"bos_token": "!", "eos_token": "!"}')
    config_2 = files.three("config_2.json", b'{"bos_token": "!", "eos_token": "#"}')
    generation = files.three("generation.json", b'{"bos_token_id": 0, "eos_token_id": 1}')
    hf_config = files.three("hf_config.json", json.dumps({"chat_template": CHATML, "eos_token": "<|im_end|>"}).encode())
    hf_config_2 = files.three("hf_config_2.json", json.dumps({"chat_template": CHATML + " "}).encode())
    spec = json.loads((held / "tiny_bpe_tokenizer.json").read_bytes())
    spec["added_tokens"].append({"content": "<|more|>", "id": 2003, "special": True})
    hf_json = files.three("hf.json", json.dumps(spec).encode())
    hf_generation = files.three("hf_generation.json", b'{"eos_token_id": 2003}')
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
    tekken = files.three("tekken.json", json.dumps(tekken_spec).encode())

    table = {"user": ("Q: ", "\n")}
    common = {
        "max_seq_len": 7,
        "prompt_template": table,
        "truncation_type": "left",
        "mask_policy": "sampled",
        "train_on": {"turn_end": "last"},
    }
    column = {"system": "sys"}
    backend = tokenizers.TikTokenBackend(ranks[0], GPT2_PATTERN)
    backend_2 = tokenizers.TikTokenBackend(ranks[0], GPT2_PATTERN + "|x")
    as_message = {"masking_strategy": "train_on_all", "train_on_input": True}
    images = {"image_mean": [0.1] * 3, "image_std": [0.2] * 3}
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

    def of_path(cls: Any, of: tuple[str, str, str], **other: Any) -> Case:
        return Case(cls=cls, given={"path": of[0]}, same={"path": of[1]}, other={"path": of[2], **other})

    def family(cls: Any, of: tuple[str, str, str], control: tuple[str, ...]) -> Case:
        return of_path(cls, of, special_tokens=numbered(control), **common)

    def qwen(cls: Any) -> Case:
        special_tokens = numbered(cls.chat_format_row.control_tokens)
        case = of_path(cls, ranks, special_tokens=special_tokens, bos_token="<|endoftext|>", **common)
        case.other |= {"eos_token": "<|endoftext|>", "pad_token": "<|im_end|>"}
        case.same |= {"unk_token": "<|endoftext|>", "bpe_cache_size": 5, "errors": "replace", "merges_file": None}
        return case

    vision_options = {
        "special_tokens_path": files.special_tokens(LLAMA3.control_tokens),
        "max_seq_len": 7,
        "media_overflow": "drop",
    }
    vision_options |= {"prompt_template": table, "mask_policy": "sampled", "max_num_tiles": 2}
    statistics = {"image_mean": [0.5] * 3, "image_std": [0.5] * 3}
    layout = next(row for row in PUBLISHER_FORMATS if row.name == "llama3_1_instruct")

    made = [
        Case(
            cls=data.AlpacaToMessages,
            other={
                "masking_strategy": "train_on_assistant",
                "train_on_input": False,
                "column_map": {"instruction": "a", "output": "b"},
            },
        ),
        Case(
            cls=data.InputOutputToMessages,
            other={
                **as_message,
                "column_map": {"input": "a", "output": "b"},
                "new_system_prompt": "x",
                "image_dir": "/a",
                "allow_remote": False,
            },
        ),
        Case(
            cls=data.ShareGPTToMessages,
            other={
                **as_message,
                "column_map": {"conversations": "a", **column},
                "new_system_prompt": "x",
                "image_dir": "/a",
                "image_tag": None,
                "allow_remote": False,
                "split_reasoning": True,
            },
        ),
        Case(
            cls=data.OpenAIToMessages,
            other={
                **as_message,
                "column_map": {"messages": "a", **column},
                "new_system_prompt": "x",
                "image_dir": "/a",
                "allow_remote": False,
                "split_reasoning": True,
            },
        ),
        Case(
            cls=data.DetectedToMessages,
            other={
                "masking_strategy": "train_on_all",
                "column_map": {"input": "a"},
                "new_system_prompt": "x",
                "image_dir": "/a",
                "allow_remote": False,
                "split_reasoning": True,
                "shapes": ["Alpaca"],
            },
        ),
        Case(
            cls=data.InstructionToMessages,
            other={
                "masking_strategy": "train_on_all",
                "column_map": {"prompt": "a", "response": "b"},
                "new_system_prompt": "x",
            },
        ),
        Case(
            cls=data.TaggedTurnsToMessages,
            given={"role_key": "who", "content_key": "says", "column_map": {"messages": "turns", "image": "i"}},
            other={
                "role_key": "a",
                "content_key": "b",
                "speakers": {"q": "user"},
                "column_map": {"messages": "a", "image": "i"},
                "new_system_prompt": "x",
                "masking_strategy": "train_on_all",
                "image_dir": "/a",
                "image_tag": None,
                "allow_remote": False,
                "split_reasoning": True,
            },
        ),
        Case(
            cls=data.ChosenRejectedToMessages,
            other={**as_message, "column_map": {"chosen": "a", "rejected": "b"}, "new_system_prompt": "x"},
        ),
        Case(
            cls=data.PromptedPairToMessages,
            other={
                **as_message,
                "column_map": {"prompt": "p", "chosen": "a", "rejected": "b"},
                "new_system_prompt": "x",
            },
        ),
        Case(
            cls=data.StackExchangePairedToMessages,
            other={"column_map": {"prompt": "p", "chosen": "a", "rejected": "b"}, "train_on_input": True},
        ),
        Case(
            cls=data.TranscriptPairToMessages,
            other={
                "column_map": {"chosen": "a", "rejected": "b"},
                "new_system_prompt": "x",
                "masking_strategy": "train_on_all",
            },
        ),
        Case(
            cls=data.LabelledToMessages,
            other={
                "column_map": {"messages": "a", "label": "b"},
                "new_system_prompt": "x",
                "masking_strategy": "train_on_all",
            },
        ),
        Case(cls=data.PromptToMessages, other={"column_map": {"prompt": "a"}, "new_system_prompt": "x"}),
        Case(
            cls=data.PairPolicy,
            given={"overflow": "truncate", "max_seq_len": 8},
            other={
                "overflow": "error",
                "max_seq_len": 9,
                "max_prompt_len": 5,
                "max_response_len": 5,
                "prompt_truncation": "turns",
                "stop_token": "keep",
                "on_equal": "keep",
                "on_prompts_differ": "keep",
            },
        ),
        Case(
            cls=PairTransform,
            given={"message_transform": data.ChosenRejectedToMessages(), "model_transform": Llama3Tokenizer(ranks[0])},
            same={"model_transform": Llama3Tokenizer(ranks[1])},
            other={
                "message_transform": data.PromptedPairToMessages(),
                "model_transform": Llama3Tokenizer(ranks[0], max_seq_len=9),
                "policy": data.PairPolicy(on_equal="keep"),
            },
        ),
        Case(
            cls=KTOTransform,
            given={"message_transform": data.LabelledToMessages(), "model_transform": Llama3Tokenizer(ranks[0])},
            same={"model_transform": Llama3Tokenizer(ranks[1])},
            other={
                "message_transform": data.LabelledToMessages(new_system_prompt="x"),
                "model_transform": Llama3Tokenizer(ranks[0], max_seq_len=9),
                "overflow": OverflowPolicy(max_seq_len=9),
            },
        ),
        Case(
            cls=PromptTransform,
            given={"message_transform": data.PromptToMessages(), "model_transform": Llama3Tokenizer(ranks[0])},
            same={"model_transform": Llama3Tokenizer(ranks[1])},
            other={
                "message_transform": data.PromptToMessages(new_system_prompt="x"),
                "model_transform": Llama3Tokenizer(ranks[2]),
                "max_prompt_len": 9,
                "truncate": True,
                "keep_columns": ["id"],
            },
        ),
        Case(cls=data.PromptTemplate, given={"template": {"user": ("a", "b")}}, other={"template": table}),
        Case(cls=data.GrammarErrorCorrectionTemplate, other={"template": table}),
        Case(cls=data.SummarizeTemplate, other={"template": table}),
        Case(cls=data.QuestionAnswerTemplate, other={"template": table}),
        Case(cls=data.ChatMLTemplate),
        Case(cls=gemma.GemmaChatTemplate),
        Case(cls=llama2.Llama2ChatTemplate),
        Case(cls=mistral.MistralChatTemplate),
        Case(cls=data.TrainOn, other={"reasoning": False, "tool_calls": False, "answer": False, "turn_end": "last"}),
        Case(
            cls=OverflowPolicy,
            given={"max_seq_len": 8},
            other={"max_seq_len": 9, "overflow": "drop", "truncation_type": "left", "stop_token": "keep"},
        ),
        Case(
            cls=SFTTransform,
            given={"message_transform": data.OpenAIToMessages(), "model_transform": Llama3Tokenizer(ranks[0])},
            same={"model_transform": Llama3Tokenizer(ranks[1])},
            other={
                "message_transform": data.AlpacaToMessages(),
                "model_transform": Llama3Tokenizer(ranks[0], max_seq_len=9),
                "overflow": OverflowPolicy(max_seq_len=9),
            },
        ),
        of_path(tokenizers.HuggingFaceBackend, tokenizer_json),
        of_path(tokenizers.TekkenBackend, tekken),
        of_path(tokenizers.SentencePieceBackend, spm, control_tokens=["a"], prefix_scheme="first"),
        Case(
            cls=tokenizers.TikTokenBackend,
            given={"path": ranks[0], "pattern": GPT2_PATTERN},
            same={"path": ranks[1]},
            other={"path": ranks[2], "pattern": GPT2_PATTERN + "|x", "normalization": "NFC"},
        ),
        Case(
            cls=tokenizers.ByteLevelBackend,
            given={"vocab_path": vocab_json[0], "merges_path": merges[0]},
            same={"vocab_path": vocab_json[1], "merges_path": merges[1]},
            other={
                "vocab_path": vocab_json[2],
                "merges_path": merges[2],
                "pattern": GPT2_PATTERN + "|x",
                "normalization": "NFC",
                "unknown_id": 257,
            },
        ),
        Case(
            cls=base.GPT2BaseTokenizer,
            given={"vocab_path": vocab_json[0], "merges_path": merges[0]},
            same={"vocab_path": vocab_json[1], "merges_path": merges[1]},
            other={
                "vocab_path": vocab_json[2],
                "merges_path": merges[2],
                "pattern": GPT2_PATTERN + "|x",
                "unk_id": 257,
                "bos_id": 1,
                "eos_id": 1,
                "pad_id": 1,
            },
        ),
        Case(
            cls=base.HuggingFaceBaseTokenizer,
            given={"tokenizer_json_path": tokenizer_json[0], "tokenizer_config_json_path": config[0]},
            same={"tokenizer_json_path": tokenizer_json[1], "tokenizer_config_json_path": config[1]},
            other={
                "tokenizer_json_path": tokenizer_json[2],
                "tokenizer_config_json_path": config_2[0],
                "generation_config_path": generation[0],
            },
        ),
        of_path(base.SentencePieceBaseTokenizer, spm),
        Case(
            cls=base.TikTokenBaseTokenizer,
            given={
                "path": ranks[0],
                "name": "a",
                "pattern": GPT2_PATTERN,
                "bos_id": 1,
                "eos_id": 2,
                "special_tokens": MARKS,
            },
            same={"path": ranks[1], "special_tokens": dict(reversed(MARKS.items()))},
            other={
                "path": ranks[2],
                "name": "b",
                "pattern": GPT2_PATTERN + "|x",
                "bos_id": 2,
                "eos_id": 3,
                "special_tokens": {"<|im_end|>": 3001},
            },
        ),
        of_path(T5Tokenizer, spm, max_seq_len=7, truncate=False),
        of_path(CLIPTokenizer, merges, max_seq_len=7, truncate=False),
        family(Llama3Tokenizer, ranks, LLAMA3.control_tokens),
        family(Llama4Tokenizer, ranks, Llama4Tokenizer.chat_format_row.control_tokens),
        family(phi3.Phi3MiniTokenizer, spm, phi3.Phi3MiniTokenizer.chat_format_row.control_tokens),
        of_path(llama2.Llama2Tokenizer, spm, **common),
        of_path(mistral.MistralTokenizer, spm, **common),
        of_path(gemma.GemmaTokenizer, spm, **common),
        Case(
            cls=phi4.Phi4Tokenizer,
            given={"vocab_path": ranks[0]},
            same={"vocab_path": ranks[1], "merges_path": None},
            other={
                "vocab_path": ranks[2],
                "special_tokens": numbered(phi4.PHI4.control_tokens),
                **common,
            },
        ),
        qwen(qwen2.Qwen2Tokenizer),
        qwen(qwen2_5.Qwen2_5Tokenizer),
        qwen(qwen3.Qwen3Tokenizer),
        Case(
            cls=tokenizers.ChatFormatTokenizer,
            given={"backend": backend, "chat_format": LLAMA3},
            other={
                "backend": backend_2,
                "chat_format": replace(LLAMA3, whitespace="keep"),
                "special_tokens": numbered(LLAMA3.control_tokens),
                **common,
            },
        ),
        Case(
            cls=tokenizers.PublisherFormatTokenizer,
            given={"backend": backend, "chat_format": layout},
            other={
                "backend": backend_2,
                "chat_format": replace(layout, whitespace="strip_end_of_parts"),
                "special_tokens": numbered(layout.control_tokens),
                "max_seq_len": 7,
                "truncation_type": "left",
                "mask_policy": "message",
                "train_on": {"turn_end": "last"},
                "on_unproved": "common_prefix",
                "options": {"date_string": "27 Jul 2024"},
                "allowed_special": ["<|eot_id|>"],
            },
        ),
        Case(
            cls=tokenizers.ChatTemplateTokenizer,
            given={
                "backend": backend,
                "chat_template": CHATML,
                "special_tokens": MARKS,
                "eos_token": "<|im_end|>",
            },
            same={"special_tokens": dict(reversed(MARKS.items()))},
            other={
                "backend": backend_2,
                "chat_template": CHATML.replace("assistant\n", "assistant "),
                "tool_template": TOOL_CHATML,
                "special_tokens": {**MARKS, "<|more|>": 3004},
                "token_flags": {"<|more|>": TokenFlags(lstrip=True)},
                "bos_token": "<|endoftext|>",
                "eos_token": "<|endoftext|>",
                "pad_token": "<|endoftext|>",
                "stop_tokens": ["<|more|>"],
                **template_options,
            },
        ),
        Case(
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
        Case(
            cls=vision.CLIPImageTransform,
            given=statistics,
            other={
                **images,
                "possible_resolutions": [(224, 448)],
                "tile_size": 112,
                "max_num_tiles": 2,
                "dtype": torch.float32,
                "resample": "bicubic",
                "resize_to_max_canvas": True,
            },
        ),
        Case(
            cls=ExportedCLIPImageTransform,
            given=statistics,
            other={
                **images,
                "possible_resolutions": [(224, 448)],
                "tile_size": 112,
                "max_num_tiles": 2,
                "resample": "bicubic",
                "resize_to_max_canvas": True,
                "antialias": False,
            },
        ),
        Case(
            cls=vision.VisionCrossAttentionMask,
            given={"tile_size": 56, "patch_size": 14, "image_token_id": 1},
            other={"tile_size": 112, "patch_size": 28, "image_token_id": 2},
        ),
        Case(
            cls=ImageTextTransform,
            given={"tokenizer": Llama3Tokenizer(ranks[0]), "image_start": "<|image|>", "image_end": "<|image|>"},
            same={"tokenizer": Llama3Tokenizer(ranks[1])},
            other={
                "tokenizer": Llama3Tokenizer(ranks[0], max_seq_len=7),
                "image_start": "<|eot_id|>",
                "image_end": "<|eot_id|>",
                "media_overflow": "drop",
            },
        ),
        Case(
            cls=Llama3VisionTransform,
            given={"path": ranks[0], "tile_size": 56, "patch_size": 14, **statistics},
            same={"path": ranks[1]},
            other={"path": ranks[2], "tile_size": 112, "patch_size": 28, **images, **vision_options},
        ),
        Case(
            cls=Llama4Transform,
            given={"path": ranks[0], "tile_size": 56, "patch_size": 14, **statistics},
            same={"path": ranks[1]},
            other={
                "path": ranks[2],
                "tile_size": 112,
                "patch_size": 28,
                "pixel_shuffle_scaling_factor": 1.0,
                "dtype": torch.float32,
                **images,
                **vision_options,
                "special_tokens_path": files.special_tokens(LLAMA4.control_tokens),
            },
        ),
    ]
    return {case.cls: case for case in made}


@pytest.fixture
def module() -> Iterator[Callable[..., types.ModuleType]]:
    """Function from source to a module, as if it were a file of the user; each gets the same name."""

    def made(source: str, name: str = "users_own") -> types.ModuleType:
        module = types.ModuleType(name)
        sys.modules[name] = module
        exec(compile(textwrap.dedent(source), f"{name}.py", "exec"), vars(module))
        return module

    before = dict(sys.modules)
    yield made
    for name in set(sys.modules) - set(before):
        del sys.modules[name]
