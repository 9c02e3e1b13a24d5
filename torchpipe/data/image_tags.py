"""Pictures in a text: a tag stands where each of them is shown."""

from collections.abc import Sequence
from itertools import islice
from typing import Any

from torchpipe.errors import ConfigError, DataError, MediaError


def format_content_with_images(content: str, *, image_tag: str, images: Sequence[Any]) -> list[dict[str, Any]]:
    """The text as a list of parts, with a picture in place of every ``image_tag``; ``images`` stays as it is.

    Empty pieces of text are left out.

    Raises:
        DataError: there are more or fewer tags than pictures.
        ConfigError: ``image_tag`` is empty.

    >>> format_content_with_images("<image>What is it?", image_tag="<image>", images=["pixels"])
    [{'type': 'image', 'content': 'pixels'}, {'type': 'text', 'content': 'What is it?'}]
    """
    check_image_tag(image_tag)
    first, *others = content.split(image_tag)
    if len(others) != len(images):
        raise _unequal(len(others), image_tag, len(images))
    parts = [{"type": "text", "content": first}]
    for image, text in zip(images, others, strict=True):
        parts += [{"type": "image", "content": image}, {"type": "text", "content": text}]
    return [part for part in parts if part["type"] == "image" or part["content"]]


def place_images(texts: Sequence[str], *, image_tag: str | None, images: Sequence[Any]) -> list[list[dict[str, Any]]]:
    """The texts of a row's user turns as lists of parts, with the row's pictures in place of the tags, in order.

    Args:
        texts: one text for every user turn.
        image_tag: what stands for a picture; None puts all of them in front of the first text.
        images: as many as there are tags.

    Raises:
        DataError: the numbers differ, or there is no text that could hold a picture.
    """
    if images and not texts:
        raise MediaError(f"The row has {_count(len(images), 'picture')}, and no user turn to show them in.")
    if image_tag is None:
        shown: list[dict[str, Any]] = [{"type": "image", "content": image} for image in images]
        plain: list[list[dict[str, Any]]] = [[{"type": "text", "content": text}] for text in texts]
        return [shown + plain[0], *plain[1:]] if plain else []
    counts = [text.count(image_tag) for text in texts]
    if sum(counts) != len(images):
        raise _unequal(sum(counts), image_tag, len(images))
    rest = iter(images)
    return [
        format_content_with_images(text, image_tag=image_tag, images=list(islice(rest, count)))
        if count
        else [{"type": "text", "content": text}]
        for text, count in zip(texts, counts, strict=True)
    ]


def check_image_tag(image_tag: str) -> None:
    """None, when a text can be split at the tag.

    Raises:
        ConfigError: it is no string, or an empty one.
    """
    if not isinstance(image_tag, str) or not image_tag:
        raise ConfigError(f"image_tag={image_tag!r} must be the text that stands for a picture, like '<image>'.")


def _unequal(num_tags: int, image_tag: str, num_images: int) -> DataError:
    return MediaError(
        f"The text has the tag {image_tag!r} {num_tags} times, and there {'is' if num_images == 1 else 'are'} "
        f"{_count(num_images, 'picture')}. It needs one tag for every picture; check image_tag and the images' column."
    )


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"
