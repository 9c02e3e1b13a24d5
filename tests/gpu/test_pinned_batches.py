"""Batches in page-locked memory are those of the CPU, also where a copy is under way while the next one is made."""

from typing import Any

import numpy as np
import pytest
import torch

from torchpipe.pipeline import DatasetBuildContext, MultiModalCollator, TextCollator, TextSequence
from torchpipe.vision import Patches

pytestmark = pytest.mark.gpu

CONTEXT = DatasetBuildContext(
    tokenizer=None, max_context_length=4096, num_tokens_per_batch=1 << 20, max_num_documents=512
)


@pytest.fixture(autouse=True)
def _needs_a_device() -> None:
    if not torch.cuda.is_available():
        pytest.fail("These tests copy from page-locked memory to a CUDA device, and torch sees none.")


def row(seed: int) -> TextSequence:
    ids = np.random.default_rng(seed).integers(0, 50_000, 1_000_000)
    return TextSequence(input_ids=ids, labels=ids + 1)


def tensors(batch: dict[str, Any], labels: torch.Tensor) -> dict[str, torch.Tensor]:
    held = {"labels": labels, **batch}
    return {name: value for name, value in held.items() if isinstance(value, torch.Tensor)}


def test_batches_are_pinned_where_there_is_a_device_and_have_the_same_content() -> None:
    pinned, plain = (TextCollator.Config(pin_memory=pins).build(context=CONTEXT) for pins in (None, False))
    found, wanted = tensors(*pinned([row(0)])), tensors(*plain([row(0)]))
    assert found.keys() == wanted.keys()
    for name, value in found.items():
        assert value.is_pinned(), name
        assert not wanted[name].is_pinned(), name
        assert torch.equal(value, wanted[name]), name


def test_patches_are_pinned_too() -> None:
    picture = Patches(values=torch.arange(24.0).reshape(4, 6), grid_thw=(1, 2, 2))
    sample = {"input_ids": np.arange(5), "labels": np.arange(5), "pixel_values": [picture]}
    found = tensors(*MultiModalCollator.Config().build(context=CONTEXT)([sample]))
    assert all(value.is_pinned() for value in found.values())
    assert torch.equal(found["pixel_values"], picture.values)


def test_a_copy_that_is_under_way_gets_its_own_batch_though_the_next_ones_are_made_meanwhile() -> None:
    collate, plain = (TextCollator.Config(pin_memory=pins).build(context=CONTEXT) for pins in (True, False))
    copies = []
    torch.cuda._sleep(200_000_000)  # so that the copies wait while all batches are made, and given back
    for seed in range(16):
        held = tensors(*collate([row(seed)]))
        copies.append({name: value.to("cuda", non_blocking=True) for name, value in held.items()})
        del held
    torch.cuda.synchronize()
    for seed, copied in enumerate(copies):
        wanted = tensors(*plain([row(seed)]))
        assert all(torch.equal(value.cpu(), wanted[name]) for name, value in copied.items()), seed
