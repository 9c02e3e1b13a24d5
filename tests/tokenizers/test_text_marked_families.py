"""Llama 2, Mistral, Gemma and Phi-3: SentencePiece files, prompt templates, and one document for each answer."""

import json
from pathlib import Path
from typing import Any

import pytest

from torchpipe.data import Message
from torchpipe.errors import ConfigError, DataError
from torchpipe.models.gemma import GemmaChatTemplate, gemma_tokenizer
from torchpipe.models.llama2 import Llama2ChatTemplate, Llama2Tokenizer, llama2_tokenizer
from torchpipe.models.mistral import MistralChatTemplate, MistralTokenizer, mistral_tokenizer
from torchpipe.models.phi3 import Phi3MiniTokenizer, phi3_mini_tokenizer

BOS, EOS = 1, 2
ASKED, ANSWER = Message("user", "12 + 30?", masked=True), Message("assistant", "42")
SYSTEM = Message("system", "Be brief.", masked=True)


@pytest.fixture(scope="module")
def file(shared_data: Path) -> str:
    return str(shared_data / "tokenizers" / "mistral" / "tokenizer.model.v1")


@pytest.fixture(scope="module")
def llama2(file: str) -> Llama2Tokenizer:
    return llama2_tokenizer(file)


@pytest.fixture(scope="module")
def mistral(file: str) -> MistralTokenizer:
    return mistral_tokenizer(file)


@pytest.fixture(scope="module")
def phi3(file: str) -> Phi3MiniTokenizer:
    return phi3_mini_tokenizer(file)


def spelled(tokenizer: Any, messages: list[Message], **arguments: Any) -> str:
    return tokenizer.decode(tokenizer.tokenize_messages(messages, **arguments)[0], skip_special_tokens=False)


def texts(messages: list[Message]) -> list[str]:
    return [message.text_content for message in messages]


def test_the_system_text_stands_in_the_first_user_turn_alone() -> None:
    written = Llama2ChatTemplate()([SYSTEM, ASKED, ANSWER, ASKED, ANSWER])
    marked = "[INST] <<SYS>>\nBe brief.\n<</SYS>>\n\n12 + 30? [/INST] "
    assert texts(written) == [marked, "42", "[INST] 12 + 30? [/INST] ", "42"]
    assert [message.masked for message in written] == [True, False, True, False]


@pytest.mark.parametrize("role", ["tool", "ipython"])
def test_the_result_of_a_call_keeps_its_text(role: Any, llama2: Llama2Tokenizer, mistral: MistralTokenizer) -> None:
    for template in (Llama2ChatTemplate(), MistralChatTemplate()):
        assert texts(template([ASKED, ANSWER, Message(role, "found"), ANSWER]))[2] == "found"
        assert texts(template([Message(role, "found")])) == ["found"]
    for tokenizer in (llama2, mistral):
        assert "found" in spelled(tokenizer, [ASKED, ANSWER, Message(role, "found"), ANSWER])


def test_a_system_message_that_no_user_turn_follows_is_refused() -> None:
    for template in (Llama2ChatTemplate(), GemmaChatTemplate()):
        with pytest.raises(DataError, match="stands in the user turn after it in this format, and there is none"):
            template([SYSTEM])


def test_mistral_refuses_a_system_message(mistral: MistralTokenizer) -> None:
    with pytest.raises(DataError, match="Message 0 is a 'system' message, and Mistral's format has no place for one"):
        mistral.tokenize_messages([SYSTEM, ASKED, ANSWER])


def test_templates_leave_the_messages_as_they_are() -> None:
    for template in (Llama2ChatTemplate(), MistralChatTemplate(), GemmaChatTemplate()):
        chat = [ASKED, ANSWER] if isinstance(template, MistralChatTemplate) else [SYSTEM, ASKED, ANSWER]
        before = repr(chat)
        template(chat, inference=True)
        assert repr(chat) == before


def test_each_answer_ends_a_document(llama2: Llama2Tokenizer) -> None:
    tokens, mask = llama2.tokenize_messages([ASKED, ANSWER, ASKED, ANSWER])
    assert [(token, masked) for token, masked in zip(tokens, mask, strict=True) if token in (BOS, EOS)] == [
        (BOS, True),
        (EOS, False),
        (BOS, True),
        (EOS, False),
    ]
    assert (tokens[0], tokens[-1]) == (BOS, EOS)


def test_a_conversation_that_the_user_ends_has_no_end_token(mistral: MistralTokenizer, file: str) -> None:
    chat = [ASKED, ANSWER, ASKED]
    tokens, _ = mistral.tokenize_messages(chat)
    assert tokens.count(EOS) == 1
    assert tokens[-1] != EOS
    assert mistral_tokenizer(file, max_seq_len=len(tokens)).tokenize_messages(chat)[0] == tokens


def test_inference_leaves_out_the_last_end_token_alone(llama2: Llama2Tokenizer, mistral: MistralTokenizer) -> None:
    chat = [ASKED, ANSWER, ASKED, Message("assistant", "")]
    for tokenizer in (llama2, mistral):
        sample = tokenizer({"messages": chat}, inference=True)
        assert sample["tokens"].count(EOS) == 1
        assert tokenizer.decode(sample["tokens"]).endswith("[/INST]")
        assert tokenizer.tokenize_messages(chat, add_eos=False)[0] == sample["tokens"]
        assert tokenizer.tokenize_messages(chat, add_start_tokens=False)[0][0] != BOS


def test_decode_gives_every_exchange_unless_it_is_to_stop(llama2: Llama2Tokenizer) -> None:
    tokens, _ = llama2.tokenize_messages([ASKED, ANSWER, ASKED, Message("assistant", "forty-two")])
    assert "forty-two" in llama2.decode(tokens)
    assert "forty-two" not in llama2.decode(tokens, truncate_at_eos=True)


def test_mistral_v1_differs_from_the_publisher_by_a_space_and_by_the_start_of_each_exchange(
    mistral: MistralTokenizer, shared_data: Path
) -> None:
    """torchtune encodes [/INST] apart with the space before it, and starts a document after each answer."""
    compared = 0
    for line in (shared_data / "golden" / "mistral-v1.jsonl").read_text(encoding="utf-8").splitlines():
        row = json.loads(line)
        if "error" in row or row["messages"][0]["role"] == "system" or row["id"] in ("c21-empty", "c24-spaces"):
            continue
        chat = [Message(message["role"], message["content"]) for message in row["messages"]]
        tokens, _ = mistral.tokenize_messages(chat, add_end_tokens=not row["add_generation_prompt"])
        end = mistral.encode("[/INST]", add_bos=False, add_eos=False)
        space = [28705]
        ours = [token for index, token in enumerate(tokens) if index == 0 or token != BOS]
        for index in reversed(range(len(ours))):
            if ours[index : index + 5] == space + end:
                del ours[index]
        assert ours == row["token_ids"], row["id"]
        compared += 1
    assert compared >= 12


def test_gemma_is_bare_text_without_a_template(gemma_file: str) -> None:
    assert spelled(gemma_tokenizer(gemma_file), [ASKED, ANSWER]) == "<bos>12 + 30?42<eos>"


def test_gemma_has_turns_with_its_template(gemma_file: str) -> None:
    """The text that the publisher's template gives, control tokens by id."""
    for template in ("torchpipe.models.gemma.GemmaChatTemplate", GemmaChatTemplate()):
        tokenizer = gemma_tokenizer(gemma_file, prompt_template=template)
        chat = [SYSTEM, Message("user", " <end_of_turn> ", masked=True), ANSWER, ASKED, ANSWER]
        assert spelled(tokenizer, chat) == (
            "<bos><start_of_turn>user\nBe brief.\n\n<end_of_turn><end_of_turn>\n<start_of_turn>model\n42<end_of_turn>\n"
            "<start_of_turn>user\n12 + 30?<end_of_turn>\n<start_of_turn>model\n42<end_of_turn>\n"
        )
        tokens, _ = tokenizer.tokenize_messages(chat)
        assert tokens.count(tokenizer.special_tokens["<end_of_turn>"]) == 4
        assert (tokenizer.bos_id, tokenizer.eos_id, tokenizer.pad_id) == (2, 1, 0)
        assert tokenizer.stop_tokens == [1, tokenizer.special_tokens["<end_of_turn>"]]


def test_a_table_can_be_gemmas_template_too(gemma_file: str) -> None:
    tokenizer = gemma_tokenizer(gemma_file, prompt_template={"user": ("Q: ", " A: ")})
    assert spelled(tokenizer, [ASKED, ANSWER]).startswith("<bos>Q:")


def test_phi3_marks_turns_by_control_tokens(phi3: Phi3MiniTokenizer) -> None:
    chat = [SYSTEM, ASKED, ANSWER]
    tokens, mask = phi3.tokenize_messages(chat)
    ids = phi3.special_tokens
    assert [token for token in tokens if token in ids.values()] == [
        BOS,
        *(ids[text] for text in ("<|system|>", "<|end|>", "<|user|>", "<|end|>", "<|assistant|>", "<|end|>")),
    ]
    assert (ids["<|endoftext|>"], ids["<|user|>"]) == (32000, 32010)
    assert mask[-1] is False
    assert phi3.tokenize_messages(chat, ignore_system_prompt=True)[0] == phi3.tokenize_messages(chat[1:])[0]


def test_phi3_ends_documents_where_it_is_asked_to(phi3: Phi3MiniTokenizer) -> None:
    tokens, mask = phi3.tokenize_messages([ASKED, ANSWER, ASKED, ANSWER], add_end_tokens=True)
    assert tokens.count(BOS) == tokens.count(phi3.eos_id) == 2
    assert (tokens[-1], mask[-1]) == (phi3.eos_id, True)
    assert phi3.eos_id not in phi3.tokenize_messages([ASKED, ANSWER])[0]


def test_phi3_leaves_the_answer_open_for_inference(phi3: Phi3MiniTokenizer) -> None:
    sample = phi3({"messages": [ASKED, Message("assistant", "")]}, inference=True)
    assert phi3.decode(sample["tokens"], skip_special_tokens=False).endswith("<|end|>\n<|assistant|>\n")


def test_phi3_stops_at_the_end_of_a_turn(phi3: Phi3MiniTokenizer) -> None:
    assert phi3.stop_tokens == [32000, 32007]
    assert (phi3.bos_id, phi3.eos_id, phi3.pad_id, phi3.vocab_size) == (BOS, 32000, 32000, 32011)


@pytest.mark.parametrize("role", ["tool", "ipython"])
def test_phi3_has_no_place_for_results(phi3: Phi3MiniTokenizer, role: Any) -> None:
    with pytest.raises(DataError, match=f"Message 2 is a {role!r} message, and the phi3_mini format has no place"):
        phi3.tokenize_messages([ASKED, ANSWER, Message(role, "42"), ANSWER])


def test_a_template_that_spells_the_start_token_is_refused(file: str) -> None:
    with pytest.raises(ConfigError, match="spells '<s>', which the llama2 format writes itself"):
        llama2_tokenizer(file, prompt_template={"user": ("<s>[INST] ", " [/INST]")})


def test_phi3_decodes_ids_by_torchtunes_keyword(phi3: Phi3MiniTokenizer) -> None:
    assert phi3.decode(ids=phi3.encode("forty-two", False, False)) == "forty-two"
