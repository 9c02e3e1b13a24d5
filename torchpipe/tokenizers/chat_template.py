"""A model tokenizer that writes conversations with any Hugging Face chat template, and proves its loss mask."""

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, get_args, overload

from torchpipe.data.messages import Message
from torchpipe.data.trace import TokenTrace
from torchpipe.data.train_on import TrainOnLike, as_train_on
from torchpipe.errors import ColumnError, ConfigError
from torchpipe.tokenizers.backend import Backend
from torchpipe.tokenizers.backend_files import load_backend
from torchpipe.tokenizers.choices import check_choice, check_max_seq_len
from torchpipe.tokenizers.control_matcher import ControlMatcher, TokenFlags
from torchpipe.tokenizers.conversation import tools_of
from torchpipe.tokenizers.hf_files import read_hf_files
from torchpipe.tokenizers.jinja import token_masks
from torchpipe.tokenizers.jinja.conversation import ON_UNPROVED, OnUnproved, RenderedSample, samples_of
from torchpipe.tokenizers.jinja.provable import ProvableTemplate
from torchpipe.tokenizers.jinja.rendering import ControlSpan, Rendering, control_span
from torchpipe.tokenizers.jinja.row import Row
from torchpipe.tokenizers.jinja.stop_probes import EndingsToAppend, endings_to_append, stops_of
from torchpipe.tokenizers.jinja.token_trace import trace_of
from torchpipe.tokenizers.jinja.turns import TurnProver
from torchpipe.tokenizers.pieces import Piece, PieceEncoder
from torchpipe.tokenizers.render import MaskPolicy
from torchpipe.tokenizers.template_files import (
    as_template,
    check_names,
    files_arguments,
    template_options,
    template_text,
)
from torchpipe.tokenizers.tokenized_conversation import TokenizedConversation, the_only_one
from torchpipe.tokenizers.vocabulary import Vocabulary

ToolArguments = Literal["as_given", "parsed"]
"""How a call's arguments that are JSON text reach the template: as the text, or parsed, as many servers hand them over.
Some templates write text as it is, others escape it once more, and others fail on it."""


class ChatTemplateTokenizer(Vocabulary):
    """A :class:`~torchpipe.data.protocols.ModelTokenizer` and a model transform, for any chat template.

    The ids are those that a server would feed and sample: text is cut at the end of each prompt and at the control
    tokens that the template itself wrote, nowhere else; what a row's text spells stays text.

    Args:
        backend: ordinary text to ids.
        chat_template: the template.
        tool_template: the template of conversations with tools, where that is another one.
        special_tokens: ids of the control tokens by text; those of the back end's file need not be named.
        allowed_special: control tokens that a row's own text may spell.
        token_flags: control tokens that take white space beside them, by text.
        bos_token, eos_token, pad_token: texts of the control tokens that the template and batches ask for.
        stop_tokens: further control tokens at which sampling stops, by text.
        max_seq_len, truncation_type: the most tokens a sample may have (None: no limit), and the side that is cut.
        template_kwargs: further names that the template reads. Those that end in ``_token`` may be control tokens, the
            others are text.
        mask_policy: "sampled" trains what the model would sample; "message" trains all of a trained message.
        on_unproved: see :data:`~torchpipe.tokenizers.jinja.conversation.OnUnproved`.
        train_on: which parts of a trained turn count; see :class:`~torchpipe.data.train_on.TrainOn`.
        tool_arguments: see :data:`ToolArguments`.
        max_exact_turns: the most turns of a row whose prompts are rendered one by one to be compared; None: no limit.
        append_stop: whether a last turn without a stop token gets the one that the template writes there once the
            conversation goes on (GLM, Apertus): one id more than the template's.

    Raises:
        TokenizerError: the template has a syntax error, or two control tokens share an id.
        ConfigError: another argument is not possible.
    """

    def __init__(
        self,
        backend: Backend,
        chat_template: str | ProvableTemplate,
        *,
        tool_template: str | ProvableTemplate | None = None,
        special_tokens: Mapping[str, int] | None = None,
        allowed_special: Collection[str] = (),
        token_flags: Mapping[str, TokenFlags] | None = None,
        bos_token: str | None = None,
        eos_token: str | None = None,
        pad_token: str | None = None,
        stop_tokens: Collection[str] = (),
        max_seq_len: int | None = None,
        truncation_type: Literal["left", "right"] = "right",
        template_kwargs: Mapping[str, Any] | None = None,
        mask_policy: MaskPolicy = "sampled",
        on_unproved: OnUnproved = "refuse",
        train_on: TrainOnLike = None,
        tool_arguments: ToolArguments = "as_given",
        max_exact_turns: int | None = None,
        append_stop: bool = False,
    ) -> None:
        check_max_seq_len(max_seq_len)
        check_choice("truncation_type", truncation_type, ("left", "right"))
        check_choice("mask_policy", mask_policy, get_args(MaskPolicy))
        check_choice("on_unproved", on_unproved, ON_UNPROVED)
        super().__init__(backend, {**backend.control_tokens, **(special_tokens or {})})
        self.chat_template = as_template(chat_template)
        self.tool_template = self.chat_template if tool_template is None else as_template(tool_template)
        self.max_seq_len = max_seq_len
        self.truncation_type: Literal["left", "right"] = truncation_type
        self.template_kwargs = template_options(template_kwargs, self.chat_template, self.tool_template)
        self.mask_policy: MaskPolicy = mask_policy
        self.on_unproved: OnUnproved = on_unproved
        self.train_on = as_train_on(train_on)
        check_choice("tool_arguments", tool_arguments, get_args(ToolArguments))
        self.tool_arguments: ToolArguments = tool_arguments
        self.max_exact_turns = max_exact_turns
        named = {"bos_token": bos_token, "eos_token": eos_token, "pad_token": pad_token}
        self._named = {name: text for name, text in named.items() if text is not None}
        check_names(self.chat_template, self.tool_template, self._named, self.template_kwargs, backend)
        self.bos_id = self._id_of("bos_token", bos_token)
        self.eos_id = self._id_of("eos_token", eos_token)
        self.pad_id = self.eos_id if pad_token is None else self._id_of("pad_token", pad_token)  # never trained
        self._rules = token_masks.MaskRules(
            policy=mask_policy, train_on=self.train_on, bos_id=self.bos_id, eos_id=self.eos_id
        )
        self._encode = PieceEncoder(ControlMatcher(self.special_tokens, allowed_special, token_flags), backend)
        self._stop_texts = frozenset(stop_tokens) | ({eos_token} if eos_token else set())
        for text in self._stop_texts:
            self._id_of("a stop token", text)
        options = {**self._named, **self.template_kwargs}
        templates = (self.chat_template, self.tool_template)
        self._stop_texts |= stops_of(templates, options, self._controls_in)
        self._endings: EndingsToAppend = {}
        if append_stop:
            self._endings = endings_to_append(templates, options, self._controls_in, self._stop_texts)
        self.stop_tokens = sorted(self.special_tokens[text] for text in self._stop_texts)

    @classmethod
    def from_files(
        cls,
        chat_template: str | Path,
        *,
        tokenizer_json: str | Path | None = None,
        tiktoken_ranks: str | Path | None = None,
        pattern: str | None = None,
        tekken: str | Path | None = None,
        sentencepiece: str | Path | None = None,
        special_tokens: Mapping[str, int] | None = None,
        allowed_special: Collection[str] = (),
        normalization: Literal["NFC"] | None = None,
        tokenizer_config: str | Path | None = None,
        generation_config: str | Path | None = None,
        max_seq_len: int | None = None,
        truncation_type: Literal["left", "right"] = "right",
        template_kwargs: Mapping[str, Any] | None = None,
        mask_policy: MaskPolicy = "sampled",
        on_unproved: OnUnproved = "refuse",
        train_on: TrainOnLike = None,
        tool_arguments: ToolArguments = "as_given",
        max_exact_turns: int | None = None,
        append_stop: bool = False,
    ) -> "ChatTemplateTokenizer":
        """A template on the back end of one tokenizer file.

        Args:
            chat_template: the template's text, or the path of a file that holds it.
            tokenizer_json, tiktoken_ranks, pattern, tekken, sentencepiece, normalization: the tokenizer file; see
                :func:`~torchpipe.tokenizers.backend_files.load_backend`.
            special_tokens: ids of control tokens that the files don't list, by text.
            tokenizer_config: a ``tokenizer_config.json``: BOS, EOS, PAD and added tokens.
            generation_config: a ``generation_config.json``: where sampling stops.
            allowed_special, max_seq_len, truncation_type, template_kwargs, mask_policy, on_unproved, train_on,
                tool_arguments, max_exact_turns, append_stop: those of the class. ``bos_token``, ``eos_token`` and
                ``pad_token`` among ``template_kwargs`` win over the config's.

        Raises:
            SourceError: there is no such file.
            TokenizerError, ConfigError: the files or arguments don't fit together.
        """
        hf = read_hf_files(tokenizer_config=tokenizer_config, generation_config=generation_config)
        listed = {**hf.special_tokens, **(special_tokens or {})}
        backend = load_backend(
            tokenizer_json=tokenizer_json,
            tiktoken_ranks=tiktoken_ranks,
            pattern=pattern,
            tekken=tekken,
            sentencepiece=sentencepiece,
            special_tokens=listed,
            normalization=normalization,
            prefix_scheme=hf.prefix_scheme if sentencepiece is not None and tokenizer_config is not None else None,
        )
        return cls(
            backend,
            template_text(chat_template),
            **files_arguments(hf, backend, listed, template_kwargs),
            allowed_special=allowed_special,
            max_seq_len=max_seq_len,
            truncation_type=truncation_type,
            mask_policy=mask_policy,
            on_unproved=on_unproved,
            train_on=train_on,
            tool_arguments=tool_arguments,
            max_exact_turns=max_exact_turns,
            append_stop=append_stop,
        )

    @overload
    def tokenize_messages(
        self,
        messages: Sequence[Message | Mapping[str, Any]],
        tools: Any = None,
        add_generation_prompt: bool = False,
        trace: Literal[False] = False,
    ) -> tuple[list[int], list[bool]]: ...

    @overload
    def tokenize_messages(
        self,
        messages: Sequence[Message | Mapping[str, Any]],
        tools: Any = None,
        add_generation_prompt: bool = False,
        *,
        trace: Literal[True],
    ) -> tuple[list[int], list[bool], TokenTrace]: ...

    def tokenize_messages(
        self,
        messages: Sequence[Message | Mapping[str, Any]],
        tools: Any = None,
        add_generation_prompt: bool = False,
        trace: bool = False,
    ) -> tuple[list[int], list[bool]] | tuple[list[int], list[bool], TokenTrace]:
        """Ids and mask of a conversation, cut to ``max_seq_len``.

        Args:
            messages: the conversation, as messages or as OpenAI's dicts.
            tools: the tool schemas, as the template takes them.
            add_generation_prompt: True ends with what a model goes on from; all is masked then.
            trace: True adds where each token comes from, and why it is or is not trained.

        Returns:
            tokens and mask, of equal length; True in the mask = not trained. With ``trace``, the trace third.

        Raises:
            TokenizerError: the template refuses the conversation, in its own words, or fails.
            DataError: a trained turn is not proved, or the conversation is dropped or split, as ``on_unproved`` says.
        """
        one = self._one(messages, tools, add_generation_prompt, trace)
        return (one.tokens, one.mask) if one.trace is None else (one.tokens, one.mask, one.trace)

    def tokenize_conversation(
        self,
        messages: Sequence[Message | Mapping[str, Any]],
        tools: Any = None,
        add_generation_prompt: bool = False,
        *,
        trace: bool = False,
    ) -> list[TokenizedConversation]:
        """The samples of a conversation, none or several as ``on_unproved`` says; see :meth:`tokenize_messages`."""
        row = Row.of(messages, parse_arguments=self.tool_arguments == "parsed")
        tools = tools_of(tools) or None
        template = self.tool_template if tools else self.chat_template
        options = {**self._named, **self.template_kwargs}
        if add_generation_prompt or not row.has_assistant:
            rendering = template.trace(row.messages, tools, add_generation_prompt, options)
            samples = [RenderedSample(rendering=rendering, turns=(), trained=frozenset())]
            row = row.untrained()
        else:
            prover = TurnProver(
                template,
                row.messages,
                tools,
                options,
                controls_in=self._controls_in,
                stop_texts=self._stop_texts,
                max_exact_turns=self.max_exact_turns,
                endings=self._endings.get(template),
            )
            samples = samples_of(prover.rendering_of(len(row.messages)), prover, row.trained_turns, self.on_unproved)
        return [self._tokenized(sample, row, trace) for sample in samples]

    def __call__(self, sample: Mapping[str, Any], inference: bool = False) -> dict[str, Any]:
        """The sample with ``messages`` (and ``tools``) replaced by ``tokens`` and ``mask``.

        They are lists of equal length; True = not trained. Where tokens had to be cut to ``max_seq_len``,
        ``num_truncated`` says how many; where turns are not proved, ``num_unproved_turns``.
        """
        if "messages" not in sample:
            raise ColumnError(
                f"The tokenizer needs `messages`, and the row has {sorted(sample)}. Its message_transform should "
                "return them."
            )
        one = self._one(sample["messages"], sample.get("tools"), inference)
        return {**_without_conversation(sample), **one.as_sample()}

    def samples_of(self, sample: Mapping[str, Any]) -> list[dict[str, Any]]:
        """As calling the tokenizer, for ``on_unproved`` that makes none or several samples of a row."""
        made = self.tokenize_conversation(sample["messages"], sample.get("tools"))
        return [{**_without_conversation(sample), **one.as_sample()} for one in made]

    @property
    def one_sample_a_row(self) -> bool:
        """Whether each row becomes one sample; ``on_unproved`` "split" or "drop" may make several or none of it."""
        return self.on_unproved not in ("split", "drop")

    def _one(self, messages: Sequence[Any], tools: Any, prompt: bool, trace: bool = False) -> TokenizedConversation:
        return the_only_one(self.tokenize_conversation(messages, tools, prompt, trace=trace), self.on_unproved)

    def _tokenized(self, sample: RenderedSample, row: Row, trace: bool) -> TokenizedConversation:
        rendering = sample.rendering
        cuts = [turn.start for turn in sample.turns if turn.proved]
        cut = self._encode.cut(rendering.text, rendering.template_ranges, cuts, rendering.controls)
        mask = token_masks.mask_of(sample, row.unmasked, cut, self.backend, self._rules)
        weights = token_masks.weights_of(sample, row.weights, cut.pieces, self.backend) if row.is_weighted else None
        whole = TokenizedConversation(
            tokens=cut.tokens,
            mask=mask,
            num_unproved=sample.num_unproved,
            trace=self._trace(sample, cut.pieces, mask) if trace else None,
            token_weights=weights,
        )
        return whole.cut(self.max_seq_len, self.truncation_type)

    def _trace(self, sample: RenderedSample, pieces: list[Piece], mask: list[bool]) -> TokenTrace:
        return trace_of(
            sample, pieces, mask, self.backend, policy=self.mask_policy, bos_id=self.bos_id, eos_id=self.eos_id
        )

    def _controls_in(self, rendering: Rendering) -> list[ControlSpan]:
        return list(map(control_span, self._encode.matcher.spans(rendering.text, rendering.template_ranges)))

    def _id_of(self, name: str, text: str | None) -> int | None:
        if text is None:
            return None
        if text not in self.special_tokens:
            raise ConfigError(
                f"{name} is {text!r}, which is none of the {len(self.special_tokens)} control tokens. Give its id in "
                "special_tokens."
            )
        return self.special_tokens[text]


def _without_conversation(sample: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in sample.items() if key not in ("messages", "tools")}
