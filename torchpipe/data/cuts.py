"""Cutting a sample: where a cut may fall, and what goes with it."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any, Literal

from torchpipe.constants import IGNORE_INDEX
from torchpipe.data.whole_row import Cut, TokenRange, WholeRow
from torchpipe.errors import MediaError


def cut_on_a_side(
    whole: WholeRow, max_seq_len: int, side: Literal["right", "left"], *, keep_stop: bool
) -> dict[str, Any]:
    """The sample without its end or its beginning. Calls with their results, and images, are left out as a whole.

    Raises:
        MediaError: an image would be left out, and the transform's ``media_overflow`` is "error".
    """
    tokens, mask = whole.sample["tokens"], whole.sample["mask"]
    together = [*whole.call_ranges, *whole.media_ranges]
    lost_stop = None
    if side == "left":
        cut = Cut(start=_after(together, len(tokens) - max_seq_len), stop=len(tokens), side=side)
    else:
        cut = Cut(start=0, stop=_before(together, max_seq_len), side=side)
        lost_stop = stop_beyond(tokens, mask, cut.stop, stop_ids(whole.parts))
        # Without a trained token before it, the stop token would teach to answer nothing.
        if lost_stop is not None and keep_stop and cut.stop > 1 and not mask[cut.stop - 2]:
            cut = replace(cut, stop_from=lost_stop)
    sample = whole.part(cut)
    if cut.stop < len(tokens) and cut.stop > 0:
        # What the last kept position was to predict is gone.
        sample["labels"][-1] = IGNORE_INDEX
        if "loss_weights" in sample:
            sample["loss_weights"][-1] = 0.0
    if lost_stop is not None and cut.stop_from is None:
        sample["lost_stop"] = True
    if num_lost := whole.num_images and whole.num_images - len(whole.whole_images(cut)):
        if getattr(whole.parts, "media_overflow", "error") == "error":
            raise MediaError(
                f"Of the row's {whole.num_images} images, {num_lost} {'does' if num_lost == 1 else 'do'} not fit into "
                f"max_seq_len={max_seq_len}. Raise it, set media_overflow='drop' on the transform to leave them out, "
                "or set overflow='drop'.",
                reason="too_long",
            )
        sample["num_images_dropped"] = num_lost
    return sample


def split_row(whole: WholeRow, max_seq_len: int) -> list[dict[str, Any]]:
    """The row as samples, one after the other, which hold each token once.

    A sample ends where a turn begins if one does within reach, else as late as possible. A call is parted from its
    results only where they are longer than a sample. The last label of a sample is the first token of the next, if
    that is trained: each token is a target as often as in the whole row.

    Raises:
        MediaError: an image alone is longer than a sample.
        DataError: it can't be told where calls or images stand.
    """
    num_tokens = len(whole.sample["tokens"])
    pieces, start = [], 0
    while start < num_tokens:
        stop = num_tokens
        if num_tokens - start > max_seq_len:
            latest = start + max_seq_len
            stop = max((turn for turn in whole.turns if start < turn <= latest), default=0)
            stop = stop or _before([*whole.call_ranges, *whole.media_ranges], latest)
            stop = stop if stop > start else _before(whole.media_ranges, latest)
            if stop <= start:
                raise MediaError(
                    f"An image of the row has more tokens than max_seq_len={max_seq_len} holds. Raise it, or set "
                    "overflow='drop'.",
                    reason="too_long",
                )
        pieces.append(whole.part(Cut(start=start, stop=stop)))
        start = stop
    return pieces


def stop_beyond(tokens: Sequence[int], mask: Sequence[bool], cut: int, stops: set[int]) -> int | None:
    """The place of the stop token that a cut before token ``cut`` takes from a trained turn; None if it takes none.

    >>> stop_beyond([1, 7, 8, 2, 1], [True, False, False, False, True], 2, {2})
    3
    """
    if not 0 < cut < len(tokens) or mask[cut - 1] or mask[cut] or tokens[cut - 1] in stops:
        return None
    end = next((place for place in range(cut, len(tokens)) if mask[place]), len(tokens))
    return next((place for place in range(cut, end) if tokens[place] in stops), None if stops else end - 1)


def stop_ids(parts: Any) -> set[int]:
    """The tokens at which sampling stops, as far as the model transform says."""
    eos_id = getattr(parts, "eos_id", None)
    return {*(getattr(parts, "stop_tokens", None) or ()), *([] if eos_id is None else [eos_id])}


def _before(together: Iterable[TokenRange], cut: int) -> int:
    """The last place up to ``cut`` that is inside of no range. Of one range inside of another the outer decides."""
    return min([first for first, end in together if first < cut < end], default=cut)


def _after(together: Iterable[TokenRange], cut: int) -> int:
    """The first place from ``cut`` on that is inside of no range."""
    return max([end for first, end in together if first < cut < end], default=cut)
