"""Hugging Face's data sets as sources, as their user writes them."""

import json
import subprocess
import sys
from collections.abc import Sequence
from itertools import chain, islice
from pathlib import Path
from typing import Any

import datasets
import grain
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from torchpipe.config import instantiate
from torchpipe.errors import CheckpointError, ConfigError, DataError, SourceError
from torchpipe.pipeline import (
    DatasetIterationPolicy,
    GrainDataLoader,
    HuggingFaceRandomAccessSource,
    HuggingFaceStreamingSource,
    RandomAccessDataSource,
    SampleProcessor,
    SingleDatasetConfig,
    TextSequence,
)
from torchpipe.sources.identity import object_fingerprint


def policy_of(**changed: Any) -> DatasetIterationPolicy:
    settings = {"seed": 7, "shuffle": False, "repeat": False, "dp_rank": 0, "dp_world_size": 1}
    return DatasetIterationPolicy(**{**settings, **changed}, streaming_shuffle_buffer_size=10)


def files(folder: Path, sizes: Sequence[int], kind: str = "json") -> dict[str, Any]:
    """Files of rows ``{"n": ...}``, numbered through, and the settings of a source that reads them."""
    start, paths = 0, []
    for number, size in enumerate(sizes):
        numbers = list(range(start, start + size))
        start += size
        path = folder / f"{number}.{kind}"
        if kind == "json":
            path.write_text("".join(f'{{"n": {n}}}\n' for n in numbers), encoding="utf-8")
        else:
            datasets.Dataset.from_dict({"n": numbers}).to_parquet(path)
        paths.append(str(path))
    return {"path": kind, "split": "train", "load_dataset_kwargs": {"data_files": paths}}


def stream(settings: dict[str, Any], **policy: Any) -> HuggingFaceStreamingSource:
    return HuggingFaceStreamingSource.Config(**settings).build(dataset_iteration_policy=policy_of(**policy))


def numbers(rows: Any, most: int | None = None) -> list[int]:
    return [row["n"] for row in islice(iter(rows), most)]


def test_rows_of_a_table_are_read_by_number(shared_data: Path) -> None:
    file = shared_data / "gsm8k" / "train.jsonl"
    config = HuggingFaceRandomAccessSource.Config(
        path="json", split="train", load_dataset_kwargs={"data_files": str(file)}
    )
    source = config.build(dataset_iteration_policy=policy_of())
    assert isinstance(source, RandomAccessDataSource)
    rows = [json.loads(line) for line in file.read_bytes().splitlines()]
    assert len(source) == len(rows)
    assert (source[0], source[-1]) == (rows[0], rows[-1])
    with pytest.raises(IndexError):
        source[len(rows)]
    assert object_fingerprint(source) == object_fingerprint(config.build(dataset_iteration_policy=policy_of()))


def test_real_text_streams_in_the_order_of_the_file(shared_data: Path) -> None:
    file = shared_data / "llamafactory" / "c4_demo.jsonl"
    settings = {"path": "json", "split": "train", "load_dataset_kwargs": {"data_files": str(file)}}
    texts = [json.loads(line)["text"] for line in file.read_text(encoding="utf-8").split("\n") if line.strip()]
    assert [row["text"] for row in stream(settings)] == texts


@pytest.mark.parametrize("config", [HuggingFaceRandomAccessSource.Config, HuggingFaceStreamingSource.Config])
def test_fields_of_their_own_are_refused_among_the_kwargs(config: Any) -> None:
    with pytest.raises(ValueError, match=r"^first-class Hugging Face fields repeated in kwargs: \['revision', 'split'"):
        config(path="json", split="train", load_dataset_kwargs={"split": "a", "revision": "b", "data_files": "c"})
    with pytest.raises(TypeError, match="split"):
        config(path="json")


def test_several_splits_at_once_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = files(tmp_path, [3])
    table = datasets.load_dataset("json", data_files=settings["load_dataset_kwargs"]["data_files"])
    monkeypatch.setattr(datasets, "load_dataset", lambda *args, **options: table)
    with pytest.raises(TypeError, match=r"^random-access Hugging Face source requires one Dataset; got DatasetDict"):
        HuggingFaceRandomAccessSource.Config(**settings).build(dataset_iteration_policy=policy_of())
    with pytest.raises(
        TypeError, match=r"^streaming Hugging Face source requires one IterableDataset; got DatasetDict"
    ):
        stream(settings)


def test_a_stream_that_can_not_be_resumed_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(datasets.IterableDataset, "state_dict")
    with pytest.raises(TypeError, match=r"^Hugging Face streaming source does not support exact resume"):
        stream(files(tmp_path, [3]))


def test_what_can_not_be_loaded_is_one_sentence(tmp_path: Path) -> None:
    settings = {"path": "json", "split": "train", "load_dataset_kwargs": {"data_files": str(tmp_path / "no.json")}}
    for config in (HuggingFaceRandomAccessSource.Config, HuggingFaceStreamingSource.Config):
        with pytest.raises(SourceError, match=r"no\.json can't be loaded: "):
            config(**settings).build(dataset_iteration_policy=policy_of())


def test_a_malformed_line_of_a_stream_is_one_sentence(tmp_path: Path) -> None:
    settings = files(tmp_path, [3])
    (tmp_path / "0.json").write_text('{"n": 1}\n{"n": \n', encoding="utf-8")
    with pytest.raises(SourceError, match=r"0\.json: the stream can't be read on: .*IndexedJsonlSource names the line"):
        list(stream(settings))


def test_a_file_that_is_deleted_under_a_stream_is_one_sentence(tmp_path: Path) -> None:
    rows = iter(stream(files(tmp_path, [3, 3])))
    assert next(rows) == {"n": 0}
    (tmp_path / "1.json").unlink()
    with pytest.raises(SourceError, match=r"the stream can't be read on: .*1\.json"):
        list(rows)


def test_an_unshuffled_stream_keeps_its_order_in_every_epoch(tmp_path: Path) -> None:
    rows = stream(files(tmp_path, [2, 0, 1]), repeat=True)
    assert numbers(rows, 9) == [0, 1, 2] * 3


def test_shuffled_repeat_advances_epoch(tmp_path: Path) -> None:
    rows = iter(stream(files(tmp_path, [1] * 12), shuffle=True, repeat=True))
    first, second = numbers(rows, 12), numbers(rows, 12)
    assert sorted(first) == sorted(second) == list(range(12))
    # The first epoch's shards are shuffled too, and the second's otherwise.
    assert first != list(range(12))
    assert first != second
    assert rows.get_state()["epoch"] == 1
    assert numbers(stream(files(tmp_path, [1] * 12), shuffle=True, seed=8), 12) != first


@pytest.mark.parametrize("sizes", [[3, 4, 2, 3], [3, 4, 5]])
@pytest.mark.parametrize("shuffle", [False, True])
def test_ranks_share_every_epoch_without_overlap(tmp_path: Path, sizes: list[int], shuffle: bool) -> None:
    settings = files(tmp_path, sizes)
    for world in (1, 2, 4):
        shares = [
            numbers(stream(settings, shuffle=shuffle, dp_rank=rank, dp_world_size=world)) for rank in range(world)
        ]
        assert sorted(chain.from_iterable(shares)) == list(range(12))


def test_an_empty_stream_ends_and_can_not_be_repeated(tmp_path: Path) -> None:
    settings = files(tmp_path, [0, 0], kind="parquet")
    assert list(stream(settings)) == []
    with pytest.raises(DataError, match=r"0.parquet, .*1.parquet holds no rows. Check the split and the files"):
        list(stream(settings, repeat=True))


def test_an_empty_file_of_parquet_beside_others_is_passed_over(tmp_path: Path) -> None:
    """As pyarrow and pandas write it: with a group of no rows."""
    settings = files(tmp_path, [2, 0, 1], kind="parquet")
    pq.write_table(pa.table({"n": pa.array([], pa.int64())}), tmp_path / "1.parquet")
    assert pq.ParquetFile(tmp_path / "1.parquet").num_row_groups == 1
    assert numbers(stream(settings)) == [0, 1, 2]
    table = HuggingFaceRandomAccessSource.Config(**settings).build(dataset_iteration_policy=policy_of())
    assert len(table) == 3


@pytest.mark.parametrize("config", [HuggingFaceRandomAccessSource.Config, HuggingFaceStreamingSource.Config])
def test_an_empty_file_of_json_alone_is_one_sentence(config: Any, tmp_path: Path) -> None:
    with pytest.raises(SourceError, match=r"0\.json holds no rows. Check the split and the file"):
        config(**files(tmp_path, [0])).build(dataset_iteration_policy=policy_of())


def leaves_out(row: Any) -> bool:
    return False


def test_a_small_stream_that_is_filtered_out_is_soon_one_sentence(tmp_path: Path) -> None:
    source = HuggingFaceStreamingSource.Config(**files(tmp_path, [900, 900]))
    graph = SingleDatasetConfig(source=source, processor=RowNumber.Config(), pre_filters=(leaves_out,), name="numbers")
    loader = GrainDataLoader.Config(dataset=graph, num_prefetch_batches=0).build(
        tokenizer=None, max_context_length=4, num_tokens_per_batch=4
    )
    with pytest.raises(DataError, match="numbers, its last rows: none of its 5,602 rows is left"):
        next(iter(loader))


def test_fewer_rows_than_ranks_are_one_sentence(tmp_path: Path) -> None:
    for rank in range(4):
        with pytest.raises(DataError, match="has 3 rows, fewer than the 4 ranks"):
            list(stream(files(tmp_path, [3]), repeat=True, dp_rank=rank, dp_world_size=4))


def test_the_state_is_plain_values(tmp_path: Path) -> None:
    rows = iter(stream(files(tmp_path, [2, 2])))
    next(rows)
    state = rows.get_state()
    assert set(state) == {"epoch", "hf"}
    assert json.loads(json.dumps(state)) == state
    assert len(json.dumps(state)) < 1024


@pytest.mark.parametrize("kind", ["json", "parquet"])
@pytest.mark.parametrize("world", [1, 2])
def test_a_stream_goes_on_from_any_row(tmp_path: Path, kind: str, world: int) -> None:
    """Two of three shards a rank, or every second row of three shards."""
    settings = files(tmp_path, [3, 2, 4], kind)
    rows = iter(stream(settings, shuffle=True, repeat=True, dp_rank=world - 1, dp_world_size=world))
    states, read = [rows.get_state()], []
    for _ in range(22):
        read.append(next(rows)["n"])
        states.append(rows.get_state())
    for place, state in enumerate(states):
        resumed = iter(stream(settings, shuffle=True, repeat=True, dp_rank=world - 1, dp_world_size=world))
        next(resumed)
        resumed.set_state(json.loads(json.dumps(state)))
        assert resumed.get_state() == state
        assert numbers(resumed, 22 - place) == read[place:]


RESUME = """
import json, sys
from torchpipe.pipeline import DatasetIterationPolicy, HuggingFaceStreamingSource

settings, policy, state, count = json.loads(sys.argv[1])
source = HuggingFaceStreamingSource.Config(**settings).build(dataset_iteration_policy=DatasetIterationPolicy(**policy))
rows = iter(source)
if state is not None:
    rows.set_state(state)
print(json.dumps([[next(rows)["n"] for _ in range(count)], rows.get_state()]))
"""


def test_resume_mid_second_epoch_in_a_new_process(tmp_path: Path) -> None:
    settings = files(tmp_path, [40, 25, 60])
    policy = {
        "seed": 3,
        "shuffle": True,
        "repeat": True,
        "dp_rank": 1,
        "dp_world_size": 2,
        "streaming_shuffle_buffer_size": 8,
    }

    def run(state: Any, count: int) -> Any:
        arguments = [sys.executable, "-c", RESUME, json.dumps([settings, policy, state, count])]
        result = subprocess.run(arguments, capture_output=True, text=True, check=True)
        return json.loads(result.stdout.splitlines()[-1])

    before, state = run(None, 95)
    after, last = run(state, 40)
    assert state["epoch"] == 1
    assert [before + after, last] == run(None, 135)


def test_a_window_shuffle_over_a_stream_is_resumed_exactly(tmp_path: Path) -> None:
    settings = files(tmp_path, [10, 7, 8])

    def graph() -> grain.DatasetIterator[Any]:
        source = stream(settings, shuffle=True, repeat=True)
        return iter(grain.experimental.WindowShuffleIterDataset(source, window_size=6, seed=1))

    rows = graph()
    next(rows)
    numbers(rows, 30)
    state = rows.get_state()
    expected = numbers(rows, 30)
    resumed = graph()
    resumed.set_state(state)
    assert numbers(resumed, 30) == expected


@pytest.mark.parametrize("sizes", [[3, 4, 2, 3], [3, 4, 5]])
def test_the_processes_of_grain_share_a_stream(tmp_path: Path, sizes: list[int]) -> None:
    settings = files(tmp_path, sizes)
    shares = []
    for rank in range(2):
        for worker in range(2):
            source = stream(settings, dp_rank=rank, dp_world_size=2)
            source.set_slice(slice(worker, None, 2))
            shares.append(numbers(source))
    assert sorted(chain.from_iterable(shares)) == list(range(12))
    with pytest.raises(ConfigError, match=r"A stream can't be cut to slice\(0, 5, 1\)"):
        stream(settings).set_slice(slice(0, 5, 1))


@pytest.mark.parametrize(
    ("changed", "sentence"),
    [
        ({"seed": 8}, "the seed or the shuffling is another one now"),
        ({"dp_rank": 1}, "the state is one of part 0 of 2, and this is part 1 of 2"),
        ({"dp_world_size": 4}, "the state is one of part 0 of 2, and this is part 0 of 4"),
    ],
)
def test_a_state_of_another_stream_is_refused(tmp_path: Path, changed: dict[str, Any], sentence: str) -> None:
    policy = {"shuffle": True, "dp_rank": 0, "dp_world_size": 2, **changed}
    settings = files(tmp_path, [2] * 8)
    rows = iter(stream(settings, shuffle=True, dp_world_size=2))
    next(rows)
    with pytest.raises(CheckpointError, match=sentence):
        iter(stream(settings, **policy)).set_state(rows.get_state())
    with pytest.raises(CheckpointError, match="had 8 shards when the state was saved, and has 2"):
        iter(stream(files(tmp_path, [2] * 2), dp_world_size=2)).set_state(rows.get_state())


def test_the_same_sources_are_written_in_yaml(tmp_path: Path) -> None:
    settings = files(tmp_path, [2])
    for source in (HuggingFaceRandomAccessSource, HuggingFaceStreamingSource):
        config = instantiate({"_component_": f"torchpipe.pipeline.{source.__name__}.Config", **settings})
        assert config == source.Config(**settings)


@pytest.mark.parametrize("sizes", [[6, 5, 7, 6], [11]])
def test_workers_of_a_loader_lose_no_row_of_a_stream(tmp_path: Path, sizes: list[int]) -> None:
    source = HuggingFaceStreamingSource.Config(**files(tmp_path, sizes))
    graph = SingleDatasetConfig(source=source, processor=RowNumber.Config())

    def rows(**options: Any) -> list[int]:
        config = GrainDataLoader.Config(dataset=graph, repeat=False, num_logical_shards=4, **options)
        loader = config.build(tokenizer=None, max_context_length=8, num_tokens_per_batch=8)
        return [int(batch["input"][0]) for batch, _ in loader if batch["num_valid_tokens"]]

    alone = rows()
    assert sorted(alone) == list(range(sum(sizes)))
    assert rows(num_workers=2) == alone


class RowNumber(SampleProcessor):
    """A row to its number, which is its label too."""

    def __call__(self, sample: Any, rng: np.random.Generator) -> TextSequence:
        return TextSequence(input_ids=np.array([sample["n"]]), labels=np.array([sample["n"]]))
