"""Rows of text and pictures to samples of tokens and patches."""

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, ClassVar

import numpy as np

from torchpipe._suggest import listed
from torchpipe.constants import IGNORE_INDEX
from torchpipe.data.sequences import document_positions
from torchpipe.errors import ColumnError, DataError, MediaError
from torchpipe.pipeline.by_grain.packed_rows import MEDIA
from torchpipe.pipeline.functions import as_function
from torchpipe.pipeline.multimodal.vision_tokens import vision_ids
from torchpipe.pipeline.processors import Outcome, SampleProcessor
from torchpipe.pipeline.sequences import TextSequence
from torchpipe.pipeline.text_processor import TextProcessor
from torchpipe.pipeline.types import DatasetBuildContext
from torchpipe.vision.patches import Patches

_UNDECODED = frozenset({"image", "images", "jpg", "jpeg", "png", "webp", "video", "videos", "mp4", "texts"})

MultiModalSample = dict[str, Any]
"""``input_ids``, ``labels`` and ``positions``, int64 [n], and where a row has media, ``pixel_values`` and
``pixel_values_videos``: lists with an entry for each, a :class:`~torchpipe.vision.patches.Patches`, or pixels
[frames, height, width, channels], which the collator cuts into patches."""


class MultiModalProcessor(SampleProcessor):
    """A row of text and pictures as a sample: see :data:`MultiModalSample`.

    Taken are rows that hold a sample already, rows of ``text`` alone, and whatever ``sample_processor`` makes a sample
    of. Labels that are parts of a picture, or stand around one, are not trained. Pictures and videos that have to be
    decoded come with the multimodal data sets; a ``sample_processor`` of your own may decode them.

    A sample of more than ``max_context_length`` tokens is left out, and counted.

    Args:
        config: its settings.
        context: its tokenizer and ``max_context_length``.
    """

    deterministic: ClassVar[bool | None] = False  # what is stored of a planned graph is tokens alone
    can_be_read_ahead: ClassVar[bool] = True
    _unfingerprinted: ClassVar[frozenset[str]] = frozenset({"context"})

    @dataclass(kw_only=True, slots=True)
    class Config(SampleProcessor.Config):
        """The settings.

        Attributes:
            sample_processor: makes a sample of a row, or None; a function, or its dotted name. It is given the row
                and, by their names, the tokenizer and those of the settings below that it takes. None: rows are
                samples, or texts.
            patch_size, temporal_patch_size, spatial_merge_size: of patches, and how many lines and columns of them
                become one token.
            min_pixels, max_pixels, image_mean, image_std, resize_fn, max_patches, max_patches_per_side: of pictures.
            video_dir, video_fps, video_min_frames, video_max_frames: of videos.

        Raises:
            ConfigError: there is no such function.
        """

        function_arguments: ClassVar[tuple[str, ...]] = ("sample_processor", "resize_fn")
        sample_processor: Callable[..., Any] | None = None
        patch_size: int = 16
        temporal_patch_size: int = 2
        spatial_merge_size: int = 2
        min_pixels: int = 65_536
        max_pixels: int = 16_777_216
        image_mean: tuple[float, float, float] = (0.5, 0.5, 0.5)
        image_std: tuple[float, float, float] = (0.5, 0.5, 0.5)
        resize_fn: Callable[..., Any] | None = None
        max_patches: int = 4096
        max_patches_per_side: int = 512
        video_dir: str = ""
        video_fps: float = 2.0
        video_min_frames: int = 4
        video_max_frames: int = 768

        def __post_init__(self) -> None:
            for name in ("sample_processor", "resize_fn"):
                if getattr(self, name) is not None:
                    setattr(self, name, as_function(getattr(self, name), name))
            for name in ("image_mean", "image_std"):
                setattr(self, name, tuple(getattr(self, name)))

    def __init__(self, config: Config, *, context: DatasetBuildContext) -> None:
        super().__init__(config, context=context)
        self.tokenizer = context.tokenizer
        self.max_context_length = context.max_context_length
        self._ids = vision_ids(self.tokenizer)
        self._text = TextProcessor.Config().build(context=context) if config.sample_processor is None else None
        self._settings = {} if config.sample_processor is None else _taken(config, self.tokenizer)

    def __call__(self, sample: Any, rng: np.random.Generator) -> MultiModalSample | None:
        """The row's sample; None where there is none.

        Raises:
            DataError: the row is no sample, and none can be made of it.
        """
        return self.outcome(sample, rng).value

    def outcome(self, sample: Any, rng: np.random.Generator) -> Outcome:
        """The row's sample; where there is none "too_long", "empty", or "dropped" by ``sample_processor``."""
        if self.config.sample_processor is not None:
            made = self.config.sample_processor(sample, **self._settings)
            if made is None:
                return Outcome(None, "dropped")
        elif "input_ids" in sample:
            made = sample
        elif "text" in sample and not _UNDECODED & set(sample):
            made = self._text and self._text(sample, rng)
            if made is None:
                return Outcome(None, "empty")
        else:
            raise ColumnError(
                f"The row has {listed(sample)}, which is no sample of input_ids and labels; decoding pictures comes "
                "with the multimodal data sets. Give a sample_processor that makes one of it."
            )
        checked = self._checked(made)
        num_tokens = len(checked["input_ids"])
        if not num_tokens:
            return Outcome(None, "empty")
        return Outcome(None, "too_long") if num_tokens > self.max_context_length else Outcome(checked)

    def _checked(self, made: Any) -> MultiModalSample:
        """The sample in arrays, once it is known to be one."""
        held = fields_of(made)
        missing = [name for name in ("input_ids", "labels") if held.get(name) is None]
        if missing:
            raise DataError(f"A sample has input_ids and labels; this one lacks {listed(missing)}.")
        ids = _integers(held["input_ids"], "input_ids")
        labels = _integers(held["labels"], "labels")
        positions = held.get("positions")
        sequence = TextSequence(
            input_ids=ids,
            labels=np.where(np.isin(labels, list(self._ids.values())), IGNORE_INDEX, labels),
            positions=document_positions(len(ids), max(len(ids), 1))
            if positions is None
            else _integers(positions, "positions"),
        )
        media = {name: checked_media(held[name], name) for name in MEDIA if held.get(name) is not None}
        for name, token in zip(MEDIA, ("image_id", "video_id"), strict=True):
            if token in self._ids:
                self._check_places(ids, self._ids[token], media.get(name, []), name)
        return {
            "input_ids": sequence.input_ids,
            "labels": sequence.labels,
            "positions": sequence.positions,
            **media,
        }

    def _check_places(self, ids: np.ndarray, token_id: int, entries: Sequence[Any], name: str) -> None:
        config = self.config
        sizes = (config.temporal_patch_size, config.patch_size, config.patch_size)
        merged = config.spatial_merge_size**2
        num_patches = sum(int(np.prod(grid_of(entry, sizes))) for entry in entries)
        num_places = int((ids == token_id).sum())
        if num_places * merged != num_patches:
            raise MediaError(
                f"The sample has {num_places} tokens for parts of its {name}, which have {num_patches} patches, "
                f"{merged} to a token. Give a token for each part, or take the picture's tokens out with it."
            )


def fields_of(sample: Any) -> dict[str, Any]:
    """What a sample holds, by name: a mapping, or a :class:`~torchpipe.pipeline.TextSequence`.

    Raises:
        DataError: it is neither.
    """
    if isinstance(sample, Mapping):
        return dict(sample)
    if isinstance(sample, TextSequence):
        return {field.name: getattr(sample, field.name) for field in fields(sample)}
    raise DataError(
        f"A sample is a {type(sample).__name__}. It has to be a mapping with input_ids and labels, or a TextSequence."
    )


def checked_media(entries: Any, name: str) -> list[Any]:
    """The entries of a list of media, each patches or pixels.

    Raises:
        MediaError: it is no list, or an entry is something else, as a picture that has to be decoded.
    """
    if not isinstance(entries, list | tuple):
        raise MediaError(f"{name} is a {type(entries).__name__}. Give a list with an entry for each picture.")
    for index, entry in enumerate(entries):
        if not isinstance(entry, Patches) and not (hasattr(entry, "shape") and len(entry.shape) == 4):
            shape = f" of shape {list(entry.shape)}" if hasattr(entry, "shape") else ""
            raise MediaError(
                f"Entry {index} of {name} is a {type(entry).__name__}{shape}; decoding pictures comes with the "
                "multimodal data sets. Give Patches, or pixels [frames, height, width, channels]."
            )
    return list(entries)


def grid_of(entry: Any, sizes: tuple[int, int, int]) -> tuple[int, int, int]:
    """Frames, lines and columns of an entry's patches; ``sizes`` are the pixels of a patch in each."""
    if isinstance(entry, Patches):
        return entry.grid_thw
    frames, height, width = (-(-int(length) // size) for length, size in zip(entry.shape[:3], sizes, strict=True))
    return frames, height, width


def _taken(config: Any, tokenizer: Any) -> dict[str, Any]:
    """The settings that a ``sample_processor`` takes, by name."""
    settings = {field.name: getattr(config, field.name) for field in fields(config) if field.name != "sample_processor"}
    settings["tokenizer"] = tokenizer
    parameters = inspect.signature(config.sample_processor).parameters.values()
    if any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters):
        return settings
    return {parameter.name: settings[parameter.name] for parameter in parameters if parameter.name in settings}


def _integers(values: Any, name: str) -> np.ndarray:
    array = np.asarray(values)
    if array.ndim != 1 or (array.size and array.dtype.kind not in "iu"):
        raise DataError(f"{name} are {array.dtype} {list(array.shape)}. Give integers in one dimension.")
    return array.astype(np.int64)
