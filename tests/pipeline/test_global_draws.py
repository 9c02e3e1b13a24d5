"""Random numbers of the program's global generators, drawn where rows are made, are noticed on both ways."""

import random
import threading
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import grain
import numpy as np
import pytest

from torchpipe.pipeline import GrainDataLoader, SampleProcessor, SingleDatasetConfig, TextSequence
from torchpipe.pipeline.global_draws import GlobalDraws

Build = Callable[..., Any]
Rows = Callable[[Any], list[Any]]


def sequence(length: int) -> TextSequence:
    return TextSequence(input_ids=np.arange(length), labels=np.arange(1, length + 1))


class Cropping(SampleProcessor):
    """Crops by numpy's global generator."""

    def __call__(self, sample: int, rng: np.random.Generator) -> TextSequence | None:
        return sequence(2 + np.random.randint(5))  # the mistake


class Dropping(Cropping):
    """Draws from the generator of ``random``."""

    def __call__(self, sample: int, rng: np.random.Generator) -> TextSequence | None:
        return None if random.random() < 0.1 else sequence(4)


class Right(Cropping):
    """Draws from what it is given, and from a generator of its own."""

    def __call__(self, sample: int, rng: np.random.Generator) -> TextSequence:
        random.Random(sample).random()
        return sequence(2 + int(rng.integers(5)) + int(np.random.default_rng(sample).integers(2)))


class Fixed(Cropping):
    """Draws nothing."""

    def __call__(self, sample: int, rng: np.random.Generator) -> TextSequence:
        return sequence(5)


def rows(processor: Any, number: int = 600, **options: Any) -> SingleDatasetConfig:
    return SingleDatasetConfig(source=range(number), processor=processor.Config(), name="numbers", **options)


@pytest.mark.parametrize("processor", [Right, Fixed])
def test_rows_made_with_the_rng_that_belongs_to_them_are_no_reason_to_warn(
    processor: Any, grain_of: Build, graph_rows: Rows
) -> None:
    assert len(graph_rows(grain_of(rows(processor)))) == 600


@pytest.mark.parametrize(
    ("processor", "who"),
    [
        (Cropping, "Cropping of numbers draws from the global generator of numpy.random"),
        (Dropping, "Dropping of .*random"),
    ],
)
def test_grains_way_warns_once_and_names_the_processor(
    processor: Any, who: str, grain_of: Build, graph_rows: Rows
) -> None:
    with pytest.warns(UserWarning, match=f"^{who}, or another thread.* Draw from the rng that __call__") as told:
        graph_rows(grain_of(rows(processor)))
    assert len(told) == 1


def test_a_filter_that_draws_is_noticed(grain_of: Build, graph_rows: Rows) -> None:
    config = rows(Fixed, pre_filters=[lambda row: random.random() < 0.9])
    with pytest.warns(UserWarning, match="^Fixed or a filter of numbers draws .* a filter has none"):
        graph_rows(grain_of(config))


@pytest.mark.parametrize("num_proc", [1, 2])
def test_the_build_of_a_store_warns_once_whatever_the_number_of_processes(num_proc: int, tmp_path: Path) -> None:
    config = GrainDataLoader.Config(
        dataset=rows(Cropping, 40_000), cache_dir=str(tmp_path), num_proc=num_proc, planned=True
    )
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("default")
        config.build(tokenizer=None, max_context_length=16, num_tokens_per_batch=16)
    said = [str(one.message) for one in told if "global generator" in str(one.message)]
    assert len(said) == 1
    assert said[0].startswith("Cropping of numbers draws from the global generator of numpy.random")


@pytest.mark.filterwarnings("ignore:numbers is tokenised for this run alone")  # for its code says it too
@pytest.mark.parametrize("num_proc", [1, 2])
def test_where_warnings_are_errors_the_store_is_not_built(num_proc: int, tmp_path: Path) -> None:
    config = GrainDataLoader.Config(dataset=rows(Cropping, 40_000), cache_dir=str(tmp_path), num_proc=num_proc)
    with pytest.raises(UserWarning, match="Cropping of numbers draws"):
        config.build(tokenizer=None, max_context_length=16, num_tokens_per_batch=16)


def test_a_source_that_draws_while_threads_read_is_not_taken_for_the_processor(grain_of: Build) -> None:
    class Again(Sequence[int]):
        """A server that is asked again after a random time."""

        def __len__(self) -> int:
            return 100

        def __getitem__(self, index: Any) -> Any:
            threading.Event().wait(random.random() * 0.002)
            return index

    config = SingleDatasetConfig(source=Again(), processor=Right.Config())
    rows = iter(grain_of(config).to_iter_dataset(grain.ReadOptions(num_threads=8, prefetch_buffer_size=16)))
    assert len(list(rows)) == 100
    rows.close()


def test_one_row_alone_is_no_reason_to_warn() -> None:
    draws = GlobalDraws("Cropping", "numbers")
    draws.watched(random.random)  # another thread, perhaps
    assert [draws.watched(lambda number=number: number) for number in range(600)] == list(range(600))


def test_a_processor_that_draws_now_and_then_is_noticed_later() -> None:
    draws = GlobalDraws("Cropping", "numbers")
    makers = [random.random if number % 3 == 0 and number > 10 else int for number in range(9000)]
    with pytest.warns(UserWarning, match="Cropping of numbers draws"):
        _ = [draws.watched(make) for make in makers]
