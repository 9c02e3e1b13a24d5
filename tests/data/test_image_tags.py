import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from torchpipe.data import format_content_with_images
from torchpipe.data.image_tags import place_images
from torchpipe.errors import ConfigError, DataError


def test_pictures_stand_where_their_tags_are_and_the_list_stays_as_it_is():
    images = ["one", "two"]
    assert format_content_with_images("a<image>b <image>", image_tag="<image>", images=images) == [
        {"type": "text", "content": "a"},
        {"type": "image", "content": "one"},
        {"type": "text", "content": "b "},
        {"type": "image", "content": "two"},
    ]
    assert images == ["one", "two"]


def test_text_without_tags_is_one_part_and_no_text_is_none():
    assert format_content_with_images("a", image_tag="<image>", images=[]) == [{"type": "text", "content": "a"}]
    assert format_content_with_images("", image_tag="<image>", images=[]) == []


@pytest.mark.parametrize(
    ("text", "images", "sentence"),
    [
        ("<image>", [], "has the tag '<image>' 1 times, and there are 0 pictures"),
        ("a", ["one"], "has the tag '<image>' 0 times, and there is 1 picture"),
        ("<image><image>", ["one"], "2 times, and there is 1 picture. It needs one tag for every picture"),
    ],
)
def test_more_or_fewer_tags_than_pictures_are_refused(text: str, images: list[str], sentence: str):
    with pytest.raises(DataError, match=sentence):
        format_content_with_images(text, image_tag="<image>", images=images)
    with pytest.raises(DataError, match=sentence):
        place_images([text], image_tag="<image>", images=images)


@pytest.mark.parametrize("tag", ["", 3])
def test_a_tag_that_splits_nothing_is_refused(tag: str):
    with pytest.raises(ConfigError, match="must be the text that stands for a picture"):
        format_content_with_images("a", image_tag=tag, images=[])


def test_several_turns_share_the_pictures_in_order():
    placed = place_images(["<i>?", "no", "<i><i>"], image_tag="<i>", images=[1, 2, 3])
    assert [[part["content"] for part in parts] for parts in placed] == [[1, "?"], ["no"], [2, 3]]


def test_without_a_tag_all_pictures_stand_in_front_of_the_first_text():
    placed = place_images(["<image>", "b"], image_tag=None, images=[1, 2])
    assert [[part["content"] for part in parts] for parts in placed] == [[1, 2, "<image>"], ["b"]]
    assert place_images([], image_tag=None, images=[]) == []


def test_pictures_without_a_text_to_hold_them_are_refused():
    for tag in (None, "<image>"):
        with pytest.raises(DataError, match="The row has 1 picture, and no user turn to show them in"):
            place_images([], image_tag=tag, images=[1])


@settings(deadline=None)
@given(st.lists(st.lists(st.sampled_from(["<i>", "a", "\n", "<i", "i>"]), max_size=6).map("".join), max_size=4))
def test_text_and_pictures_put_back_together_are_the_row(texts: list[str]):
    images = list(range(sum(text.count("<i>") for text in texts)))
    placed = place_images(texts, image_tag="<i>", images=images)
    assert ["".join(p["content"] if p["type"] == "text" else "<i>" for p in parts) for parts in placed] == texts
    assert [part["content"] for parts in placed for part in parts if part["type"] == "image"] == images
