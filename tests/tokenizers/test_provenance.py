"""A tokenizer tells of each token which message it is from, and why it is or is not trained."""

from pathlib import Path
from typing import Literal

import numpy as np
import pytest

from torchpipe.data import Message
from torchpipe.data.prompt_templates import PromptTemplate
from torchpipe.models.llama3 import llama3_tokenizer
from torchpipe.models.phi3 import phi3_mini_tokenizer
from torchpipe.models.tiny import tiny_tokenizer
from torchpipe.tokenizers.render import MaskPolicy

CHAT = [
    Message("system", "Be brief.", masked=True),
    Message("user", "2 + 2?", masked=True),
    Message("assistant", "add(2, 2)", ipython=True, eot=False),
    Message("ipython", "4", masked=True),
    Message("assistant", "It is 4."),
]


@pytest.mark.parametrize("policy", ["message", "sampled"])
@pytest.mark.parametrize("add_end_tokens", [True, False])
@pytest.mark.parametrize("max_seq_len", [None, 20, 1])
@pytest.mark.parametrize("side", ["right", "left"])
def test_the_trace_agrees_with_the_mask(
    policy: MaskPolicy, add_end_tokens: bool, max_seq_len: int | None, side: Literal["left", "right"]
) -> None:
    tokenizer = tiny_tokenizer(max_seq_len=max_seq_len, mask_policy=policy)
    tokenizer.truncation_type = side
    tokens, mask, trace = tokenizer.tokenize_messages(CHAT, add_end_tokens=add_end_tokens, trace=True)
    assert (tokens, mask) == tokenizer.tokenize_messages(CHAT, add_end_tokens=add_end_tokens)
    assert len(trace) == len(tokens)
    np.testing.assert_array_equal(trace.trained, ~np.asarray(mask))
    assert trace.num_cut == (0 if max_seq_len is None else max(0, len(trace) + trace.num_cut - max_seq_len))


def test_every_token_has_its_kind_message_and_reason() -> None:
    tokenizer = tiny_tokenizer(mask_policy="sampled")
    tokens, _, trace = tokenizer.tokenize_messages(CHAT, trace=True)
    text = {
        message: tokenizer.decode(
            [token for token, origin in zip(tokens, trace, strict=True) if origin.message == message]
        )
        for message in range(len(CHAT))
    }
    assert text[4] == "assistant\n\nIt is 4."
    assert text[3] == "ipython\n\n4"
    told = list(dict.fromkeys((origin.kind, origin.reason) for origin in trace if origin.message in (-1, 2)))
    assert told == [
        ("document_start", "starts the document"),
        ("header", "header (mask_policy sampled)"),
        ("call_prefix", "message trained"),
        ("content", "message trained"),
        ("turn_end", "message trained"),
        ("document_end", "ends the document, after the turn's own end"),
    ]
    assert {origin.reason for origin in trace if origin.message == 1} == {"message masked"}


def test_under_the_message_policy_the_header_is_trained() -> None:
    _, _, trace = tiny_tokenizer(mask_policy="message").tokenize_messages(CHAT, trace=True)
    assert {origin.trained for origin in trace if origin.message == 4} == {True}


def test_a_cut_row_says_so_at_its_end() -> None:
    _, _, trace = tiny_tokenizer(max_seq_len=9).tokenize_messages(CHAT, trace=True)
    assert trace[8].kind == "document_end"
    assert trace[8].reason.startswith("the row was cut")
    assert trace.cut_side == "right"


def test_messages_are_counted_as_the_template_left_them() -> None:
    tokenizer = tiny_tokenizer()
    tokenizer.prompt_template = PromptTemplate({"user": ("Q: ", "")})
    tokens, _, trace = tokenizer.tokenize_messages(CHAT, trace=True)
    user = [
        token for token, origin in zip(tokens, trace, strict=True) if origin.message == 1 and origin.kind == "content"
    ]
    assert tokenizer.decode(user) == "Q: 2 + 2?"


def test_a_rank_file_tells_the_bytes_of_a_token(llama3_tokenizer_file: object) -> None:
    tokenizer = llama3_tokenizer(str(llama3_tokenizer_file))
    ids = tokenizer.encode("naïve 🦙", add_bos=False, add_eos=False)
    assert b"".join(tokenizer.token_bytes(token) or b"?" for token in ids) == "naïve 🦙".encode()
    assert tokenizer.bos_id is not None
    assert tokenizer.token_bytes(tokenizer.bos_id) is None
    assert tokenizer.token_bytes(10**9) is None


def test_a_tokenizer_json_tells_them_too(llama3_tokenizer_json: object) -> None:
    tokenizer = llama3_tokenizer(str(llama3_tokenizer_json))
    ids = tokenizer.encode("naïve 🦙", add_bos=False, add_eos=False)
    assert b"".join(tokenizer.token_bytes(token) or b"?" for token in ids) == "naïve 🦙".encode()
    assert tokenizer.token_bytes(tokenizer.eos_id) is None


def test_what_stands_for_an_image_says_so(llama3_tokenizer_file: object) -> None:
    picture = {"type": "image", "content": "unread"}
    chat = [Message("user", [picture, {"type": "text", "content": "?"}]), Message("assistant", "A")]
    tokens, mask, trace = llama3_tokenizer(str(llama3_tokenizer_file)).tokenize_messages(chat, trace=True)
    image = tokens.index(128_256)
    assert (mask[image], trace[image].kind, trace[image].reason) == (True, "media", "stands for an image")


def test_documents_of_phi3_are_traced_as_they_are_written(shared_data: Path) -> None:
    tokenizer = phi3_mini_tokenizer(str(shared_data / "tokenizers" / "mistral" / "tokenizer.model.v1"))
    chat = [Message("user", "a", masked=True), Message("assistant", "b")] * 2
    tokens, mask, trace = tokenizer.tokenize_messages(chat, add_end_tokens=True, trace=True)
    assert len(trace) == len(tokens)
    assert (~trace.trained).tolist() == mask
    assert [origin.kind for origin in trace].count("document_end") == 2
