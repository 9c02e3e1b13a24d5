"""The shape of each row is found out from its columns and what they hold; each becomes its own transform's messages."""

import json
import pickle
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from torchpipe.data import (
    AlpacaToMessages,
    DetectedToMessages,
    InputOutputToMessages,
    Message,
    OpenAIToMessages,
    ShareGPTToMessages,
    TaggedTurnsToMessages,
    validate_messages,
)
from torchpipe.data.schema import SHAPES
from torchpipe.errors import ColumnError, ConfigError, DataError, MediaError

ASKED, SAID = {"role": "user", "content": "1 + 1?"}, {"role": "assistant", "content": "2"}
FROM, GPT = {"from": "human", "value": "1 + 1?"}, {"from": "gpt", "value": "2"}
TALK = [("user", "1 + 1?"), ("assistant", "2")]

# Every file of the real data: how many of its rows have which shape, and a part of the sentence that refuses others.
REAL: dict[str, tuple[dict[str, int], str]] = {
    "alpaca/self_instruct_seed_tasks.jsonl": ({}, r"no known shape\. Nearest: instruction and response \(lacks"),
    "alpaca/self_instruct_user_oriented_alpaca.json": ({"Alpaca": 166}, ""),
    "bfcl/BFCL_v4_irrelevance.jsonl": ({}, "prompt_dataset reads prompts without an answer"),
    "bfcl/BFCL_v4_parallel.jsonl": ({}, "questions for calls of functions, which is no conversation"),
    "code/HumanEval_100.jsonl": ({}, "prompt_dataset reads prompts"),
    "functionary/test_case_v2.json": ({"OpenAI turns in 'messages'": 1}, ""),
    "gsm8k/train.jsonl": ({"question and answer": 7473}, ""),
    "hermes/few_shot.json": ({}, "The row has 'example', which is no known shape"),
    "ifeval/ifeval_prompts.jsonl": ({}, "prompt_dataset reads prompts"),
    "llamafactory/c4_demo.jsonl": ({}, "text_completion_dataset trains on all of a text"),
    "llamafactory/dpo_en_demo.json": ({}, "preference_dataset reads pairs"),
    "llamafactory/glaive_toolcall_en_demo.json": ({"ShareGPT turns in 'conversations'": 200}, ""),
    "llamafactory/glaive_toolcall_zh_demo.json": ({"ShareGPT turns in 'conversations'": 80}, ""),
    "llamafactory/identity.json": ({"Alpaca": 91}, ""),
    "llamafactory/kto_en_demo.json": ({}, "kto_dataset reads rows that are labelled good or bad"),
    "llamafactory/reason_tool_use_demo.jsonl": ({"OpenAI turns in 'messages'": 32}, ""),
    "llamafactory/v1_dpo_demo.jsonl": ({}, "preference_dataset reads pairs"),
    "messages/tinker_conversations.jsonl": ({"OpenAI turns in 'messages'": 128}, ""),
    "mt_bench/question.jsonl": ({}, "prompts of several turns, which is no conversation"),
    "prompt_completion/mlx_wwdc25_valid.jsonl": ({"prompt and completion": 144}, ""),
    "sharegpt/fastchat_dummy_conversation.json": ({"ShareGPT turns in 'conversations'": 500}, ""),
    "tau_bench/gpt4o_airline_traj_a.jsonl": ({"OpenAI turns in 'messages'": 16}, ""),
    "text/mlx_wikisql_text.jsonl": ({}, "text_completion_dataset trains on all of a text"),
    "toolalpaca/eval_simulated.json": ({}, "no known shape"),
    "torchtune/chat_tiny.json": ({"ShareGPT turns in 'conversations'": 1}, ""),
    "torchtune/hh_rlhf_tiny.json": ({}, "preference_dataset reads pairs"),
    "torchtune/instruct_tiny.json": ({"instruction and response": 2}, ""),
    "trees/oasst_realistic_seed.json": ({}, "Each row is one message; join the rows of a conversation"),
    "xtuner/demo_multi_turn_1.json": ({}, "'messages' holds dicts with 'toy_system', 'toy_input', 'toy_output'"),
    "xtuner/demo_single_turn.json": ({}, r"no known shape\. Nearest: input and output \(lacks 'input', 'output'\)"),
    "xtuner/qwen35_tokenize_data.jsonl": ({"OpenAI turns in 'messages'": 8}, ""),
}


def rows_of(path: Path) -> list[dict[str, Any]]:
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".jsonl":
        return [json.loads(line) for line in text.splitlines()]
    held = json.loads(text)
    return held if isinstance(held, list) else [held]


def said(row: dict[str, Any], **options: Any) -> list[tuple[str, str]]:
    return [(message.role, message.text_content) for message in DetectedToMessages(**options)(row)["messages"]]


@pytest.mark.parametrize("file", REAL)
def test_real_rows_have_the_shape_that_they_have(file: str, shared_data: Path) -> None:
    shapes, refusal = REAL[file]
    transform, found = DetectedToMessages(), Counter[str]()
    for row in rows_of(shared_data / file):
        if shapes:
            found[transform.shape_of(row).name] += 1
        else:
            with pytest.raises(ColumnError, match=refusal):
                transform(row)
    assert found == shapes


@pytest.mark.parametrize(
    ("file", "own"),
    [
        ("gsm8k/train.jsonl", InputOutputToMessages(column_map={"input": "question", "output": "answer"})),
        ("llamafactory/identity.json", AlpacaToMessages(masking_strategy="train_on_assistant")),
        ("llamafactory/glaive_toolcall_en_demo.json", ShareGPTToMessages()),
        ("llamafactory/reason_tool_use_demo.jsonl", OpenAIToMessages()),
        ("functionary/test_case_v2.json", OpenAIToMessages()),
        ("tau_bench/gpt4o_airline_traj_a.jsonl", OpenAIToMessages()),
        ("xtuner/qwen35_tokenize_data.jsonl", OpenAIToMessages()),
        (
            "prompt_completion/mlx_wwdc25_valid.jsonl",
            InputOutputToMessages(column_map={"input": "prompt", "output": "completion"}),
        ),
    ],
)
def test_a_shapes_messages_are_those_of_its_own_transform(file: str, own: Any, shared_data: Path) -> None:
    transform = DetectedToMessages()
    rows = rows_of(shared_data / file)
    for row in rows:
        assert transform(row) == own(row)


def test_rows_of_many_shapes_may_stand_in_one_file() -> None:
    rows: list[dict[str, Any]] = [
        {"messages": [ASKED, SAID]},
        {"conversations": [FROM, GPT]},
        {"conversation": [{"from": "user", "value": "1 + 1?"}, {"from": "chatgpt", "value": "2"}]},
        {"prompt": "1 + 1?", "completion": "2"},
        {"prompt": [ASKED], "completion": [SAID]},
        {"prompt": [ASKED], "completion": "2"},
        {"prompt": "1 + 1?", "completion": [SAID]},
        {"question": "1 + 1?", "answer": "2", "id": 7},
        {"question": "1 + 1?", "answers": ["2"]},
        {"query": "1 + 1?", "response": "2"},
        {"instruction": "1 + 1?", "response": "2"},
        {"dialog": [{"role": "user", "text": "1 + 1?"}, {"role": "assistant", "text": "2"}]},
        {"turns": [{"speaker": "human", "text": "1 + 1?"}, {"speaker": "bot", "text": "2"}]},
    ]
    transform = DetectedToMessages()
    for row in rows:
        messages = transform(row)["messages"]
        assert [(message.role, message.text_content) for message in messages] == TALK, row
        assert [message.masked for message in messages] == [True, False], row


def test_nulls_that_arrow_filled_in_are_columns_and_keys_that_are_not_there() -> None:
    empty = {"question": None, "answer": None, "messages": None}
    turn = {"role": None, "content": None}
    assert said({**empty, "conversations": [{**turn, **FROM}, {**turn, **GPT}]}) == TALK
    assert said({**empty, "question": "1 + 1?", "answer": "2", "conversations": None}) == TALK


def test_alpacas_columns_are_no_input_and_output_alone() -> None:
    row = {"instruction": "Add.", "input": "1 + 1", "output": "2", "text": "all of it"}
    assert DetectedToMessages()(row) == AlpacaToMessages(masking_strategy="train_on_assistant")(row)
    context = {"instruction": "Add.", "context": "1 + 1", "response": "2", "category": "maths"}
    assert DetectedToMessages()(context) == DetectedToMessages()(row)


@pytest.mark.parametrize(
    ("row", "names"),
    [
        ({"messages": [ASKED, SAID], "conversations": [FROM, GPT]}, "'messages'.*, .*'conversations'"),
        ({"messages": [ASKED, SAID], "question": "1 + 1?", "answer": "2"}, "'messages'.*, 'question and answer'"),
        ({"prompt": "?", "completion": "!", "response": "!"}, "'prompt and completion', 'prompt and response'"),
    ],
)
def test_a_row_of_two_shapes_is_refused_unless_one_is_named(row: dict[str, Any], names: str) -> None:
    with pytest.raises(ColumnError, match=f"fits more than one shape: .*{names}.* Say which by shapes"):
        DetectedToMessages()(row)
    DetectedToMessages(shapes=[DetectedToMessages(shapes=_names_in(row)[:1]).shape_of(row).name])(row)


def _names_in(row: dict[str, Any]) -> list[str]:
    readable = [shape for shape in SHAPES if shape.reading in ("openai", "pair") and set(shape.needs) <= set(row)]
    return [shape.name for shape in readable]


def test_a_rendered_text_or_a_copy_of_the_prompt_beside_the_turns_is_no_second_shape() -> None:
    assert said({"messages": [ASKED, SAID], "text": "<user>...", "prompt": "1 + 1?", "prompt_id": "x"}) == TALK


def test_a_label_good_or_bad_is_not_trained_on_as_an_answer() -> None:
    with pytest.raises(ColumnError, match="labelled messages, which is no conversation to train on.*kto_dataset"):
        DetectedToMessages()({"messages": [ASKED, SAID], "label": False})
    assert said({"messages": [ASKED, SAID], "label": "maths"}) == TALK
    assert said({"messages": [ASKED, SAID], "label": False}, shapes="OpenAI turns in 'messages'") == TALK


def test_only_the_completion_of_a_prompt_of_turns_is_trained_unless_a_strategy_says_otherwise() -> None:
    row = {"prompt": [ASKED, SAID, ASKED], "completion": [SAID]}
    masks = [message.masked for message in DetectedToMessages()(row)["messages"]]
    assert masks == [True, True, True, False]
    asked = DetectedToMessages(masking_strategy="train_on_assistant")(row)["messages"]
    assert [message.masked for message in asked] == [True, False, True, False]


@pytest.mark.parametrize("row", [{"question": "1 + 1?", "answer": "2"}, {"messages": [ASKED, SAID]}])
def test_system_and_tools_columns_are_read_in_every_shape(row: dict[str, Any]) -> None:
    tools = '[{"name": "add",  "parameters": {}}]'
    made = DetectedToMessages()({**row, "system": "Be kind.", "tools": tools})
    assert [message.role for message in made["messages"]] == ["system", "user", "assistant"]
    assert [message.masked for message in made["messages"]] == [True, True, False]
    assert made["tools"] is tools, "to the letter"
    assert DetectedToMessages()({**row, "functions": tools})["tools"] is tools
    new = DetectedToMessages(new_system_prompt="New.")({**row, "system": "Be kind."})
    assert new["messages"][0].text_content == "New."


@pytest.mark.parametrize(
    "row",
    [
        {"system_prompt": "Add.", "question": "1 + 1?", "response": "2"},
        {"system_prompt": "Add.", "messages": [ASKED, SAID]},
        {"system_prompt": "Add.", "conversations": [FROM, GPT], "system": None},
        {"system_prompt": "Add.", "system": "Add.", "prompt": [ASKED], "completion": "2"},
    ],
)
def test_a_system_prompt_may_stand_under_its_other_name(row: dict[str, Any]) -> None:
    messages = DetectedToMessages()(row)["messages"]
    assert [(message.role, message.text_content) for message in messages] == [("system", "Add."), *TALK]
    assert [message.masked for message in messages] == [True, True, False]


def test_two_different_system_prompts_are_refused() -> None:
    row = {"system": "Add.", "system_prompt": "Subtract.", "question": "1 + 1?", "answer": "2"}
    with pytest.raises(ColumnError, match="different texts in 'system' and 'system_prompt'"):
        DetectedToMessages()(row)


@pytest.mark.parametrize(
    ("row", "column", "shape"),
    [
        ({"instruction": "And 2?", "input": "", "output": "3", "history": [["1 + 1?", "2"]]}, "history", "Alpaca"),
        ({"instruction": "Who?", "output": "Ann", "context": "Ann left."}, "context", "Alpaca"),
        ({"question": "Who?", "answer": "Ann", "context": "Ann left."}, "context", "question and answer"),
        ({"instruction": "Add.", "response": "2", "input": "1 + 1"}, "input", "instruction and response"),
        ({"prompt": "1 + 1?", "completion": "2", "reasoning": "One and one."}, "reasoning", "prompt and completion"),
        (
            {"prompt": [ASKED], "completion": "2", "thinking": "One and one."},
            "thinking",
            "prompt and completion, the prompt of turns",
        ),
    ],
)
def test_a_part_of_the_conversation_that_a_shape_does_not_read_is_not_left_out_silently(
    row: dict[str, Any], column: str, shape: str
) -> None:
    with pytest.raises(ColumnError, match=f"The row has '{column}', which {shape} does not read: .* lack a part"):
        DetectedToMessages()(row)
    named = DetectedToMessages(shapes=[shape])(row)["messages"]
    assert named == DetectedToMessages()({**row, column: None})["messages"]


def test_a_new_system_prompt_stands_before_every_shape() -> None:
    for row in ({"instruction": "1 + 1?", "output": "2"}, {"prompt": [ASKED], "completion": [SAID]}):
        first = DetectedToMessages(new_system_prompt="Be kind.")(row)["messages"][0]
        assert (first.role, first.text_content, first.masked) == ("system", "Be kind.", True)


def test_columns_of_other_names_are_named_in_column_map(shared_data: Path) -> None:
    columns = {"input": "toy_input", "output": "toy_output", "system": "toy_system"}
    transform = DetectedToMessages(column_map=columns)
    for row in rows_of(shared_data / "xtuner" / "demo_single_turn.json"):
        found = [message.text_content for message in transform(row)["messages"]]
        assert found == [row["toy_system"], row["toy_input"], row["toy_output"]]
    with pytest.raises(ColumnError, match="The row has none of column_map's 'toy_input', 'toy_output', 'toy_system'"):
        transform({"a": 1})


def test_code_is_a_prompt_and_its_completion_by_column_map(shared_data: Path) -> None:
    transform = DetectedToMessages(column_map={"completion": "canonical_solution"})
    for row in rows_of(shared_data / "code" / "HumanEval_100.jsonl"):
        assert [m.text_content for m in transform(row)["messages"]] == [row["prompt"], row["canonical_solution"]]


def test_media_that_a_shape_does_not_read_are_not_left_out_silently(shared_data: Path) -> None:
    for row in rows_of(shared_data / "llamafactory" / "mllm_audio_demo.json"):
        with pytest.raises(MediaError, match="The row has 'audios', which OpenAI turns in 'messages' does not read"):
            DetectedToMessages()(row)
    assert said({"messages": [ASKED, SAID], "images": []}) == TALK


def test_a_picture_beside_a_question_is_read(shared_data: Path) -> None:
    row = {"input": "What is it?", "output": "A logo.", "image": "rgb_pytorch.png"}
    transform = DetectedToMessages(image_dir=shared_data / "torchtune")
    assert transform(row)["messages"][0].contains_media


@pytest.mark.parametrize(
    ("row", "told"),
    [
        ({}, r"The row has nothing, which is no known shape\. Nearest: "),
        ({"mesages": []}, r"Nearest: OpenAI turns in 'messages' \(lacks 'messages'\)"),
        ({"quesion": "?", "answer": "!"}, r"Nearest: question and answer \(lacks 'question'\)"),
        ({"messages": "hi"}, "'messages' holds text, which is no known shape"),
        ({"messages": [["a"]]}, "'messages' holds a list of list"),
        ({"segments": [{"label": True, "text": "a"}]}, "segments_dataset reads pieces of text"),
        ({"question": "?", "context": "...", "answers": ["!"]}, "a message_transform that joins question and context"),
        ({"question": "?", "answers": ["a", "b"]}, "'answers' holds a list of texts"),
    ],
)
def test_a_row_of_no_shape_is_refused_with_its_columns_and_the_nearest(row: dict[str, Any], told: str) -> None:
    with pytest.raises(ColumnError, match=told) as caught:
        DetectedToMessages()(row)
    assert caught.value.reason == "bad_columns"


def test_no_turns_are_empty_and_not_of_another_shape() -> None:
    with pytest.raises(DataError, match="holds no turns") as caught:
        DetectedToMessages()({"messages": []})
    assert caught.value.reason == "empty"


def test_a_name_of_no_shape_names_the_nearest() -> None:
    with pytest.raises(ConfigError, match=r"There is no shape 'Alpacca'\. Did you mean 'Alpaca'\?"):
        DetectedToMessages(shapes=["Alpacca"])
    with pytest.raises(ConfigError, match=r"column_map\['input'\] is 3"):
        DetectedToMessages(column_map={"input": 3})  # pyright: ignore[reportArgumentType]


def test_names_of_shapes_are_all_different() -> None:
    assert len({shape.name for shape in SHAPES}) == len(SHAPES)


def test_a_row_is_left_as_it_is() -> None:
    row = {"prompt": [ASKED], "completion": [SAID], "system": "Be kind."}
    before = json.dumps(row)
    DetectedToMessages()(row)
    assert json.dumps(row) == before


def test_tagged_turns_have_calls_and_results_under_any_name() -> None:
    transform = TaggedTurnsToMessages(
        "who", "says", speakers={"q": "user", "call": "function_call", "got": "observation", "a": "assistant"}
    )
    call = '{"name": "add", "arguments": {"a": 1,  "b": 1}}'
    turns = [("q", "1 + 1?"), ("call", call), ("got", "2"), ("a", "2")]
    messages = transform({"messages": [{"who": who, "says": text} for who, text in turns]})["messages"]
    validate_messages(messages)
    assert [message.role for message in messages] == ["user", "assistant", "tool", "assistant"]
    assert messages[1].tool_calls[0].arguments == {"a": 1, "b": 1}
    with pytest.raises(DataError, match=r"Turn 0 has the speaker 'Q'; there are 'q', .*Did you mean 'q'\?"):
        transform({"messages": [{"who": "Q", "says": "?"}]})
    with pytest.raises(ColumnError, match="Turn 0 lacks 'says'; it has 'who'"):
        transform({"messages": [{"who": "q"}]})
    with pytest.raises(ConfigError, match=r"The speaker 'q' is to be 'usr'; .*Did you mean 'user'\?"):
        TaggedTurnsToMessages("who", "says", speakers={"q": "usr"})


def test_tagged_turns_have_pictures_where_the_tag_stands(shared_data: Path) -> None:
    transform = TaggedTurnsToMessages(
        "role", "content", column_map={"messages": "messages", "image": "images"}, image_dir=shared_data / "torchtune"
    )
    row = {"messages": [{"role": "user", "content": "<image>What?"}, SAID], "images": ["rgb_pytorch.png"]}
    message: Message = transform(row)["messages"][0]
    assert [part["type"] for part in message.content] == ["image", "text"]


def test_a_transform_that_was_used_can_be_sent_to_another_process() -> None:
    transform = DetectedToMessages(shapes=["question and answer"])
    row = {"question": "1 + 1?", "answer": "2"}
    assert pickle.loads(pickle.dumps(transform))(row) == transform(row)
    assert pickle.loads(pickle.dumps(transform))(row) == transform(row)


def test_a_message_of_a_tree_is_told_what_to_do_in_whole_sentences() -> None:
    with pytest.raises(ColumnError, match=r"no conversation to train on\. Each row is one message; join the rows"):
        DetectedToMessages()({"text": "Hi", "role": "prompter", "parent": None})
