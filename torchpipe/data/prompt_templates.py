"""Text that goes around the messages of a role, as a table: role -> (before, after)."""

from collections.abc import Callable, Mapping, Sequence
from inspect import Parameter, signature
from typing import Any, Protocol, cast, runtime_checkable

from torchpipe._dotpath import resolve
from torchpipe._suggest import did_you_mean, listed
from torchpipe.data.messages import ROLES, Message, Role
from torchpipe.errors import ConfigError


@runtime_checkable
class PromptTemplateInterface(Protocol):
    """What a tokenizer needs of a prompt template."""

    template: dict[Role, tuple[str, str]]

    def __call__(self, messages: list[Message], inference: bool = False) -> list[Message]:
        """New messages with the template's text in them; ``inference`` is True when the model is to answer."""
        ...


class PromptTemplate:
    """Puts a text before and one after every message of a role, as parts of their own.

    The text follows its message's ``masked`` flag, so what stands around an assistant message is trained on with it.

    Args:
        template: role -> (text before, text after). Messages of other roles stay as they are; an empty text adds
            nothing.

    Raises:
        ConfigError: a role is unknown, or a value is not two strings.

    >>> template = PromptTemplate({"user": ("Question: ", "\\n\\nAnswer: ")})
    >>> template([Message("user", "1 + 1?")])[0].text_content
    'Question: 1 + 1?\\n\\nAnswer: '
    """

    def __init__(self, template: Mapping[Role, tuple[str, str]]) -> None:
        self.template: dict[Role, tuple[str, str]] = {}
        for role, around in template.items():
            if role not in ROLES:
                near = did_you_mean(role, ROLES)
                raise ConfigError(f"The prompt template has the role {role!r}. A role is one of {listed(ROLES)}.{near}")
            # A YAML file gives lists where Python gives tuples.
            texts = tuple(around) if isinstance(around, Sequence) and not isinstance(around, str) else ()
            if len(texts) != 2 or not all(isinstance(text, str) for text in texts):
                raise ConfigError(
                    f"The prompt template has {around!r} for {role!r}; it must be two strings, the text before and the "
                    "text after."
                )
            self.template[role] = cast(tuple[str, str], texts)

    def __call__(self, messages: list[Message], inference: bool = False) -> list[Message]:
        """New messages with the texts around them; the given ones stay as they are.

        Args:
            messages: a conversation.
            inference: changes nothing here; templates that close the conversation differently use it.
        """
        return [self._around(message) for message in messages]

    def _around(self, message: Message) -> Message:
        before, after = self.template.get(message.role, ("", ""))
        content = [*_text(before), *message.content, *_text(after)]
        return message.with_content(content)


# torchtune's texts. ChatML is OpenAI's Chat Markup Language (MicrosoftDocs/azure-docs, chat-markup-language.md).
_CHATML: dict[Role, tuple[str, str]] = {
    "system": ("<|im_start|>system\n", "<|im_end|>\n"),
    "user": ("<|im_start|>user\n", "<|im_end|>\n"),
    "assistant": ("<|im_start|>assistant\n", "<|im_end|>\n"),
    "ipython": ("", ""),
    "tool": ("", ""),
}
_GRAMMAR: dict[Role, tuple[str, str]] = {"user": ("Correct this to standard English: ", "\n---\nCorrected: ")}
_SUMMARIZE: dict[Role, tuple[str, str]] = {"user": ("Summarize this dialogue:\n", "\n---\nSummary:\n")}
_QUESTION: dict[Role, tuple[str, str]] = {"user": ("Question: ", "\n\nAnswer: ")}


class ChatMLTemplate(PromptTemplate):
    """Each turn between ``<|im_start|>role`` and ``<|im_end|>``; the results of calls (tool, ipython) stay as they are.

    An empty assistant message at the end is where the model is to answer, so it is opened and not closed. The marks are
    text here; a tokenizer of a ChatML family (Qwen) writes them as control tokens by itself.

    >>> asked = [Message("user", "Hi"), Message("assistant", "")]
    >>> "".join(message.text_content for message in ChatMLTemplate()(asked))
    '<|im_start|>user\\nHi<|im_end|>\\n<|im_start|>assistant\\n'
    """

    template = _CHATML

    def __init__(self) -> None:
        super().__init__(self.template)

    def __call__(self, messages: list[Message], inference: bool = False) -> list[Message]:
        """New messages with the marks around them; the given ones stay as they are."""
        marked = super().__call__(messages, inference)
        if messages and messages[-1].role == "assistant" and not messages[-1].text_content:
            marked[-1].content.pop()
        return marked


# torchtune's next three are functools.partial objects, in which another table can be given.


class GrammarErrorCorrectionTemplate(PromptTemplate):
    """The user's text as the task of correcting its grammar: ``Correct this to standard English: ...``."""

    template = _GRAMMAR

    def __init__(self, template: Mapping[Role, tuple[str, str]] = _GRAMMAR) -> None:
        super().__init__(template)


class SummarizeTemplate(PromptTemplate):
    """The user's text as the task of summarizing it: ``Summarize this dialogue: ...``."""

    template = _SUMMARIZE

    def __init__(self, template: Mapping[Role, tuple[str, str]] = _SUMMARIZE) -> None:
        super().__init__(template)


class QuestionAnswerTemplate(PromptTemplate):
    """The user's text as a question to answer: ``Question: ... Answer:``."""

    template = _QUESTION

    def __init__(self, template: Mapping[Role, tuple[str, str]] = _QUESTION) -> None:
        super().__init__(template)


def _text(text: str) -> list[dict[str, Any]]:
    return [{"type": "text", "content": text}] if text else []


def prompt_template(
    template: PromptTemplateInterface | Mapping[Role, tuple[str, str]] | str | None,
) -> PromptTemplateInterface | None:
    """The template as something to call: a table becomes a PromptTemplate, a dotted name what it names, called.

    Raises:
        ConfigError: it is neither a table, nor a template, nor a name of one, nor None.

    >>> isinstance(prompt_template("torchpipe.data.SummarizeTemplate"), SummarizeTemplate)
    True
    """
    if template is None:
        return None
    if isinstance(template, str):
        named = resolve(template)
        try:
            return prompt_template(named())
        except TypeError as error:
            raise ConfigError(
                f"prompt_template={template!r} can't be called without arguments, so it is no template's class: {error}"
            ) from error
    if isinstance(template, Mapping):
        return PromptTemplate(template)
    if isinstance(template, type) or not callable(template):
        raise ConfigError(
            f"prompt_template={template!r} must be a template object, or a table like {{'user': ('Question: ', '')}}. "
            "In a YAML file, name a template's class under _component_."
        )
    return template if _takes_inference(template) else _WithoutInference(template)


class _WithoutInference:
    """A template whose ``__call__`` takes the messages alone: torchtune's tokenizers call it so."""

    def __init__(self, wrapped: Callable[[list[Message]], list[Message]]) -> None:
        self.wrapped = wrapped
        self.template: dict[Role, tuple[str, str]] = getattr(wrapped, "template", {})

    def __call__(self, messages: list[Message], inference: bool = False) -> list[Message]:
        return self.wrapped(messages)


def _takes_inference(template: Callable[..., Any]) -> bool:
    try:
        parameters = signature(template).parameters.values()
    except (TypeError, ValueError):  # it can't be told of some compiled ones
        return True
    return any(parameter.name == "inference" or parameter.kind is Parameter.VAR_KEYWORD for parameter in parameters)
