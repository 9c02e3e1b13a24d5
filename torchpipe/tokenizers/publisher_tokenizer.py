"""The tokenizer of the formats that publishers' own code and templates write: tools, calls, results and reasoning."""

from collections.abc import Collection, Mapping, Sequence
from functools import cached_property
from typing import Any, ClassVar, Literal, get_args, overload

from torchpipe.data.loss_weights import are_weighted, token_weights
from torchpipe.data.messages import Message
from torchpipe.data.openai_dicts import from_openai
from torchpipe.data.sequences import truncate
from torchpipe.data.trace import TokenTrace
from torchpipe.data.train_on import TrainOnLike
from torchpipe.data.unwritable import with_known_roles
from torchpipe.errors import ColumnError, ConfigError
from torchpipe.tokenizers.backend import Backend
from torchpipe.tokenizers.chat_format import ChatFormat
from torchpipe.tokenizers.choices import check_choice
from torchpipe.tokenizers.control_matcher import ControlMatcher
from torchpipe.tokenizers.conversation import Conversation, OnLost, checked_options, tools_of
from torchpipe.tokenizers.joined_frames import JoinedFrames, has_joined_frames
from torchpipe.tokenizers.joined_text import JoinedTextEncoder, as_text
from torchpipe.tokenizers.kinds import Segment
from torchpipe.tokenizers.model_tokenizer import ChatFormatTokenizer
from torchpipe.tokenizers.pieces import remembering
from torchpipe.tokenizers.provenance import trace_segments
from torchpipe.tokenizers.render import FormatEncoder, MaskPolicy, render
from torchpipe.tokenizers.row_samples import RowSample, row_samples
from torchpipe.tokenizers.token_mask import tokens_and_mask
from torchpipe.tokenizers.tokenized_conversation import TokenizedConversation, the_only_one

AnyMessage = Message | Mapping[str, Any]


class PublisherFormatTokenizer(ChatFormatTokenizer):
    """A :class:`~torchpipe.data.protocols.ModelTokenizer` for a row of the table that has a layout.

    Text becomes no control token that ``allowed_special`` doesn't name, whether it is content, an argument of a call, a
    result or a tool's schema. What stands between two control tokens is encoded as one text, as a server does, and cut
    where a prompt ends.

    Args:
        backend: ordinary text to ids.
        chat_format: how the family writes a conversation.
        special_tokens, max_seq_len, truncation_type: see :class:`~torchpipe.tokenizers.ChatFormatTokenizer`.
        mask_policy: ``"sampled"`` trains what the model itself would write, and is the default here.
        train_on: which parts of a trained message count; see :class:`~torchpipe.data.train_on.TrainOn`.
        on_unproved: what becomes of a row of which the format leaves something out; see
            :data:`~torchpipe.tokenizers.conversation.OnLost`.
        options: what the format's layout lets a caller set: a date, a default prompt.
        allowed_special: control tokens, by text, that a row's own text may spell.

    Raises:
        TokenizerError: a control token of the format, or of ``allowed_special``, has no id.
        ConfigError: an argument is not possible, the format has no such option, or no layout.
    """

    _unfingerprinted: ClassVar[frozenset[str]] = frozenset({"_encode_texts"})

    def __init__(
        self,
        backend: Backend,
        chat_format: ChatFormat,
        *,
        special_tokens: Mapping[str, int] | None = None,
        max_seq_len: int | None = None,
        truncation_type: Literal["left", "right"] = "right",
        mask_policy: MaskPolicy = "sampled",
        train_on: TrainOnLike = None,
        on_unproved: OnLost = "refuse",
        options: Mapping[str, Any] | None = None,
        allowed_special: Collection[str] = (),
    ) -> None:
        if chat_format.layout is None:
            raise ConfigError(
                f"The {chat_format.name} format has no layout of tools, calls and reasoning. Use its own builder in "
                "torchpipe.models."
            )
        super().__init__(
            backend,
            chat_format,
            special_tokens=special_tokens,
            max_seq_len=max_seq_len,
            truncation_type=truncation_type,
            mask_policy=mask_policy,
            train_on=train_on,
        )
        check_choice("on_unproved", on_unproved, get_args(OnLost))
        self.on_unproved: OnLost = on_unproved
        self.options = checked_options(options or {}, chat_format.layout.options, chat_format.name)
        self.allowed_special = frozenset(allowed_special)
        self._layout = chat_format.layout
        self._encoder = FormatEncoder(chat_format, as_text, self.special_tokens)
        self._encode_texts = self._text_encoder()

    _row_columns: ClassVar[tuple[str, ...]] = ("messages", "tools")

    @property
    def _row_methods(self) -> tuple[Any, ...]:
        ours = ("__call__", "_samples", "_segments", "_tokenized", "_as_sample", "_truncate")
        return PublisherFormatTokenizer, *ours

    @cached_property
    def _frames(self) -> JoinedFrames | None:
        if self.allowed_special or not has_joined_frames(self.chat_format):
            return None
        return JoinedFrames(self.chat_format, self.backend, self._plainly_written)

    def _plainly_written(self, messages: Sequence[Message]) -> list[Segment] | None:
        segments, lost = self._segments(messages, (), False, True, True)
        return None if lost else segments

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name not in ("_encode_texts", "_frames")}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._encode_texts = self._text_encoder()

    def _text_encoder(self) -> JoinedTextEncoder:
        allowed = self.allowed_special
        ids = {text: token_id for text, token_id in self.special_tokens.items() if text in allowed}
        spelled = ControlMatcher(ids, allowed) if allowed else None
        return JoinedTextEncoder(remembering(self.backend.encode), joins=self._layout.joins_texts, spelled=spelled)

    @overload
    def tokenize_messages(
        self,
        messages: Sequence[AnyMessage],
        tools: Any = None,
        add_generation_prompt: bool = False,
        *,
        add_start_tokens: bool = True,
        add_end_tokens: bool = True,
        add_eos: bool | None = None,
        trace: Literal[False] = False,
    ) -> tuple[list[int], list[bool]]: ...

    @overload
    def tokenize_messages(
        self,
        messages: Sequence[AnyMessage],
        tools: Any = None,
        add_generation_prompt: bool = False,
        *,
        add_start_tokens: bool = True,
        add_end_tokens: bool = True,
        add_eos: bool | None = None,
        trace: Literal[True],
    ) -> tuple[list[int], list[bool], TokenTrace]: ...

    def tokenize_messages(
        self,
        messages: Sequence[AnyMessage],
        tools: Any = None,
        add_generation_prompt: bool = False,
        *,
        add_start_tokens: bool = True,
        add_end_tokens: bool = True,
        add_eos: bool | None = None,
        trace: bool = False,
    ) -> tuple[list[int], list[bool]] | tuple[list[int], list[bool], TokenTrace]:
        """Ids and mask of a conversation, cut to ``max_seq_len``.

        Args:
            messages: the conversation, or its turns as OpenAI's dicts, of which the assistant's are trained.
            tools: what the assistant may call: OpenAI's dicts, or JSON text of a list of them.
            add_generation_prompt: True ends with what stands before a reply; nothing is trained then.
            add_start_tokens: False leaves out what starts the document.
            add_end_tokens: False leaves the last message open, for a model to go on from.
            add_eos: another name for ``add_end_tokens``.
            trace: True adds where each token comes from.

        Returns:
            tokens and mask, of equal length; True in the mask = not trained. With ``trace``, the trace third.

        Raises:
            DataError: the format has no place for something, or would lose it and ``on_unproved`` is ``"refuse"``.
        """
        ends = (add_end_tokens if add_eos is None else add_eos) and not add_generation_prompt
        made = self._samples(_read(messages), tools, add_generation_prompt, add_start_tokens, ends, trace=trace)
        one = the_only_one(made, self.on_unproved)
        return (one.tokens, one.mask) if one.trace is None else (one.tokens, one.mask, one.trace)

    def tokenize_conversation(
        self,
        messages: Sequence[AnyMessage],
        tools: Any = None,
        add_generation_prompt: bool = False,
        *,
        trace: bool = False,
    ) -> list[TokenizedConversation]:
        """The samples of a conversation, none or several as ``on_unproved`` says; see :meth:`tokenize_messages`."""
        return self._samples(
            _read(messages), tools, add_generation_prompt, True, not add_generation_prompt, trace=trace
        )

    def render_text(
        self, messages: Sequence[AnyMessage], tools: Any = None, add_generation_prompt: bool = False
    ) -> str:
        """The text that the publisher's template would write, control tokens spelled out.

        It is for reading and comparing; ids are not made from it, since content may spell control tokens as well.
        Arguments and errors are those of :meth:`tokenize_messages`.
        """
        read = _read(messages)
        segments, _ = self._segments(read, tools_of(tools), add_generation_prompt, True, not add_generation_prompt)
        pieces = [piece for segment in segments for piece in segment.token_ids]
        return "".join(piece if isinstance(piece, str) else self._control_texts[piece] for piece in pieces)

    def __call__(self, sample: Mapping[str, Any], inference: bool = False) -> dict[str, Any]:
        """The sample with ``messages`` and ``tools`` replaced by ``tokens`` and ``mask`` (True = not trained).

        For inference, what stands before a reply ends the tokens, or the last message of the assistant is left open.
        Where tokens had to be cut to ``max_seq_len``, ``num_truncated`` says how many. Where messages have weights
        that a mask can't say, ``token_weights`` has a float for each token.

        Raises:
            ColumnError: there are no ``messages``.
            DataError: the format has no place for something of the row.
        """
        if "messages" not in sample:
            raise ColumnError(
                f"The tokenizer needs `messages`, and the row has {sorted(sample)}. Its message_transform should "
                "return them."
            )
        messages = sample["messages"]
        prompts = inference and bool(messages) and messages[-1].role != "assistant"
        made = self._samples(messages, sample.get("tools"), prompts, True, not inference)
        rest = {key: value for key, value in sample.items() if key not in self._row_columns}
        return {**rest, **the_only_one(made, self.on_unproved).as_sample()}

    def _as_sample(
        self, sample: Mapping[str, Any], tokens: list[int], mask: list[bool], add_end_tokens: bool
    ) -> dict[str, Any]:
        rest = {key: value for key, value in sample.items() if key not in self._row_columns}
        kept, kept_mask = self._truncate(tokens, mask, add_end_tokens)
        made = TokenizedConversation(tokens=kept, mask=kept_mask, num_unproved=0, num_cut=len(tokens) - len(kept))
        return {**rest, **made.as_sample()}

    def samples_of(self, sample: Mapping[str, Any]) -> list[dict[str, Any]]:
        """As calling the tokenizer, for ``on_unproved`` that makes none or several samples of a row."""
        made = self._samples(sample["messages"], sample.get("tools"), False, True, True)
        rest = {key: value for key, value in sample.items() if key not in self._row_columns}
        return [{**rest, **one.as_sample()} for one in made]

    @property
    def one_sample_a_row(self) -> bool:
        """Whether each row becomes one sample; ``on_unproved`` "split" or "drop" may make several or none of it."""
        return self.on_unproved not in ("split", "drop")

    def _samples(
        self,
        messages: Sequence[Message],
        tools: Any,
        prompts: bool,
        add_start_tokens: bool,
        add_end_tokens: bool,
        *,
        trace: bool = False,
    ) -> list[TokenizedConversation]:
        """The samples of a conversation; the one, where it is left open."""
        tools = tools_of(tools)

        def write(some: Sequence[Message], ends_sampled: bool) -> tuple[list[Segment], dict[int, list[str]]]:
            return self._segments(some, tools, prompts, add_start_tokens, add_end_tokens, ends_sampled)

        samples = row_samples(messages, write, self.on_unproved if add_end_tokens else "common_prefix")
        return [self._tokenized(sample, prompts, add_end_tokens, trace) for sample in samples]

    def _tokenized(self, sample: RowSample, prompts: bool, add_end_tokens: bool, trace: bool) -> TokenizedConversation:
        messages = sample.messages
        segments = self._encode_texts(sample.segments, messages)
        full, full_mask = tokens_and_mask(segments, messages, self.mask_policy, self.train_on)
        if prompts:
            full_mask = [True] * len(full)
        tokens, mask = self._truncate(full, full_mask, add_end_tokens)
        weights = traced = None
        if are_weighted(messages):
            weights = token_weights(messages, (index for _, index, token_ids in segments for _ in token_ids))
            weights = truncate(weights, self.max_seq_len, truncation_type=self.truncation_type)
        if trace:
            last = len(tokens) - 1
            replaced = last >= 0 and (full[last], full_mask[last]) != (tokens[last], mask[last])
            traced = trace_segments(segments, messages, full_mask, self.mask_policy, sample.lost).truncate(
                self.max_seq_len, self.truncation_type, end_trained=not mask[last] if replaced else None
            )
        return TokenizedConversation(
            tokens=tokens,
            mask=mask,
            num_unproved=0 if prompts else sample.num_unproved,
            trace=traced,
            num_cut=len(full) - len(tokens),
            token_weights=weights,
        )

    def _segments(
        self,
        messages: Sequence[Message],
        tools: Sequence[Mapping[str, Any]],
        prompts: bool,
        add_start_tokens: bool,
        add_end_tokens: bool,
        ends_sampled: bool = False,
    ) -> tuple[list[Segment], dict[int, list[str]]]:
        """The conversation, texts left as texts, and what was left out of which message (-1: of the row)."""
        layout, roles, name = self._layout, self.chat_format.roles, self.chat_format.name
        conversation = Conversation(
            messages=_with_result_role(with_known_roles(messages, roles, format_name=name), roles),
            tools=tools,
            options=self.options,
            format_name=name,
            on_unproved=self.on_unproved,
            adds_prompt=prompts,
            ends_sampled=ends_sampled,
            part_join=layout.part_join,
            strips=layout.strips,
            strips_system=layout.strips if layout.strips_system is None else layout.strips_system,
        )
        segments = render(
            messages,
            self._encoder,
            add_start_tokens=add_start_tokens,
            add_end_tokens=add_end_tokens,
            conversation=conversation,
        )
        return segments, conversation.lost


def _read(messages: Sequence[AnyMessage]) -> list[Message]:
    """The messages; of OpenAI's dicts those of the assistant are trained."""
    read = [
        message if isinstance(message, Message) else from_openai(message, index=index)
        for index, message in enumerate(messages)
    ]
    if not any(isinstance(message, Message) for message in messages):
        for message in read:
            message.masked = message.masked or message.role != "assistant"
    return read


def _with_result_role(messages: Sequence[Message], roles: Collection[str]) -> Sequence[Message]:
    """The messages, results under the one role that the format has for them."""
    if "ipython" in roles or "tool" not in roles or all(message.role != "ipython" for message in messages):
        return messages
    return [message.with_role("tool") if message.role == "ipython" else message for message in messages]
