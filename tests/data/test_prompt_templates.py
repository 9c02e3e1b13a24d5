from collections.abc import Callable
from typing import ClassVar

import pytest

from torchpipe.data import (
    ChatMLTemplate,
    GrammarErrorCorrectionTemplate,
    Message,
    PromptTemplate,
    PromptTemplateInterface,
    QuestionAnswerTemplate,
    Role,
    SummarizeTemplate,
    prompt_template,
)
from torchpipe.errors import ConfigError
from torchpipe.models.tiny import tiny_tokenizer
from torchpipe.tokenizers import ChatFormatTokenizer

QUESTION = {"user": ("Question: ", "\n\nAnswer: ")}


def test_texts_are_parts_of_their_own_around_the_message():
    (message,) = PromptTemplate(QUESTION)([Message("user", "1 + 1?")])  # pyright: ignore[reportArgumentType]
    assert [part["content"] for part in message.content] == ["Question: ", "1 + 1?", "\n\nAnswer: "]


def test_an_empty_text_adds_no_part():
    (message,) = PromptTemplate({"user": ("", "!")})([Message("user", "a")])
    assert [part["content"] for part in message.content] == ["a", "!"]


def test_flags_are_copied_and_the_given_messages_stay_as_they_are():
    given = [Message("user", "u", masked=True), Message("assistant", "f()", ipython=True, eot=False)]
    before = [Message("user", "u", masked=True), Message("assistant", "f()", ipython=True, eot=False)]
    user, assistant = PromptTemplate({"user": ("<", ">"), "assistant": ("[", "]")})(given)
    assert given == before
    assert (user.masked, user.eot) == (True, True)
    assert (assistant.masked, assistant.ipython, assistant.eot) == (False, True, False)
    assert assistant.text_content == "[f()]"


def test_other_roles_pass_through_as_new_messages():
    given = Message("tool", "r")
    (message,) = PromptTemplate({"user": ("<", ">")})([given])
    assert message == given
    assert message is not given


def test_images_stay_where_they_are():
    image = object()
    parts = [{"type": "image", "content": image}, {"type": "text", "content": "?"}]
    (message,) = PromptTemplate({"user": ("<", ">")})([Message("user", parts)])
    assert [part["content"] for part in message.content] == ["<", image, "?", ">"]


def test_the_inference_keyword_is_accepted():
    template = PromptTemplate({"user": ("<", ">")})
    assert template([Message("user", "a")], inference=True) == template([Message("user", "a")])
    assert isinstance(template, PromptTemplateInterface)


def test_lists_from_a_yaml_file_are_pairs():
    assert PromptTemplate({"user": ["<", ">"]}).template == {"user": ("<", ">")}  # pyright: ignore[reportArgumentType]


def test_an_unknown_role_is_refused_with_the_nearest():
    with pytest.raises(ConfigError, match=r"role 'usr'.*Did you mean 'user'"):
        PromptTemplate({"usr": ("", "")})  # pyright: ignore[reportArgumentType]


@pytest.mark.parametrize("around", ["<>", ("<",), ("<", None), 3])
def test_a_value_that_is_not_two_strings_is_refused(around: object):
    with pytest.raises(ConfigError, match="it must be two strings"):
        PromptTemplate({"user": around})  # pyright: ignore[reportArgumentType]


def test_prompt_template_takes_a_table_an_object_or_nothing():
    template = PromptTemplate({"user": ("<", ">")})
    assert prompt_template(None) is None
    assert prompt_template(template) is template
    made = prompt_template({"user": ("<", ">")})
    assert made is not None
    assert made([Message("user", "a")])[0].text_content == "<a>"


@pytest.mark.parametrize("given", [PromptTemplate, ChatMLTemplate, 3])
def test_prompt_template_refuses_classes_and_numbers(given: object):
    with pytest.raises(ConfigError, match="must be a template object, or a table"):
        prompt_template(given)  # pyright: ignore[reportArgumentType]


def test_prompt_template_takes_a_dotted_name():
    assert isinstance(prompt_template("torchpipe.data.ChatMLTemplate"), ChatMLTemplate)
    with pytest.raises(ConfigError, match=r"'torchpipe.data.PromptTemplate' can't be called without arguments"):
        prompt_template("torchpipe.data.PromptTemplate")
    with pytest.raises(ConfigError, match="Did you mean 'ChatMLTemplate'"):
        prompt_template("torchpipe.data.ChatMlTemplate")


class MessagesAlone:
    """A template as torchtune's tokenizers of 0.6.1 call it."""

    template: ClassVar = {"user": ("<", ">")}

    def __call__(self, messages: list[Message]) -> list[Message]:
        return [Message(message.role, f"<{message.text_content}>") for message in messages]


def test_a_template_need_not_take_inference():
    made = prompt_template(MessagesAlone())  # pyright: ignore[reportArgumentType]
    assert made is not None
    assert made.template == MessagesAlone.template
    assert made([Message("user", "a")], inference=True)[0].text_content == "<a>"
    assert prompt_template(made) is made
    tokenizer = tiny_tokenizer()
    own = ChatFormatTokenizer(tokenizer.backend, tokenizer.chat_format, prompt_template=made)
    assert "<a>" in own.decode(own({"messages": [Message("user", "a")]}, inference=True)["tokens"])


@pytest.mark.parametrize("template", [GrammarErrorCorrectionTemplate, SummarizeTemplate, QuestionAnswerTemplate])
def test_a_task_template_takes_another_table(template: Callable[..., PromptTemplate]):
    assert template(template={"user": ("TL;DR ", "")})([Message("user", "a")])[0].text_content == "TL;DR a"


# --- the named ones ------------------------------------------------------------------------------------------------


def test_chatml_marks_every_turn_and_leaves_results_of_calls_as_they_are():
    roles: list[tuple[Role, str]] = [
        ("system", "s"), ("user", "u"), ("assistant", "f()"), ("tool", "r"), ("ipython", "r"), ("assistant", "a"),
    ]  # fmt: skip
    out = ChatMLTemplate()([Message(role, text) for role, text in roles])
    assert [message.text_content for message in out] == [
        "<|im_start|>system\ns<|im_end|>\n",
        "<|im_start|>user\nu<|im_end|>\n",
        "<|im_start|>assistant\nf()<|im_end|>\n",
        "r",
        "r",
        "<|im_start|>assistant\na<|im_end|>\n",
    ]


def test_chatml_opens_an_empty_last_answer_and_closes_an_earlier_one():
    given = [Message("user", "u"), Message("assistant", ""), Message("user", "v"), Message("assistant", "")]
    texts = [message.text_content for message in ChatMLTemplate()(given, inference=True)]
    assert texts[1] == "<|im_start|>assistant\n<|im_end|>\n"
    assert texts[3] == "<|im_start|>assistant\n"
    assert [part["content"] for part in given[3].content] == [""]
    assert ChatMLTemplate()([]) == []


@pytest.mark.parametrize(
    ("template", "text"),
    [
        (GrammarErrorCorrectionTemplate, "Correct this to standard English: it\n---\nCorrected: "),
        (SummarizeTemplate, "Summarize this dialogue:\nit\n---\nSummary:\n"),
        (QuestionAnswerTemplate, "Question: it\n\nAnswer: "),
    ],
)
def test_task_templates_frame_the_users_text_alone(template: type[PromptTemplate], text: str):
    user, assistant = template()([Message("user", "it", masked=True), Message("assistant", "a")])  # pyright: ignore[reportCallIssue]
    assert (user.text_content, user.masked, assistant.text_content) == (text, True, "a")


@pytest.mark.parametrize(
    "template", [ChatMLTemplate, GrammarErrorCorrectionTemplate, SummarizeTemplate, QuestionAnswerTemplate]
)
def test_named_templates_are_classes(template: type[PromptTemplate]):
    made = template()  # pyright: ignore[reportCallIssue]
    assert isinstance(made, template)
    assert isinstance(made, PromptTemplateInterface)
    assert made.template == vars(template)["template"]  # torchtune has that of ChatML on the class
    made.template["user"] = ("", "")
    assert template().template != made.template  # pyright: ignore[reportCallIssue]
