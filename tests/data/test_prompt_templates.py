import pytest

from torchpipe.data import Message, PromptTemplate, PromptTemplateInterface, prompt_template
from torchpipe.errors import ConfigError

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


@pytest.mark.parametrize("given", ["torchpipe.data.PromptTemplate", PromptTemplate, 3])
def test_prompt_template_refuses_names_and_classes(given: object):
    with pytest.raises(ConfigError, match="must be a template object, or a table"):
        prompt_template(given)  # pyright: ignore[reportArgumentType]
