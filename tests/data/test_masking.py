import linecache
import warnings

import pytest

from torchpipe.data import MaskingStrategy, Message, mask_messages, resolve_masking_strategy
from torchpipe.errors import ConfigError


def conversation() -> list[Message]:
    return [
        Message("system", "s"),
        Message("user", "u1"),
        Message("assistant", "f()", ipython=True),
        Message("tool", "r"),
        Message("assistant", "a1"),
        Message("user", "u2"),
        Message("assistant", "a2"),
        Message("user", "u3"),
    ]


@pytest.mark.parametrize(
    ("strategy", "trained"),
    [
        ("train_on_all", ["u1", "f()", "r", "a1", "u2", "a2", "u3"]),
        ("train_on_assistant", ["f()", "a1", "a2"]),
        ("train_on_last", ["a2"]),
    ],
)
def test_each_strategy_trains_on_its_messages(strategy: str, trained: list[str]):
    for given in (strategy, MaskingStrategy(strategy)):
        messages = conversation()
        assert mask_messages(messages, given) is None
        assert [message.text_content for message in messages if not message.masked] == trained


def test_earlier_masks_are_replaced():
    messages = [Message("user", "u", masked=False), Message("assistant", "a", masked=True)]
    mask_messages(messages, "train_on_assistant")
    assert [message.masked for message in messages] == [True, False]


def test_a_user_message_with_an_image_is_never_trained_on():
    pictured = Message("user", [{"type": "image", "content": "x.png"}, {"type": "text", "content": "u"}])
    mask_messages([pictured], "train_on_all")
    assert pictured.masked


@pytest.mark.parametrize("strategy", ["train_on_assistent", None, True])
def test_an_unknown_strategy_is_refused_with_the_three_names(strategy: object):
    with pytest.raises(ConfigError, match="one of 'train_on_all', 'train_on_assistant', 'train_on_last'"):
        mask_messages(conversation(), strategy)  # pyright: ignore[reportArgumentType]


def test_the_nearest_strategy_is_suggested():
    with pytest.raises(ValueError, match="Did you mean 'train_on_assistant'"):
        mask_messages([], "train_on_assistent")


# --- masking_strategy and the deprecated train_on_input -------------------------------------------------------------


def test_the_default_does_not_warn():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert resolve_masking_strategy(None, None, default="train_on_all") is MaskingStrategy.TRAIN_ON_ALL
        assert resolve_masking_strategy(None, "train_on_last", default="train_on_all") is MaskingStrategy.TRAIN_ON_LAST


@pytest.mark.parametrize(
    ("train_on_input", "meant"),
    [(True, MaskingStrategy.TRAIN_ON_ALL), (False, MaskingStrategy.TRAIN_ON_ASSISTANT)],
)
def test_train_on_input_warns_and_decides(train_on_input: bool, meant: MaskingStrategy):
    with pytest.warns(
        DeprecationWarning, match=f"masking_strategy='{meant.value}' for train_on_input={train_on_input}"
    ):
        assert resolve_masking_strategy(train_on_input, None, default="train_on_last") is meant


def test_both_are_fine_when_they_agree():
    with pytest.warns(DeprecationWarning, match="train_on_input is deprecated"):
        assert resolve_masking_strategy(True, "train_on_all", default="train_on_last") is MaskingStrategy.TRAIN_ON_ALL


def test_both_are_refused_when_they_differ():
    with pytest.raises(ConfigError, match="'train_on_all', but masking_strategy='train_on_last' was given as well"):
        resolve_masking_strategy(True, "train_on_last", default="train_on_all")


def test_a_train_on_input_that_is_not_a_boolean_is_refused():
    with pytest.raises(ConfigError, match="train_on_input='yes' is not True or False"):
        resolve_masking_strategy("yes", None, default="train_on_all")  # pyright: ignore[reportArgumentType]


def test_the_warning_points_at_the_caller_of_the_function_that_resolves():
    def builder(train_on_input: bool) -> MaskingStrategy:
        return resolve_masking_strategy(train_on_input, None, default="train_on_all")

    with pytest.warns(DeprecationWarning, match="deprecated") as caught:
        builder(True)  # the line below finds this one
    assert "the line below finds this one" in linecache.getline(caught[0].filename, caught[0].lineno)
