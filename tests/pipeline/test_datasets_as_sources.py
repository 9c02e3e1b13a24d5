"""Data sets of ``torchpipe.datasets`` as sources of a graph: what is trained is the same at both doors."""

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from torchpipe.datasets import chat_dataset
from torchpipe.errors import DataError
from torchpipe.models.tiny import tiny_tokenizer
from torchpipe.pipeline import FirstFitPackingConfig, GrainDataLoader, SingleDatasetConfig

TOKENIZER = tiny_tokenizer(max_seq_len=512)


@pytest.fixture
def chats(repository: Path, tmp_path: Path) -> Callable[..., Any]:
    """Makes a data set of the first sample chats."""

    def make(**options: Any) -> Any:
        return chat_dataset(
            TOKENIZER,
            source="json",
            data_files=str(repository / "torchpipe" / "assets" / "sample_chats.json"),
            split="train[:12]",
            conversation_column="messages",
            conversation_style="openai",
            **{**options, **({"cache_dir": str(tmp_path)} if options.keys() & {"cache", "packed"} else {})},
        )

    return make


def loader(dataset: Any, cache: Path, **options: Any) -> GrainDataLoader:
    config = GrainDataLoader.Config(
        dataset=dataset, repeat=False, cache_dir=str(cache), num_proc=1, num_prefetch_batches=0, **options
    )
    return config.build(tokenizer=TOKENIZER, max_context_length=512, num_tokens_per_batch=512)


def pairs_of_batches(batches: Any) -> Counter[tuple[int, int]]:
    found: Counter[tuple[int, int]] = Counter()
    for batch, labels in batches:
        trained = labels != -100
        found.update(zip(batch["input"][trained].tolist(), labels[trained].tolist(), strict=True))
    return found


def pairs_of_samples(dataset: Any) -> Counter[tuple[int, int]]:
    found: Counter[tuple[int, int]] = Counter()
    for index in range(len(dataset)):
        sample = dataset[index]
        each = zip(map(int, sample["tokens"]), map(int, sample["labels"]), strict=True)
        found.update((token, label) for token, label in each if label != -100)
    return found


@pytest.mark.parametrize("planned", [True, False])
@pytest.mark.parametrize("options", [{}, {"cache": True}], ids=["as rows come", "stored"])
def test_samples_are_rows_and_both_doors_train_the_same(
    planned: bool, options: dict[str, Any], chats: Callable[..., Any], tmp_path: Path
) -> None:
    dataset = chats(**options)
    rows = loader(FirstFitPackingConfig(dataset=SingleDatasetConfig(source=dataset)), tmp_path, planned=planned)
    assert rows.is_planned == planned
    assert pairs_of_batches(rows) == pairs_of_samples(dataset) == pairs_of_samples(chats())


@pytest.mark.parametrize("planned", [True, False])
def test_a_label_of_the_last_token_is_trained(planned: bool, tmp_path: Path) -> None:
    samples = [{"tokens": [5, 6], "labels": [6, 7]}, {"tokens": [7, 8, 9], "labels": [8, 9, -100]}]
    rows = loader(FirstFitPackingConfig(dataset=SingleDatasetConfig(source=samples)), tmp_path, planned=planned)
    assert pairs_of_batches(rows) == Counter([(5, 6), (6, 7), (7, 8), (8, 9)])


@pytest.mark.parametrize("planned", [True, False])
def test_packs_and_weighted_tokens_are_refused(planned: bool, chats: Callable[..., Any], tmp_path: Path) -> None:
    packs = FirstFitPackingConfig(dataset=SingleDatasetConfig(source=chats(packed=True), name="packs"))
    with pytest.raises(DataError, match="Row 0 of packs: The row is a pack .* Leave packed out there, and pack in the"):
        list(loader(packs, tmp_path, planned=planned, shuffle=False))
    weighted = {"tokens": [5, 6, 7], "labels": [6, 7, -100], "loss_weights": [1.0, 0.5, 0.0]}
    rows = SingleDatasetConfig(source=[weighted], name="rows")
    with pytest.raises(DataError, match="Row 0 of rows: The row has loss_weights, and a TextSequence has no place"):
        list(loader(rows, tmp_path, planned=planned))
