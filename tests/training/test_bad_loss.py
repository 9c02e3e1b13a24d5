"""A loss that is no number stops the run, and names what it was computed from."""

import math
import re
from collections.abc import Callable
from typing import Any

import pytest
import torch

from torchpipe.constants import IGNORE_INDEX
from torchpipe.data import padded_collate_sft
from torchpipe.datasets import describe_rows
from torchpipe.errors import NonFiniteLossError, TorchpipeError
from torchpipe.loading import GlobalSteps, StepLoader
from torchpipe.models.tiny import tiny_llama3
from torchpipe.modules import LinearCrossEntropyLoss
from torchpipe.training import batch_loss, check_loss

BAD_ROW = 11  # the only one with token 9, whose embedding is not a number


class Rows:
    """Rows of a token each, with a name as a file has it."""

    name = "chats.json"

    def __len__(self) -> int:
        return 16

    def __getitem__(self, row: int) -> dict[str, list[int]]:
        return {"tokens": [9 if row == BAD_ROW else 1, 2, 3], "labels": [2, 3, IGNORE_INDEX]}


@pytest.mark.parametrize("loss", [0.0, -1.5, 3e38])
def test_a_finite_loss_is_given_back_and_no_row_is_looked_up(loss: float) -> None:
    assert check_loss(loss, step=1, rows=lambda: pytest.fail("looked up")) == loss


@pytest.mark.parametrize("loss", [math.nan, math.inf, -math.inf])
def test_any_other_is_an_error_that_names_step_and_rows(loss: float) -> None:
    with pytest.raises(NonFiniteLossError, match=rf"^Step 7: the loss is {loss}\. It was computed from row 3 of x\."):
        check_loss(loss, step=7, rows=lambda: "row 3 of x")
    assert issubclass(NonFiniteLossError, TorchpipeError)
    assert issubclass(NonFiniteLossError, FloatingPointError)


def test_something_else_than_the_loss_can_be_named() -> None:
    with pytest.raises(NonFiniteLossError, match=r"^Step 2: the norm of the gradients is nan"):
        check_loss(math.nan, step=2, rows=lambda: "row 1", name="norm of the gradients")


def first_bad(rank: int, world_size: int) -> str | None:
    """The error of one rank that trains an epoch; None where it has none."""
    torch.manual_seed(0)
    model, loss_fn = tiny_llama3(vocab_size=10, max_seq_len=8, tied_embeddings=False), LinearCrossEntropyLoss()
    loss_fn.set_model_output(model)
    with torch.no_grad():
        model.tok_embeddings.weight[9] = math.nan  # pyright: ignore[reportIndexIssue]
    rows = Rows()
    loader = StepLoader(
        rows,
        GlobalSteps.of(rows, global_batch_size=4, seed=5),
        batch_size=2,
        collate_fn=padded_collate_sft,
        rank=rank,
        world_size=world_size,
    )
    for step in loader:
        for packs, batch in zip(loader.packs_of(step), step.micro_batches, strict=True):
            loss = float(batch_loss(model, loss_fn, batch, torch.device("cpu")).detach())
            assert sum(9 in tokens for tokens in batch["tokens"]) == packs.count(BAD_ROW)
            try:
                check_loss(loss, step=step.number + 1, rows=_naming(rows, packs))
            except NonFiniteLossError as error:
                return str(error)
    return None


def _naming(rows: Any, packs: list[int]) -> Callable[[], str]:
    return lambda: describe_rows(rows, packs)


def rows_told(error: str | None) -> list[int]:
    """The row numbers in an error's sentence."""
    found = re.search(r"computed from rows (\d+), (\d+) of chats\.json", error or "")
    return [] if found is None else [int(row) for row in found.groups()]


def test_the_rank_that_has_the_row_names_the_two_rows_of_its_micro_batch() -> None:
    assert BAD_ROW in rows_told(first_bad(0, 1))
    errors = [first_bad(rank, 2) for rank in range(2)]
    assert errors.count(None) == 1
    assert BAD_ROW in rows_told(errors[0] or errors[1])
