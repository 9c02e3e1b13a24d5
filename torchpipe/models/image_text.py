"""What the transforms of image and text models share: a tokenizer, tiles, and images that are never cut in two."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import copy
from typing import Any, Literal, get_args, overload

from torchpipe.data.messages import Message
from torchpipe.data.sequences import truncate
from torchpipe.data.trace import TokenTrace
from torchpipe.errors import ColumnError, ConfigError, DataError, MediaError, TokenizerError, located
from torchpipe.tokenizers import FamilyTokenizer

MediaOverflow = Literal["error", "drop"]
"""What happens to a row that ``max_seq_len`` cuts before the end of an image.

``"error"``: a :class:`~torchpipe.errors.MediaError` with the counts. ``"drop"``: the images that are not whole go, with
the text after them, and ``num_images_dropped`` in the sample says how many.
"""


class ImageTextTransform:
    """A tokenizer together with what its model needs of images.

    Args:
        tokenizer: messages to tokens; cuts on the right.
        image_start: the control token that an image begins with.
        image_end: the one that it ends with; the same where an image is one token.
        media_overflow: see :data:`MediaOverflow`.

    Raises:
        ConfigError: an unknown ``media_overflow``.
        TokenizerError: the tokenizer has no token for images.
    """

    def __init__(
        self,
        tokenizer: FamilyTokenizer,
        *,
        image_start: str,
        image_end: str,
        media_overflow: MediaOverflow = "error",
    ) -> None:
        if media_overflow not in get_args(MediaOverflow):
            raise ConfigError(f"media_overflow is {media_overflow!r}. It can be 'error' or 'drop'.")
        for text in (image_start, image_end):
            if text not in tokenizer.special_tokens:
                raise TokenizerError(
                    f"The tokenizer has no control token {text!r}, which stands for an image. Is it the file of a text "
                    "model?"
                )
        self.tokenizer = tokenizer
        self.media_overflow: MediaOverflow = media_overflow
        self.special_tokens = tokenizer.special_tokens
        self.max_seq_len = tokenizer.max_seq_len
        self.prompt_template = tokenizer.prompt_template
        self.stop_tokens = tokenizer.stop_tokens
        self.pad_id = tokenizer.pad_id
        self.base_vocab_size = tokenizer.base_vocab_size
        self.vocab_size = tokenizer.vocab_size
        self._image_start_id = tokenizer.special_tokens[image_start]
        self._image_end_id = tokenizer.special_tokens[image_end]

    def encode(self, text: str, add_bos: bool = True, add_eos: bool = True) -> list[int]:
        """Ids of plain text, as the tokenizer's."""
        return self.tokenizer.encode(text, add_bos=add_bos, add_eos=add_eos)

    def decode(self, token_ids: Sequence[int], truncate_at_eos: bool = True, skip_special_tokens: bool = True) -> str:
        """Text of ids, as the tokenizer's."""
        return self.tokenizer.decode(token_ids, truncate_at_eos, skip_special_tokens)

    def described(self, part: Mapping[str, Any]) -> Mapping[str, Any]:
        """An image part with what the tokenizer has to know of the image, found without touching its pixels."""
        return part

    def tokenize_message(
        self, message: Message, add_start_tokens: bool = True, add_end_tokens: bool = True
    ) -> list[int]:
        """Ids of one message, images included; see :meth:`torchpipe.tokenizers.FamilyTokenizer.tokenize_message`."""
        (message,) = with_image_parts([message], self.described)
        return self.tokenizer.tokenize_message(
            message, add_start_tokens=add_start_tokens, add_end_tokens=add_end_tokens
        )

    @overload
    def tokenize_messages(
        self,
        messages: Sequence[Message],
        *,
        add_end_tokens: bool = True,
        add_eos: bool | None = None,
        trace: Literal[False] = False,
    ) -> tuple[list[int], list[bool]]: ...

    @overload
    def tokenize_messages(
        self,
        messages: Sequence[Message],
        *,
        add_end_tokens: bool = True,
        add_eos: bool | None = None,
        trace: Literal[True],
    ) -> tuple[list[int], list[bool], TokenTrace]: ...

    def tokenize_messages(
        self,
        messages: Sequence[Message],
        *,
        add_end_tokens: bool = True,
        add_eos: bool | None = None,
        trace: bool = False,
    ) -> tuple[list[int], list[bool]] | tuple[list[int], list[bool], TokenTrace]:
        """Ids and mask of a conversation, the same as a sample of it has; its images' pixels are not touched.

        Args:
            messages: the conversation.
            add_end_tokens: False leaves the last message open, for a model to go on from.
            add_eos: another name for ``add_end_tokens``.
            trace: True adds where each token comes from; the tokens of an image are of the kind "media".

        Returns:
            tokens and mask, of equal length; True = not trained. With ``trace``, the trace third.

        Raises:
            DataError: an image is not a picture.
            MediaError: ``max_seq_len`` cuts an image off, and ``media_overflow`` is "error".
        """
        closed = add_end_tokens if add_eos is None else add_eos
        messages = list(with_image_parts(messages, self.described))
        traced = None
        if trace:
            tokens, mask, traced = self.tokenizer.tokenize_messages(messages, add_end_tokens=closed, trace=True)
        else:
            tokens, mask = self.tokenizer.tokenize_messages(messages, add_end_tokens=closed)
        num_images = sum(len(message.get_media()) for message in messages)
        _, num_kept = self._whole_images(tokens, num_images, closed=closed)
        if num_kept < len(tokens):
            tokens, mask = self._cut(tokens, mask, num_kept, closed=closed)
            traced = traced and traced.truncate(num_kept, end_trained=False if closed else None)
        return (tokens, mask) if traced is None else (tokens, mask, traced)

    def tokenize_whole_images(
        self, sample: Mapping[str, Any], num_images: int, *, inference: bool
    ) -> tuple[dict[str, Any], int]:
        """The sample with ``messages`` replaced by ``tokens`` and ``mask``, and how many of its images are in them.

        Args:
            sample: has ``messages`` and ``encoder_input``.
            num_images: images of the messages.
            inference: True leaves the last message open.

        Raises:
            MediaError: fewer images than that, and ``media_overflow`` is "error".
        """
        result = self.tokenizer(sample, inference)
        tokens: list[int] = result["tokens"]
        num_whole, num_kept = self._whole_images(tokens, num_images, closed=not inference)
        if num_kept < len(tokens):
            result["num_truncated"] = result.get("num_truncated", 0) + len(tokens) - num_kept
            result["tokens"], result["mask"] = self._cut(tokens, result["mask"], num_kept, closed=not inference)
            if "token_weights" in result:
                result["token_weights"] = truncate(result["token_weights"], num_kept)
        if num_whole < num_images:
            result["num_images_dropped"] = num_images - num_whole
        return result, num_whole

    def _whole_images(self, tokens: Sequence[int], num_images: int, *, closed: bool) -> tuple[int, int]:
        """How many images are whole in the tokens, and how many tokens there are without one that is not."""
        num_whole = tokens.count(self._image_end_id)
        num_missing = num_images - num_whole
        if num_missing <= 0:
            return num_whole, len(tokens)
        if self.media_overflow == "error":
            raise MediaError(
                f"Of the row's {num_images} images, {num_missing} {'does' if num_missing == 1 else 'do'} not fit into "
                f"max_seq_len={self.max_seq_len}. Raise max_seq_len, set media_overflow='drop' to leave them out with "
                "the text after them, or drop the row with filter_fn."
            )
        starts = [position for position, token in enumerate(tokens) if token == self._image_start_id]
        if len(starts) <= num_whole:
            return num_whole, len(tokens)
        # The cut fell inside an image. One token more is for the document's end.
        return num_whole, starts[num_whole] + (1 if closed else 0)

    def _cut(self, tokens: list[int], mask: list[bool], num_kept: int, *, closed: bool) -> tuple[list[int], list[bool]]:
        eos_id, eos_mask = (self.tokenizer.eos_id, True) if closed else (None, None)
        return truncate(tokens, num_kept, eos_id), truncate(mask, num_kept, eos_mask)


def messages_of(sample: Mapping[str, Any]) -> list[Message]:
    """The sample's messages.

    Raises:
        ColumnError: it has none.
    """
    if "messages" not in sample:
        raise ColumnError(
            f"A multimodal transform needs `messages`, and the row has {sorted(sample)}. Its message_transform should "
            "return them."
        )
    return list(sample["messages"])


def with_image_parts(
    messages: Sequence[Message], change: Callable[[Mapping[str, Any]], Mapping[str, Any]]
) -> Iterator[Message]:
    """The messages, each image part replaced by what ``change`` makes of it; the given ones stay as they are.

    Raises:
        DataError: ``change`` refused an image; the message and the image are named.
    """
    for index, message in enumerate(messages):
        if not message.contains_media:
            yield message
            continue
        parts: list[dict[str, Any]] = []
        for part_index, part in enumerate(message.content):
            if part["type"] == "image":
                try:
                    part = dict(change(part))
                except DataError as error:
                    raise located(error, f"Message {index} ({message.role}), part {part_index}") from error
            parts.append(part)
        changed = copy(message)
        changed.content = parts
        yield changed
