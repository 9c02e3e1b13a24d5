"""Conversations to tokens and masks by a renderer, one document for each stretch that the model would have seen."""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, NamedTuple

from torchpipe.data.messages import Message
from torchpipe.data.openai_dicts import as_openai
from torchpipe.errors import ConfigError, DataError, RenderError, UnwritableError
from torchpipe.pipeline.chat.renderer_tokenizer import RendererTokenizerWrapper
from torchpipe.pipeline.chat.renderers import RendererConfig, renderers_library
from torchpipe.pipeline.control_text import ControlText

RETENTIONS = ("all", "tool_cycle")
"""Whether a renderer keeps what the assistant thought in earlier turns: always, or until the user's next message."""


class _Document(NamedTuple):
    """Tokens, and the mask of them: True = not trained."""

    tokens: list[int]
    mask: list[bool]


class RenderedChat:
    """A model transform: a row's ``messages`` and ``tools`` to ``tokens`` and ``mask``, as a renderer writes them.

    Trained are the tokens that the renderer says the model samples, of the assistant's messages that are not masked.
    A turn whose end the template leaves to the next message gets its stop token at the end of the conversation.

    Where a renderer drops what the assistant thought before the user's last message ("tool_cycle"), the whole
    conversation is not what the model saw in earlier turns. Then a conversation becomes a document for each message of
    the user, which ends with the answers to it and trains those alone; documents are joined where the longer one
    begins with the shorter.

    Args:
        renderer: what builds the renderer.
        tokenizer: of the model.
        allow_control_text: whether a row may spell control tokens.

    Attributes:
        stop_tokens: ids at which sampling stops.

    Raises:
        ConfigError: the renderer does not fit the tokenizer, or keeps earlier thoughts in a way not known here.
    """

    _unfingerprinted: ClassVar[frozenset[str]] = frozenset({"_renderer", "_controls"})

    def __init__(self, renderer: RendererConfig, tokenizer: Any, *, allow_control_text: bool) -> None:
        if not callable(getattr(renderer, "build", None)):
            raise ConfigError(
                f"renderer is {renderer!r}. Give RenderersLibraryConfig(renderers_config=...), or a value of your own "
                "with build(tokenizer=)."
            )
        self.renderer = renderer
        self.tokenizer = tokenizer
        self._controls = None if allow_control_text else ControlText(_ReadsControls(tokenizer))
        self._renderer = renderer.build(tokenizer=tokenizer)
        self.retention: str = getattr(self._renderer, "effective_thinking_retention", "all")
        if self.retention not in RETENTIONS:
            raise ConfigError(
                f"The renderer keeps what the assistant thought by thinking_retention={self.retention!r}, and masks "
                "are known for 'all' and 'tool_cycle' alone. Set thinking_retention, or use the model's own chat "
                "template."
            )
        self.stop_tokens: list[int] = list(self._renderer.get_stop_token_ids())

    @property
    def one_sample_a_row(self) -> bool:
        """Whether each conversation becomes one document."""
        return self.retention == "all"

    def __call__(self, sample: Mapping[str, Any]) -> dict[str, Any]:
        """The sample of a conversation that is one document.

        Raises:
            DataError: it is several, or the renderer refuses it.
        """
        made = self.samples_of(sample)
        if len(made) != 1:
            raise DataError(f"The conversation becomes {len(made)} documents, where one is wanted. Use samples_of.")
        return made[0]

    def samples_of(self, sample: Mapping[str, Any]) -> list[dict[str, Any]]:
        """The documents of a conversation.

        Raises:
            DataError: it does not end with the assistant, holds pictures, spells a control token, asks for a message
                to be trained that a model does not sample, or the renderer refuses it.
        """
        messages: Sequence[Message] = sample["messages"]
        if not messages or messages[-1].role != "assistant":
            raise DataError("Chat samples must end with an assistant message.", reason="bad_role_order")
        if any(message.contains_media for message in messages):
            raise UnwritableError("ChatProcessor supports text-only samples. Use MultiModalProcessor for pictures.")
        for index, message in enumerate(messages):
            if message.role != "assistant" and not message.masked:
                raise UnwritableError(
                    f"Message {index} ({message.role}) is to be trained, and a renderer tells only what the assistant "
                    "samples. Mask it, or use the model's own chat template."
                )
        turns, tools = [as_openai(message) for message in messages], list(sample.get("tools") or ())
        self._refuse_control_text(turns, tools)
        asked = [index for index, message in enumerate(messages) if message.role == "user"]
        if self.retention == "all" or len(asked) < 2:
            found = [self._document(turns, tools, [not message.masked for message in messages])]
        else:
            found = self._documents_of_turns(turns, tools, messages, asked)
        return [{"tokens": document.tokens, "mask": document.mask} for document in found]

    def _documents_of_turns(
        self, turns: list[dict[str, Any]], tools: list[Any], messages: Sequence[Message], asked: Sequence[int]
    ) -> list[_Document]:
        documents: list[_Document] = []
        for first, end in zip(asked, [*asked[1:], len(messages)], strict=True):
            trained = [index >= first and not message.masked for index, message in enumerate(messages[:end])]
            if not any(trained):
                continue
            document = self._document(turns[:end], tools, trained)
            if documents and document.tokens[: len(documents[-1].tokens)] == documents[-1].tokens:
                earlier = documents.pop().mask
                document.mask[: len(earlier)] = map(min, earlier, document.mask)
            documents.append(document)
        return documents

    def _document(self, turns: list[dict[str, Any]], tools: list[Any], trained: Sequence[bool]) -> _Document:
        try:
            made = renderers_library().build_training_sample(
                self._renderer,
                turns,
                tools=tools or None,
                ensure_final_stop=True,
                message_loss_mask=list(trained),
            )
        except ValueError as error:
            raise RenderError(
                f"The renderer refuses the conversation: {error} Mend the row in messages_fn, or leave it out."
            ) from error
        if made.multi_modal_data is not None:
            raise UnwritableError("ChatProcessor supports text-only samples. Use MultiModalProcessor for pictures.")
        return _Document(list(made.token_ids), [not kept for kept in made.loss_mask])

    def _refuse_control_text(self, turns: list[dict[str, Any]], tools: list[Any]) -> None:
        if self._controls is None:
            return
        instead = (
            "Take it out in messages_fn (thoughts go under 'reasoning_content'), use the model's own chat template, or "
            "set allow_control_text=True."
        )
        for index, turn in enumerate(turns):
            said = {key: value for key, value in turn.items() if key != "role"}
            self._controls.refuse(said, f"Message {index} ({turn['role']})", instead=instead)
        self._controls.refuse(tools, "A tool", instead=instead)


class _ReadsControls:
    """The tokenizer as a renderer sees it: one that reads control tokens out of text."""

    def __init__(self, tokenizer: Any) -> None:
        self.special_tokens = getattr(tokenizer, "special_tokens", None)
        self.tokenizer = getattr(tokenizer, "tokenizer", None)
        self._wrapped = RendererTokenizerWrapper(tokenizer)
        self.bos_id, self.eos_id = self._wrapped.bos_token_id, self._wrapped.eos_token_id
        self.decode = self._wrapped.decode

    def encode(self, text: str, *, add_bos: bool, add_eos: bool) -> list[int]:
        return self._wrapped.encode(text)
