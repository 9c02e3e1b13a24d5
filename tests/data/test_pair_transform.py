"""A row with two answers to two samples: what is trained, what is refused, and where long pairs are cut."""

from collections.abc import Mapping
from typing import Any

import pytest

from torchpipe.data import Message, PairPolicy, PromptedPairToMessages
from torchpipe.data.pair_cuts import prompt_len
from torchpipe.data.pair_transform import PairTransform
from torchpipe.errors import ColumnError, ConfigError, DataError
from torchpipe.models.tiny import tiny_tokenizer

TOKENIZER = tiny_tokenizer()
ROW = {"prompt": "What is 2 + 2?", "chosen": "It is 4.", "rejected": "Five."}
TALK = [
    {"role": "system", "content": "Be brief."},
    {"role": "user", "content": "Hello there, how are you today?"},
    {"role": "assistant", "content": "Fine, thank you."},
    {"role": "user", "content": "What is 2 + 2?"},
]
LONGER = ["user a", "assistant 1", "user b", "assistant 2"]


def transform(**policy: Any) -> PairTransform:
    return PairTransform(PromptedPairToMessages(), TOKENIZER, policy=PairPolicy(**policy))


def text(tokens: Any) -> str:
    return TOKENIZER.decode(list(tokens), truncate_at_eos=False, skip_special_tokens=False)


def trained(pair: Mapping[str, Any], side: str) -> str:
    return text(token for token in pair[f"{side}_labels"] if token != -100)


def test_labels_are_the_tokens_of_the_answer_at_their_own_places() -> None:
    pair = transform()(ROW)
    assert list(pair) == ["chosen_input_ids", "chosen_labels", "rejected_input_ids", "rejected_labels"]
    for side in ("chosen", "rejected"):
        tokens, labels = pair[f"{side}_input_ids"], pair[f"{side}_labels"]
        assert len(tokens) == len(labels)
        assert all(label in (token, -100) for token, label in zip(tokens, labels, strict=True))
    assert trained(pair, "chosen").endswith("It is 4.<|eot_id|>")
    assert trained(pair, "rejected").endswith("Five.<|eot_id|>")


def test_an_answer_has_the_stop_token_once() -> None:
    pair = transform()(ROW)
    assert trained(pair, "chosen").count("<|eot_id|>") == 1


def test_answers_that_both_conversations_share_are_not_trained() -> None:
    pair = transform()({**ROW, "prompt": TALK})
    assert "Fine, thank you." in text(pair["chosen_input_ids"])
    assert "Fine" not in trained(pair, "chosen") + trained(pair, "rejected")


def test_a_shared_message_is_not_trained_even_if_its_own_data_says_so() -> None:
    shared = [*TALK[:2], {**TALK[2], "train": True}, TALK[3]]
    assert transform()({**ROW, "prompt": shared}) == transform()({**ROW, "prompt": TALK})


def test_what_follows_different_answers_is_trained_too() -> None:
    more = [{"role": "user", "content": "Sure?"}, {"role": "assistant", "content": "Quite."}]
    pair = transform()({**ROW, "chosen": [{"role": "assistant", "content": "It is 4."}, *more]})
    assert trained(pair, "chosen").count("<|eot_id|>") == 2
    assert "Quite." in trained(pair, "chosen")


def test_many_rows_at_once_give_what_each_gives_alone() -> None:
    rows = [{**ROW, "chosen": f"{number}"} for number in range(20)] + [{**ROW, "prompt": TALK}]
    many = transform().fitted_rows(rows)
    for row, fitted in zip(rows, many, strict=True):
        alone = transform().fitted(row)
        for one, other in zip(fitted.samples, alone.samples, strict=True):
            assert list(one["tokens"]) == list(other["tokens"])
            assert list(one["mask"]) == list(other["mask"])


def test_equal_answers_are_refused_with_their_reason_or_kept() -> None:
    row = {**ROW, "rejected": ROW["chosen"]}
    with pytest.raises(DataError, match="conversations are equal, so that nothing is preferred") as caught:
        transform()(row)
    assert caught.value.reason == "chosen_equals_rejected"
    pair = transform(on_equal="keep")(row)
    assert pair["chosen_labels"] == pair["rejected_labels"]
    assert trained(pair, "chosen").endswith("It is 4.<|eot_id|>")


@pytest.mark.parametrize(
    ("chosen", "rejected", "sentence"),
    [
        (["user a", "assistant 1"], ["user b", "assistant 2"], r"message 0 is not the same in both \('user' in chosen"),
        (["user a", "assistant 1"], ["system s", "user a", "assistant 1"], "'user' in chosen and 'system' in rejected"),
        (
            ["user a", "assistant 1"],
            LONGER,
            "The chosen conversation ends after 2 messages, and the rejected one goes on",
        ),
        (LONGER, ["user a", "assistant 1"], "The rejected conversation ends after 2 messages"),
    ],
)
def test_prompts_that_differ_are_refused_with_their_reason_or_kept(
    chosen: list[str], rejected: list[str], sentence: str
) -> None:
    def messages(turns: list[str]) -> list[Message]:
        return [Message(role, said, masked=role != "assistant") for role, said in map(str.split, turns)]  # pyright: ignore

    def to_messages(sample: Mapping[str, Any]) -> dict[str, Any]:
        return {"chosen": messages(chosen), "rejected": messages(rejected)}

    with pytest.raises(DataError, match=sentence) as caught:
        PairTransform(to_messages, TOKENIZER)({})
    assert caught.value.reason == "prompts_differ"
    kept = PairTransform(to_messages, TOKENIZER, policy=PairPolicy(on_prompts_differ="keep"))({})
    assert all(turn.split()[1] in text(kept["chosen_input_ids"]) for turn in chosen)


def test_a_pair_that_fits_is_not_changed_by_limits() -> None:
    limits = {"overflow": "truncate", "max_seq_len": 40, "max_prompt_len": 30, "max_response_len": 20}
    assert transform(**limits)(ROW) == transform()(ROW)


def test_a_pair_that_is_too_long_is_an_error_with_its_lengths() -> None:
    with pytest.raises(
        DataError, match=r"The prompt has \d+ tokens, the chosen response \d+ .* more than max_seq_len=9"
    ):
        transform(overflow="error", max_seq_len=9)(ROW)


def test_a_dropped_pair_says_why() -> None:
    assert transform(overflow="drop", max_seq_len=9).fitted(ROW).left_out == "too_long"


def test_the_prompt_is_cut_the_same_way_on_both_sides_and_keeps_its_end() -> None:
    whole = transform().fitted({**ROW, "prompt": TALK}).samples
    cut = transform(overflow="truncate", max_prompt_len=12).fitted({**ROW, "prompt": TALK}).samples
    assert prompt_len(cut) == 12
    lost = prompt_len(whole) - 12
    for before, after in zip(whole, cut, strict=True):
        assert list(after["tokens"]) == list(before["tokens"])[lost:]
        assert after["num_truncated"] == lost


def test_turns_leave_the_prompt_as_the_format_writes_it() -> None:
    policy = {"overflow": "truncate", "max_prompt_len": 35, "prompt_truncation": "turns"}
    shorter = transform(**policy)({**ROW, "prompt": TALK})
    assert shorter == transform()({**ROW, "prompt": [TALK[0], TALK[3]]})


def test_a_prompt_without_turns_to_lose_leaves_the_pair_out() -> None:
    fitted = transform(overflow="truncate", max_prompt_len=5, prompt_truncation="turns").fitted({**ROW, "prompt": TALK})
    assert fitted.left_out == "too_long"


def test_responses_are_cut_on_the_right_to_what_the_prompt_leaves() -> None:
    whole = transform()(ROW)
    prompt = whole["chosen_labels"].index(next(label for label in whole["chosen_labels"] if label != -100))
    pair = transform(overflow="truncate", max_seq_len=prompt + 6)(ROW)
    assert pair["chosen_input_ids"] == whole["chosen_input_ids"][: prompt + 6]
    assert "<|eot_id|>" not in trained(pair, "chosen")
    limited = transform(overflow="truncate", max_response_len=6)(ROW)
    assert limited == pair


def test_a_cut_response_keeps_its_stop_token_where_asked() -> None:
    fitted = transform(overflow="truncate", max_response_len=6, stop_token="keep").fitted(ROW)
    whole = transform()(ROW)
    for side, sample in zip(("chosen", "rejected"), fitted.samples, strict=True):
        assert len(sample["tokens"]) <= len(whole[f"{side}_input_ids"])
        assert text(sample["tokens"]).endswith("<|eot_id|>")
        assert not sample["mask"][-1]


def test_a_cut_that_leaves_equal_answers_is_refused() -> None:
    row = {**ROW, "chosen": "It is 4.", "rejected": "It is 5."}
    with pytest.raises(DataError, match="tokens that the cut leaves are equal") as caught:
        transform(overflow="truncate", max_response_len=5)(row)
    assert caught.value.reason == "chosen_equals_rejected"


def test_a_prompt_that_leaves_no_room_leaves_the_pair_out() -> None:
    assert transform(overflow="truncate", max_seq_len=10).fitted(ROW).left_out == "too_long"
    with pytest.raises(DataError, match="pair is too long, and what its limits leave of it is none"):
        transform(overflow="truncate", max_seq_len=10)(ROW)


def test_a_tokenizer_that_knows_messages_alone_will_do() -> None:
    class Words:
        def tokenize_messages(self, messages: list[Message]) -> tuple[list[int], list[bool]]:
            pairs = [(len(word), m.masked) for m in messages for word in m.text_content.split()]
            return [length for length, _ in pairs], [masked for _, masked in pairs]

    pair = PairTransform(PromptedPairToMessages(), Words())(ROW)  # pyright: ignore[reportArgumentType]
    assert pair["rejected_labels"] == [-100, -100, -100, -100, -100, 5]


def test_what_is_no_pair_is_refused_in_a_sentence() -> None:
    with pytest.raises(
        ColumnError, match=r"returns 'chosen', 'rejected', two lists of messages; it\s+returned 'messages'"
    ):
        PairTransform(lambda row: {"messages": []}, TOKENIZER)(ROW)
    with pytest.raises(DataError, match="'chosen' is no list of Message"):
        PairTransform(lambda row: {"chosen": ["hi"], "rejected": []}, TOKENIZER)(ROW)
    weighted = {**ROW, "chosen": {"role": "assistant", "content": "4", "weight": 0.5}}
    with pytest.raises(DataError, match="weight other than 0 and 1"):
        transform()(weighted)


@pytest.mark.parametrize(
    ("policy", "sentence"),
    [
        ({"max_seq_len": 10}, "'max_seq_len' of a data set has no effect without overflow"),
        ({"overflow": "truncate"}, "needs a length"),
        ({"overflow": "trunkate", "max_seq_len": 9}, "'truncate'"),
        ({"overflow": "drop", "max_seq_len": 0}, "max_seq_len is 0. Give a whole number"),
        ({"overflow": "drop", "max_seq_len": 9, "stop_token": "keep"}, "have no effect without overflow='truncate'"),
        ({"on_equal": "drop"}, "on_equal of a preference data set is 'drop'"),
    ],
)
def test_a_policy_that_is_not_possible_is_refused(policy: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ConfigError, match=sentence):
        PairPolicy(**policy)
