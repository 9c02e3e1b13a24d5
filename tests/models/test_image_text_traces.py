"""Transforms of images and text tell of each token where it is from, and write messages one by one."""

import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from torchpipe.data import Message
from torchpipe.errors import DataError, MediaError
from torchpipe.models.llama3_2_vision import Llama3VisionTransform
from torchpipe.models.llama4 import Llama4Transform


@pytest.fixture(scope="module", params=["Llama 3.2 Vision", "Llama 4"])
def transform(request: pytest.FixtureRequest, oracle_file: Callable[..., Path]) -> Any:
    """A transform of tiles of 4 patches."""
    folder, kind = {
        "Llama 3.2 Vision": ("llama3", Llama3VisionTransform),
        "Llama 4": ("llama4", Llama4Transform),
    }[request.param]
    path = str(oracle_file("llama_models", folder, "tokenizer.model"))
    return kind(path, tile_size=28, patch_size=14)


def image(height: int, width: int) -> dict[str, Any]:
    return {"type": "image", "content": Image.new("RGB", (width, height))}


def text(content: str) -> dict[str, Any]:
    return {"type": "text", "content": content}


CHAT = [
    Message("user", [image(20, 20), text("First "), image(30, 90), image(90, 30)], masked=True),
    Message("assistant", "Stripes."),
    Message("user", [text("And "), text("this "), image(50, 50)]),
    Message("assistant", "Dots."),
]


@pytest.mark.parametrize("inference", [False, True])
def test_a_trace_is_that_of_the_sample_wherever_it_is_cut(
    transform: Any, inference: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transform, "media_overflow", "drop")
    for max_seq_len in (None, *range(1, 80)):
        monkeypatch.setattr(transform.tokenizer, "max_seq_len", max_seq_len)
        sample = transform({"messages": CHAT}, inference=inference)
        tokens, mask, trace = transform.tokenize_messages(CHAT, add_end_tokens=not inference, trace=True)
        assert (tokens, mask) == (sample["tokens"], sample["mask"])
        assert (tokens, mask) == transform.tokenize_messages(CHAT, add_eos=not inference)
        assert len(trace) == len(tokens)
        assert trace.num_cut == sample.get("num_truncated", 0)
        np.testing.assert_array_equal(trace.trained, ~np.asarray(mask, dtype=bool))


def test_every_token_of_an_image_is_media_of_its_part(transform: Any) -> None:
    tokens, _, trace = transform.tokenize_messages(CHAT, trace=True)
    media: dict[tuple[int, str], list[int]] = {}
    for token, origin in zip(tokens, trace, strict=True):
        if origin.kind == "media":
            media.setdefault((origin.message, origin.part), []).append(token)
        assert origin.trained is False or origin.kind != "media"
    assert sorted(media) == [(0, "content[0]"), (0, "content[2]"), (0, "content[3]"), (2, "content[2]")]
    for (message, part), written in media.items():
        alone = [Message("user", [CHAT[message].content[int(part[8:-1])]])]
        assert transform.tokenize_message(alone[0], False, False) == written
    reasons = {(origin.message, origin.reason) for origin in trace if origin.kind == "media"}
    assert reasons == {(0, "message masked"), (2, "stands for an image")}


def test_a_text_has_its_part_unless_another_text_stands_beside_it(transform: Any) -> None:
    _, _, trace = transform.tokenize_messages(CHAT, trace=True)
    content = {(origin.message, origin.part) for origin in trace if origin.kind == "content"}
    assert content == {(0, "content[1]"), (1, "content"), (2, "content"), (3, "content")}
    assert {origin.part for origin in trace if origin.kind not in ("content", "media")} == {""}


def test_a_conversation_is_its_messages_between_its_start_and_end(transform: Any) -> None:
    one_by_one = [token for message in CHAT for token in transform.tokenize_message(message)]
    tokens, _ = transform.tokenize_messages(CHAT)
    assert tokens[1:-1] == one_by_one
    assert transform({"messages": CHAT})["tokens"][1:-1] == one_by_one


def test_a_message_is_written_without_its_header_or_end(transform: Any) -> None:
    message = CHAT[3]

    def spelled(*ends: bool) -> str:
        return transform.decode(transform.tokenize_message(message, *ends), False, False)

    end = "<|eot|>" if isinstance(transform, Llama4Transform) else "<|eot_id|>"
    assert spelled(False, False) == "Dots."
    assert spelled(False, True) == f"Dots.{end}"
    assert spelled(True, False).endswith("\n\nDots.")
    assert spelled() == spelled(True, False) + end


def test_arguments_have_torchtunes_names() -> None:
    assert list(inspect.signature(Llama3VisionTransform.tokenize_message).parameters)[2:] == [
        "tokenize_header",
        "tokenize_end",
    ]
    assert list(inspect.signature(Llama4Transform.tokenize_message).parameters)[2:] == [
        "add_start_tokens",
        "add_end_tokens",
    ]


def test_an_image_that_is_cut_off_is_refused_as_in_a_sample(transform: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    for part in (transform, transform.tokenizer):
        monkeypatch.setattr(part, "max_seq_len", 4)
    with pytest.raises(MediaError, match=r"Of the row's 4 images, 4 do not fit into max_seq_len=4\. Raise max_seq_len"):
        transform.tokenize_messages(CHAT)


def test_what_is_no_picture_is_refused_where_its_size_is_asked_for(oracle_file: Callable[..., Path]) -> None:
    path = str(oracle_file("llama_models", "llama4", "tokenizer.model"))
    transform = Llama4Transform(path, tile_size=28, patch_size=14)
    message = Message("user", [{"type": "image", "content": "dog.png"}])
    with pytest.raises(DataError, match=r"Message 0 \(user\), part 0: An image is a str \('dog.png'\)"):
        transform.tokenize_message(message)
