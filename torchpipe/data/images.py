"""Pictures: from a path, an address or a cell of a row to pixels.

Addresses stand in the rows, so whoever wrote the rows decides what is fetched. ``allow_remote=False`` (here, and on the
message transforms) fetches nothing.
"""

import base64
import os
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from torchpipe._sentences import printable
from torchpipe._suggest import listed
from torchpipe.errors import ConfigError, DataError, PictureError, located

if TYPE_CHECKING:
    import torch
    from PIL import Image

MAX_BYTES = 64 * 2**20
MAX_PIXELS = 2**30 // 4 // 3
"""What Pillow itself warns at: a quarter of a GiB as RGB."""

# A closed list, because Pillow hands some formats to other programs (EPS to Ghostscript).
FORMATS = ("JPEG", "MPO", "PNG", "GIF", "WEBP", "BMP", "TIFF", "PPM", "JPEG2000", "AVIF")

_ADDRESS = re.compile(r"https?://", re.IGNORECASE)
_DATA_URL = re.compile(r"data:[\w.+-]+/[\w.+-]+;base64,", re.IGNORECASE)


def load_image(
    image_loc: Path | str,
    *,
    allow_remote: bool = True,
    timeout: float = 10.0,
    max_bytes: int = MAX_BYTES,
    max_pixels: int = MAX_PIXELS,
) -> "torch.Tensor":
    """The picture as uint8 [3, h, w], RGB, the right way up.

    A camera's orientation mark is applied, as viewers do. Transparency is left out, 16-bit values keep their upper 8
    bits, and of an animation the first frame is taken.

    Args:
        image_loc: a file; an address, which is a string that begins with ``http://`` or ``https://``; or a string
            ``data:image/png;base64,...``.
        allow_remote: False refuses addresses.
        timeout: seconds for the whole download, redirections and headers too.
        max_bytes: the largest file or download.
        max_pixels: the largest height times width; it is checked before anything is decoded.

    Raises:
        DataError: nothing is there, it is no picture, it is damaged or cut short, it is over a limit, or it is an
            address and they are refused.
        ConfigError: a limit is no number above 0, or ``allow_remote`` is neither True nor False.

    >>> load_image("data:image/x-portable-pixmap;base64,UDYgMiAxIDI1NQoAAQIDBAU=").tolist()
    [[[0, 3]], [[1, 4]], [[2, 5]]]
    """
    for limit, value in (("timeout", timeout), ("max_bytes", max_bytes), ("max_pixels", max_pixels)):
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < float("inf"):
            raise ConfigError(f"{limit}={value!r} must be a number above 0.")
    _check_allow_remote(allow_remote)
    name = _shown(image_loc)
    if isinstance(image_loc, str) and _DATA_URL.match(image_loc):
        data = _inline(image_loc, name, max_bytes)
    elif isinstance(image_loc, str) and _ADDRESS.match(image_loc):
        if not allow_remote:
            raise PictureError(
                f"The picture {name} is at a remote address, and allow_remote=False refuses those. "
                "Download the pictures, and give their paths."
            )
        from torchpipe.data.download import download  # about 40 ms, which data without addresses need not spend

        data = download(image_loc, f"picture {name}", timeout=timeout, max_bytes=max_bytes)
    elif isinstance(image_loc, (str, os.PathLike)):
        data = _read(Path(image_loc), name, max_bytes)
    else:
        raise PictureError(f"load_image takes a path or an address, and got a {type(image_loc).__name__} ({name}).")
    return decode_image(data, name, max_pixels=max_pixels)


def _read(path: Path, name: str, max_bytes: int) -> bytes:
    try:
        # A pipe or a device could go on for ever.
        if not path.is_file():
            what = "is not a file" if path.exists() else "does not exist"
            raise PictureError(
                f"The picture {name} {what}. Give a path from the working folder, or set image_dir; if this is text, "
                "name the column of the pictures in column_map."
            )
        with path.open("rb") as file:
            data = file.read(max_bytes + 1)
    except (OSError, ValueError) as error:
        if isinstance(error, DataError):
            raise
        reason = getattr(error, "strerror", None) or error  # the error itself repeats the whole name
        raise PictureError(f"The picture {name} can't be read: {reason}.") from error
    if len(data) > max_bytes:
        raise _too_large(name, max_bytes)
    return data


def _too_large(name: str, max_bytes: int) -> DataError:
    return PictureError(f"The picture {name} has more than {max_bytes:,} bytes. Make it smaller, or raise max_bytes.")


def _inline(text: str, name: str, max_bytes: int) -> bytes:
    encoded = text[text.index(",") + 1 :]
    if len(encoded) // 4 * 3 > max_bytes + 2:
        raise _too_large(name, max_bytes)
    try:
        return base64.b64decode(encoded, validate=True)
    except ValueError as error:
        raise PictureError(f"The picture {name} is not written in base64 as it says: {error}.") from error


def decode_image(data: bytes, name: str, *, max_pixels: int = MAX_PIXELS) -> "torch.Tensor":
    """The picture in the bytes of an image file, as :func:`load_image` gives it; errors call it ``name``.

    Raises:
        DataError: it is no picture, it is damaged or cut short, or it has too many pixels.
    """
    from PIL import Image, UnidentifiedImageError

    Image.init()
    if not data:
        raise PictureError(f"The picture {name} is empty: 0 bytes.")
    try:
        with Image.open(_file(data), formats=[known for known in FORMATS if known in Image.OPEN]) as image:
            if image.width * image.height > max_pixels:
                raise PictureError(
                    f"The picture {name} has {image.width:,} x {image.height:,} pixels, more than {max_pixels:,}. "
                    "Make it smaller, or raise max_pixels."
                )
            return _pixels(image, name)
    except DataError:
        raise
    except UnidentifiedImageError:
        raise PictureError(
            f"The picture {name} is not an image file. The known formats are {listed(FORMATS)}."
        ) from None
    except (Image.DecompressionBombError, Image.DecompressionBombWarning) as error:
        raise PictureError(
            f"The picture {name} is larger than Pillow opens: {error} Make it smaller, or raise "
            "PIL.Image.MAX_IMAGE_PIXELS as well as max_pixels."
        ) from error
    except Exception as error:  # what a decoder raises on a damaged file is not one class
        raise PictureError(
            f"The picture {name} can't be decoded, it is damaged or cut short: {printable(error)}."
        ) from error


def _file(data: bytes) -> Any:
    from io import BytesIO

    return BytesIO(data)


def _pixels(image: "Image.Image", name: str) -> "torch.Tensor":
    from PIL import Image, ImageOps

    upright = ImageOps.exif_transpose(image)
    if upright.mode.startswith("I;16"):
        upright = Image.fromarray((np.asarray(upright) >> 8).astype(np.uint8))
    elif upright.mode in ("I", "F"):
        raise PictureError(
            f"The picture {name} has pixels of 32 bits, whose black and white are not known. Store it with 8 bits."
        )
    elif upright.mode == "P" and "transparency" in upright.info:
        upright = upright.convert("RGBA")  # Pillow warns where it is asked for RGB at once
    import torch  # where a picture is decoded: rows of text do without

    return torch.from_numpy(np.array(upright.convert("RGB"))).permute(2, 0, 1).contiguous()


@dataclass(frozen=True, kw_only=True)
class ImageReader:
    """Pictures of rows, in any of the forms that rows hold them.

    Args:
        image_dir: the folder that paths start from; None: the working folder.
        allow_remote: False refuses addresses.
    """

    image_dir: Path | None = None
    allow_remote: bool = True

    def image(self, value: Any) -> Any:
        """One picture: uint8 [3, h, w] of a path, an address, bytes or ``{"bytes", "path"}``.

        What is decoded already (a tensor or a Pillow image) stays as it is.

        Raises:
            DataError: it is something else, or can't be loaded.
        """
        if isinstance(value, Mapping) and {"bytes", "path"} & set(value):  # an image column of Hugging Face data sets
            held = value.get("bytes")
            value = value.get("path") if held is None else held
        if isinstance(value, bytes):
            return decode_image(value, f"of {len(value):,} bytes")
        if isinstance(value, (str, os.PathLike)):
            if value == "":
                raise PictureError("The picture's path is empty.")
            if isinstance(value, str) and (_ADDRESS.match(value) or _DATA_URL.match(value)):
                return load_image(value, allow_remote=self.allow_remote)
            return load_image((self.image_dir or Path()) / value)
        # Where a library is not imported, there is no picture of it.
        torch, pillow = sys.modules.get("torch"), sys.modules.get("PIL.Image")
        if (torch and isinstance(value, torch.Tensor)) or (pillow and isinstance(value, pillow.Image)):
            return value
        raise PictureError(
            f"A picture is a path, an address, a tensor [3, h, w] or a Pillow image; this is a {type(value).__name__} "
            f"({_shown(value)})."
        )

    def images(self, value: Any, column: str) -> list[Any]:
        """The pictures of a column: of one, of a list of them, or of nothing (null or empty).

        Raises:
            DataError: one can't be loaded; the sentence names the column and the place in the list.
        """
        if value is None or (isinstance(value, (str, bytes, list, tuple)) and not value):
            return []
        listed_ones = value if isinstance(value, (list, tuple)) else [value]
        return list(self._each(listed_ones, f"Column {column!r}", numbered=listed_ones is value))

    def _each(self, values: Sequence[Any], where: str, numbered: bool) -> Iterator[Any]:
        for index, value in enumerate(values):
            try:
                yield self.image(value)
            except DataError as error:
                raise located(error, f"{where}, picture {index}" if numbered else where) from error.__cause__


def image_reader(image_dir: str | Path | None, allow_remote: bool) -> ImageReader:
    """The reader that two arguments of a message transform ask for.

    Raises:
        ConfigError: one of them can't be used.
    """
    if image_dir is not None and not isinstance(image_dir, (str, os.PathLike)):
        raise ConfigError(f"image_dir={image_dir!r} must be a folder's path, or None for the working folder.")
    _check_allow_remote(allow_remote)
    return ImageReader(image_dir=None if image_dir is None else Path(image_dir), allow_remote=allow_remote)


def _check_allow_remote(allow_remote: object) -> None:
    # A string "false" would be true.
    if not isinstance(allow_remote, bool):
        raise ConfigError(f"allow_remote={allow_remote!r} must be True or False.")


def _shown(value: Any) -> str:
    text = repr(str(value) if isinstance(value, os.PathLike) else value)
    return text if len(text) <= 100 else f"{text[:97]}..."
