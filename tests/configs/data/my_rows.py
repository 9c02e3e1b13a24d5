"""Transforms, sources and filters of one's own, as docs/recipes_for_data.md shows them."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from torchpipe.data import AlpacaToMessages, InputOutputToMessages, OpenAIToMessages
from torchpipe.sources import load_rows

Row = Mapping[str, Any]


class FirstInstance(AlpacaToMessages):
    def __call__(self, sample: Row) -> dict[str, Any]:
        return super().__call__({**sample, **sample["instances"][0]})


class ToyTurns(OpenAIToMessages):
    def __call__(self, sample: Row) -> dict[str, Any]:
        roles = {"toy_system": "system", "toy_input": "user", "toy_output": "assistant"}
        said = [item for turn in sample["messages"] for item in turn.items()]
        return super().__call__({"messages": [{"role": roles[key], "content": text} for key, text in said]})


class ImageBeside(InputOutputToMessages):
    def __call__(self, sample: Row) -> dict[str, Any]:
        return super().__call__({**sample, "image": Path(sample["image"]).name})


class RawCalls(OpenAIToMessages):
    def __call__(self, sample: Row) -> dict[str, Any]:
        names = {"tool_calls_raw": "tool_calls"}
        turns = [{names.get(key, key): held for key, held in turn.items()} for turn in sample["messages"]]
        return super().__call__({**sample, "messages": turns})


class Asked(OpenAIToMessages):
    def __call__(self, sample: Row) -> dict[str, Any]:
        return super().__call__({"messages": sample["question"][0], "tools": sample["function"]})


class Answered(OpenAIToMessages):
    def __init__(self, file: str) -> None:
        super().__init__()
        self.answers = {row["id"]: row["ground_truth"] for row in load_rows(file, split="train")}

    def __call__(self, sample: Row) -> dict[str, Any]:
        calls = [call for some in self.answers[sample["id"]] for call in some.items()]
        made = [{"name": name, "arguments": first_of(arguments)} for name, arguments in calls]
        turns = [*sample["question"][0], {"role": "assistant", "content": None, "tool_calls": made}]
        return super().__call__({"messages": turns, "tools": sample["function"]})


def first_of(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: first_of(good[0]) for key, good in value.items() if good[0] != ""}
    return [first_of(one) for one in value] if isinstance(value, list) else value


def tool_alpaca(file: str) -> list[Row]:
    rows: list[Row] = []
    for api in load_rows(file, split="train"):
        tools = [{"name": name, "description": text} for name, text in api["Function_Description"].items() if text]
        for asked, calls in zip(api["Instructions"], api["Golden_Answers"], strict=True):
            made = [{"name": call["Action"], "arguments": call["Action_Input"]} for call in calls]
            turns = [{"role": "user", "content": asked}, {"role": "assistant", "content": None, "tool_calls": made}]
            rows.append({"messages": turns, "tools": tools})
    return rows


class Questioned(OpenAIToMessages):
    def __init__(self, file: str) -> None:
        super().__init__()
        self.questions = {row["question_id"]: row["turns"] for row in load_rows(file, split="train")}

    def __call__(self, sample: Row) -> dict[str, Any]:
        said = zip(self.questions[sample["question_id"]], sample["choices"][0]["turns"], strict=True)
        roles = ("user", "assistant")
        turns = [{"role": role, "content": text} for pair in said for role, text in zip(roles, pair, strict=True)]
        return super().__call__({"messages": turns})


def segments(untrained: str, trained: str) -> Row:
    return {"segments": [{"label": False, "text": untrained}, {"label": True, "text": trained}]}


def split_at(file: str, column: str, mark: str, strip: str = "") -> list[Row]:
    halves = [row[column].strip(strip).partition(mark) for row in load_rows(file, split="train")]
    return [segments(before + mark, after) for before, mark, after in halves]


def code(file: str) -> list[Row]:
    return [segments(row["prompt"], row["canonical_solution"]) for row in load_rows(file, split="train")]


def only_texts(file: str) -> list[Row]:
    return [{"text": turn["content"]} for row in load_rows(file, split="train") for turn in row["messages"]]


def solved(row: Row) -> bool:
    return row["reward"] == 1


def threads(file: str, name: str = "task_message_id", parent: str = "parent_message_id") -> list[Row]:
    rows = {row[name]: row for row in load_rows(file, split="train")}

    def until(row: Row) -> list[Row]:
        return [*(until(rows[row[parent]]) if row[parent] in rows else []), row]

    answered = {row[parent] for row in rows.values()}
    return [{"messages": until(row)} for key, row in rows.items() if key not in answered]


def is_root(row: Row) -> bool:
    return row["parent_message_id"] is None
