"""Tokenizers, transforms and templates, and for each of their options another value."""

import json
import runpy
import sys
import textwrap
import types
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import pytest

from torchpipe.tokenizers.byte_level import byte_alphabet

TABLES = sorted(Path(__file__).with_name("cases").glob("*.py"))
"""A file for each package; its function ``cases(case, inputs)`` lists the package's classes."""

Paths = tuple[str, str, str]
"""A file as it is, the same at another path, and with a byte more."""


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


@dataclass(frozen=True)
class Inputs:
    """Small tokenizer files, and other values of options that many classes have."""

    folder: Path
    shared: Path

    table = {"user": ("Q: ", "\n")}  # noqa: RUF012
    common = {  # noqa: RUF012
        "max_seq_len": 7,
        "prompt_template": table,
        "truncation_type": "left",
        "mask_policy": "sampled",
        "train_on": {"turn_end": "last"},
    }
    marks = {"<|im_start|>": 3000, "<|im_end|>": 3001, "<|endoftext|>": 3002, "<|more|>": 3003}  # noqa: RUF012
    statistics = {"image_mean": [0.5] * 3, "image_std": [0.5] * 3}  # noqa: RUF012
    images = {"image_mean": [0.1] * 3, "image_std": [0.2] * 3}  # noqa: RUF012

    def three(self, name: str, content: bytes, more: bytes = b"\n") -> Paths:
        paths = [self.folder / f"{number}_{name}" for number in range(3)]
        for path, written in zip(paths, (content, content, content + more), strict=True):
            path.write_bytes(written)
        return str(paths[0]), str(paths[1]), str(paths[2])

    @cached_property
    def ranks(self) -> Paths:
        return self.three("ranks.model", (self.shared / "tiktoken_small.model").read_bytes())

    @cached_property
    def spm(self) -> Paths:
        # An empty field 1 of the trainer's part (2) follows: the same model in other bytes.
        return self.three("spm.model", (self.shared / "m.model").read_bytes(), b"\x12\x00")

    @cached_property
    def tokenizer_json(self) -> Paths:
        return self.three("tokenizer.json", (self.shared / "tiny_bpe_tokenizer.json").read_bytes())

    @cached_property
    def vocab_json(self) -> Paths:
        vocab = {char: number for number, char in enumerate([*byte_alphabet().values(), "ab", "<x>"])}
        return self.three("vocab.json", json.dumps(vocab).encode())

    @cached_property
    def merges(self) -> Paths:
        return self.three("merges.txt", b"a b\n")

    def special_tokens(self, control_tokens: Sequence[str]) -> str:
        added = [{"content": text, "id": token_id} for text, token_id in self.numbered(control_tokens).items()]
        return self.three(f"special_{len(control_tokens)}.json", json.dumps({"added_tokens": added}).encode())[0]

    def numbered(self, control_tokens: Sequence[str]) -> dict[str, int]:
        return {text: 5000 + number for number, text in enumerate(control_tokens)}

    def of_path(self, cls: Any, of: Paths, **other: Any) -> Case:
        return Case(cls=cls, given={"path": of[0]}, same={"path": of[1]}, other={"path": of[2], **other})


@pytest.fixture(scope="session")
def option_cases(shared_data: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[Any, Case]:
    """For each class, how its options are changed."""
    inputs = Inputs(tmp_path_factory.mktemp("fingerprints"), shared_data / "tokenizers" / "torchtune")
    made = [case for file in TABLES for case in runpy.run_path(str(file))["cases"](Case, inputs)]
    found = {case.cls: case for case in made}
    assert len(found) == len(made), "A class is in two tables"
    return found


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
