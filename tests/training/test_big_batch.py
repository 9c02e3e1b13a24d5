"""The gradient of a step is that of one big batch, for every split into micro-batches and ranks, packed or not."""

import runpy
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from torchpipe.training import Ranks

FILE = Path(__file__).with_name("splits.py")
Gradients = dict[str, torch.Tensor]


@pytest.fixture(scope="module")
def splits() -> SimpleNamespace:
    return SimpleNamespace(**runpy.run_path(str(FILE)))


@pytest.fixture(scope="module")
def expected(splits: SimpleNamespace) -> dict[str, Gradients]:
    return {kind: splits.expected_gradients(kind) for kind in ("full", "lora")}


def assert_equal(gradients: Gradients, expected: Gradients) -> None:
    assert gradients.keys() == expected.keys()
    for name, gradient in gradients.items():
        assert float((gradient - expected[name]).norm() / expected[name].norm()) < 1e-5, name


@pytest.mark.parametrize("kind", ["full", "lora"])
@pytest.mark.parametrize("packed", [False, True])
@given(places=st.lists(st.integers(0, 4), min_size=8, max_size=8))
@settings(max_examples=25, deadline=None)
def test_any_split_into_micro_batches_gives_the_gradient_of_one_big_batch(
    splits: SimpleNamespace, expected: dict[str, Gradients], kind: str, packed: bool, places: list[int]
) -> None:
    split = [[number for number, place in enumerate(places) if place == batch] for batch in range(5)]
    with Ranks() as ranks:
        assert_equal(splits.gradients(kind, split, ranks, packed=packed), expected[kind])


# What each of two ranks reads: even, one alone with the documents that are not trained on, and very uneven.
SPLITS = [
    [[[0, 1], [2, 3]], [[4, 5], [6, 7]]],
    [[[3]], [[0, 1, 2], [4], [5, 6, 7]]],
    [[[0], [1], [2], [4], [5], [6], [7]], [[3]]],
]

CODE = """
import runpy
import torch
from torchpipe.training import Ranks

splits = runpy.run_path({file!r})
with Ranks() as ranks:
    ranks.join()
    found = [
        (kind, splits["gradients"](kind, split[ranks.rank], ranks, packed=packed))
        for kind in ("full", "lora")
        for packed in (False, True)
        for split in {splits!r}
    ]
    if ranks.is_first:
        torch.save(found, {out!r})
"""


def test_two_ranks_give_the_gradient_of_one_big_batch(
    run_ranks: Callable, expected: dict[str, Gradients], tmp_path: Path
) -> None:
    out = tmp_path / "gradients.pt"
    for result in run_ranks(CODE.format(file=str(FILE), splits=SPLITS, out=str(out)), 2):
        assert result.returncode == 0, result.stderr
    found = torch.load(out)
    assert len(found) == 4 * len(SPLITS)
    for kind, gradients in found:
        assert_equal(gradients, expected[kind])


def test_adapters_alone_have_gradients(expected: dict[str, Gradients]) -> None:
    assert {name.split(".")[-2] for name in expected["lora"]} == {"lora_a", "lora_b"}
    assert any(name == "tok_embeddings.weight" for name in expected["full"])
