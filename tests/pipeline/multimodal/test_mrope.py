"""Three counters a token, against transformers' Qwen2-VL."""

from functools import partial
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from torchpipe.errors import MediaError
from torchpipe.pipeline.multimodal.mrope import Grid, mrope_positions

IMAGE, VIDEO = 8, 9
TEXT = st.lists(st.integers(1, 7), min_size=1, max_size=4)
IMAGES = st.tuples(st.just("image"), st.tuples(st.just(1), st.integers(1, 3), st.integers(1, 3)))
VIDEOS = st.tuples(st.just("video"), st.tuples(st.integers(1, 2), st.integers(2, 3), st.integers(2, 3)))


def row_of(parts: list[tuple[list[int], tuple[str, Grid]]]) -> tuple[np.ndarray, list[Grid], list[Grid]]:
    """The tokens of texts and of what stands between them, and the grids."""
    tokens: list[int] = []
    grids: dict[str, list[Grid]] = {"image": [], "video": []}
    for text, (kind, grid) in parts:
        tokens += [*text, *[IMAGE if kind == "image" else VIDEO] * int(np.prod(grid))]
        grids[kind].append(grid)
    return np.array(tokens), grids["image"], grids["video"]


def of_transformers(tokens: np.ndarray, images: list[Grid], videos: list[Grid]) -> list[list[int]]:
    from transformers.models.qwen2_vl.modeling_qwen2_vl import Qwen2VLModel

    model: Any = SimpleNamespace(config=SimpleNamespace(vision_config=SimpleNamespace(spatial_merge_size=1)))
    model.get_vision_position_ids = partial(Qwen2VLModel.get_vision_position_ids, model)
    whole: Any = torch.tensor
    kinds: Any = torch.tensor(np.select([tokens == IMAGE, tokens == VIDEO], [1, 2], 0))
    found, _ = Qwen2VLModel.get_rope_index(
        model,
        *(whole(tokens)[None], kinds[None]),
        image_grid_thw=whole(images) if images else None,
        video_grid_thw=whole(videos) if videos else None,
    )
    return found[:, 0].T.tolist()


@settings(max_examples=40, deadline=None)
@given(st.lists(st.lists(st.tuples(TEXT, st.one_of(IMAGES, VIDEOS)), min_size=1, max_size=3), min_size=1, max_size=3))
def test_each_document_counts_as_transformers_counts_it(
    documents: list[list[tuple[list[int], tuple[str, Grid]]]],
) -> None:
    rows = [row_of(parts) for parts in documents]
    counted = mrope_positions(
        np.concatenate([tokens for tokens, _, _ in rows]),
        np.concatenate([np.arange(len(tokens)) for tokens, _, _ in rows]),
        images=[grid for _, images, _ in rows for grid in images],
        videos=[grid for _, _, videos in rows for grid in videos],
        image_id=IMAGE,
        video_id=VIDEO,
    )
    assert counted.tolist() == [place for row in rows for place in of_transformers(*row)]


def test_pictures_beside_each_other_are_told_apart() -> None:
    tokens = np.array([1, *[IMAGE] * 8])
    counted = mrope_positions(
        tokens, np.arange(9), images=[(1, 2, 2), (1, 1, 4)], videos=[], image_id=IMAGE, video_id=None
    )
    assert counted[1:5].tolist() == [[1, 1, 1], [1, 1, 2], [1, 2, 1], [1, 2, 2]]
    assert counted[5:].tolist() == [[3, 3, 3], [3, 3, 4], [3, 3, 5], [3, 3, 6]]


def test_the_frames_of_a_video_may_stand_apart() -> None:
    tokens = np.array([VIDEO, VIDEO, 1, VIDEO, VIDEO])
    counted = mrope_positions(tokens, np.arange(5), images=[], videos=[(2, 1, 2)], image_id=IMAGE, video_id=VIDEO)
    assert counted.tolist() == [[0, 0, 0], [0, 0, 1], [2, 2, 2], [3, 3, 3], [3, 3, 4]]


@pytest.mark.parametrize(("num", "said"), [(3, "3 tokens from 1 on stand for .* the next picture has 4"), (5, "has 0")])
def test_as_many_tokens_as_a_picture_has_parts_are_needed(num: int, said: str) -> None:
    tokens = np.array([1, *[IMAGE] * num])
    with pytest.raises(MediaError, match=said):
        mrope_positions(tokens, np.arange(len(tokens)), images=[(1, 2, 2)], videos=[], image_id=IMAGE, video_id=VIDEO)


def test_a_picture_without_tokens_is_refused() -> None:
    for images, videos in (([(1, 1, 1)], []), ([], [(1, 1, 1)])):
        with pytest.raises(MediaError, match="has pictures for which no tokens stand"):
            mrope_positions(np.array([1]), np.array([0]), images=images, videos=videos, image_id=IMAGE, video_id=VIDEO)
