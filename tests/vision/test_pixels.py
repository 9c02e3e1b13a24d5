"""Pictures of any form become float32 RGB from 0 to 1; what is no picture is refused in a sentence."""

import io
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from torchpipe.errors import DataError
from torchpipe.vision import image_size, image_to_tensor


def pattern(height: int, width: int) -> np.ndarray:
    return (np.arange(height * width * 3).reshape(height, width, 3) * 7 % 256).astype(np.uint8)


def test_a_pil_image_and_its_tensor_are_the_same_picture() -> None:
    array = pattern(5, 4)
    of_pil = image_to_tensor(Image.fromarray(array))
    assert of_pil.dtype == torch.float32
    assert of_pil.shape == (3, 5, 4)
    assert torch.equal(of_pil, image_to_tensor(torch.from_numpy(array).permute(2, 0, 1)))
    assert torch.equal(of_pil, image_to_tensor(of_pil))
    assert of_pil[1, 2, 3] == array[2, 3, 1] / np.float32(255)


@pytest.mark.parametrize("mode", ["L", "1", "P", "RGBA", "LA", "CMYK", "I;16"])
def test_every_mode_gives_three_channels(mode: str) -> None:
    image = Image.fromarray(pattern(6, 3))
    image = Image.fromarray(np.full((6, 3), 65_535, np.uint16)) if mode == "I;16" else image.convert(mode)
    assert image.mode == mode
    pixels = image_to_tensor(image)
    assert pixels.shape == (3, 6, 3)
    assert 0 <= pixels.min() <= pixels.max() <= 1


def test_sixteen_bits_keep_their_grays() -> None:
    image = Image.fromarray(np.array([[0, 257 * 100], [257 * 200, 65_535]], np.uint16))
    assert torch.allclose(image_to_tensor(image)[0] * 255, torch.tensor([[0.0, 100.0], [200.0, 255.0]]))


def test_a_palette_with_transparent_bytes_does_not_warn() -> None:
    image = Image.fromarray(pattern(4, 4)).convert("P")
    image.info["transparency"] = bytes(range(256))
    assert image_to_tensor(image).shape == (3, 4, 4)


@pytest.mark.parametrize("shape", [(6, 3), (1, 6, 3)])
def test_a_gray_tensor_is_repeated(shape: tuple[int, ...]) -> None:
    gray = torch.arange(18, dtype=torch.uint8).reshape(shape)
    pixels = image_to_tensor(gray)
    assert pixels.shape == (3, 6, 3)
    assert torch.equal(pixels[0], pixels[2])
    assert torch.equal(pixels[0] * 255, gray.reshape(6, 3).float())


def test_alpha_of_a_tensor_is_left_out() -> None:
    image = torch.randint(0, 256, (4, 5, 5), dtype=torch.uint8)
    assert torch.equal(image_to_tensor(image), image_to_tensor(image[:3]))


def test_the_argument_is_never_changed() -> None:
    image = torch.rand(3, 4, 4)
    before = image.clone()
    image_to_tensor(image)
    assert torch.equal(image, before)


@pytest.mark.parametrize(
    ("image", "message"),
    [
        ("a.png", r"An image is a str \('a.png'\), not a PIL image or a tensor\. Load it in the message_transform"),
        (None, "An image is a NoneType, not a PIL image"),
        (np.zeros((3, 3, 3)), "An image is a ndarray, not a PIL image"),
        (torch.zeros(2, 4, 4), r"An image has the shape \[2, 4, 4\]\. It must be \[channels, height, width\]"),
        (torch.zeros(1, 3, 4, 4), r"shape \[1, 3, 4, 4\]"),
        (torch.zeros(3, 0, 4), r"shape \[3, 0, 4\]"),
        (torch.full((3, 2, 2), 255.0), "values from 255 to 255; they must lie from 0 to 1. Divide by 255"),
        (torch.full((3, 2, 2), float("nan")), "they must lie from 0 to 1"),
        (torch.zeros(3, 2, 2, dtype=torch.bool), "a tensor of torch.bool. Give uint8"),
        (torch.full((3, 2, 2), 200), "a tensor of torch.int64. Give uint8"),
        (torch.full((3, 2, 2), -1, dtype=torch.int16), "a tensor of torch.int16. Give uint8"),
        (Image.new("I", (2, 2)), "has pixels of 32 bits, whose black and white are not known"),
        (Image.new("F", (2, 2)), "has pixels of 32 bits, whose black and white are not known"),
        (Image.new("La", (2, 2)), "An image of 2 x 2 pixels can't be decoded: conversion from La"),
    ],
)
def test_what_is_no_picture_is_refused(image: object, message: str) -> None:
    with pytest.raises(DataError, match=message):
        image_to_tensor(image)


def test_a_truncated_file_is_refused(shared_data: Path) -> None:
    data = (shared_data / "images" / "dog_on_skateboard.jpg").read_bytes()
    image = Image.open(io.BytesIO(data[: len(data) // 2]))
    with pytest.raises(DataError, match=r"pixels can't be decoded: .*truncated.* Is its file complete\?"):
        image_to_tensor(image)


def test_the_size_of_a_picture_is_that_of_its_tensor_without_decoding_it(tmp_path: Path) -> None:
    file = tmp_path / "a.png"
    Image.fromarray(pattern(6, 3)).save(file)
    file.write_bytes(file.read_bytes()[:60])  # a header, and no pixels
    with Image.open(file) as cut_short:
        assert image_size(cut_short) == (6, 3)
    for image in (torch.zeros(3, 5, 4), torch.zeros(5, 4, dtype=torch.uint8), Image.fromarray(pattern(5, 4))):
        assert image_size(image) == tuple(image_to_tensor(image).shape[1:])
    with pytest.raises(DataError, match=r"An image has the shape \[5, 4, 4\]"):
        image_size(torch.zeros(5, 4, 4))
    with pytest.raises(DataError, match="An image is a NoneType, not a PIL image or a tensor"):
        image_size(None)
