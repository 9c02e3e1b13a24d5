"""Messages with images for Llama 4: the layout of image tokens, tiles and thumbnail, and atomic images."""

import hashlib
import json
import pickle
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import Any

import pytest
import torch
from PIL import Image

from torchpipe.data import Message, mask_messages
from torchpipe.errors import ConfigError, DataError, MediaError, TokenizerError
from torchpipe.models.llama4 import Llama4Transform, llama4_transform
from torchpipe.tokenizers import Control
from torchpipe.tokenizers.image_tokens import llama4_image

START, END = 200_080, 200_081
COLUMN_BREAK, ROW_BREAK = 200_084, 200_085
WHOLE, PATCH = 200_090, 200_092

# Tokens of a user's turn with a picture of that size and "What is this?", and of the answer "A pattern.", but for the
# document's end: how many, and the start of a SHA-256. Made with the publisher's own code, ChatFormat of llama-models
# 0.3.0 (tiles of 336, patches of 14, 16 tiles at most).
PUBLISHED = {
    (300, 800): (600, "f2676a4ff96c3a7f"),
    (100, 100): (165, "c30db8051762fffd"),
    (1500, 700): (2340, "620d51e705460338"),
    (3000, 3000): (2485, "7099da6728d9f6a7"),
}


@pytest.fixture(scope="module")
def path(oracle_file: Callable[..., Path]) -> str:
    return str(oracle_file("llama_models", "llama4", "tokenizer.model"))


def picture(height: int, width: int) -> Image.Image:
    rows, columns, channels = torch.meshgrid(*map(torch.arange, (height, width, 3)), indexing="ij")
    return Image.fromarray(((rows * 3 + columns * 5 + channels * 60) % 256).to(torch.uint8).numpy())


def image(height: int = 20, width: int = 20) -> dict[str, Any]:
    return {"type": "image", "content": picture(height, width)}


def text(content: str) -> dict[str, Any]:
    return {"type": "text", "content": content}


def chat(*sizes: tuple[int, int]) -> list[Message]:
    messages = []
    for size in sizes:
        messages += [Message("user", [image(*size), text("What is this?")]), Message("assistant", "A pattern.")]
    mask_messages(messages, "train_on_assistant")
    return messages


@lru_cache(maxsize=2)  # its tokenizer takes half a second to load
def small(path: str, **options: Any) -> Llama4Transform:
    """Tiles of 4 patches, of which 1 token is left."""
    return Llama4Transform(path, tile_size=28, patch_size=14, **options)


@pytest.mark.parametrize("size", PUBLISHED)
def test_tokens_equal_the_publishers(path: str, size: tuple[int, int]) -> None:
    tokens = llama4_transform(path)({"messages": chat(size)})["tokens"][:-1]
    assert (len(tokens), hashlib.sha256(json.dumps(tokens).encode()).hexdigest()[:16]) == PUBLISHED[size]


def test_tiles_stand_row_by_row_and_the_whole_picture_last(path: str) -> None:
    out = small(path)({"messages": chat((50, 50))})
    tokens = out["tokens"]
    grid = [PATCH, COLUMN_BREAK, PATCH, ROW_BREAK] * 2
    assert tokens[tokens.index(START) : tokens.index(END) + 1] == [START, *grid, WHOLE, PATCH, END]
    assert out["encoder_input"]["vision"]["images"][0].shape == (5, 3, 28, 28)


def test_a_picture_of_one_tile_is_its_own_whole(path: str) -> None:
    out = small(path)({"messages": chat((20, 20))})
    tokens = out["tokens"]
    assert tokens[tokens.index(START) : tokens.index(END) + 1] == [START, WHOLE, PATCH, END]
    assert out["encoder_input"]["vision"]["images"][0].shape == (1, 3, 28, 28)


def test_patches_in_the_text_are_as_many_as_the_model_has_embeddings(path: str) -> None:
    transform = llama4_transform(path)
    assert (transform.patches_per_tile, transform.patch_tokens_per_tile) == (576, 144)
    assert transform.image_seq_len == 16 * 576
    out = transform({"messages": chat((300, 800), (400, 100))})
    num_tiles = sum(len(tiles) for tiles in out["encoder_input"]["vision"]["images"])
    assert out["tokens"].count(PATCH) == num_tiles * 144


def test_the_thumbnail_is_the_whole_picture(path: str) -> None:
    left_black = torch.zeros(3, 40, 200, dtype=torch.uint8)
    left_black[:, :, 100:] = 255
    messages = [Message("user", [{"type": "image", "content": left_black}]), Message("assistant", "a")]
    tiles = small(path, dtype=torch.float32)({"messages": messages})["encoder_input"]["vision"]["images"][0]
    thumbnail = tiles[-1]
    assert torch.allclose(thumbnail[:, :, :12], torch.zeros(3, 28, 12))
    assert torch.allclose(thumbnail[:, :, 16:], torch.ones(3, 28, 12))
    assert tiles.dtype == torch.float32


def test_keys_are_torchtunes_and_the_messages_are_not_changed(path: str) -> None:
    messages = chat((20, 60))
    out = small(path)({"messages": messages, "id": 3})
    assert sorted(out) == ["encoder_input", "id", "mask", "tokens"]
    assert list(out["encoder_input"]) == ["vision"]
    assert list(out["encoder_input"]["vision"]) == ["images"]
    assert sorted(messages[0].content[0]) == ["content", "type"]
    assert small(path)({"messages": [Message("user", "Hi"), Message("assistant", "Yo")]})["encoder_input"] == {
        "vision": {"images": []}
    }


def test_no_token_of_an_image_is_trained(path: str) -> None:
    messages = [Message("user", [image(30, 60), text("Hi")]), Message("assistant", "Yes")]
    out = small(path)({"messages": messages})
    hidden = {token for token, masked in zip(out["tokens"], out["mask"], strict=True) if masked}
    assert hidden == {200_000, START, PATCH, COLUMN_BREAK, ROW_BREAK, WHOLE, END, 200_001}


def test_an_image_is_never_cut_in_two(path: str) -> None:
    messages = chat((50, 50), (50, 50))
    transform = small(path, media_overflow="drop")
    num_tokens = len(transform({"messages": messages})["tokens"])
    for max_seq_len in range(2, num_tokens + 1):
        transform.tokenizer.max_seq_len = max_seq_len
        out = transform({"messages": messages})
        tokens, images = out["tokens"], out["encoder_input"]["vision"]["images"]
        assert tokens.count(START) == tokens.count(END) == tokens.count(WHOLE) == len(images)
        assert tokens.count(PATCH) == 5 * len(images)
        assert len(images) + out.get("num_images_dropped", 0) == 2
        assert len(tokens) + out.get("num_truncated", 0) == num_tokens
        assert len(tokens) == len(out["mask"]) <= max_seq_len
        assert (tokens[-1], out["mask"][-1]) == (200_001, True)


def test_inference_drops_a_cut_image_without_an_end(path: str) -> None:
    transform = small(path, max_seq_len=8, media_overflow="drop")
    tokens = transform({"messages": chat((50, 50))}, inference=True)["tokens"]
    assert tokens == transform.tokenize_messages(chat((50, 50)))[0][:5]


def test_a_row_that_is_cut_inside_its_image_is_refused_with_counts(path: str) -> None:
    with pytest.raises(MediaError, match=r"Of the row's 2 images, 1 does not fit into max_seq_len=32"):
        small(path, max_seq_len=32)({"messages": chat((50, 50), (50, 50))})


def test_what_cannot_be_used_is_refused(path: str, llama3_tokenizer_file: Path) -> None:
    with pytest.raises(
        ConfigError, match="pixel_shuffle_scaling_factor is 0.3, which makes 0.36 tokens of the 4 patch"
    ):
        small(path, pixel_shuffle_scaling_factor=0.3)
    with pytest.raises(DataError, match=r"Message 0 \(user\), part 0: An image is a str"):
        small(path)({"messages": [Message("user", [{"type": "image", "content": "x"}]), Message("assistant", "a")]})
    with pytest.raises(
        TokenizerError, match="has 128000 ordinary tokens, as the published file of llama3; that of llama4"
    ):
        small(str(llama3_tokenizer_file))


def test_the_layout_without_a_transform_is_one_tile_of_one_patch() -> None:
    layout = [piece.text for piece in llama4_image({"type": "image"}) if isinstance(piece, Control)]
    assert layout == ["<|image_start|>", "<|image|>", "<|patch|>", "<|image_end|>"]


def test_it_can_be_sent_to_a_worker(path: str) -> None:
    transform = pickle.loads(pickle.dumps(small(path)))
    assert transform({"messages": chat((20, 20))})["tokens"].count(PATCH) == 1
