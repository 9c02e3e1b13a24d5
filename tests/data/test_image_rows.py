"""Message transforms on rows with pictures."""

import pickle
from pathlib import Path
from typing import Any

import pytest
import torch
from PIL import Image

from torchpipe.data import InputOutputToMessages, Message, OpenAIToMessages, ShareGPTToMessages
from torchpipe.errors import ConfigError, DataError

COLORS = ("red", "green", "blue")


@pytest.fixture
def pictures(tmp_path: Path) -> Path:
    for color in COLORS:
        Image.new("RGB", (2, 2), color).save(tmp_path / f"{color}.png")
    return tmp_path


def shown(message: Message) -> list[str]:
    """The parts of a message: its texts, and of pictures the colour."""
    colors = {(255, 0, 0): "red.png", (0, 128, 0): "green.png", (0, 0, 255): "blue.png"}
    return [
        part["content"] if part["type"] == "text" else colors[tuple(part["content"][:, 0, 0].tolist())]
        for part in message.content
    ]


def sharegpt(*turns: tuple[str, str], **more: Any) -> dict[str, Any]:
    return {"conversations": [{"from": speaker, "value": text} for speaker, text in turns], **more}


# --- InputOutputToMessages -----------------------------------------------------------------------------------------


def test_a_picture_stands_before_the_question(pictures: Path):
    transform = InputOutputToMessages(image_dir=str(pictures))
    row = {"input": "What is it?", "output": "Red.", "image": "red.png"}
    user, assistant = transform(row)["messages"]
    assert shown(user) == ["red.png", "What is it?"]
    assert user.get_media()[0].dtype == torch.uint8
    assert (user.masked, assistant.masked) == (True, False)
    assert row["image"] == "red.png"


def test_a_list_of_pictures_is_several_and_a_string_is_one(pictures: Path):
    transform = InputOutputToMessages(
        column_map={"input": "q", "output": "a", "image": "photos"}, image_dir=pictures, masking_strategy="train_on_all"
    )
    user, _ = transform({"q": "?", "a": "!", "photos": ["red.png", "blue.png"], "image": "not read"})["messages"]
    assert shown(user) == ["red.png", "blue.png", "?"]
    assert user.masked  # a user turn with a picture is never trained on
    user, _ = transform({"q": "?", "a": "!", "photos": "green.png"})["messages"]
    assert shown(user) == ["green.png", "?"]


def test_decoded_pictures_pass_as_they_are():
    for image in (torch.ones(3, 2, 2), Image.new("RGB", (2, 2))):
        user, _ = InputOutputToMessages()({"input": "?", "output": "!", "image": image})["messages"]
        assert user.get_media()[0] is image


def test_the_image_column_is_found_when_the_map_leaves_it_out(pictures: Path):
    transform = InputOutputToMessages(column_map={"input": "q", "output": "a"})
    user, _ = transform({"q": "?", "a": "!", "image": str(pictures / "red.png")})["messages"]
    assert shown(user) == ["red.png", "?"]


def test_image_dir_without_a_column_to_use_it_on_is_refused():
    with pytest.raises(ValueError, match="image_dir='photos' is for a column of pictures, and column_map names none"):
        InputOutputToMessages(column_map={"input": "q", "output": "a"}, image_dir="photos")


def test_a_missing_picture_is_named_with_its_column():
    with pytest.raises(DataError, match="Column 'image': The picture 'photos/no.png' does not exist"):
        InputOutputToMessages(image_dir="photos")({"input": "?", "output": "!", "image": "no.png"})


def test_text_in_the_image_column_is_refused():
    with pytest.raises(DataError, match=r"Column 'image': The picture 'a small dog' does not exist.*if this is text"):
        InputOutputToMessages()({"input": "?", "output": "!", "image": "a small dog"})


# --- ShareGPTToMessages --------------------------------------------------------------------------------------------


def test_a_picture_stands_where_its_tag_is(pictures: Path):
    row = sharegpt(("human", "<image>\nWhat is it?"), ("gpt", "An <image>."), image="red.png")
    user, assistant = ShareGPTToMessages(image_dir=pictures)(row)["messages"]
    assert shown(user) == ["red.png", "\nWhat is it?"]
    assert shown(assistant) == ["An <image>."]
    assert (user.masked, assistant.masked) == (True, False)


def test_several_pictures_go_to_the_tags_of_several_turns_in_order(pictures: Path):
    row = sharegpt(
        ("human", "[p] and [p]?"), ("gpt", "a"), ("human", "again [p]"), ("gpt", "b"), ("human", "and?"), ("gpt", "c"),
        photos=["red.png", "green.png", "blue.png"],
    )  # fmt: skip
    transform = ShareGPTToMessages(
        column_map={"conversations": "conversations", "image": "photos"}, image_dir=pictures, image_tag="[p]"
    )
    users = [message for message in transform(row)["messages"] if message.role == "user"]
    assert [shown(user) for user in users] == [
        ["red.png", " and ", "green.png", "?"],
        ["again ", "blue.png"],
        ["and?"],
    ]


def test_without_a_tag_pictures_stand_before_the_first_question(pictures: Path):
    row = sharegpt(("system", "s"), ("human", "<image>?"), ("gpt", "a"), image=["red.png", "blue.png"])
    transform = ShareGPTToMessages(image_dir=pictures, image_tag=None, new_system_prompt="new")
    system, user, _ = transform(row)["messages"]
    assert shown(system) == ["new"]
    assert shown(user) == ["red.png", "blue.png", "<image>?"]


def test_a_row_without_an_image_column_is_text_tags_and_all():
    user, _ = ShareGPTToMessages()(sharegpt(("human", "an <image> tag"), ("gpt", "a")))["messages"]
    assert user.content == [{"type": "text", "content": "an <image> tag"}]


@pytest.mark.parametrize(
    ("text", "image", "sentence"),
    [
        ("no tag", "red.png", "has the tag '<image>' 0 times, and there is 1 picture"),
        ("<image><image>", "red.png", "has the tag '<image>' 2 times, and there is 1 picture"),
        ("<image>", None, "has the tag '<image>' 1 times, and there are 0 pictures"),
        ("<image>", "no.png", "Column 'image': The picture '.*no.png' does not exist"),
    ],
)
def test_tags_and_pictures_that_do_not_match_are_refused(pictures: Path, text: str, image: Any, sentence: str):
    with pytest.raises(DataError, match=sentence):
        ShareGPTToMessages(image_dir=pictures)(sharegpt(("human", text), ("gpt", "a"), image=image))


def test_a_picture_that_no_user_turn_can_show_is_refused(pictures: Path):
    with pytest.raises(DataError, match="no user turn to show them in"):
        ShareGPTToMessages(image_dir=pictures)(sharegpt(("system", "s"), ("gpt", "a"), image="red.png"))


def test_an_empty_image_tag_is_refused():
    with pytest.raises(ConfigError, match="image_tag='' must be the text that stands for a picture"):
        ShareGPTToMessages(image_tag="")


# --- OpenAIToMessages ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("wrapped", [True, False])
def test_image_url_parts_are_loaded_in_place(pictures: Path, wrapped: bool):
    def part(name: str) -> dict[str, Any]:
        return {"type": "image_url", "image_url": {"url": name, "detail": "low"} if wrapped else name}

    content = [{"type": "text", "text": "a"}, part("blue.png"), {"type": "text", "text": "b", "image_url": None}]
    row = {"messages": [{"role": "user", "content": content}, {"role": "assistant", "content": "!"}]}
    user, _ = OpenAIToMessages(image_dir=pictures)(row)["messages"]
    assert shown(user) == ["a", "blue.png", "b"]
    assert content[1] == part("blue.png")


@pytest.mark.parametrize(
    ("held", "sentence"),
    [
        (None, r"Part 0 of turn 0 \('user'\) has no address under 'image_url'"),
        ({"file_id": "x"}, "has no address under 'image_url'"),
        ({"url": "no.png"}, r"Part 0 of turn 0 \('user'\): The picture 'no.png' does not exist"),
        (
            {"url": "data:image/png;base64,aGVsbG8="},
            "'data:image/png;base64,aGVsbG8=' is not an image",
        ),
    ],
)
def test_an_image_url_that_leads_nowhere_is_refused_with_its_turn(held: Any, sentence: str):
    row = {"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": held}]}]}
    with pytest.raises(DataError, match=sentence):
        OpenAIToMessages()(row)


# --- all -----------------------------------------------------------------------------------------------------------

ADDRESS = "https://example.invalid/a.png"
REMOTE: list[tuple[Any, dict[str, Any]]] = [
    (InputOutputToMessages, {"input": "?", "output": "!", "image": ADDRESS}),
    (ShareGPTToMessages, sharegpt(("human", "<image>"), ("gpt", "a"), image=[ADDRESS])),
    (
        OpenAIToMessages,
        {"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": ADDRESS}}]}]},
    ),
]


@pytest.mark.parametrize(("transform", "row"), REMOTE)
def test_one_setting_refuses_remote_addresses(transform: Any, row: dict[str, Any]):
    with pytest.raises(DataError, match=r"'https://example\.invalid/a\.png' is at a remote address, and"):
        transform(allow_remote=False, image_dir="photos")(row)
    with pytest.raises(ConfigError, match="allow_remote='no' must be True or False"):
        transform(allow_remote="no")


@pytest.mark.parametrize(("transform", "row"), REMOTE)
def test_a_transform_with_image_settings_can_be_pickled(transform: Any, row: dict[str, Any]):
    copy = pickle.loads(pickle.dumps(transform(image_dir="photos", allow_remote=False)))
    with pytest.raises(DataError, match="allow_remote=False"):
        copy(row)
