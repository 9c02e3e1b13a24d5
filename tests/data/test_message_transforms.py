import copy
import linecache
import pickle
import warnings
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from torchpipe.data import (
    AlpacaToMessages,
    ChosenRejectedToMessages,
    InputOutputToMessages,
    MaskingStrategy,
    Message,
    OpenAIToMessages,
    ShareGPTToMessages,
    ToolCall,
    validate_messages,
)
from torchpipe.errors import ColumnError, ConfigError, DataError

ALL = [InputOutputToMessages, AlpacaToMessages, ShareGPTToMessages, OpenAIToMessages]
WITH_SYSTEM_PROMPT = [InputOutputToMessages, ShareGPTToMessages, OpenAIToMessages]

ROWS: dict[Any, dict[str, Any]] = {
    InputOutputToMessages: {"input": "u", "output": "a"},
    AlpacaToMessages: {"instruction": "u", "input": "", "output": "a"},
    ShareGPTToMessages: {"conversations": [{"from": "human", "value": "u"}, {"from": "gpt", "value": "a"}]},
    OpenAIToMessages: {"messages": [{"role": "user", "content": "u"}, {"role": "assistant", "content": "a"}]},
}


def sharegpt(*turns: tuple[Any, Any]) -> dict[str, Any]:
    return {"conversations": [{"from": speaker, "value": text} for speaker, text in turns]}


def openai(*turns: tuple[Any, Any], **more: Any) -> dict[str, Any]:
    rows = [{"role": role, "content": content} for role, content in turns]
    rows[-1] |= more
    return {"messages": rows}


# --- what all four share -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("transform", ALL)
def test_a_row_becomes_messages_that_pass_validation_and_nothing_else(transform: Any):
    row = {**ROWS[transform], "id": 7}
    out = transform()(row)
    assert list(out) == ["messages"]
    assert [message.role for message in out["messages"]] == ["user", "assistant"]
    assert out["messages"][1].text_content == "a"
    validate_messages(out["messages"])


@pytest.mark.parametrize("transform", ALL)
def test_the_row_is_not_changed(transform: Any):
    row = pickle.loads(pickle.dumps(ROWS[transform]))
    transform()(row)
    assert row == ROWS[transform]


@pytest.mark.parametrize("transform", ALL)
def test_defaults_never_warn_and_alpaca_alone_trains_on_the_prompt(transform: Any):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        user, assistant = transform()(ROWS[transform])["messages"]
    assert not assistant.masked
    assert user.masked == (transform is not AlpacaToMessages)


@pytest.mark.parametrize("transform", ALL)
def test_a_masking_strategy_by_name_or_member_decides(transform: Any):
    for strategy in ("train_on_all", MaskingStrategy.TRAIN_ON_ALL):
        assert [m.masked for m in transform(masking_strategy=strategy)(ROWS[transform])["messages"]] == [False, False]
    for strategy in ("train_on_assistant", "train_on_last"):
        assert [m.masked for m in transform(masking_strategy=strategy)(ROWS[transform])["messages"]] == [True, False]


@pytest.mark.parametrize("transform", ALL)
def test_train_on_input_still_works_with_a_warning_that_points_at_the_call(transform: Any):
    with pytest.warns(DeprecationWarning, match="masking_strategy='train_on_all' for train_on_input=True") as caught:
        built = transform(train_on_input=True)  # the call
    assert "# the call" in linecache.getline(caught[0].filename, caught[0].lineno)
    assert [m.masked for m in built(ROWS[transform])["messages"]] == [False, False]
    with pytest.warns(DeprecationWarning, match="train_on_assistant"):
        built = transform(False)
    assert [m.masked for m in built(ROWS[transform])["messages"]] == [True, False]


@pytest.mark.parametrize("transform", ALL)
def test_train_on_input_and_another_strategy_are_refused(transform: Any):
    with pytest.raises(ConfigError, match=r"was given as well\. Remove train_on_input"):
        transform(train_on_input=True, masking_strategy="train_on_last")


@pytest.mark.parametrize("transform", ALL)
def test_a_transform_can_be_pickled_and_used_from_threads(transform: Any):
    built = pickle.loads(pickle.dumps(transform()))
    with ThreadPoolExecutor(4) as pool:
        results = list(pool.map(built, [ROWS[transform]] * 50))
    assert all(result == results[0] for result in results)


@pytest.mark.parametrize("transform", ALL)
def test_an_unknown_key_in_column_map_is_refused_with_the_nearest(transform: Any):
    required = {"instruction": "i", "output": "o"} if transform is AlpacaToMessages else {}
    with pytest.raises(ConfigError, match="column_map has the key 'outputt'; it may have"):
        transform(column_map={**required, "outputt": "x"})


@pytest.mark.parametrize("transform", ALL)
def test_a_column_map_without_a_required_key_is_refused(transform: Any):
    optional = {AlpacaToMessages: "input", OpenAIToMessages: None}.get(transform, "image")
    if optional is None:
        assert transform(column_map={})(ROWS[transform])
        return
    with pytest.raises(ValueError, match=r"column_map must name a column for .* it has none for"):
        transform(column_map={optional: "x"})


@pytest.mark.parametrize("transform", ALL)
def test_a_missing_column_is_named_with_the_columns_that_are_there(transform: Any):
    row = {f"{column}s": value for column, value in ROWS[transform].items()}
    with pytest.raises(
        ColumnError, match=r"has no column '\w+'; it has '\w+s'.*Did you mean '\w+s'.*in column_map, under"
    ):
        transform()(row)


@pytest.mark.parametrize("transform", WITH_SYSTEM_PROMPT)
def test_a_new_system_prompt_comes_first_and_is_never_trained_on(transform: Any):
    system, user, _ = transform(new_system_prompt="Be kind.", masking_strategy="train_on_all")(ROWS[transform])[
        "messages"
    ]
    assert (system.role, system.text_content, system.masked) == ("system", "Be kind.", True)
    assert not user.masked
    with pytest.raises(ConfigError, match="new_system_prompt=3 must be a string"):
        transform(new_system_prompt=3)


@pytest.mark.parametrize("empty", [None, "", []])
def test_an_empty_image_column_is_a_row_of_text(empty: Any):
    assert len(InputOutputToMessages()({"input": "u", "output": "a", "image": empty})["messages"]) == 2


# --- InputOutputToMessages -----------------------------------------------------------------------------------------


def test_columns_can_have_other_names():
    transform = InputOutputToMessages(column_map={"input": "question", "output": "answer"})
    assert transform({"question": "1 + 1?", "answer": "2"})["messages"] == [
        Message("user", "1 + 1?", masked=True),
        Message("assistant", "2"),
    ]


@pytest.mark.parametrize(
    ("value", "sentence"),
    [
        (None, "Column 'output' is null.*filter_fn"),
        (42, r"Column 'output' holds a int \(42\), not text"),
        (1.5, "float"),
    ],
)
def test_a_column_that_is_not_text_is_refused(value: Any, sentence: str):
    with pytest.raises(DataError, match=sentence):
        InputOutputToMessages()({"input": "u", "output": value})


def test_a_column_name_that_is_not_a_string_is_refused():
    with pytest.raises(ConfigError, match=r"column_map\['input'\] is 3"):
        InputOutputToMessages(column_map={"input": 3, "output": "a"})  # pyright: ignore[reportArgumentType]


# --- AlpacaToMessages ----------------------------------------------------------------------------------------------

WITH_INPUT = (
    "Below is an instruction that describes a task, paired with an input that provides further context. Write a "
    "response that appropriately completes the request.\n\n### Instruction:\nAdd.\n\n### Input:\n1 2\n\n### Response:\n"
)
WITHOUT_INPUT = (
    "Below is an instruction that describes a task. Write a response that appropriately completes the request."
    "\n\n### Instruction:\nAdd.\n\n### Response:\n"
)


def test_the_alpaca_prompt_is_exact_to_the_byte():
    messages = AlpacaToMessages()({"instruction": "Add.", "input": "1 2", "output": "3"})["messages"]
    assert [message.text_content for message in messages] == [WITH_INPUT, "3"]


@pytest.mark.parametrize("row", [{"input": ""}, {"input": None}, {}])
def test_a_row_without_input_gets_the_short_prompt(row: dict[str, Any]):
    messages = AlpacaToMessages()({"instruction": "Add.", "output": "3", **row})["messages"]
    assert messages[0].text_content == WITHOUT_INPUT


def test_the_input_column_is_read_by_its_own_name_when_the_map_leaves_it_out():
    transform = AlpacaToMessages(column_map={"instruction": "q", "output": "a"})
    assert transform({"q": "Add.", "input": "1 2", "a": "3"})["messages"][0].text_content == WITH_INPUT


def test_braces_in_the_fields_mean_nothing():
    row = {"instruction": "{input} {0} {{x}}", "input": "{instruction}", "output": "{{name}}"}
    user, assistant = AlpacaToMessages()(row)["messages"]
    assert "\n{input} {0} {{x}}\n" in user.text_content
    assert "\n{instruction}\n" in user.text_content
    assert assistant.text_content == "{{name}}"


@pytest.mark.parametrize("value", [0, 1.5, [], float("nan")])
def test_an_alpaca_input_that_is_not_text_is_refused(value: Any):
    with pytest.raises(DataError, match="Column 'input' holds a"):
        AlpacaToMessages()({"instruction": "Add.", "input": value, "output": "3"})


# --- ShareGPTToMessages --------------------------------------------------------------------------------------------


def test_speakers_are_mapped_and_plain_names_are_understood():
    row = sharegpt(("system", "s"), ("human", "u"), ("gpt", "a"), ("user", "u"), ("assistant", "a"))
    messages = ShareGPTToMessages()(row)["messages"]
    assert [message.role for message in messages] == ["system", "user", "assistant", "user", "assistant"]
    assert [message.masked for message in messages] == [True, True, False, True, False]


def test_a_new_system_prompt_replaces_the_rows_own():
    messages = ShareGPTToMessages(new_system_prompt="new")(sharegpt(("system", "old"), ("human", "u")))["messages"]
    assert [message.text_content for message in messages] == ["new", "u"]


def test_an_unknown_speaker_is_refused_with_the_turn_and_the_known_ones():
    with pytest.raises(
        DataError, match=r"Turn 1 has the role 'gpt4'; a role is one of 'system', 'human', 'gpt'.*mean 'gpt'"
    ):
        ShareGPTToMessages()(sharegpt(("human", "u"), ("gpt4", "a")))


def test_a_turn_without_text_is_refused():
    with pytest.raises(DataError, match=r"The value of turn 1 \('gpt'\) is null"):
        ShareGPTToMessages()(sharegpt(("human", "u"), ("gpt", None)))
    with pytest.raises(DataError, match=r"The value of turn 0 \('human'\) holds a int"):
        ShareGPTToMessages()(sharegpt(("human", 3)))


def test_each_layout_names_the_other_when_it_meets_its_keys():
    with pytest.raises(
        ColumnError, match=r"Turn 0 has 'role', 'content'.*conversation_style: openai, which is OpenAIToMessages"
    ):
        ShareGPTToMessages()({"conversations": ROWS[OpenAIToMessages]["messages"]})
    with pytest.raises(ColumnError, match=r"Turn 0 has 'from', 'value'.*conversation_style: sharegpt"):
        OpenAIToMessages()({"messages": ROWS[ShareGPTToMessages]["conversations"]})


def test_the_layout_is_decided_per_row_even_when_arrow_filled_the_keys():
    filled = {"from": None, "value": None, "role": "user", "content": "u"}
    with pytest.raises(ColumnError, match="this looks like the other layout"):
        ShareGPTToMessages()({"conversations": [filled]})
    assert len(OpenAIToMessages()({"messages": [filled]})["messages"]) == 1


def test_a_turn_without_its_keys_names_them():
    with pytest.raises(ColumnError, match="Turn 0 lacks 'value'; it needs 'from', 'value', and has 'from', 'text'"):
        ShareGPTToMessages()({"conversations": [{"from": "human", "text": "u"}]})
    with pytest.raises(ColumnError, match="Turn 0 lacks 'role'"):
        OpenAIToMessages()({"messages": [{"role": None, "content": "u"}]})


@pytest.mark.parametrize(
    ("held", "sentence"),
    [
        ([], "holds no turns"),
        (None, "holds null; it must be a list"),
        ("u", "holds a str; it must be a list"),
        ({"from": ["human"], "value": ["u"]}, "holds a dict; it must be a list"),
        (["u"], "Turn 0 is a str; a turn is a dict"),
    ],
)
def test_a_column_that_is_not_a_list_of_turns_is_refused(held: Any, sentence: str):
    with pytest.raises(DataError, match=sentence):
        ShareGPTToMessages()({"conversations": held})
    with pytest.raises(DataError, match=sentence):
        OpenAIToMessages()({"messages": held})


# --- OpenAIToMessages ----------------------------------------------------------------------------------------------


def test_a_call_and_its_results_go_on_until_the_answer_and_pass_validation():
    row = openai(("user", "u"), ("assistant", "f()"), ("tool", "r1"), ("tool", "r2"), ("assistant", "a"))
    messages = OpenAIToMessages()(row)["messages"]
    assert [message.eot for message in messages] == [True, False, False, False, True]
    assert [message.masked for message in messages] == [True, False, True, True, False]
    validate_messages(messages)


def test_text_parts_are_kept_apart():
    row = openai(("user", [{"type": "text", "text": "a"}, {"type": "text", "text": "b", "image_url": None}]))
    assert OpenAIToMessages()(row)["messages"][0].content == [
        {"type": "text", "content": "a"},
        {"type": "text", "content": "b"},
    ]


@pytest.mark.parametrize(
    ("part", "sentence"),
    [
        ({"type": "images", "image": "x"}, r"Part 1 of turn 0 \('user'\) has the type 'images', and .*'image_url'"),
        ({"type": "input_audio", "input_audio": {}}, "has the type 'input_audio'"),
        ({"text": "b"}, "has the type None"),
        ({"type": "text", "texts": "b"}, "has no string under 'text'; its keys are 'type', 'texts'"),
        ("b", "is a str; a part is a dict"),
    ],
)
def test_a_part_of_another_type_is_refused_not_dropped(part: Any, sentence: str):
    with pytest.raises(DataError, match=sentence):
        OpenAIToMessages()(openai(("user", [{"type": "text", "text": "a"}, part])))


def test_null_keys_of_an_arrow_table_are_ignored():
    row = openai(("user", "u"), ("assistant", "a"), tool_calls=None, function_call=None, name=None)
    assert len(OpenAIToMessages()(row)["messages"]) == 2
    assert len(OpenAIToMessages()(openai(("user", "u"), ("assistant", "a"), tool_calls=[]))["messages"]) == 2


def test_null_content_is_refused_and_never_taken_from_the_turn_before():
    with pytest.raises(DataError, match=r"The content of turn 1 \('assistant'\) is null"):
        OpenAIToMessages()(openai(("user", "u"), ("assistant", None)))
    with pytest.raises(DataError, match=r"The content of turn 0 \('user'\) holds a dict"):
        OpenAIToMessages()(openai(("user", {"text": "u"})))


@pytest.mark.parametrize(
    ("role", "sentence"), [("asistant", "Did you mean 'assistant'"), ("pretrain", "one of 'system'")]
)
def test_an_unknown_role_is_refused_with_the_turn(role: str, sentence: str):
    with pytest.raises(DataError, match=f"Turn 0 has the role '{role}'.*{sentence}"):
        OpenAIToMessages()(openai((role, "u")))


def test_the_messages_column_can_have_another_name():
    row = {"chat": ROWS[OpenAIToMessages]["messages"]}
    assert len(OpenAIToMessages(column_map={"messages": "chat"})(row)["messages"]) == 2


def test_openai_weight_zero_leaves_a_turn_out_whatever_the_strategy() -> None:
    row = openai(("user", "u"), ("assistant", "draft"), ("user", "v"), ("assistant", "final"))
    row["messages"][1]["weight"] = 0
    row["messages"][3]["weight"] = 1
    for strategy in ("train_on_assistant", "train_on_all"):
        messages = OpenAIToMessages(masking_strategy=strategy, new_system_prompt="s")(row)["messages"]
        assert [m.masked for m in messages if m.role == "assistant"] == [True, False]


def test_sharegpt_turns_lose_nothing_and_weight_zero_is_not_trained():
    row = {"conversations": [{"from": "human", "value": "u"}, {"from": "gpt", "value": "a", "weight": 0}]}
    assert ShareGPTToMessages()(row)["messages"][1].masked
    row["conversations"][1] = {"from": "gpt", "value": "a", "reasoning_content": "because", "weight": 0.5}
    message = ShareGPTToMessages()(row)["messages"][1]
    assert (message.reasoning, message.weight, message.masked) == ("because", 0.5, False)


# --- tools, system prompts and reasoning of a row ---------------------------------------------------------------------

TOOLS: list[dict[str, Any]] = [{"type": "function", "function": {"name": "f", "parameters": {"b": 1, "a": 2}}}]


@pytest.mark.parametrize("tools", [TOOLS, '[{"name":  "f"}]', "no JSON at all"])
def test_the_tools_of_a_row_are_kept_as_they_are(tools: Any):
    for transform, row in (
        (OpenAIToMessages(), openai(("user", "u"), ("assistant", "a"))),
        (ShareGPTToMessages(), sharegpt(("human", "u"), ("gpt", "a"))),
    ):
        assert transform({**row, "tools": tools})["tools"] is tools
    said = openai(("user", "u"), ("assistant", "a"))["messages"]
    both = {"chosen": said, "rejected": said, "tools": tools}
    assert ChosenRejectedToMessages()(both)["tools"] is tools


@pytest.mark.parametrize("nothing", [None, [], "", "[]", " null "])
def test_a_row_without_tools_has_none(nothing: Any):
    assert list(OpenAIToMessages()({**openai(("user", "u")), "tools": nothing})) == ["messages"]


def test_the_tools_column_can_have_another_name_or_be_left_out():
    row = {**openai(("user", "u")), "functions": TOOLS, "tools": {"not": "a list"}}
    named = OpenAIToMessages(column_map={"messages": "messages", "tools": "functions"})
    assert named(row)["tools"] is TOOLS
    assert "tools" not in OpenAIToMessages(column_map={"messages": "messages", "tools": None})(row)
    with pytest.raises(DataError, match="Column 'tools' holds a dict. Tools are a list"):
        OpenAIToMessages()(row)
    with pytest.raises(ConfigError, match=r"column_map\['messages'\] is None; it must be the name of a column"):
        OpenAIToMessages(column_map={"messages": None})


def test_a_system_column_comes_first_unless_the_turns_have_it_already():
    row = {**sharegpt(("human", "u"), ("gpt", "a")), "system": "s"}
    messages = ShareGPTToMessages()(row)["messages"]
    assert (messages[0].role, messages[0].text_content, messages[0].masked) == ("system", "s", True)
    same = {**sharegpt(("system", "s"), ("human", "u")), "system": "s"}
    assert len(ShareGPTToMessages()(same)["messages"]) == 2
    assert len(ShareGPTToMessages()({**same, "system": None})["messages"]) == 2
    with pytest.raises(DataError, match="The row has a system message, and another one in column 'system'"):
        ShareGPTToMessages()({**same, "system": "t"})
    with pytest.raises(DataError, match="Column 'system' holds a int.*map 'system' to null"):
        ShareGPTToMessages()({**same, "system": 3})
    left_out = ShareGPTToMessages(column_map={"conversations": "conversations", "system": None})
    assert len(left_out({**same, "system": 3})["messages"]) == 2
    assert [m.text_content for m in ShareGPTToMessages(new_system_prompt="n")(row)["messages"]] == ["n", "u", "a"]


def test_reasoning_is_split_off_only_when_asked_for():
    row = openai(("user", "u"), ("assistant", "<think>r</think>a"))
    assert OpenAIToMessages()(row)["messages"][1].reasoning is None
    message = OpenAIToMessages(split_reasoning=True)(row)["messages"][1]
    assert (message.reasoning, message.text_content) == ("r", "a")
    shared = sharegpt(("human", "u"), ("gpt", "<think>r</think>a"))
    assert ShareGPTToMessages(split_reasoning=True)(shared)["messages"][1] == message


def test_calls_of_sharegpt_and_their_results():
    calls = '[{"name": "f", "arguments": {"a": 1}}, {"name": "g", "arguments": {}}]'
    row = sharegpt(("human", "u"), ("function_call", calls), ("observation", "1"), ("observation", "2"), ("gpt", "a"))
    messages = ShareGPTToMessages()(row)["messages"]
    assert [message.role for message in messages] == ["user", "assistant", "tool", "tool", "assistant"]
    assert messages[1].tool_calls == (ToolCall("f", {"a": 1}), ToolCall("g", {}))
    assert [message.masked for message in messages] == [True, False, True, True, False]
    validate_messages(messages)
    with pytest.raises(DataError, match=r"Turn 1 \('function_call'\) is text that is no JSON"):
        ShareGPTToMessages()(sharegpt(("human", "u"), ("function_call", "f(1)")))


def test_the_row_of_calls_is_not_changed():
    row = {**openai(("user", "u"), ("assistant", None)), "tools": TOOLS}
    row["messages"][1]["tool_calls"] = [{"function": {"name": "f", "arguments": {"a": 1}}}]
    before = copy.deepcopy(row)
    messages = OpenAIToMessages()(row)["messages"]
    assert row == before
    row["messages"][1]["tool_calls"][0]["function"]["arguments"]["a"] = 2
    assert messages[1].tool_calls[0].arguments == {"a": 1}
