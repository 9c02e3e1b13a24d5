"""The tokenizer class of every model family that is described by a :class:`ChatFormat`."""

from collections.abc import Mapping, Sequence
from functools import cache, cached_property, partial
from typing import Any, ClassVar, Literal, get_args, overload

from torchpipe.data.cuts import stop_beyond, stop_ids
from torchpipe.data.loss_weights import are_weighted, token_weights
from torchpipe.data.messages import Message, Role
from torchpipe.data.prompt_templates import PromptTemplateInterface
from torchpipe.data.prompt_templates import prompt_template as as_prompt_template
from torchpipe.data.sequences import truncate
from torchpipe.data.trace import TokenTrace
from torchpipe.data.train_on import TrainOnLike, as_train_on
from torchpipe.data.unwritable import refuse_tools
from torchpipe.errors import ColumnError, ConfigError, TokenizerError, UnwritableError
from torchpipe.tokenizers.backend import Backend
from torchpipe.tokenizers.chat_format import ChatFormat
from torchpipe.tokenizers.choices import check_choice, check_max_seq_len
from torchpipe.tokenizers.frames import Frames, has_frames
from torchpipe.tokenizers.huggingface import HuggingFaceBackend
from torchpipe.tokenizers.joined_text import as_text
from torchpipe.tokenizers.provenance import trace_segments
from torchpipe.tokenizers.render import FormatEncoder, MaskPolicy, render
from torchpipe.tokenizers.token_mask import tokens_and_mask
from torchpipe.tokenizers.vocabulary import Vocabulary

PromptTemplateLike = PromptTemplateInterface | Mapping[Role, tuple[str, str]] | str | None
"""A template, a table of role to (before, after), or the dotted name of a template's class."""


class ChatFormatTokenizer(Vocabulary):
    """A :class:`~torchpipe.data.protocols.ModelTokenizer` and a model transform: messages to tokens and mask.

    Text never becomes a control token: the pieces of a conversation are encoded apart, control tokens are placed by id.

    Args:
        backend: ordinary text to ids.
        chat_format: how the family writes a conversation.
        special_tokens: ids of the control tokens by text. None: those that the tokenizer file lists, and the family's
            others numbered from the end of the ordinary vocabulary (a ``tokenizer.json`` lists all).
        max_seq_len: the most tokens a sample may have; longer ones are cut. None: no limit.
        prompt_template: changes the messages before they are rendered: a template, a table of role to (before, after),
            or a dotted name to call.
        truncation_type: the side that is cut. Cut on the right, the last token becomes the document's end.
        mask_policy: which tokens of a trained message are trained; see :data:`~torchpipe.tokenizers.render.MaskPolicy`.
        train_on: which parts of these count: a :class:`~torchpipe.data.train_on.TrainOn`, or a table of its fields;
            None: all. These formats write no reasoning apart, so ``reasoning`` can't be False.

    Attributes:
        bos_id, eos_id: what :meth:`encode` puts around a text; bos_id is None where the family has no such token.
        pad_id: what fills a batch.
        stop_tokens: ids at which sampling stops.
        vocab_size: one past the largest id, control tokens included; base_vocab_size: without them.

    Raises:
        TokenizerError: a control token of the format has no id, or one that an ordinary token has.
        ConfigError: max_seq_len, truncation_type or mask_policy is not possible, or the prompt template spells a
            control token that the format writes itself.
    """

    def __init__(
        self,
        backend: Backend,
        chat_format: ChatFormat,
        *,
        special_tokens: Mapping[str, int] | None = None,
        max_seq_len: int | None = None,
        prompt_template: PromptTemplateLike = None,
        truncation_type: Literal["left", "right"] = "right",
        mask_policy: MaskPolicy = "message",
        train_on: TrainOnLike = None,
    ) -> None:
        check_max_seq_len(max_seq_len)
        check_choice("truncation_type", truncation_type, ("left", "right"))
        check_choice("mask_policy", mask_policy, get_args(MaskPolicy))
        super().__init__(backend, _control_ids(backend, chat_format, special_tokens))
        self.chat_format = chat_format
        self.max_seq_len = max_seq_len
        self.prompt_template = as_prompt_template(prompt_template)
        self.truncation_type: Literal["left", "right"] = truncation_type
        self.mask_policy: MaskPolicy = mask_policy
        self.train_on = as_train_on(train_on)
        if not self.train_on.reasoning and chat_format.layout is None:
            raise ConfigError(
                f"train_on reasoning is False, and the {chat_format.name} format writes no reasoning apart from the "
                "text. Leave it out, or use the model's chat template."
            )
        unencoded = FormatEncoder(chat_format, as_text, self.special_tokens)  # it finds control tokens that are missing
        if self.prompt_template is not None:
            _refuse_control_tokens(self.prompt_template, unencoded)
        self.eos_id = unencoded.control_id(chat_format.eos)
        self.bos_id = None if chat_format.bos is None else unencoded.control_id(chat_format.bos)
        self.pad_id = unencoded.control_id(chat_format.pad)
        self.stop_tokens = [unencoded.control_id(control) for control in chat_format.stop]

    _row_columns: ClassVar[tuple[str, ...]] = ("messages",)
    """What a row's tokens and mask take the place of."""

    @property
    def _row_methods(self) -> tuple[Any, ...]:
        """The class that turns rows into ids, and the methods by which it does."""
        return ChatFormatTokenizer, "__call__", "_tokenize", "_as_sample", "_truncate"

    @cached_property
    def _encoder(self) -> FormatEncoder:
        """The format in this tokenizer's ids. Its texts are encoded when the first conversation is."""
        return FormatEncoder(self.chat_format, self.backend.encode, self.special_tokens)

    @cached_property
    def _frames(self) -> Frames | None:
        """What stands around texts, by outline; None where that depends on the texts."""
        if not has_frames(self.chat_format):
            return None
        return Frames(self.chat_format, self.backend, partial(render, encoder=self._encoder))

    @overload
    def tokenize_messages(
        self,
        messages: Sequence[Message],
        *,
        add_start_tokens: bool = True,
        add_end_tokens: bool = True,
        add_eos: bool | None = None,
        trace: Literal[False] = False,
    ) -> tuple[list[int], list[bool]]: ...

    @overload
    def tokenize_messages(
        self,
        messages: Sequence[Message],
        *,
        add_start_tokens: bool = True,
        add_end_tokens: bool = True,
        add_eos: bool | None = None,
        trace: Literal[True],
    ) -> tuple[list[int], list[bool], TokenTrace]: ...

    def tokenize_messages(
        self,
        messages: Sequence[Message],
        *,
        add_start_tokens: bool = True,
        add_end_tokens: bool = True,
        add_eos: bool | None = None,
        trace: bool = False,
    ) -> tuple[list[int], list[bool]] | tuple[list[int], list[bool], TokenTrace]:
        """Ids and mask of a conversation, cut to ``max_seq_len``.

        Args:
            messages: the conversation.
            add_start_tokens: False leaves out what starts the document.
            add_end_tokens: False leaves the last message open, for a model to go on from.
            add_eos: another name for ``add_end_tokens``, which torchtune uses for some families.
            trace: True adds where each token comes from, and why it is or is not trained. Its message indices count
                the messages as the prompt template left them.

        Returns:
            tokens and mask, of equal length; True in the mask = not trained. With ``trace``, the trace third.
        """
        ends = add_end_tokens if add_eos is None else add_eos
        tokens, mask = self._tokenize(messages, ends, add_start_tokens=add_start_tokens)
        tokens, mask = self._truncate(tokens, mask, ends)
        return (tokens, mask, self._trace(messages, add_start_tokens, ends, tokens, mask)) if trace else (tokens, mask)

    def __call__(self, sample: Mapping[str, Any], inference: bool = False) -> dict[str, Any]:
        """The sample with ``messages`` replaced by ``tokens`` and ``mask`` (lists of equal length; True = not trained).

        Where tokens had to be cut to ``max_seq_len``, ``num_truncated`` says how many, and ``lost_stop`` is True if a
        trained turn lost its stop token. Where messages have weights that a mask can't say, ``token_weights`` has a
        float for each token.

        Raises:
            ColumnError: there are no ``messages``.
            DataError: the format has no place for something: an image, tools, calls, reasoning, a speaker's name.
        """
        if "messages" not in sample:
            raise ColumnError(
                f"The tokenizer needs `messages`, and the row has {sorted(sample)}. Its message_transform should "
                "return them."
            )
        if "encoder_input" not in sample:
            _refuse_media(sample["messages"], self.chat_format.name)
        refuse_tools(sample, format_name=self.chat_format.name)
        made = self._as_sample(sample, *self._tokenize(sample["messages"], not inference), not inference)
        if are_weighted(sample["messages"]):
            weights = self._token_weights(sample["messages"], not inference)
            made["token_weights"] = truncate(weights, self.max_seq_len, truncation_type=self.truncation_type)
        return made

    def _as_sample(
        self, sample: Mapping[str, Any], tokens: list[int], mask: list[bool], add_end_tokens: bool
    ) -> dict[str, Any]:
        """What becomes of a row without weights, given its whole conversation's ids and mask."""
        made = {key: value for key, value in sample.items() if key not in self._row_columns}
        made["tokens"], made["mask"] = kept_tokens, kept_mask = self._truncate(tokens, mask, add_end_tokens)
        if self.max_seq_len is not None and len(kept_tokens) < len(tokens):
            made["num_truncated"] = len(tokens) - len(kept_tokens)
            end = self.max_seq_len - (kept_mask[-1] and not mask[self.max_seq_len - 1])  # without the end that was put
            if self.truncation_type == "right" and stop_beyond(tokens, mask, end, stop_ids(self)) is not None:
                made["lost_stop"] = True
        return made

    def as_arrays(self, samples: Sequence[Mapping[str, Any]], inference: bool = False) -> list[dict[str, Any]]:
        """What calling it returns for each sample, faster: ``tokens`` and ``mask`` are arrays where they can be.

        That is where all messages are plain texts of weight 1, in a format that writes the same around any text.
        ``tokens`` are uint32 then, ``mask`` is bool. In other samples, and in those that are cut, both are lists.

        Raises:
            TorchpipeError: a sample's own error, which doesn't say of which; see :meth:`__call__`.
        """
        whole = self._frames is not None and self.prompt_template is None and self.train_on.is_all
        call = partial(self, inference=True) if inference else self
        ours = _calls_are_ours(type(self), *self._row_methods) and not (inference and self.chat_format.layout)
        if self._frames is None or not whole or not ours:
            return [call(sample) for sample in samples]
        conversations = [() if sample.get("tools") else sample.get("messages", ()) for sample in samples]
        limit = self.max_seq_len
        made: list[dict[str, Any]] = []
        all_filled = self._frames.fill(conversations, self.mask_policy, ends=not inference)
        for sample, filled in zip(samples, all_filled, strict=True):
            if filled is None:
                made.append(call(sample))
            elif limit is not None and len(filled[0]) > limit:
                made.append(self._as_sample(sample, filled[0].tolist(), filled[1].tolist(), not inference))
            else:
                result = {key: value for key, value in sample.items() if key not in self._row_columns}
                result["tokens"], result["mask"] = filled
                made.append(result)
        return made

    def _tokenize(
        self,
        messages: Sequence[Message],
        add_end_tokens: bool,
        *,
        add_start_tokens: bool = True,
        encoder: FormatEncoder | None = None,
    ) -> tuple[list[int], list[bool]]:
        if self.prompt_template is not None:
            messages = self.prompt_template(list(messages), inference=not add_end_tokens)
        segments = render(
            messages, encoder or self._encoder, add_start_tokens=add_start_tokens, add_end_tokens=add_end_tokens
        )
        return tokens_and_mask(segments, messages, self.mask_policy, self.train_on)

    def _token_weights(self, messages: Sequence[Message], add_end_tokens: bool) -> list[float]:
        """The conversation is rendered once more, so that rows without weights pay nothing for them."""
        if self.prompt_template is not None:
            messages = self.prompt_template(list(messages), inference=not add_end_tokens)
        segments = render(messages, self._encoder, add_end_tokens=add_end_tokens)
        return token_weights(messages, (index for _, index, token_ids in segments for _ in token_ids))

    def _trace(
        self,
        messages: Sequence[Message],
        add_start_tokens: bool,
        add_end_tokens: bool,
        kept_tokens: list[int],
        kept_mask: list[bool],
        *,
        encoder: FormatEncoder | None = None,
    ) -> TokenTrace:
        """The conversation is rendered once more, so that tokenising without a trace pays nothing for it."""
        if self.prompt_template is not None:
            messages = self.prompt_template(list(messages), inference=not add_end_tokens)
        segments = render(
            messages, encoder or self._encoder, add_start_tokens=add_start_tokens, add_end_tokens=add_end_tokens
        )
        tokens, mask = tokens_and_mask(segments, messages, self.mask_policy, self.train_on)
        last = len(kept_tokens) - 1
        replaced = last >= 0 and (tokens[last], mask[last]) != (kept_tokens[last], kept_mask[last])
        return trace_segments(segments, messages, mask, self.mask_policy).truncate(
            self.max_seq_len, self.truncation_type, end_trained=not kept_mask[last] if replaced else None
        )

    def _truncate(
        self, tokens: list[int], mask: list[bool], add_end_tokens: bool, *, encoder: FormatEncoder | None = None
    ) -> tuple[list[int], list[bool]]:
        if self.max_seq_len is None or len(tokens) <= self.max_seq_len:
            return tokens, mask
        # The end that a cut puts is not trained: the model would learn to stop in the middle.
        ends = add_end_tokens and self.truncation_type == "right" and (encoder or self._encoder).writes(self.eos_id)
        eos_id, eos_mask = (self.eos_id, True) if ends else (None, None)
        return (
            truncate(tokens, self.max_seq_len, eos_id, self.truncation_type),
            truncate(mask, self.max_seq_len, eos_mask, self.truncation_type),
        )


@cache
def _calls_are_ours(kind: type[ChatFormatTokenizer], ours: type[ChatFormatTokenizer], *names: str) -> bool:
    """Whether a subclass leaves as they are the methods that turn a row into ids."""
    return all(getattr(kind, name) is getattr(ours, name) for name in names)


def _refuse_media(messages: Sequence[Message], name: str) -> None:
    """A tokenizer by itself would leave the pictures behind; a multimodal transform puts them in ``encoder_input``."""
    for index, message in enumerate(messages):
        if message.contains_media:
            raise UnwritableError(
                f"Message {index} ({message.role}) holds an image, and the {name} tokenizer alone has no place for its "
                "pixels. Drop the row with filter_fn, or use a multimodal transform."
            )


def _refuse_control_tokens(template: PromptTemplateInterface, encoder: FormatEncoder) -> None:
    """Refuses a template that spells the format's own control tokens: they would stand there twice, once as text."""
    texts = [text for around in getattr(template, "template", {}).values() for text in around or ()]
    found = next((control for control in encoder.control_texts for text in texts if control in text), None)
    if found is not None:
        raise ConfigError(
            f"The prompt template {type(template).__name__} spells {found!r}, which the {encoder.chat_format.name} "
            "format writes itself, by id. Leave prompt_template out."
        )


def _control_ids(backend: Backend, chat_format: ChatFormat, given: Mapping[str, int] | None) -> dict[str, int]:
    if given is not None:
        given_ids = set(given.values())
        own = {text: token_id for text, token_id in backend.control_tokens.items() if token_id not in given_ids}
        ids = {**own, **given}
    elif isinstance(backend, HuggingFaceBackend):
        ids = dict(backend.control_tokens)
    else:
        numbered = {text: backend.num_tokens + offset for offset, text in enumerate(chat_format.control_tokens)}
        ids = {**numbered, **backend.control_tokens}
    if chat_format.pad.id_in(ids) is None:
        raise TokenizerError(
            f"{backend.name}: the {chat_format.name} format pads with {chat_format.pad.text!r}, which has no id. Is it "
            "the tokenizer file of another family?"
        )
    of_file = set(backend.control_tokens.values())
    taken = {text: token_id for text, token_id in ids.items() if 0 <= token_id < backend.num_tokens} if given else {}
    taken = {text: token_id for text, token_id in taken.items() if token_id not in of_file}
    if taken:
        raise TokenizerError(
            f"{len(taken)} control tokens have ids below {backend.num_tokens}, which are ordinary tokens of "
            f"{backend.name}: {dict(list(taken.items())[:3])}. Ordinary text would forge them; number them from "
            f"{backend.num_tokens}."
        )
    if len(set(ids.values())) != len(ids):
        raise TokenizerError(f"{backend.name}: two control tokens share one id. Give each its own.")
    return ids
