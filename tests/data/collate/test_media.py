from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from torchpipe.data.collate.media import collate_media, refuse_media
from torchpipe.errors import DataError


def test_every_key_is_there_and_not_the_first_alone():
    batch = [{"encoder_input": {"a": torch.ones(1, 2), "b": {"c": [torch.ones(1)]}}}] * 2
    media = collate_media(batch)["encoder_input"]
    assert media["a"].shape == (2, 2)
    assert media["b"]["c"].shape == (2,)


def test_a_key_that_one_sample_alone_has_is_kept():
    batch = [{"encoder_input": {"a": torch.ones(1)}}, {"encoder_input": {"b": torch.ones(2)}}]
    assert {key: len(value) for key, value in collate_media(batch)["encoder_input"].items()} == {"a": 1, "b": 2}


@pytest.mark.parametrize("empty", [None, {}, {"a": []}, {"a": {"b": []}}, {"a": None}])
def test_a_batch_without_media_has_no_key(empty: Any):
    assert collate_media([{"encoder_input": empty}, {}]) == {}


@pytest.mark.parametrize(
    ("held", "sentence"),
    [
        ({"a": "picture.png"}, r"encoder_input\['a'\] holds str"),
        ({"a": [3]}, r"encoder_input\['a'\] holds int"),
        ([torch.ones(1), {"b": 1}], "encoder_input holds Tensor, dict"),
    ],
)
def test_what_is_no_tensor_is_refused(held: Any, sentence: str):
    with pytest.raises(DataError, match=sentence):
        collate_media([{"encoder_input": held}])


def test_shapes_that_do_not_fit_are_named():
    batch = [{"encoder_input": {"a": torch.ones(1, 2)}}, {"encoder_input": {"a": torch.ones(1, 3)}}]
    with pytest.raises(DataError, match=r"\['a'\] are \[1, 2\], \[1, 3\]. They have to be equal beyond the first axis"):
        collate_media(batch)
    with pytest.raises(DataError, match="They have to be equal, to be stacked"):
        collate_media(batch, stack_on_new_dim=True)


def test_packed_batches_refuse_media():
    with pytest.raises(DataError, match="Sample 1 of the batch has media in 'encoder_input'"):
        refuse_media([{"encoder_input": None}, {"encoder_input": {"a": 1}}])
    refuse_media([{}])


@settings(deadline=None)
@given(st.lists(st.lists(st.integers(1, 3), max_size=3), min_size=1, max_size=4), st.booleans())
def test_tensors_stay_in_order(rows: list[list[int]], nested: bool):
    number = iter(range(1000))
    held = [[torch.full((length, 2), float(next(number))) for length in row] for row in rows]
    batch = [{"encoder_input": {"vision": {"images": row}} if nested else {"images": row}} for row in held]
    out = collate_media(batch)
    flat = [tensor for row in held for tensor in row]
    if not flat:
        assert out == {}
        return
    media = out["encoder_input"]["vision"] if nested else out["encoder_input"]
    assert media["images"][:, 0].tolist() == [float(value) for tensor in flat for value in tensor[:, 0]]
