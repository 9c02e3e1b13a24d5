"""Positions with three counters, time, line and column, for models whose rotary embedding turns by each (M-RoPE)."""

from collections.abc import Iterator, Sequence

import numpy as np

from torchpipe.errors import MediaError

Grid = tuple[int, int, int]
"""Frames, lines and columns of the tokens of a picture or video."""


def mrope_positions(
    tokens: np.ndarray,
    positions: np.ndarray,
    *,
    images: Sequence[Grid],
    videos: Sequence[Grid],
    image_id: int | None,
    video_id: int | None,
) -> np.ndarray:
    """The three counters of each token: int64 [n, 3].

    A token of text has three equal ones. The tokens of a picture count its frames, lines and columns from the counter
    at which it begins, and what follows goes on after the largest of them. A document begins at 0. The rule is that of
    Qwen2-VL (https://arxiv.org/abs/2409.12191, section 2.1).

    Args:
        tokens: ids [n] of a batch.
        positions: [n], 0 where a document begins.
        images, videos: grids of tokens, as merged, in the order in which they stand. A video's frames may stand apart.
        image_id, video_id: the token that stands for a part of one; None: there is none.

    Raises:
        MediaError: there are more or fewer of these tokens than the grids have.

    >>> counted = mrope_positions(
    ...     np.array([5, 9, 9, 9, 9, 6]), np.arange(6), images=[(1, 2, 2)], videos=[], image_id=9, video_id=None
    ... )
    >>> counted.tolist()
    [[0, 0, 0], [1, 1, 1], [1, 1, 2], [1, 2, 1], [1, 2, 2], [3, 3, 3]]
    """
    counted = np.zeros((len(tokens), 3), dtype=np.int64)
    pictures, frames = iter(images), _Frames(videos)
    offset = 0
    for start, end in _runs(tokens, positions, (image_id, video_id)):
        if positions[start] == 0:
            offset = 0
        token = int(tokens[start])
        while start < end:
            room = end - start
            if token == image_id:
                grid = next(pictures, None)
            elif token == video_id:
                grid = frames.take(room)
            else:
                grid = (room, 1, 1)
            num = 0 if grid is None else grid[0] * grid[1] * grid[2]
            if grid is None or num > room:
                raise MediaError(
                    f"{room} tokens from {start} on stand for parts of pictures, and the next picture has {num}. Give "
                    "as many tokens as the pictures have patches after merging."
                )
            if token in (image_id, video_id):
                counted[start : start + num] = offset + np.indices(grid).reshape(3, -1).T
                offset += max(grid)
            else:
                counted[start : start + num] = offset + np.arange(num)[:, None]
                offset += num
            start += num
    if next(pictures, None) is not None or frames.are_left:
        raise MediaError("The batch has pictures for which no tokens stand. Give a token for each part of them.")
    return counted


class _Frames:
    """The frames of videos, taken as far as they stand together."""

    def __init__(self, videos: Sequence[Grid]) -> None:
        self._left = [list(grid) for grid in videos]

    @property
    def are_left(self) -> bool:
        return bool(self._left)

    def take(self, room: int) -> Grid | None:
        """The frames of the next video that ``room`` tokens hold; one where they hold none."""
        if not self._left:
            return None
        frames, lines, columns = self._left[0]
        taken = max(1, min(frames, room // (lines * columns)))
        self._left[0][0] -= taken
        if not self._left[0][0]:
            self._left.pop(0)
        return taken, lines, columns


def _runs(tokens: np.ndarray, positions: np.ndarray, media: tuple[int | None, int | None]) -> Iterator[tuple[int, int]]:
    """Stretches of text, or of the parts of one kind of media, none of which goes beyond its document."""
    kind = np.zeros(len(tokens), dtype=np.int8)
    for code, token_id in enumerate(media, start=1):
        if token_id is not None:
            kind[tokens == token_id] = code
    begins = (positions == 0) | (np.diff(kind, prepend=-1) != 0)
    starts = np.flatnonzero(begins).tolist()
    yield from zip(starts, [*starts[1:], len(tokens)], strict=True)
