"""Llama 4 beside its publisher's own encoder, and Phi-4."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from torchpipe.data import Message
from torchpipe.errors import ConfigError
from torchpipe.models.llama4 import Llama4Tokenizer, llama4_tokenizer
from torchpipe.models.phi4 import Phi4Tokenizer, phi4_tokenizer

ASKED, ANSWER = Message("user", "12 + 30?", masked=True), Message("assistant", "42")


@pytest.fixture(scope="module")
def llama4(oracle_file: Callable[..., Path]) -> Llama4Tokenizer:
    return llama4_tokenizer(str(oracle_file("llama_models", "llama4", "tokenizer.model")))


@pytest.fixture(scope="module")
def cl100k(oracle_file: Callable[..., Path]) -> Path:
    return oracle_file("litellm", "litellm_core_utils", "tokenizers", "9b5ad71b2ce5302211f9c61530b329a4922fc6a4")


@pytest.fixture(scope="module")
def phi4(cl100k: Path, byte_level_files: Any) -> Phi4Tokenizer:
    vocab, merges = byte_level_files(cl100k)
    return phi4_tokenizer(str(vocab), str(merges))


def spelled(tokenizer: Any, messages: list[Message], **arguments: Any) -> str:
    tokens, _ = tokenizer.tokenize_messages(messages, **arguments)
    return tokenizer.decode(tokens, skip_special_tokens=False)


def test_llama4_equals_the_publishers_encoder(llama4: Llama4Tokenizer, shared_data: Path) -> None:
    import json

    from llama_models.llama4.tokenizer import Tokenizer

    publisher = Tokenizer.get_instance()
    assert llama4.special_tokens == publisher.special_tokens
    compared = 0
    for line in (shared_data / "golden" / "llama3.1.jsonl").read_text(encoding="utf-8").splitlines():
        messages = [m for m in json.loads(line)["messages"] if isinstance(m.get("content"), str)]
        messages = [m for m in messages if m["role"] in ("system", "user", "assistant")]
        expected = [publisher.bos_id]
        for message in messages:
            special = publisher.special_tokens
            expected += [special["<|header_start|>"], *publisher.encode(message["role"], bos=False, eos=False)]
            expected += [special["<|header_end|>"], *publisher.encode("\n\n", bos=False, eos=False)]
            expected += [*publisher.encode(message["content"].strip(), bos=False, eos=False), special["<|eot|>"]]
        expected.append(publisher.eos_id)
        chat = [Message(message["role"], message["content"]) for message in messages]
        assert llama4.tokenize_messages(chat)[0] == expected
        compared += 1
    assert compared >= 20


def test_llama4_writes_calls_and_results(llama4: Llama4Tokenizer) -> None:
    chat = [ASKED, Message("assistant", "print(42)", ipython=True, eot=False), Message("tool", "42", eot=False), ANSWER]
    tokens, mask = llama4.tokenize_messages(chat)
    assert llama4.decode(tokens, truncate_at_eos=False, skip_special_tokens=False) == (
        "<|begin_of_text|><|header_start|>user<|header_end|>\n\n12 + 30?<|eot|>"
        "<|header_start|>assistant<|header_end|>\n\n<|python_start|>print(42)<|python_end|><|eom|>"
        "<|header_start|>ipython<|header_end|>\n\n42<|eom|><|header_start|>assistant<|header_end|>\n\n42<|eot|>"
        "<|end_of_text|>"
    )
    assert (mask[0], mask[-2], mask[-1]) == (True, False, True)


def test_the_ids_of_llama4_that_recipes_ask_for(llama4: Llama4Tokenizer) -> None:
    assert (llama4.bos_id, llama4.eos_id, llama4.pad_id) == (200000, 200001, 200018)
    assert llama4.stop_tokens == [200001, 200008, 200007]
    assert (llama4.base_vocab_size, llama4.vocab_size) == (200000, 202048)


def test_phi4_trains_the_end_of_an_answer(phi4: Phi4Tokenizer) -> None:
    chat = [Message("system", "Brief.", masked=True), ASKED, ANSWER]
    sample = phi4({"messages": chat})
    assert phi4.decode(sample["tokens"], skip_special_tokens=False) == (
        "<|im_start|>system<|im_sep|>Brief.<|im_end|><|im_start|>user<|im_sep|>12 + 30?<|im_end|>"
        "<|im_start|>assistant<|im_sep|>42<|im_end|>"
    )
    assert (sample["tokens"][-1], sample["mask"][-1]) == (phi4.eos_id, False)
    assert phi4.tokenize_messages(chat, ignore_system_prompt=True) == phi4.tokenize_messages(chat[1:])


def test_phi4_leaves_the_answer_open_for_inference(phi4: Phi4Tokenizer) -> None:
    sample = phi4({"messages": [ASKED, Message("assistant", "")]}, inference=True)
    assert phi4.decode(sample["tokens"], False) == (
        "<|im_start|>user<|im_sep|>12 + 30?<|im_end|><|im_start|>assistant<|im_sep|>"
    )


def test_phi4_splits_text_as_its_publisher_does(phi4: Phi4Tokenizer, cl100k: Path) -> None:
    """Three digits at most, and contractions in capitals: cl100k_base, ids of OpenAI's tiktoken."""
    assert phi4.encode("1234567", False, False) == [4513, 10961, 22]
    assert phi4.decode(ids=phi4.encode("1234567", False, False)) == "1234567"
    from_ranks = phi4_tokenizer(str(cl100k))
    for text in ("DON'T under_score 1,234,567.89", "a\n\n b ...!?\r\n", "naïve 日本語 🙂"):
        assert from_ranks.encode(text) == phi4.encode(text)
    assert from_ranks.special_tokens == phi4.special_tokens


def test_the_ids_of_phi4_that_recipes_ask_for(phi4: Phi4Tokenizer) -> None:
    assert (phi4.bos_id, phi4.eos_id, phi4.pad_id) == (100257, 100265, 100349)
    assert phi4.stop_tokens == [100265]
    assert phi4.vocab_size == 100352
    assert phi4.encode("") == [100257, 100265]


def test_the_class_of_phi4_takes_the_merges_first(phi4: Phi4Tokenizer, cl100k: Path, byte_level_files: Any) -> None:
    vocab, merges = map(str, byte_level_files(cl100k))
    assert Phi4Tokenizer(merges, vocab).encode("a b") == phi4.encode("a b")


def test_phi4_without_a_path_is_refused() -> None:
    with pytest.raises(ConfigError, match="The phi4 tokenizer needs the path of its vocabulary file"):
        phi4_tokenizer()
