"""Processors: rows to values, and whether a build notes that one draws random numbers."""

import copy
import pickle
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pytest

from torchpipe.errors import ConfigError
from torchpipe.pipeline import DatasetBuildContext, SampleProcessor
from torchpipe.pipeline.processors import DrewRandom, WatchedGenerator, without_draws

CONTEXT = DatasetBuildContext(tokenizer=None, max_context_length=8, num_tokens_per_batch=16)


class Cropped(SampleProcessor):
    """A part of the row, from a random place where ``crop`` says so; it goes on without where cropping fails."""

    @dataclass(frozen=True, kw_only=True, slots=True)
    class Config(SampleProcessor.Config):
        crop: bool = False
        swallows: bool = False

    def __call__(self, sample: list[int], rng: np.random.Generator) -> list[int] | None:
        if not self.config.crop:
            return sample or None
        try:
            return sample[int(rng.integers(len(sample))) :]
        except Exception:
            return sample
        except BaseException:
            if self.config.swallows:
                return sample
            raise


class NeverCropped(Cropped):
    """The same, which says that it draws nothing."""

    deterministic: ClassVar[bool | None] = True


class AlwaysCropped(Cropped):
    """The same, which says that it draws."""

    deterministic: ClassVar[bool | None] = False


def built(kind: type[Cropped] = Cropped, **settings: Any) -> Cropped:
    return kind.Config(**settings).build(context=CONTEXT)


def test_a_processor_that_draws_nothing_gives_its_value_and_what_it_leaves_out_counts_as_dropped() -> None:
    assert without_draws(built(), [1, 2]) == ([1, 2], None)
    assert without_draws(built(), []) == (None, "dropped")


def test_the_first_draw_is_told_though_the_processor_goes_on_after_exceptions() -> None:
    with pytest.raises(DrewRandom, match="integers"):
        without_draws(built(crop=True), [1, 2])


def test_a_draw_is_told_even_where_its_exception_was_swallowed() -> None:
    with pytest.raises(DrewRandom, match="a number"):
        without_draws(built(crop=True, swallows=True), [1, 2])


def test_a_draw_of_a_processor_that_is_said_to_be_deterministic_is_an_error_that_names_it() -> None:
    with pytest.raises(ConfigError, match="NeverCropped is said to be deterministic, and asked .* for integers"):
        without_draws(built(NeverCropped, crop=True), [1, 2])
    assert without_draws(built(NeverCropped), [1, 2]).value == [1, 2]


def test_a_processor_that_is_said_to_draw_is_not_even_called() -> None:
    with pytest.raises(DrewRandom, match="deterministic is False"):
        without_draws(built(AlwaysCropped), [1, 2])


@pytest.mark.parametrize(
    "use",
    [
        lambda rng: rng.random(),
        lambda rng: rng.bit_generator,
        lambda rng: rng.spawn(2),
        lambda rng: np.random.default_rng(rng).random(),
        copy.copy,
        copy.deepcopy,
        pickle.dumps,
    ],
    ids=["random", "bit_generator", "spawn", "default_rng", "copy", "deepcopy", "pickle"],
)
def test_every_way_to_numbers_is_noted(use: Any) -> None:
    rng = WatchedGenerator()
    with pytest.raises(DrewRandom):
        use(rng)
    assert rng.drew


def test_looking_at_the_generator_is_no_draw() -> None:
    rng = WatchedGenerator(3)
    assert isinstance(rng, np.random.Generator)
    assert repr(rng) == str(rng) == "WatchedGenerator(drew=False)"


def test_a_processor_needs_a_call_method() -> None:
    class Nothing(SampleProcessor):
        """It does nothing."""

    with pytest.raises(TypeError, match="abstract method"):
        Nothing.Config().build(context=CONTEXT)
