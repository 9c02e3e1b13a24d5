"""A loader that is iterated again behind an error goes on with the batch that did not come."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
from numbered_graphs import cropped, planned, trained

from torchpipe.pipeline import GrainDataLoader, TextCollator

Loader = Callable[..., GrainDataLoader]


class FailsOnce(TextCollator):
    """A collator that fails at its fourth batch, of all of a run."""

    @dataclass(kw_only=True, slots=True)
    class Config(TextCollator.Config):
        """made: a list that gets an item a batch."""

        made: list[None]

    def __init__(self, config: Config, **given: Any) -> None:
        super().__init__(config, **given)
        self._made = config.made

    def __call__(self, rows: Any) -> Any:
        self._made.append(None)
        if len(self._made) == 4:
            raise OSError("The disk is away.")
        return super().__call__(rows)


@pytest.mark.parametrize("num_prefetch_batches", [0, 2])
@pytest.mark.parametrize("graph", [planned, cropped], ids=["planned", "grain"])
def test_no_row_is_lost_behind_an_error(graph: Any, num_prefetch_batches: int, loader: Loader) -> None:
    whole = [trained(batch) for batch in loader(graph(), repeat=False)]
    failing = loader(
        graph(), repeat=False, num_prefetch_batches=num_prefetch_batches, collator=FailsOnce.Config(made=[])
    )
    found: list[list[int]] = []
    with pytest.raises(OSError, match="The disk is away"):
        found.extend(trained(batch) for batch in failing)
    assert len(found) == 3
    batches = iter(failing)
    found.extend(trained(batch) for batch in batches)
    assert found == whole
    assert list(batches) == list(failing) == []  # behind the last row it has ended


def test_epochs_go_on_behind_an_error(loader: Loader) -> None:
    failing = loader(planned(5), repeat=False, num_epochs=2, collator=FailsOnce.Config(made=[]))
    found: list[tuple[int, list[int]]] = []

    def take() -> None:
        for epoch, batches in failing.epochs():
            found.extend((epoch, trained(batch)) for batch in batches)

    with pytest.raises(OSError, match="The disk is away"):
        take()
    take()
    plain = loader(planned(5), repeat=False, num_epochs=2)
    assert found == [(epoch, trained(batch)) for epoch, batches in plain.epochs() for batch in batches]
