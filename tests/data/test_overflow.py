"""Rows that are too long: what is kept is what the whole row has there, and what belongs together stays together."""

from collections.abc import Mapping
from functools import cache
from typing import Any, Literal

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from torchpipe.data import Message, mask_messages
from torchpipe.data.cuts import stop_beyond
from torchpipe.data.fewer_messages import prefixes_around_calls, without_oldest_turns
from torchpipe.data.ledger import SampleCounts
from torchpipe.data.overflow import Fitted, OverflowPolicy, overflow_policy, without_limit
from torchpipe.data.sample_transforms import SFTTransform
from torchpipe.data.trace import TokenTrace
from torchpipe.data.whole_row import calls_with_results
from torchpipe.errors import ConfigError, DataError
from torchpipe.models.tiny import tiny_tokenizer
from torchpipe.tokenizers import ChatFormatTokenizer

EOT = "<|eot_id|>"
PER_TOKEN = ("tokens", "mask", "labels", "loss_weights")


@cache
def tokenizer() -> ChatFormatTokenizer:
    return tiny_tokenizer(mask_policy="sampled")


class Untold:
    """A transform that gives tokens and mask, and no trace."""

    def __init__(self, max_seq_len: int | None = None) -> None:
        self.max_seq_len = max_seq_len

    def __call__(self, sample: Mapping[str, Any]) -> dict[str, Any]:
        return tokenizer()(sample)


def chat(*texts: str, role: str = "user") -> list[Message]:
    """Texts of a user and an assistant, in turn."""
    roles = ("user", "assistant") * len(texts)
    return trained([Message(who, text) for who, text in zip(roles, texts, strict=False)])  # type: ignore[arg-type]


def trained(messages: list[Message]) -> list[Message]:
    mask_messages(messages, "train_on_assistant")
    return messages


def call(text: str = "f()") -> Message:
    return Message("assistant", text, ipython=True, eot=False)


def agent() -> list[Message]:
    """One question, two calls with their results, an answer."""
    return trained(
        [
            Message("system", "Use tools."),
            Message("user", "What is 12 + 30, times two?"),
            call("add(12, 30)"),
            Message("tool", "42", eot=False),
            call("mul(42, 2)"),
            Message("tool", "84", eot=False),
            Message("assistant", "It is 84."),
        ]
    )


def fitted(messages: list[Message], transform: Any = None, **policy: Any) -> Fitted:
    transform = tokenizer() if transform is None else transform
    return SFTTransform(model_transform=transform, overflow=OverflowPolicy(**policy)).fitted({"messages": messages})


def whole(messages: list[Message]) -> dict[str, Any]:
    return SFTTransform(model_transform=tokenizer())({"messages": messages})


def traced(messages: list[Message]) -> TokenTrace:
    return tokenizer().tokenize_messages(messages, trace=True)[2]


def call_ranges(messages: list[Message]) -> list[tuple[int, int]]:
    message_of = traced(messages).message.tolist()
    ranges = []
    for first, end in calls_with_results(messages):
        places = [place for place, message in enumerate(message_of) if first <= message < end]
        ranges.append((places[0], places[-1] + 1))
    return ranges


TEXT = st.text(min_size=1, max_size=12).filter(lambda text: not any(0xD800 <= ord(char) < 0xE000 for char in text))


@st.composite
def conversations(draw: st.DrawFn) -> list[Message]:
    messages = [Message("system", draw(TEXT))] if draw(st.booleans()) else []
    for _ in range(draw(st.integers(1, 3))):
        messages.append(Message("user", draw(TEXT)))
        for _ in range(draw(st.integers(0, 2))):
            messages.append(call(draw(TEXT)))
            messages += [Message("tool", draw(TEXT), eot=False) for _ in range(draw(st.integers(1, 2)))]
        messages.append(Message("assistant", draw(TEXT), weight=draw(st.sampled_from([None, None, 0.5]))))
    return trained(messages)


@given(conversations(), st.sampled_from(["error", "drop", "truncate", "split"]), st.integers(0, 3), st.data())
@settings(max_examples=60, deadline=None)
def test_a_row_that_fits_is_not_changed(
    messages: list[Message], overflow: Any, spare: int, data: st.DataObject
) -> None:
    expected = whole(messages)
    side = data.draw(st.sampled_from(["right", "left", "turns"]))
    limit = len(expected["tokens"]) + spare
    assert fitted(messages, max_seq_len=limit, overflow=overflow, truncation_type=side).samples == [expected]


@given(conversations(), st.sampled_from(["right", "left"]), st.data())
@settings(max_examples=120, deadline=None)
def test_what_a_cut_keeps_is_what_the_whole_row_has_there(
    messages: list[Message], side: Literal["right", "left"], data: st.DataObject
) -> None:
    expected = whole(messages)
    num_tokens = len(expected["tokens"])
    limit = data.draw(st.integers(1, num_tokens - 1))
    found = fitted(messages, max_seq_len=limit, overflow="truncate", truncation_type=side)
    together = call_ranges(messages)
    if side == "right":
        start, stop = 0, next((first for first, end in together if first < limit < end), limit)
    else:
        cut = num_tokens - limit
        start, stop = next((end for first, end in together if first < cut < end), cut), num_tokens
    labels = [*expected["labels"][start:stop]]
    if labels:
        labels[-1] = -100
    if set(labels) <= {-100}:
        assert (found.samples, found.left_out) == ([], "nothing_trained")
        return
    (sample,) = found.samples
    assert sample["tokens"] == expected["tokens"][start:stop]
    assert sample["mask"] == expected["mask"][start:stop]
    assert sample["labels"] == labels
    if "loss_weights" in expected:
        assert sample["loss_weights"] == [*expected["loss_weights"][start : stop - 1], 0.0]
    assert sample["num_truncated"] == num_tokens - len(sample["tokens"])
    assert sample["cut"].places == list(range(start, stop))


@given(conversations(), st.data())
@settings(max_examples=80, deadline=None)
def test_turns_keeps_the_most_turns_that_fit_as_a_row_of_these_alone(
    messages: list[Message], data: st.DataObject
) -> None:
    num_tokens = len(whole(messages)["tokens"])
    limit = data.draw(st.integers(1, num_tokens - 1))
    found = fitted(messages, max_seq_len=limit, overflow="truncate", truncation_type="turns")
    choices = [(indices, whole([messages[index] for index in indices])) for indices in without_oldest_turns(messages)]
    fits = next(((indices, sample) for indices, sample in choices if len(sample["tokens"]) <= limit), None)
    if fits is None:
        assert all(len(sample["tokens"]) <= limit for sample in found.samples)
        return
    (sample,) = found.samples
    indices, expected = fits
    assert {key: sample[key] for key in expected} == expected
    assert (sample["cut"].messages, sample["cut"].side) == (indices, "turns")
    assert "lost_stop" not in sample
    for first, end in calls_with_results(messages):
        assert len(set(range(first, end)) & set(indices)) in (0, end - first)


@given(conversations(), st.data())
@settings(max_examples=100, deadline=None)
def test_split_holds_each_token_and_each_label_once(messages: list[Message], data: st.DataObject) -> None:
    expected = whole(messages)
    limit = data.draw(st.integers(1, len(expected["tokens"])))
    pieces = fitted(messages, max_seq_len=limit, overflow="split").samples
    for key in PER_TOKEN:
        if key in expected:
            assert [value for piece in pieces for value in piece[key]] == expected[key]
    assert all(0 < len(piece["tokens"]) <= limit for piece in pieces)
    if len(pieces) > 1:
        cuts = [piece["cut"].start for piece in pieces[1:]]
        short = [(first, end) for first, end in call_ranges(messages) if end - first <= limit]
        assert not [cut for cut in cuts for first, end in short if first < cut < end]


def test_split_cuts_where_turns_begin_when_one_is_within_reach() -> None:
    messages = chat("One?", "First.", "Two?", "Second.", "Three?", "Third.")
    starts = [traced(messages).message.tolist().index(index) for index in (0, 2, 4)]
    num_tokens = len(whole(messages)["tokens"])
    pieces = fitted(messages, max_seq_len=starts[2] + 3, overflow="split").samples
    assert [piece["cut"].start for piece in pieces] == [0, starts[2]]
    assert pieces[-1]["cut"].stop == num_tokens
    untold = fitted(messages, Untold(), max_seq_len=starts[2] + 3, overflow="split").samples
    assert [piece["cut"].start for piece in untold] == [0, starts[2]]


def test_the_label_across_a_seam_is_the_first_token_of_the_next_sample() -> None:
    messages = chat("Count.", "one two three four five six seven")
    expected = whole(messages)
    first_trained = expected["mask"].index(False)
    before, after = fitted(messages, max_seq_len=first_trained + 2, overflow="split").samples[:2]
    assert before["labels"][-1] == after["tokens"][0] == expected["tokens"][first_trained + 2]


def test_a_call_and_its_results_leave_together() -> None:
    messages = agent()
    (first, end), (second, last) = call_ranges(messages)
    for limit in range(first + 1, end):
        found = fitted(messages, max_seq_len=limit, overflow="truncate")
        assert (found.samples, found.left_out) == ([], "nothing_trained")
    for limit in range(second + 1, last):
        (sample,) = fitted(messages, max_seq_len=limit, overflow="truncate").samples
        assert sample["cut"].stop == second
    (sample,) = fitted(messages, max_seq_len=last, overflow="truncate").samples
    assert sample["cut"].stop == last


def test_without_a_trace_rows_with_calls_lose_messages_as_a_whole() -> None:
    messages = agent()
    (_, _), (second, _) = call_ranges(messages)
    (right,) = fitted(messages, Untold(), max_seq_len=second + 4, overflow="truncate").samples
    assert right["cut"].messages == (0, 1, 2, 3)
    assert right["tokens"] == whole(messages[:4])["tokens"]
    limit = len(whole(messages)["tokens"]) - 1
    (left,) = fitted(messages, Untold(), max_seq_len=limit, overflow="truncate", truncation_type="left").samples
    assert left["cut"].messages == (0, 1, 4, 5, 6)
    found = fitted(messages, Untold(), max_seq_len=5, overflow="truncate")
    assert found.left_out == "nothing_trained"
    with pytest.raises(DataError, match="Untold doesn't tell where their tokens stand"):
        fitted(messages, Untold(), max_seq_len=30, overflow="split")


def test_turns_of_an_agent_keep_the_question_and_drop_the_oldest_calls() -> None:
    assert without_oldest_turns(agent()) == [(0, 1, 4, 5, 6), (0, 1, 6)]
    assert prefixes_around_calls(agent()) == [
        (0, 1, 2, 3, 4, 5),
        (0, 1, 2, 3),
        (0, 1),
        (0,),
    ]


def test_turns_cuts_the_last_turn_on_the_right_when_it_alone_is_too_long() -> None:
    messages = chat("Hi", "Hello", "Count", "one two three four five six seven eight")
    alone = whole(messages[2:])["tokens"]
    (sample,) = fitted(messages, max_seq_len=len(alone) - 6, overflow="truncate", truncation_type="turns").samples
    assert sample["tokens"] == alone[:-6]
    assert (sample["cut"].messages, sample["cut"].side, sample["lost_stop"]) == ((2, 3), "turns", True)
    assert sample["num_truncated"] == len(whole(messages)["tokens"]) - len(sample["tokens"])


def test_turns_that_nothing_answers_do_not_count() -> None:
    messages = [*chat("Hi", "Hello", "More", "Yes"), Message("user", "And?", masked=True)]
    assert without_oldest_turns(messages) == [(2, 3, 4)]


def test_the_stop_token_goes_with_the_rest_and_is_counted() -> None:
    messages = chat("Count", "one two three four five six seven eight")
    num_tokens = len(whole(messages)["tokens"])
    (sample,) = fitted(messages, max_seq_len=num_tokens - 4, overflow="truncate").samples
    assert sample["lost_stop"] is True
    counts = SampleCounts()
    counts.add(sample)
    assert (counts.unstopped_rows, counts.truncated_rows, counts.truncated_tokens) == (1, 1, 4)
    assert "1 row cut to max_seq_len (4 tokens left out); 1 of them without the stop token" in counts.describe()


def test_the_stop_token_can_be_kept_and_is_trained_as_it_was() -> None:
    messages = chat("Count", "one two three four five six seven eight")
    messages[1].weight = 0.5
    expected = whole(messages)
    limit = len(expected["tokens"]) - 4
    (sample,) = fitted(messages, max_seq_len=limit, overflow="truncate", stop_token="keep").samples
    eot = tokenizer().special_tokens[EOT]
    assert sample["tokens"] == [*expected["tokens"][: limit - 1], eot]
    assert sample["mask"] == [*expected["mask"][: limit - 1], False]
    assert sample["labels"] == [*expected["labels"][: limit - 2], eot, -100]
    assert sample["loss_weights"] == [*expected["loss_weights"][: limit - 2], 0.5, 0.0]
    assert "lost_stop" not in sample
    assert sample["cut"].places[-1] == expected["tokens"].index(eot, limit)


def test_an_answer_of_nothing_is_not_made_by_keeping_the_stop_token() -> None:
    messages = chat("Count", "one two three")
    first_trained = whole(messages)["mask"].index(False)
    found = fitted(messages, max_seq_len=first_trained + 1, overflow="truncate", stop_token="keep")
    assert found.samples[0]["lost_stop"] is True


def test_a_cut_between_turns_loses_no_stop_token() -> None:
    messages = chat("Hi", "Hello", "More?", "Yes")
    message_of = traced(messages).message.tolist()
    (sample,) = fitted(messages, max_seq_len=message_of.index(2), overflow="truncate").samples
    assert "lost_stop" not in sample
    assert stop_beyond([1, 2, 3], [False, False, False], 2, {2}) is None


def test_the_tokenizers_own_limit_counts_lost_stop_tokens_too() -> None:
    messages = chat("Count", "one two three four five six seven eight")
    num_tokens = len(whole(messages)["tokens"])
    limited = [tiny_tokenizer(num_tokens - cut, mask_policy="sampled")({"messages": messages}) for cut in (0, 1, 2)]
    assert ["lost_stop" in sample for sample in limited] == [False, True, True]


def test_a_row_with_nothing_left_to_train_is_left_out_or_refused() -> None:
    messages = chat("A long question of many words, which fills the row", "Yes")
    found = fitted(messages, max_seq_len=8, overflow="truncate")
    assert (found.samples, found.left_out) == ([], "nothing_trained")
    transform = SFTTransform(model_transform=tokenizer(), overflow=OverflowPolicy(max_seq_len=8, overflow="truncate"))
    with pytest.raises(DataError, match="what truncation_type='right' keeps of it has no trained token"):
        transform({"messages": messages})
    counts = SampleCounts()
    counts.add_row(found)
    assert counts.emptied_rows == 1
    assert "1 more row left out, without a trained token" in counts.describe()


def test_error_names_both_lengths_and_drop_is_counted() -> None:
    messages = chat("Hi", "Hello there")
    num_tokens = len(whole(messages)["tokens"])
    with pytest.raises(DataError, match=rf"{num_tokens} tokens are more than max_seq_len=9\. Raise it, set overflow"):
        fitted(messages, max_seq_len=9, overflow="error")
    counts = SampleCounts()
    counts.add_row(fitted(messages, max_seq_len=9, overflow="drop"))
    assert (counts.too_long_rows, counts.rows) == (1, 0)


def test_other_values_with_a_number_a_token_are_cut_along_and_the_rest_stays() -> None:
    def more(sample: Mapping[str, Any]) -> dict[str, Any]:
        made = tokenizer()(sample)
        return {**made, "advantages": [float(place) for place in range(len(made["tokens"]))], "id": 7, "tags": ["a"]}

    (sample,) = fitted(chat("Hi", "one two three four"), more, max_seq_len=16, overflow="truncate").samples
    assert sample["advantages"] == [float(place) for place in range(16)]
    assert (sample["id"], sample["tags"]) == (7, ["a"])


def test_arrays_and_tuples_are_cut_too() -> None:
    def arrays(sample: Mapping[str, Any]) -> dict[str, Any]:
        made = tokenizer()(sample)
        return {"tokens": np.array(made["tokens"]), "mask": tuple(made["mask"])}

    messages = chat("Hi", "one two three four")
    for side in ("right", "left"):
        (expected,) = fitted(messages, max_seq_len=16, overflow="truncate", truncation_type=side).samples
        (sample,) = fitted(messages, arrays, max_seq_len=16, overflow="truncate", truncation_type=side).samples
        assert [list(sample[key]) for key in ("tokens", "mask", "labels")] == [
            expected[key] for key in ("tokens", "mask", "labels")
        ]


def test_a_tokenizers_own_limit_is_put_aside_and_it_stays_as_it_is() -> None:
    limited = tiny_tokenizer(9, mask_policy="sampled")
    messages = chat("Hi", "one two three four")
    (sample,) = fitted(messages, limited, max_seq_len=16, overflow="truncate").samples
    assert sample["tokens"] == whole(messages)["tokens"][:16]
    assert limited.max_seq_len == 9
    assert without_limit(tokenizer()) is tokenizer()


def test_a_transform_that_cuts_by_itself_is_refused() -> None:
    limited = tiny_tokenizer(9)

    def cuts(sample: Mapping[str, Any]) -> dict[str, Any]:
        return limited(sample)

    with pytest.raises(ConfigError, match="function cut the row by itself, and the data set has overflow='truncate'"):
        fitted(chat("Hi", "one two three four"), cuts, max_seq_len=12, overflow="truncate")

    class Fixed:
        max_seq_len = property(lambda self: 5)

    with pytest.raises(ConfigError, match="max_seq_len of Fixed can't be set to None"):
        without_limit(Fixed())


def test_options_that_do_not_fit_are_refused() -> None:
    limited = tiny_tokenizer(16)
    limited.truncation_type = "left"
    assert overflow_policy(limited, None) is None
    assert overflow_policy(limited, "truncate") == OverflowPolicy(
        max_seq_len=16, overflow="truncate", truncation_type="left"
    )
    with pytest.raises(ConfigError, match="'truncation_type' of a data set has no effect without overflow"):
        overflow_policy(limited, None, truncation_type="turns")
    with pytest.raises(ConfigError, match="'stop_token' has no effect with overflow='drop', only with 'truncate'"):
        overflow_policy(limited, "drop", stop_token="keep")
    with pytest.raises(ConfigError, match="overflow='drop' needs a length"):
        overflow_policy(tokenizer(), "drop")
    with pytest.raises(ConfigError, match=r"overflow is 'truncat'\. .*Did you mean 'truncate'"):
        overflow_policy(limited, "truncat")  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="max_seq_len is 0"):
        OverflowPolicy(max_seq_len=0)
