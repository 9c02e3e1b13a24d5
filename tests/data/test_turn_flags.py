from typing import Any

import pytest

from torchpipe.data import ChosenRejectedToMessages, OpenAIToMessages, ShareGPTToMessages
from torchpipe.data.turn_flags import turn_flags
from torchpipe.errors import DataError


@pytest.mark.parametrize(
    ("turn", "flags"),
    [
        ({}, (None, None)),
        ({"train": None, "weight": None, "masked": None, "metadata": None}, (None, None)),
        ({"train": True}, (True, None)),
        ({"training": False}, (False, None)),
        ({"loss": 0}, (False, None)),
        ({"masked": True}, (False, None)),
        ({"masked": False}, (None, None)),
        ({"metadata": {"masked": True}}, (False, None)),
        ({"metadata": "m"}, (None, None)),
        ({"weight": 1}, (None, 1)),
        ({"loss_weight": 0.0}, (False, 0.0)),
        ({"weight": 0.5, "loss_weight": 0.5, "train": True}, (True, 0.5)),
    ],
)
def test_what_a_turn_says_about_being_trained_on(turn: dict[str, Any], flags: tuple[bool | None, float | None]):
    assert turn_flags(turn, "turn 0") == flags


@pytest.mark.parametrize(
    ("turn", "sentence"),
    [
        ({"train": "false"}, "train='false' of turn 0 is a str"),
        ({"masked": 2}, "masked=2 of turn 0"),
        ({"weight": -1}, "The weight of turn 0 is -1"),
        ({"weight": True}, "The weight of turn 0 is True"),
        ({"loss_weight": float("nan")}, "The loss_weight of turn 0 is nan"),
        ({"weight": 1, "loss_weight": 0.5}, "'weight', 'loss_weight' of turn 0 are 1, 0.5"),
        ({"train": True, "masked": True}, "Turn 0 asks to be trained on by 'train', and not to be by 'masked'"),
        ({"loss": True, "weight": 0}, "trained on by 'loss', and not to be by 'weight'"),
    ],
)
def test_what_is_no_flag_or_contradicts_another_is_refused(turn: dict[str, Any], sentence: str):
    with pytest.raises(DataError, match=sentence):
        turn_flags(turn, "turn 0")


ROW = {
    "messages": [
        {"role": "system", "content": "s"},
        {"role": "user", "content": "u", "train": True},
        {"role": "assistant", "content": "a", "train": False},
        {"role": "user", "content": "u", "masked": False},
        {"role": "assistant", "content": "a", "weight": 0.5},
    ]
}


@pytest.mark.parametrize(
    ("strategy", "masked"),
    [
        ("train_on_assistant", [True, False, True, True, False]),
        ("train_on_all", [True, False, True, False, False]),
        ("train_on_last", [True, False, True, True, False]),
    ],
)
def test_a_turns_own_flag_wins_over_the_strategy(strategy: str, masked: list[bool]):
    messages = OpenAIToMessages(masking_strategy=strategy)(ROW)["messages"]
    assert [message.masked for message in messages] == masked
    prompted = OpenAIToMessages(masking_strategy=strategy, new_system_prompt="new")(ROW)["messages"]
    assert [message.masked for message in prompted] == masked
    said = ROW["messages"]
    chosen = ChosenRejectedToMessages(masking_strategy=strategy)({"chosen": said, "rejected": said})["chosen"]
    assert [message.masked for message in chosen] == masked
    names = {"system": "system", "user": "human", "assistant": "gpt"}
    turns = [{**turn, "from": names[turn["role"]], "value": turn["content"], "role": None} for turn in said]
    shared = ShareGPTToMessages(masking_strategy=strategy)({"conversations": turns})["messages"]
    assert [(m.masked, m.weight) for m in shared] == [(m.masked, m.weight) for m in messages]


def test_a_weight_scales_and_never_trains_what_the_strategy_leaves_out():
    row = {"messages": [{"role": "user", "content": "u", "weight": 2}, {"role": "assistant", "content": "a"}]}
    user, _ = OpenAIToMessages()(row)["messages"]
    assert (user.masked, user.weight) == (True, 2)
