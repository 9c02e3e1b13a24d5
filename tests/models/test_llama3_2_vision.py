"""Messages with images for Llama 3.2 Vision: keys, shapes, masks, and images that are never cut in two."""

import json
import pickle
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

from torchpipe.data import Message, PromptTemplate, mask_messages, padded_collate_tiled_images_and_mask
from torchpipe.data.ledger import SampleCounts
from torchpipe.data.sample_transforms import SFTTransform
from torchpipe.errors import ColumnError, ConfigError, DataError, MediaError, TokenizerError
from torchpipe.models.llama3_2_vision import Llama3VisionTransform, llama3_2_vision_transform
from torchpipe.tokenizers import LLAMA3

IMAGE_ID = 128_256


def picture(height: int, width: int) -> Image.Image:
    return Image.fromarray((np.arange(height * width * 3).reshape(height, width, 3) % 251).astype(np.uint8))


def image(height: int = 20, width: int = 20) -> dict[str, Any]:
    return {"type": "image", "content": picture(height, width)}


def text(content: str) -> dict[str, Any]:
    return {"type": "text", "content": content}


def chat() -> list[Message]:
    messages = [
        Message("user", [image(20, 20), text("What is this?")]),
        Message("assistant", "A pattern."),
        Message("user", [text("And "), image(30, 90), text(" or "), image(90, 30)]),
        Message("assistant", "Stripes."),
    ]
    mask_messages(messages, "train_on_assistant")
    return messages


@pytest.fixture(scope="module")
def path(llama3_tokenizer_file: Path) -> str:
    return str(llama3_tokenizer_file)


@lru_cache(maxsize=2)  # its tokenizer takes half a second to load
def small(path: str, **options: Any) -> Llama3VisionTransform:
    return Llama3VisionTransform(path, tile_size=28, patch_size=14, **options)


def test_a_sample_has_what_the_model_is_given(path: str) -> None:
    sample = {"messages": chat(), "id": 7}
    out = small(path)(sample)
    assert sorted(out) == ["encoder_input", "encoder_mask", "id", "mask", "tokens"]
    assert len(out["tokens"]) == len(out["mask"])
    assert out["tokens"].count(IMAGE_ID) == 3
    images, ratios = out["encoder_input"]["images"], out["encoder_input"]["aspect_ratio"]
    assert [tuple(tiles.shape) for tiles in images] == [(1, 3, 28, 28), (3, 3, 28, 28), (3, 3, 28, 28)]
    assert [ratio.tolist() for ratio in ratios] == [[1, 1], [1, 3], [3, 1]]
    assert {tiles.dtype for tiles in images} == {torch.bfloat16}
    assert [tuple(mask.shape) for mask in out["encoder_mask"]] == [(len(out["tokens"]), n * 5) for n in (1, 3, 3)]
    assert len(sample["messages"]) == 4, "the row is not changed"


def test_an_image_is_seen_from_its_token_to_the_next(path: str) -> None:
    out = small(path)({"messages": chat()})
    places = [place for place, token in enumerate(out["tokens"]) if token == IMAGE_ID]
    seen = [mask.all(1).nonzero().flatten().tolist() for mask in out["encoder_mask"]]
    stops = [*places[1:], len(out["tokens"])]
    assert seen == [list(range(start, stop)) for start, stop in zip(places, stops, strict=True)]


def test_only_the_assistants_text_is_trained(path: str) -> None:
    transform = small(path, mask_policy="sampled")
    out = transform({"messages": chat()})
    trained = [token for token, masked in zip(out["tokens"], out["mask"], strict=True) if not masked]
    assert transform.decode(trained, skip_special_tokens=False) == "A pattern.<|eot_id|>Stripes.<|eot_id|>"


def test_image_tokens_are_not_trained_even_where_their_message_is(path: str) -> None:
    out = small(path)({"messages": [Message("user", [image(), text("Hi")]), Message("assistant", "Yes")]})
    masked = {token for token, hidden in zip(out["tokens"], out["mask"], strict=True) if hidden}
    assert masked == {128_000, IMAGE_ID, 128_001}


def test_a_text_sample_has_empty_lists(path: str) -> None:
    out = small(path)({"messages": [Message("user", "Hi"), Message("assistant", "Yes")]})
    assert out["encoder_input"] == {"images": [], "aspect_ratio": []}
    assert out["encoder_mask"] == []


def test_inference_leaves_the_last_message_open(path: str) -> None:
    messages = [Message("user", [image(), text("What?")]), Message("assistant", "")]
    tokens = small(path)({"messages": messages}, inference=True)["tokens"]
    assert tokens[-1] == 271
    assert 128_001 not in tokens


def test_tensors_gray_ones_too_are_pictures(path: str) -> None:
    gray = torch.full((1, 30, 30), 200, dtype=torch.uint8)
    out = small(path)({"messages": [Message("user", [{"type": "image", "content": gray}]), Message("assistant", "g")]})
    assert out["encoder_input"]["images"][0].shape == (4, 3, 28, 28)


def test_labels_come_out_of_the_sft_transform(path: str) -> None:
    out = SFTTransform(model_transform=small(path))({"messages": chat()})
    assert len(out["labels"]) == len(out["tokens"])
    assert IMAGE_ID not in out["labels"]


def test_the_transform_stands_for_its_tokenizer(path: str) -> None:
    transform = small(path, max_seq_len=50)
    assert transform.vocab_size == 128_257
    assert transform.base_vocab_size == 128_000
    assert transform.pad_id == 128_004
    assert transform.stop_tokens == [128_001, 128_009, 128_008]
    assert transform.max_seq_len == 50
    assert transform.image_seq_len == 4 * 5
    assert transform.decode(transform.encode("a dog")) == "a dog"
    tokens, mask = transform.tokenize_messages(chat())
    open_ended = transform.tokenize_messages(chat(), add_eos=False)
    assert open_ended == transform.tokenize_messages(chat(), add_end_tokens=False) != (tokens, mask)
    assert (len(tokens), len(mask), tokens.count(IMAGE_ID)) == (37, 37, 3)


def test_a_row_that_is_cut_before_its_image_is_refused_with_counts(path: str) -> None:
    with pytest.raises(
        MediaError, match=r"Of the row's 3 images, 2 do not fit into max_seq_len=24\. Raise max_seq_len"
    ):
        small(path, max_seq_len=24)({"messages": chat()})
    with pytest.raises(RuntimeError, match=r"Of the row's 1 images, 1 does not fit"):
        small(path, max_seq_len=6)({"messages": chat()[:2]})


def test_images_beyond_the_cut_are_dropped_with_their_text_when_asked(path: str) -> None:
    transform = small(path, max_seq_len=24, media_overflow="drop")
    out = transform({"messages": chat()})
    assert len(out["tokens"]) == len(out["mask"]) == 24
    assert out["tokens"].count(IMAGE_ID) == 1
    assert len(out["encoder_input"]["images"]) == len(out["encoder_input"]["aspect_ratio"]) == 1
    assert [tuple(mask.shape) for mask in out["encoder_mask"]] == [(24, 5)]
    assert out["num_images_dropped"] == 2
    assert out["num_truncated"] == 13
    whole = small(path, media_overflow="drop")({"messages": chat()})
    assert "num_images_dropped" not in whole


def test_a_cut_after_the_last_image_keeps_all(path: str) -> None:
    out = small(path, max_seq_len=36)({"messages": chat()})
    assert out["tokens"].count(IMAGE_ID) == 3
    assert out["encoder_mask"][0].shape[0] == 36


def test_images_tokens_and_masks_always_agree(path: str) -> None:
    transform = small(path, media_overflow="drop")
    for max_seq_len in range(1, 39):
        transform.tokenizer.max_seq_len = max_seq_len
        out = transform({"messages": chat()})
        num_images = out["tokens"].count(IMAGE_ID)
        assert num_images + out.get("num_images_dropped", 0) == 3
        assert len(out["encoder_input"]["images"]) == len(out["encoder_mask"]) == num_images
        assert len(out["tokens"]) <= max_seq_len


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("a.png", r"Message 0 \(user\), part 1: An image is a str \('a.png'\), not a PIL image or a tensor"),
        (None, r"Message 0 \(user\), part 1: An image is a NoneType"),
        (torch.zeros(5, 4, 4), r"Message 0 \(user\), part 1: An image has the shape \[5, 4, 4\]"),
    ],
)
def test_what_is_no_picture_is_refused_where_it_stands(path: str, content: Any, message: str) -> None:
    part = {"type": "image", "content": content}
    with pytest.raises(DataError, match=message):
        small(path)({"messages": [Message("user", [text("See"), part]), Message("assistant", "a")]})


def test_a_row_without_messages_is_refused(path: str) -> None:
    with pytest.raises(ColumnError, match=r"needs `messages`, and the row has \['text'\]"):
        small(path)({"text": "a"})


def test_arguments_that_cannot_be_used_are_refused(path: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="media_overflow is 'ignore'. It can be 'error' or 'drop'"):
        small(path, media_overflow="ignore")
    # The control tokens of a text model's file, without <|image|>.
    added = [{"content": text, "id": 128_000 + n} for n, text in enumerate(LLAMA3.control_tokens[:-1])]
    special_tokens = tmp_path / "tokenizer.json"
    special_tokens.write_text(json.dumps({"added_tokens": added}))
    with pytest.raises(TokenizerError, match=r"The tokenizer has no control token '<\|image\|>', which stands for an"):
        small(path, special_tokens_path=str(special_tokens))


def test_the_builder_has_the_published_sizes(path: str) -> None:
    transform = llama3_2_vision_transform(path)
    assert transform.max_seq_len == 8192
    assert transform.image_seq_len == 4 * 1601
    assert transform.transform_image.tile_size == 560
    assert llama3_2_vision_transform(path, image_size=448).image_seq_len == 4 * 1025


@pytest.mark.parametrize("template", [{"user": ("Q: ", "")}, PromptTemplate({"user": ("Q: ", "")})])
def test_a_prompt_template_is_taken_as_a_table_or_an_object(path: str, template: Any) -> None:
    transform = llama3_2_vision_transform(path, image_size=28, prompt_template=template)
    out = transform({"messages": [Message("user", [image(), text("Hi")]), Message("assistant", "a")]})
    assert transform.decode(out["tokens"][5:9], skip_special_tokens=False) == "Q:<|image|>Hi"
    assert len(out["encoder_input"]["images"]) == 1


def test_it_can_be_sent_to_a_worker(path: str) -> None:
    transform = pickle.loads(pickle.dumps(small(path)))
    assert transform({"messages": chat()})["tokens"].count(IMAGE_ID) == 3


def test_real_pictures_of_a_real_row(path: str, shared_data: Path) -> None:
    pictures = [
        Image.open(shared_data / "xtuner" / "resource" / name)
        for name in ("mscoco_dog_000000319154.jpg", "mscoco_twocat_000000039769.jpg")
    ]
    parts = [{"type": "image", "content": opened} for opened in pictures]
    messages = [Message("user", [*parts, text("Which shows cats?")]), Message("assistant", "The second.")]
    out = llama3_2_vision_transform(path)({"messages": messages})
    for opened, tiles, ratio in zip(
        pictures, out["encoder_input"]["images"], out["encoder_input"]["aspect_ratio"], strict=True
    ):
        rows, columns = ratio.tolist()
        assert tiles.shape == (rows * columns, 3, 560, 560)
        assert (columns < rows) == (opened.width < opened.height) or rows == columns
    assert out["encoder_mask"][0].any(1).tolist() == [False] * 5 + [True] * (len(out["tokens"]) - 5)


def test_dropped_images_are_counted_beside_what_was_cut(path: str) -> None:
    transform = SFTTransform(model_transform=small(path, max_seq_len=24, media_overflow="drop"))
    counts = SampleCounts()
    for _ in range(2):
        counts.add(transform({"messages": chat()}))
    assert (counts.truncated_rows, counts.dropped_images) == (2, 4)
    assert "2 rows cut to max_seq_len (26 tokens left out); 4 images left out of them" in counts.describe()


def test_samples_with_and_without_images_make_one_batch(path: str) -> None:
    transform = SFTTransform(model_transform=small(path))
    text_only = [Message("user", "Hi"), Message("assistant", "Yes")]
    batch = padded_collate_tiled_images_and_mask([transform({"messages": rows}) for rows in (chat(), text_only)])
    assert batch["tokens"].shape == batch["labels"].shape == (2, 37)
    assert batch["encoder_input"]["images"].shape == (2, 3, 3, 3, 28, 28)
    assert batch["encoder_input"]["aspect_ratio"].shape == (2, 3, 2)
    assert batch["encoder_mask"].shape == (2, 37, 3 * 3 * 5)
    assert not batch["encoder_mask"][1].any()
