"""Processors that give what can't be trained on: one sentence with the row, the same one in a plan and by Grain."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from torchpipe.errors import ColumnError, DataError
from torchpipe.pipeline import FirstFitPackingConfig, GrainDataLoader, SampleProcessor, SingleDatasetConfig
from torchpipe.pipeline import TextSequence as Text

Loader = Callable[..., GrainDataLoader]
both_ways = pytest.mark.parametrize("planned", [None, False], ids=["planned", "by Grain"])


class Given(SampleProcessor):
    """Rows are what it gives; a function is called."""

    def __call__(self, sample: Any, rng: np.random.Generator) -> Any:
        return sample() if callable(sample) else sample

    def fingerprint(self) -> str:
        return "given"


class Rows(list[Any]):
    """Rows that say what they are told apart by."""

    def fingerprint(self) -> str:
        return repr([list(map(str, row)) if isinstance(row, list) else str(row) for row in self])


@pytest.fixture
def loader(tmp_path: Path) -> Loader:
    """Makes a loader of rows."""

    def make(rows: list[Any], *, packed: bool = False, **options: Any) -> GrainDataLoader:
        dataset: Any = SingleDatasetConfig(source=Rows(rows), processor=Given.Config(), name="rows")
        dataset = FirstFitPackingConfig(dataset=dataset) if packed else dataset
        options = {"repeat": False, "shuffle": False, "num_proc": 1, "cache_dir": str(tmp_path), **options}
        config = GrainDataLoader.Config(dataset=dataset, **options)
        return config.build(tokenizer=None, max_context_length=8, num_tokens_per_batch=8)

    return make


def text(ids: Any, labels: Any, **more: Any) -> Text:
    return Text(input_ids=np.array(ids), labels=np.array(labels), **more)


GOOD = text([1, 2], [2, 3])
WRONG = [
    (text([-1, 2], [2, 3]), r"input_ids go from -1 to 2. Token ids are whole numbers from 0 to 4294967295"),
    (text([2**33], [-100]), r"input_ids go from 8589934592 to 8589934592"),
    (text([1, 2], [2, 2**33]), r"labels hold 8589934592. They are token ids, from 0 to 4294967295, or -100"),
    (text([1, 2], [2, -5]), r"labels hold -5"),
    (text([1, 2], np.array([2, 2**64 - 100], np.uint64)), r"labels hold 18446744073709551516. They are whole numbers"),
    (text([1, 2], [-7, 3]), r"labels hold -7"),
    (text([1.0, 2.0], [2, 3]), r"input_ids are float64. Give whole numbers"),
    (text([True, False], [0, 1]), r"input_ids are bool"),
    (text([1, 2], [2, 3], positions=np.array([0.0, 1.0])), r"positions are float64"),
]


@both_ways
@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize(("wrong", "sentence"), WRONG)
def test_numbers_that_are_no_tokens_are_refused(
    wrong: Text, sentence: str, packed: bool, planned: Any, loader: Loader
) -> None:
    with pytest.raises(ColumnError, match=f"Row 1 of rows: {sentence}"):
        list(loader([GOOD, wrong], packed=packed, planned=planned))


@both_ways
def test_what_is_no_sequence_is_refused(planned: Any, loader: Loader) -> None:
    with pytest.raises(ColumnError, match=r"is a list.|gave a list,"):
        list(loader([[1, 2, 3]], planned=planned))


@both_ways
def test_a_sequence_without_tokens_is_left_out(planned: Any, loader: Loader) -> None:
    batches = list(loader([text([], []), GOOD, text([], [])], planned=planned))
    assert [batch["input"][:2].tolist() for batch, _ in batches] == [[1, 2]]


@both_ways
@pytest.mark.parametrize("rows", [[text([], [])], [lambda: None]], ids=["empty", "left out"])
def test_a_graph_without_rows_is_a_sentence(rows: list[Any], planned: Any, loader: Loader) -> None:
    with pytest.raises(DataError, match="No row is left of the graph"):
        list(loader(rows, planned=planned))


@both_ways
def test_a_stop_iteration_of_a_processor_does_not_end_the_rows(planned: Any, loader: Loader) -> None:
    with pytest.raises(RuntimeError, match="a function of one row raised StopIteration") as raised:
        list(loader([GOOD, lambda: next(iter(()))], planned=planned))
    assert raised.value.__notes__[0] == "Row 1 of rows"


@pytest.mark.parametrize("positions", [[-1, 0, 1], [5, 6, 7], [0, 2, 4], [1, 0, 1]])
def test_positions_that_do_not_count_from_0_are_given_by_grain_as_they_are(
    positions: list[int], loader: Loader, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = loader([text([1, 2, 3], [2, 3, 4], positions=np.array(positions))])
    assert "Grain runs this graph, as rows come: positions do not count from 0 on" in capsys.readouterr().err
    assert [batch["positions"][:3].tolist() for batch, _ in rows] == [positions]
