"""Where a reply's training context is not what a server would feed, token by token."""

import json
import unicodedata
from collections.abc import Callable
from typing import Any

import pytest

from torchpipe.audit import compare_inference, turn_contexts
from torchpipe.audit.inference_text import SCHEMA, to_json
from torchpipe.data import Message
from torchpipe.datasets import PackedDataset, SFTDataset
from torchpipe.errors import ConfigError
from torchpipe.models.llama3 import llama3_tokenizer
from torchpipe.models.tiny import tiny_tokenizer

Tokenizers = Callable[..., Any]
Conversations = Callable[..., SFTDataset]
CHAT = [Message("user", "Hi"), Message("assistant", "Hello."), Message("user", "Bye"), Message("assistant", "Goodbye.")]


def looked_up() -> list[Message]:
    """A call with reasoning and its answer, and another question."""
    calls = [{"type": "function", "function": {"name": "get_weather", "arguments": {"city": "Oslo"}}}]
    return [
        Message("user", "Is it raining in Oslo?"),
        Message("assistant", "", tool_calls=calls, reasoning="I should look."),
        Message("tool", "rain"),
        Message("assistant", "Yes.", reasoning="It rains."),
        Message("user", "And in Rome?"),
        Message("assistant", "I don't know."),
    ]


@pytest.mark.parametrize("name", ["chatml", "llama3.1"])
def test_templates_that_keep_history_have_the_servers_context(template_tokenizer: Tokenizers, name: str) -> None:
    tokenizer = template_tokenizer(name)
    tokens, mask = tokenizer.tokenize_messages(CHAT)
    for turn in turn_contexts(tokenizer, CHAT):
        fed, _ = tokenizer.tokenize_messages(CHAT[: turn.message], add_generation_prompt=True)
        assert turn.same
        assert turn.proof == "causal"
        assert (turn.num_trained_on, turn.num_fed) == (len(fed), len(fed))
        assert tokens[: len(fed)] == fed
        assert mask[len(fed) - 1 : len(fed) + 1] == [True, False]


def test_an_empty_think_block_is_fed_with_the_option_alone(template_tokenizer: Tokenizers) -> None:
    turn = turn_contexts(template_tokenizer("qwen3"), CHAT[:2])[0]
    assert not turn.same
    assert turn.differs_at == turn.num_fed == turn.num_trained_on - 4
    assert "".join(piece.text for piece in turn.row_context) == "<think>\n\n</think>\n\n"
    assert "".join(piece.text for piece in turn.sampled) == "Hello.<|im_end|>"
    assert turn.server_context == ()
    assert turn.option == ("enable_thinking", False)
    (turn,) = turn_contexts(template_tokenizer("qwen3", template_kwargs={"enable_thinking": False}), CHAT[:2])
    assert turn.same


def test_a_template_that_strips_thinking_changes_the_context_of_later_turns(template_tokenizer: Tokenizers) -> None:
    first, second, third = turn_contexts(template_tokenizer("qwen3"), looked_up())
    assert first.same
    assert first.unproved == "reasoning_content is not in the template's text"
    assert not second.same
    assert second.differs_at == first.num_fed
    assert second.differs_in == 1
    assert "".join(piece.text for piece in second.server_context).startswith("<think>\nI should look.\n</think>\n\n")
    assert second.option is None
    assert (third.proof, third.option) == ("exact", ("enable_thinking", False))


def test_a_row_that_ends_with_its_thinking_has_the_servers_context(template_tokenizer: Tokenizers) -> None:
    assert [turn.same for turn in turn_contexts(template_tokenizer("qwen3"), looked_up()[:4])] == [True, True]


def test_masked_and_cut_turns_are_compared_too(template_tokenizer: Tokenizers) -> None:
    chat = [Message(message.role, message.text_content, masked=True) for message in CHAT]
    turns = turn_contexts(template_tokenizer("chatml", max_seq_len=3), chat)
    assert [(turn.message, turn.same) for turn in turns] == [(1, True), (3, True)]


def test_same_text_in_other_tokens_is_told(template_tokenizer: Tokenizers) -> None:
    chat = [*CHAT[:1], Message("assistant", "\nHello."), *CHAT[2:]]
    tokenizer = template_tokenizer("chatml")
    first, second = turn_contexts(tokenizer, chat)
    assert first.same
    assert not second.same
    assert second.same_text
    assert second.differs_in == 1
    dataset = SFTDataset(source=as_rows(chat), message_transform=dict, model_transform=tokenizer)  # pyright: ignore
    assert "the texts are the same; the server cuts them into other tokens" in compare_inference(dataset).to_text()


def test_a_prompt_that_the_template_refuses_is_told(template_tokenizer: Tokenizers) -> None:
    tokenizer = template_tokenizer("chatml")
    (turn,) = turn_contexts(tokenizer, [Message("assistant", "Hello.")])
    assert "a server can't write what stands before it: The conversation has no messages" in turn.fault
    assert not turn.same


@pytest.mark.parametrize("policy", ["message", "sampled"])
def test_formats_of_the_table_feed_what_they_train(llama3_tokenizer_file: Any, policy: Any) -> None:
    for tokenizer in (tiny_tokenizer(mask_policy=policy), llama3_tokenizer(str(llama3_tokenizer_file))):
        turns = turn_contexts(tokenizer, CHAT)
        assert [(turn.message, turn.same, turn.proof) for turn in turns] == [(1, True, ""), (3, True, "")]
        tokens, _ = tokenizer.tokenize_messages(CHAT)
        shown = tokenizer.decode(tokens[: turns[1].num_fed], truncate_at_eos=False, skip_special_tokens=False)
        assert shown.endswith("Bye<|eot_id|><|start_header_id|>assistant<|end_header_id|>\n\n")


def test_a_prompt_template_that_writes_prompts_in_another_way_is_found() -> None:
    class Hurried:
        def __init__(self) -> None:
            self.template: Any = {}

        def __call__(self, messages: list[Message], inference: bool = False) -> list[Message]:
            return [
                Message("user", f"Quick! {m.text_content}") if inference and m.role == "user" else m for m in messages
            ]

    tokenizer = tiny_tokenizer(mask_policy="sampled")
    tokenizer.prompt_template = Hurried()
    (turn, _) = turn_contexts(tokenizer, CHAT)
    assert not turn.same
    assert turn.differs_in == 0

    class Briefed(Hurried):
        def __call__(self, messages: list[Message], inference: bool = False) -> list[Message]:
            return [Message("system", "Be brief."), *messages]

    tokenizer.prompt_template = Briefed()
    with pytest.raises(ConfigError, match="makes 5 messages of 4"):
        turn_contexts(tokenizer, CHAT)


def as_rows(*conversations: list[Message]) -> Any:
    return [{"messages": messages} for messages in conversations]


def test_the_report_says_it_in_words_and_in_json(template_tokenizer: Tokenizers) -> None:
    source = as_rows(CHAT[:2], looked_up())
    dataset = SFTDataset(source=source, message_transform=dict, model_transform=template_tokenizer("qwen3"))  # pyright: ignore
    report = compare_inference(dataset, rows=[0, -1])
    text = report.to_text()
    assert "row 0: 1 assistant turn, 1 with another context" in text
    assert "  message 1: differs at token 9, proof exact, where the server's prompt ends" in text
    assert "    row      ⟦<think>⟧│↵↵│⟦</think>⟧│↵↵\n" in text
    assert "    server   (ends here)\n    the same with enable_thinking=false" in text
    assert "    unproved: reasoning_content is not in the template's text" in text
    assert str(report) == text
    assert "\x1b" in report.to_text(color=True)
    assert "tokens more" in report.to_text(max_tokens=2)
    whole = json.loads(to_json(report))
    assert whole["schema"] == SCHEMA == "torchpipe.inference/1"
    (turn,) = whole["rows"][0]["turns"]
    assert turn["option"] == {"enable_thinking": False}
    assert "".join(turn["row_context"]) == "<think>\n\n</think>\n\n"
    assert set(turn) == {
        *("message", "same", "proof", "unproved", "fault", "num_trained_on", "num_fed", "differs_at", "differs_in"),
        *("same_text", "option", "row_context", "sampled", "server_context"),
    }


def test_the_documents_of_a_pack_are_compared(template_tokenizer: Tokenizers) -> None:
    source = as_rows(CHAT, CHAT[:2])
    dataset = SFTDataset(source=source, message_transform=dict, model_transform=template_tokenizer("chatml"))  # pyright: ignore
    report = compare_inference(PackedDataset(dataset, max_seq_len=256))
    assert [(row.index, row.sample, len(row.turns)) for row in report.rows] == [(0, 0, 2), (0, 1, 1)]
    assert "row 0, sample 1: 1 assistant turn, all contexts the same" in report.to_text()


def test_a_row_that_no_template_takes_is_refused(template_tokenizer: Tokenizers, conversations: Conversations) -> None:
    rows = [
        [{"role": "stranger", "content": "x"}],
        [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}],
    ]
    report = compare_inference(conversations(template_tokenizer("chatml"), rows), rows=[0, 1])
    assert "'stranger'" in (report.rows[0].refused or "")
    assert report.rows[1].turns[0].same
    assert "row 0: refused\nrefused: Row 0 of list" in report.to_text()


def test_what_cannot_be_compared_is_said_in_a_sentence(template_tokenizer: Tokenizers) -> None:
    with pytest.raises(ConfigError, match="Row 1 was asked for"):
        compare_inference([{"tokens": [1]}], rows=[1])
    with pytest.raises(ConfigError, match="compares the replies of conversations .*, and this is a list"):
        compare_inference([{"tokens": [1]}])
    with pytest.raises(ConfigError, match="the tokenizer is a NoneType"):
        turn_contexts(None, CHAT)


def test_no_control_character_reaches_the_terminal(
    template_tokenizer: Tokenizers, conversations: Conversations, hostile: str
) -> None:
    turns = [{"role": "user", "content": hostile}, {"role": "assistant", "content": hostile}]
    report = compare_inference(conversations(template_tokenizer("qwen3"), [turns * 2]))
    text = report.to_text()
    assert not {c for c in text if c not in "\n " and unicodedata.category(c) in ("Cc", "Cf", "Zl", "Zp", "Zs")}
    assert to_json(report).isprintable()
