"""Batches of workers arrive as they were made, whatever they hold."""

from typing import Any

import numpy as np
import pytest
import torch

from torchpipe.data.packing.masks import PackedMask, varlen_mask
from torchpipe.loading import GlobalSteps, StepLoader
from torchpipe.loading.parcel import in_a_parcel

TENSORS: dict[str, torch.Tensor] = {
    "int64": torch.arange(6).reshape(2, 3),
    "int32": torch.arange(5, dtype=torch.int32),
    "bool": torch.tensor([True, False, True]),
    "bfloat16": torch.tensor([1.5, -2.0], dtype=torch.bfloat16),
    "complex": torch.tensor([1 + 2j]),
    "number": torch.tensor(7.5),
    "empty": torch.empty(0, 4),
    "transposed": torch.arange(6).reshape(2, 3).T,
    "expanded": torch.tensor([3]).expand(4),
    "parameter": torch.nn.Parameter(torch.tensor([1.0])),
}


def batch_of(items: Any) -> dict[str, Any]:
    return {
        **TENSORS,
        "arrays": [np.arange(3, dtype=np.int16), np.array(["a", "b"])],
        "mask": varlen_mask([torch.tensor([2, 3])]),
        "texts": ("x", None, items),
    }


def large(items: Any) -> torch.Tensor:
    return torch.full((3 << 20,), items[0], dtype=torch.int64)


def no_batch(items: Any) -> Any:
    return lambda: items


def from_worker(collate_fn: Any, *, read_ahead: int = 1) -> Any:
    data = [11, 12]
    steps = GlobalSteps(num_packs=2, global_batch_size=1, shuffle=False)
    loader = StepLoader(data, steps, batch_size=1, collate_fn=collate_fn, num_workers=1, read_ahead=read_ahead)
    return [step.micro_batches[0] for step in loader]


@pytest.mark.parametrize("read_ahead", [0, 1])
def test_everything_in_a_batch_comes_out_of_a_worker_as_it_was(read_ahead: int) -> None:
    first, second = from_worker(batch_of, read_ahead=read_ahead)
    assert (first["texts"], second["texts"]) == (("x", None, [11]), ("x", None, [12]))
    for name, made in TENSORS.items():
        found = first[name]
        assert (type(found), found.dtype, found.shape) == (type(made), made.dtype, made.shape), name
        assert found.requires_grad == made.requires_grad
        assert torch.equal(found, made), name
        assert found.stride() == made.stride(), name
    assert first["arrays"][0].dtype == np.int16
    assert [array.tolist() for array in first["arrays"]] == [[0, 1, 2], ["a", "b"]]
    mask = first["mask"]
    assert isinstance(mask, PackedMask)
    assert (mask.cu_seqlens.tolist(), mask.cu_seqlens.dtype, mask.lens) == ([0, 2, 5], torch.int32, (2, 3))
    assert not first["int64"].is_shared(), "it is in memory of this process"
    first["int64"].fill_(0)
    assert second["int64"].tolist() == TENSORS["int64"].tolist()


def test_a_large_batch_goes_by_torchs_way() -> None:
    first, second = from_worker(large)
    assert (int(first.sum()), int(second.sum())) == (11 * (3 << 20), 12 * (3 << 20))


def test_a_batch_that_can_not_be_pickled_is_an_error_and_no_hang() -> None:
    with pytest.raises(Exception, match="pickle"):
        from_worker(no_batch)


def test_without_workers_a_batch_is_given_as_it_is() -> None:
    batch = batch_of([1])
    assert in_a_parcel(batch) is batch
