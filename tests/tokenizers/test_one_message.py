"""One message at a time: the same ids as in a conversation, with or without its header and its end."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from torchpipe.data import Message
from torchpipe.errors import DataError
from torchpipe.models.llama3 import Llama3Tokenizer, llama3_tokenizer
from torchpipe.models.llama4 import Llama4Tokenizer, llama4_tokenizer
from torchpipe.tokenizers import FamilyTokenizer

IMAGE = {"type": "image", "content": None}
CALL = Message("assistant", '{"a": 1}', ipython=True, eot=False)
CHAT = [
    Message("system", " Be kind. "),
    Message("user", [{"type": "text", "content": "See "}, IMAGE, {"type": "text", "content": " this"}]),
    CALL,
    Message("ipython", "42"),
    Message("assistant", "Yo"),
]


@pytest.fixture(scope="module")
def llama3(llama3_tokenizer_file: Path) -> Llama3Tokenizer:
    return llama3_tokenizer(str(llama3_tokenizer_file))


@pytest.fixture(scope="module")
def llama4(oracle_file: Callable[..., Path]) -> Llama4Tokenizer:
    return llama4_tokenizer(str(oracle_file("llama_models", "llama4", "tokenizer.model")))


def spelled(tokenizer: FamilyTokenizer, message: Message, **arguments: bool) -> str:
    ids = tokenizer.tokenize_message(message, **arguments)
    return tokenizer.decode(ids, truncate_at_eos=False, skip_special_tokens=False)


def test_ids_of_a_message_are_torchtunes(llama3: Llama3Tokenizer) -> None:
    """Made with torchtune 0.6.1 on the same file."""
    header, end = [128006, 882, 128007, 271], [128009]
    body = [13347, 198, 19041, 83739, 68, 354, 851, 91, 29]
    message = Message("user", "Hi\nthere <|eot_id|>")
    assert llama3.tokenize_message(message) == header + body + end
    assert llama3.tokenize_message(message, add_end_tokens=False) == header + body
    assert llama3.tokenize_message(message, add_start_tokens=False) == body + end
    assert llama3.tokenize_message(message, add_start_tokens=False, add_end_tokens=False) == body
    assert llama3.tokenize_message(CALL) == [128006, 78191, 128007, 271, 128010, 5018, 64, 794, 220, 16, 92, 128008]


def test_a_conversation_is_its_messages_between_its_start_and_end(
    llama3: Llama3Tokenizer, llama4: Llama4Tokenizer, shared_data: Path
) -> None:
    lines = (shared_data / "messages" / "tinker_conversations.jsonl").read_text(encoding="utf-8").splitlines()
    real = [[Message(**turn) for turn in json.loads(line)["messages"]] for line in lines[:20]]
    for tokenizer in (llama3, llama4):
        for chat in (CHAT, *real):
            one_by_one = [token for message in chat for token in tokenizer.tokenize_message(message)]
            assert tokenizer.tokenize_messages(chat)[0] == [tokenizer.bos_id, *one_by_one, tokenizer.eos_id]


def test_a_call_of_llama_4_is_left_open_before_its_own_end(llama4: Llama4Tokenizer) -> None:
    header = "<|header_start|>assistant<|header_end|>\n\n"
    assert spelled(llama4, CALL) == header + '<|python_start|>{"a": 1}<|python_end|><|eom|>'
    assert spelled(llama4, CALL, add_end_tokens=False) == header + '<|python_start|>{"a": 1}'


def test_templates_and_limits_are_those_of_conversations(llama3_tokenizer_file: Path) -> None:
    options: Any = {"max_seq_len": 3, "prompt_template": {"user": ("Q: ", "")}}
    tokenizer = llama3_tokenizer(str(llama3_tokenizer_file), **options)
    assert spelled(tokenizer, Message("user", "Hi")) == "<|start_header_id|>user<|end_header_id|>\n\nHi<|eot_id|>"


def test_what_the_format_has_no_place_for_is_refused(llama3: Llama3Tokenizer) -> None:
    message = Message("user", "Hi")
    message.role = "critic"  # pyright: ignore[reportAttributeAccessIssue]  # what no constructor lets through
    with pytest.raises(DataError, match="Message 0 is a 'critic' message, and the llama3 format has no place for one"):
        llama3.tokenize_message(message)
