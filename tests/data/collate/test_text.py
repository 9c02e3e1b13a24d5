import copy
import functools
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from torchpipe.data import (
    padded_collate,
    padded_collate_dpo,
    padded_collate_packed,
    padded_collate_sft,
    padded_collate_tiled_images_and_mask,
)
from torchpipe.errors import ColumnError, ConfigError, DataError


def sample(tokens: list[int], labels: list[int] | None = None, **more: Any) -> dict[str, Any]:
    return {"tokens": tokens, "labels": tokens if labels is None else labels, **more}


# --- padded_collate_sft --------------------------------------------------------------------------------------------


def test_tokens_and_labels_are_padded_on_the_right_with_their_own_values():
    out = padded_collate_sft([sample([1, 2, 3], [4, 5, 6]), sample([7], [10])], padding_idx=9)
    assert list(out) == ["tokens", "labels"]
    assert out["tokens"].tolist() == [[1, 2, 3], [7, 9, 9]]
    assert out["labels"].tolist() == [[4, 5, 6], [10, -100, -100]]
    assert out["tokens"].dtype == out["labels"].dtype == torch.int64


def test_arguments_can_be_given_by_position_as_in_torchtune():
    out = padded_collate_sft([sample([1, 2]), sample([3])], 8, -1, 4)
    assert out["tokens"].tolist() == [[1, 2, 8, 8], [3, 8, 8, 8]]
    assert out["labels"].tolist() == [[1, 2, -1, -1], [3, -1, -1, -1]]


def test_a_width_that_is_a_multiple_already_gets_no_extra_block():
    assert padded_collate_sft([sample([1, 2, 3, 4])], pad_to_multiple_of=4)["tokens"].shape == (1, 4)


def test_a_sample_with_more_tokens_than_labels_is_refused_with_both_numbers():
    with pytest.raises(DataError, match="Sample 1 of the batch has 5 in 'tokens' and 3 in 'labels'"):
        padded_collate_sft([sample([1]), sample([1, 2, 3, 4, 5], [1, 2, 3])])


def test_context_parallelism_adds_positions():
    out = padded_collate_sft([sample([1, 2, 3]), sample([4])], cp_degree=2)
    assert out["input_pos"].tolist() == [[0, 1, 2], [0, 1, 2]]
    assert out["input_pos"].dtype == torch.int64
    assert "input_pos" not in padded_collate_sft([sample([1])])


def test_the_mask_and_other_keys_are_left_out():
    assert set(padded_collate_sft([sample([1], mask=[True], id="x")])) == {"tokens", "labels"}


def test_arrays_and_tensors_give_the_same_as_lists():
    lists = [sample([1, 2, 3]), sample([4])]
    expected = padded_collate_sft(lists)
    for make in (
        np.array,
        torch.tensor,
        lambda row: np.array(row, dtype=np.uint32),
        lambda row: torch.tensor(row).int(),
    ):
        out = padded_collate_sft([{key: make(row) for key, row in each.items()} for each in lists])
        assert torch.equal(out["tokens"], expected["tokens"])
        assert out["labels"].dtype == torch.int64


def test_an_empty_batch_is_refused():
    with pytest.raises(DataError, match="The batch is empty"):
        padded_collate_sft([])


def test_a_missing_key_is_refused_with_the_sample_and_its_keys():
    with pytest.raises(
        ColumnError, match=r"Sample 1 of the batch has no 'labels'; it has 'tokens', 'label'.*mean 'label'"
    ):
        padded_collate_sft([sample([1]), {"tokens": [1], "label": [1]}])


def test_media_are_joined_key_by_key_and_samples_without_any_add_nothing():
    batch = [
        sample(
            [1], encoder_input={"vision": {"images": [torch.ones(2, 3), torch.ones(1, 3)], "sizes": [torch.ones(1)]}}
        ),
        sample([1], encoder_input=None),
        sample([1], encoder_input={"vision": {"images": [], "sizes": []}}),
        sample([1], encoder_input={"vision": {"images": [torch.zeros(1, 3)], "sizes": [torch.zeros(1)]}}),
    ]
    media = padded_collate_sft(batch)["encoder_input"]
    assert list(media) == ["vision"]
    assert torch.equal(media["vision"]["images"], torch.cat([torch.ones(3, 3), torch.zeros(1, 3)]))
    assert media["vision"]["sizes"].tolist() == [1, 0]
    assert len(batch[0]["encoder_input"]["vision"]["images"]) == 2
    assert set(padded_collate_sft(batch[1:3])) == {"tokens", "labels"}


def test_values_that_are_not_integers_are_refused():
    with pytest.raises(DataError, match="don't fit in one tensor"):
        padded_collate_sft([sample([1.5])])  # pyright: ignore[reportArgumentType]
    with pytest.raises(DataError, match="must be a list, an array or a tensor"):
        padded_collate_sft([sample(3, 4)])  # pyright: ignore[reportArgumentType]


@pytest.mark.parametrize(
    ("name", "sentence"), [("pad_to_multiple_of", "1 or more"), ("cp_degree", "cp_degree=0 must be")]
)
def test_a_degree_or_multiple_below_one_is_refused(name: str, sentence: str):
    with pytest.raises(ConfigError, match=sentence):
        padded_collate_sft([sample([1])], **{name: 0})  # pyright: ignore[reportArgumentType]


def test_media_can_be_stacked_on_a_new_dim_and_text_alone_does_not_mind():
    batch = [
        sample([1], encoder_input={"images": torch.ones(2, 3)}),
        sample([1], encoder_input={"images": torch.zeros(2, 3)}),
    ]
    assert padded_collate_sft(batch, stack_on_new_dim=True)["encoder_input"]["images"].shape == (2, 2, 3)
    assert padded_collate_sft(batch)["encoder_input"]["images"].shape == (4, 3)
    assert set(padded_collate_sft([sample([1])], stack_on_new_dim=True)) == {"tokens", "labels"}


@settings(deadline=None)
@given(
    st.lists(
        st.lists(st.tuples(st.integers(0, 9999), st.integers(-100, 9999)), max_size=12),
        min_size=1,
        max_size=6,
    ),
    st.integers(1, 8),
)
def test_every_token_and_label_is_there_once_and_the_samples_are_unchanged(rows: list, multiple: int):
    pairs = [([token for token, _ in row], [label for _, label in row]) for row in rows]
    batch = [sample(tokens, labels) for tokens, labels in pairs]
    before = copy.deepcopy(batch)
    out = padded_collate_sft(batch, padding_idx=-1, ignore_idx=-200, pad_to_multiple_of=multiple)
    assert batch == before
    assert out["tokens"].shape == out["labels"].shape
    assert out["tokens"].shape[1] % multiple == 0
    assert out["tokens"].shape[1] - max(map(len, rows)) < multiple
    for (tokens, labels), padded_tokens, padded_labels in zip(
        pairs, out["tokens"].tolist(), out["labels"].tolist(), strict=True
    ):
        assert padded_tokens == tokens + [-1] * (len(padded_tokens) - len(tokens))
        assert padded_labels == labels + [-200] * (len(padded_labels) - len(labels))


# --- padded_collate ------------------------------------------------------------------------------------------------


def test_the_named_keys_are_padded_and_the_others_stacked():
    batch = [{"tokens": [1, 2, 3], "id": 5, "pair": [1, 2]}, {"tokens": [4], "id": 6, "pair": [3, 4]}]
    out = padded_collate(batch, pad_direction="left", keys_to_pad=["tokens"], padding_idx=-10)
    assert out["tokens"].tolist() == [[1, 2, 3], [-10, -10, 4]]
    assert out["id"].tolist() == [5, 6]
    assert out["pair"].tolist() == [[1, 2], [3, 4]]


def test_each_key_can_have_its_own_padding_and_has_its_own_width():
    batch = [{"a": [1, 2], "b": [1]}, {"a": [3], "b": [2]}]
    out = padded_collate(batch, pad_direction="right", keys_to_pad=["a", "b"], padding_idx={"a": 8, "b": 9})
    assert out["a"].tolist() == [[1, 2], [3, 8]]
    assert out["b"].tolist() == [[1], [2]]


def test_the_width_is_a_multiple_and_an_exact_one_stays():
    def widths(*lengths: int) -> tuple[int, ...]:
        batch = [{"a": [1] * length} for length in lengths]
        collated = padded_collate(batch, pad_direction="right", keys_to_pad=["a"], padding_idx=0, pad_to_multiple_of=4)
        return tuple(collated["a"].shape)

    assert widths(4, 1) == (2, 4)
    assert widths(5, 1) == (2, 8)


def test_booleans_stay_booleans():
    out = padded_collate([{"mask": [True]}, {"mask": []}], pad_direction="right", keys_to_pad=["mask"], padding_idx=1)
    assert out["mask"].tolist() == [[True], [True]]


@pytest.mark.parametrize(
    ("change", "error", "sentence"),
    [
        ({"pad_direction": "rigth"}, ConfigError, "pad_direction 'rigth'.*Did you mean 'right'"),
        ({"pad_direction": "left", "pad_to_multiple_of": 2}, ConfigError, "does not go with pad_direction='left'"),
        ({"keys_to_pad": []}, ConfigError, "must be a list with at least one key"),
        ({"keys_to_pad": "a"}, ConfigError, "must be a list with at least one key"),
        ({"padding_idx": {"b": 0}}, ConfigError, "has values for 'b', but keys_to_pad names 'a'"),
        ({"keys_to_pad": ["c"]}, ColumnError, "Sample 0 of the batch has no 'c'; it has 'a'"),
        ({"batch": []}, DataError, "The batch is empty"),
        ({"batch": [{"a": [1]}, {"a": [1], "b": 2}]}, ColumnError, "Sample 0 of the batch has no 'b'"),
        ({"batch": [{"a": [1], "b": "x"}]}, DataError, "The values of 'b' don't fit in one tensor"),
        ({"batch": [{"a": [1], "b": [1]}, {"a": [1], "b": [1, 2]}]}, DataError, "Add 'b' to keys_to_pad"),
        ({"batch": [{"a": [1], "encoder_input": {"images": "x"}}]}, DataError, r"encoder_input\['images'\] holds str"),
    ],
)
def test_what_does_not_fit_is_refused_in_a_sentence(change: dict[str, Any], error: type[Exception], sentence: str):
    arguments: dict[str, Any] = {
        "batch": [{"a": [1]}],
        "pad_direction": "right",
        "keys_to_pad": ["a"],
        "padding_idx": 0,
    }
    arguments |= change
    with pytest.raises(error, match=sentence):
        padded_collate(arguments.pop("batch"), **arguments)


@pytest.mark.parametrize("stack", [True, False])
def test_padded_collate_joins_media_and_leaves_the_samples_as_they_are(stack: bool):
    pictures = torch.ones(1, 2)
    batch = [{"a": [1, 2], "encoder_input": {"x": pictures, "y": [pictures]}}, {"a": [3], "encoder_input": None}]
    before = [{**each} for each in batch]
    out = padded_collate(batch, pad_direction="right", keys_to_pad=["a"], padding_idx=0, stack_on_new_dim=stack)
    assert set(out) == {"a", "encoder_input"}
    assert {key: list(value.shape) for key, value in out["encoder_input"].items()} == dict.fromkeys(
        "xy", [1, 1, 2] if stack else [1, 2]
    )
    assert batch == before
    assert batch[0]["encoder_input"] == {"x": pictures, "y": [pictures]}


@pytest.mark.parametrize(
    ("batch", "sentence"),
    [
        (None, "A batch is a list of samples, and this is a NoneType"),
        ({"tokens": [1], "labels": [1]}, "this is a dict"),
        (iter([{"tokens": [1]}]), "this is a list_iterator"),
        ([{"tokens": [1], "labels": [1]}, None], "Sample 1 of the batch is a NoneType; a sample is a dict"),
        ([[1, 2]], "Sample 0 of the batch is a list"),
    ],
)
def test_what_is_no_batch_is_refused_by_every_function(batch: Any, sentence: str):
    named = functools.partial(padded_collate, pad_direction="right", keys_to_pad=["tokens"], padding_idx=0)
    functions = [
        named,
        padded_collate_sft,
        padded_collate_dpo,
        padded_collate_packed,
        padded_collate_tiled_images_and_mask,
    ]
    for collate in functions:
        with pytest.raises(DataError, match=sentence):
            collate(batch)


def test_tokens_of_more_than_one_axis_are_refused():
    with pytest.raises(
        DataError, match=r"have one axis each; these have more beyond it: tokens \[2\] and labels \[2\]"
    ):
        padded_collate_sft([{"tokens": [[1, 2]], "labels": [[1, 2]]}])


@pytest.mark.parametrize("value", [None, "0", 0.5, 2**70, float("nan")])
def test_a_padding_value_that_is_no_token_is_refused(value: Any):
    batch = [{"tokens": [1, 2], "labels": [1, 2]}, {"tokens": [1], "labels": [1]}]
    for options in ({"padding_idx": value}, {"ignore_idx": value}):
        with pytest.raises(ConfigError, match="Rows of torch.int64 can't be filled with .*Give padding_idx"):
            padded_collate_sft(batch, **options)
    with pytest.raises(ConfigError, match="can't be filled with"):
        padded_collate(batch, pad_direction="left", keys_to_pad=["tokens", "labels"], padding_idx=value)
    floats = [{"tokens": [1.0, 2.0]}, {"tokens": [1.0]}]
    padded = padded_collate(floats, pad_direction="left", keys_to_pad=["tokens"], padding_idx=0.5)  # pyright: ignore
    assert padded["tokens"].tolist() == [[1.0, 2.0], [0.5, 1.0]]


def test_a_degree_or_key_of_another_type_is_refused():
    batch = [{"tokens": [1], "labels": [1]}]
    for degree in (None, "2", 2.0):
        with pytest.raises(ConfigError, match="cp_degree=.* must be 1 or more"):
            padded_collate_sft(batch, cp_degree=degree)  # pyright: ignore[reportArgumentType]
    with pytest.raises(ConfigError, match="must be a list with at least one key"):
        padded_collate(batch, pad_direction="left", keys_to_pad=[["tokens"]], padding_idx=0)  # pyright: ignore


# --- loss weights ----------------------------------------------------------------------------------------------------


def test_weights_are_padded_beside_labels_and_samples_without_weigh_one():
    batch = padded_collate_sft(
        [
            {"tokens": [1, 2, 3], "labels": [2, 3, -100], "loss_weights": [0.5, 2.0, 0.0]},
            {"tokens": [4, 5], "labels": [5, -100]},
        ],
        pad_to_multiple_of=4,
    )
    assert batch["loss_weights"].dtype == torch.float32
    assert batch["loss_weights"].tolist() == [[0.5, 2, 0, 0], [1, 0, 0, 0]]
    assert "loss_weights" not in padded_collate_sft([{"tokens": [4], "labels": [5], "loss_weights": None}])


def test_more_weights_than_labels_are_refused():
    with pytest.raises(DataError, match="has 1 in 'labels' and 2 in 'loss_weights'. There has to be one weight for"):
        padded_collate_sft([{"tokens": [1], "labels": [2], "loss_weights": [1, 2]}])


def test_weights_go_with_a_batch_of_pictures_too():
    batch = padded_collate_tiled_images_and_mask([{"tokens": [1, 2], "labels": [2, -100], "loss_weights": [0.5, 0]}])
    assert batch["loss_weights"].tolist() == [[0.5, 0]]
