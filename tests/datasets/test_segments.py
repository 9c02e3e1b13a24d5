"""segments_dataset: texts as they are, of which exactly the marked ones are trained."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from torchpipe.config import validate
from torchpipe.datasets import instantiate_dataset, segments_dataset
from torchpipe.errors import ColumnError, ConfigError, DataError, UnwritableError
from torchpipe.models.mistral import mistral_tokenizer
from torchpipe.models.tiny import tiny_tokenizer

TOKENIZER = tiny_tokenizer()
ROW = {
    "segments": [
        {"label": False, "text": "Question: 1 + 1?\nAnswer:"},
        {"label": True, "text": " 2"},
        {"label": False, "text": "\nQuestion: 2 + 2?\nAnswer:"},
        {"label": True, "text": " 4"},
    ]
}
SEGMENTS = st.lists(
    st.fixed_dictionaries({"label": st.booleans(), "text": st.text(max_size=12)}), min_size=1, max_size=6
).filter(lambda segments: any(segment["text"] for segment in segments))


def built(row: dict[str, Any], **options: Any) -> dict[str, Any]:
    dataset: Any = segments_dataset(TOKENIZER, source=[row], on_untrained="keep", **options)
    return dataset[0]


def encode(text: str) -> list[int]:
    return TOKENIZER.encode(text, add_bos=False, add_eos=False)


def test_trained_are_the_labelled_texts_and_nothing_else() -> None:
    sample = built(ROW)
    trained = TOKENIZER.decode([label for label in sample["labels"] if label != -100])
    assert trained == " 2 4"
    assert TOKENIZER.decode(sample["tokens"]) == "".join(segment["text"] for segment in ROW["segments"])


@given(segments=SEGMENTS)
@settings(max_examples=60, deadline=None)
def test_apart_the_tokens_are_those_of_each_text(segments: list[dict[str, Any]]) -> None:
    sample = built({"segments": segments})
    pieces = [encode(segment["text"]) for segment in segments]
    assert sample["tokens"] == [token for piece in pieces for token in piece]
    flags = [not segment["label"] for segment, piece in zip(segments, pieces, strict=True) for _ in piece]
    assert sample["mask"] == [True, *flags[1:]]


@given(segments=SEGMENTS)
@settings(max_examples=60, deadline=None)
def test_together_the_tokens_are_those_of_the_joined_text_and_none_of_an_untrained_byte_is_trained(
    segments: list[dict[str, Any]],
) -> None:
    sample = built({"segments": segments}, encoding="together")
    assert sample["tokens"] == encode("".join(segment["text"] for segment in segments))
    flags = [segment["label"] for segment in segments for _ in segment["text"].encode()]
    place = 0
    for index, (token, masked) in enumerate(zip(sample["tokens"], sample["mask"], strict=True)):
        size = len(TOKENIZER.token_bytes(token) or b"")
        assert masked == (index == 0 or not all(flags[place : place + size]))
        place += size
    assert place == len(flags)


def test_bos_and_eos_are_put_where_asked_and_eos_goes_with_the_last_text() -> None:
    sample = built(ROW, add_bos=True, add_eos=True)
    assert (sample["tokens"][0], sample["tokens"][-1]) == (TOKENIZER.bos_id, TOKENIZER.eos_id)
    assert sample["labels"][-2] == TOKENIZER.eos_id
    untrained_end = {"segments": [*ROW["segments"], {"label": False, "text": "."}]}
    assert built(untrained_end, add_eos=True)["labels"][-2] == -100


@pytest.mark.parametrize("encoding", ["apart", "together"])
def test_a_control_token_is_one_only_where_it_is_listed(encoding: str) -> None:
    row = {"segments": [{"label": False, "text": "Hi<|eot_id|>"}, {"label": True, "text": "Hello<|eot_id|>"}]}
    eot = TOKENIZER.special_tokens["<|eot_id|>"]
    assert eot not in built(row, encoding=encoding)["tokens"]
    sample = built(row, encoding=encoding, control_tokens=["<|eot_id|>"])
    assert sample["tokens"] == [*encode("Hi"), eot, *encode("Hello"), eot]
    assert sample["labels"].count(eot) == 1
    with pytest.raises(ConfigError, match=r"no control token '<\|eot\|>'\. Did you mean '<\|eot_id\|>'\?"):
        built(row, control_tokens=["<|eot|>"])


def test_rows_that_train_nothing_are_counted_and_long_ones_follow_the_policy() -> None:
    rows = [ROW, {"segments": [{"label": False, "text": "nothing"}]}]
    stored: Any = segments_dataset(TOKENIZER, source=rows, cache=True)
    assert stored.ledger.as_dict() == {"read": 2, "used": 1, "no_trainable_tokens": 1}
    split: Any = segments_dataset(TOKENIZER, source=[ROW], cache=True, overflow="split", max_seq_len=7)
    whole = built(ROW)
    assert [int(token) for sample in split for token in sample["tokens"]] == whole["tokens"]
    packed: Any = segments_dataset(TOKENIZER, source=rows, packed=True, max_seq_len=128)
    assert packed.counts.trained_tokens == sum(label != -100 for label in whole["labels"])


@pytest.mark.parametrize(
    ("row", "error", "told"),
    [
        ({"segment": []}, ColumnError, "no column 'segments'; it has 'segment'. Did you mean 'segment'"),
        ({"segments": None}, ColumnError, "Column 'segments' holds null"),
        ({"segments": "text"}, ColumnError, "Column 'segments' holds a str"),
        ({"segments": ["text"]}, DataError, "Segment 0 is a str"),
        ({"segments": [{"label": True}]}, DataError, "Segment 0 has no text under 'text'; it has 'label'"),
        ({"segments": [{"text": "a"}]}, DataError, "Segment 0 has the label None"),
        ({"segments": [{"text": "a", "label": "yes"}]}, DataError, "Segment 0 has the label 'yes'"),
        ({"segments": []}, DataError, "there is no token"),
    ],
)
def test_what_are_no_segments_is_named(row: dict[str, Any], error: type[Exception], told: str) -> None:
    with pytest.raises(error, match=told):
        built(row)


def test_a_tokenizer_that_changes_texts_can_not_tell_together(shared_data: Any) -> None:
    tokenizer = mistral_tokenizer(str(shared_data / "tokenizers" / "mistral" / "tokenizer.model.v1"))
    dataset = segments_dataset(tokenizer, source=[ROW], encoding="together")
    with pytest.raises((UnwritableError, ConfigError), match="encoding='apart'|Use 'apart'"):
        dataset[0]
    apart: Any = segments_dataset(tokenizer, source=[ROW])
    assert tokenizer.decode(apart[0]["tokens"]) == "".join(segment["text"] for segment in ROW["segments"])
    with pytest.raises(ConfigError, match=r"encoding is 'apart_'.*Did you mean 'apart'\?"):
        segments_dataset(TOKENIZER, source=[ROW], encoding="apart_")  # pyright: ignore[reportArgumentType]
    with pytest.raises(ConfigError, match="control_tokens is the text"):
        segments_dataset(TOKENIZER, source=[ROW], control_tokens="<|eot_id|>")


def test_it_is_built_from_a_config() -> None:
    config = {"_component_": "torchpipe.datasets.segments_dataset", "source": [ROW], "encoding": "together"}
    validate({"dataset": config})
    assert instantiate_dataset(config, TOKENIZER)[0] == built(ROW, encoding="together")
