"""The text of rows against the publishers' chat templates, over conversations that goldens don't have."""

import json
from collections.abc import Sequence
from pathlib import Path

import jinja2
import jinja2.ext
import jinja2.sandbox
import pytest

from torchpipe.errors import DataError
from torchpipe.tokenizers import PUBLISHER_FORMATS, PublisherFormatTokenizer


class Letters:
    """A stand-in vocabulary of bytes, with every control token that a row names."""

    name, num_tokens = "letters", 256

    def __init__(self, control_tokens: dict[str, int]) -> None:
        self.control_tokens = control_tokens

    def encode(self, text: str) -> list[int]:
        return list(text.encode())

    def decode(self, token_ids: Sequence[int]) -> str:
        return bytes(token_ids).decode()


TOOL = {
    "type": "function",
    "function": {"name": "f", "description": 'say "é" & <b>', "parameters": {"type": "object", "properties": {}}},
}
CALL = {"type": "function", "id": "abcdefgh1", "function": {"name": "f", "arguments": {"q": 'a "é" <b>', "n": [1.5]}}}
SYSTEM = {"role": "system", "content": " Be brief.\n"}
PLAIN = [{"role": "user", "content": " Hi \n"}, {"role": "assistant", "content": "\n Yo "}]
CALLED = [
    {"role": "user", "content": "go"},
    {"role": "assistant", "content": "", "tool_calls": [CALL]},
    {"role": "tool", "name": "f", "tool_call_id": "abcdefgh1", "content": '{"a": "<b>"}'},
]
THOUGHT = [
    {"role": "user", "content": "q"},
    {"role": "assistant", "content": "\n\na", "reasoning_content": "\nr\n"},
]
BESIDE = [{"role": "user", "content": "go"}, {"role": "assistant", "content": "text", "tool_calls": [CALL, CALL]}]
CONVERSATIONS = {
    "plain": (PLAIN, None),
    "system": ([SYSTEM, *PLAIN], None),
    "two exchanges": ([SYSTEM, *PLAIN, *PLAIN], None),
    "a call": (CALLED, [TOOL]),
    "a call, and an answer": ([*CALLED, PLAIN[1]], [TOOL, TOOL]),
    "system, two results, an answer": ([SYSTEM, *BESIDE, CALLED[2], CALLED[2], PLAIN[1]], [TOOL]),
    "an old call": ([SYSTEM, *CALLED, PLAIN[1], *PLAIN], [TOOL]),
    "text beside calls": (BESIDE, [TOOL]),
    "thought": (THOUGHT, None),
    "thoughts, the first of them old": ([*THOUGHT, *THOUGHT], None),
    "a thought before a call": ([*CALLED[:1], {**CALLED[1], "reasoning_content": "r"}, CALLED[2], PLAIN[1]], [TOOL]),
    "a thought in the text": ([PLAIN[0], {"role": "assistant", "content": "<think>\nr\n</think>\n\na"}], None),
    "the user goes on": ([*PLAIN, PLAIN[0]], None),
    "a result comes last": (CALLED, [TOOL]),
    "nothing said": ([{"role": "user", "content": ""}, {"role": "assistant", "content": ""}], None),
}
# Row: its template, what else that is given, and of the 30 renders those that the row has a place for.
TEMPLATES = {
    "llama3_1_instruct": ("llama_cpp/meta-llama-Llama-3.1-8B-Instruct", {"bos_token": "<|begin_of_text|>"}, 26),
    "llama3_2_instruct": ("llama_cpp/meta-llama-Llama-3.2-3B-Instruct", {"bos_token": "<|begin_of_text|>"}, 26),
    "llama3_3_instruct": ("llama_cpp/meta-llama-Llama-3.3-70B-Instruct", {"bos_token": "<|begin_of_text|>"}, 26),
    "qwen2_5_instruct": ("llama_cpp/Qwen-Qwen2.5-7B-Instruct", {}, 30),
    "qwen3_chat": ("llama_cpp/Qwen-Qwen3-0.6B", {}, 30),
    "deepseek_v3_1": ("llama_cpp/deepseek-ai-DeepSeek-V3.1", {"bos_token": "<｜begin▁of▁sentence｜>"}, 18),
    "gemma2_instruct": ("llama_cpp/google-gemma-2-2b-it", {"bos_token": "<bos>"}, 12),
    "gemma3_instruct": ("trl/gemma3", {"bos_token": "<bos>"}, 16),
    "phi3_5_instruct": ("llama_cpp/microsoft-Phi-3.5-mini-instruct", {"eos_token": "<|endoftext|>"}, 16),
}


def stand_in(family: str) -> PublisherFormatTokenizer:
    row = next(row for row in PUBLISHER_FORMATS if row.name == family)
    names = [*row.control_tokens, *row.control_pieces, "<bos>", "<eos>", "<pad>", "<s>", "</s>", "<unk>"]
    names += [f"<｜{name}｜>" for name in ("begin▁of▁sentence", "end▁of▁sentence", "User", "Assistant")]
    names += [f"<｜tool▁{name}▁{end}｜>" for name in ("calls", "call", "output") for end in ("begin", "end")]
    names += ["<｜tool▁sep｜>", "<think>", "</think>"]
    ids = {name: 256 + number for number, name in enumerate(dict.fromkeys(names))}
    return PublisherFormatTokenizer(Letters(ids), row, special_tokens=ids, on_unproved="common_prefix")


def template(path: Path) -> jinja2.Template:
    def refuse(message: str) -> None:
        raise jinja2.TemplateError(message)

    def to_json(value, ensure_ascii=False, indent=None, separators=None, sort_keys=False) -> str:
        return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)

    environment = jinja2.sandbox.ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[jinja2.ext.loopcontrols]
    )
    environment.filters["tojson"] = to_json
    environment.globals["raise_exception"] = refuse
    return environment.from_string(path.read_text(encoding="utf-8"))


@pytest.mark.parametrize("family", TEMPLATES)
def test_a_row_writes_what_its_publishers_template_writes(family: str, shared_data: Path):
    name, given, written_of_30 = TEMPLATES[family]
    written, tokenizer = template(shared_data / "templates" / f"{name}.jinja"), stand_in(family)
    compared = 0
    for what, (messages, tools) in CONVERSATIONS.items():
        for prompts in (False, True):
            try:
                expected = written.render(
                    messages=messages, tools=tools, add_generation_prompt=prompts, **given, date_string="26 Jul 2024"
                )
            except jinja2.TemplateError:
                expected = None
            try:
                text = tokenizer.render_text(messages, tools, prompts)
            except DataError:
                continue
            assert expected is not None, f"{what}: the template refuses it"
            assert text == expected, what
            compared += 1
    assert compared == written_of_30
