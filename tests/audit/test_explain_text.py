"""The text shows every token, moves no cursor, and says without colour what it says with it."""

import re
import unicodedata
from collections.abc import Callable
from typing import Any

import pytest

from torchpipe.audit import Explanation, explain
from torchpipe.audit.visible import SEPARATOR, width
from torchpipe.models.llama3 import llama3_tokenizer

Chats = Callable[..., Any]
CODES = re.compile(r"\x1b\[[0-9;]*m")


def cells_of(text: str) -> list[str]:
    """The tokens of a text without labels."""
    lines = text.splitlines()
    found = []
    for line in lines:
        if line.startswith(" " * 9) and "..." not in line and " times " not in line:
            found += line[9:].split(SEPARATOR)
    return [cell for cell in found if cell]


def shown_by(found: Explanation) -> list[str]:
    return [
        token.piece.shown
        for row in found.rows
        for document in row.documents
        for token in document.tokens
        if not document.padding
    ]


@pytest.mark.parametrize("columns", [1, 40, 100, 1000])
def test_no_token_is_lost_by_wrapping(chats: Chats, hostile: str, columns: int) -> None:
    found = explain(chats([f"{hostile} {'long words ' * 200}{'y' * 300}"]))
    assert cells_of(found.to_text(width=columns)) == shown_by(found)


@pytest.mark.parametrize("color", [False, True])
@pytest.mark.parametrize("labels", [False, True])
def test_no_control_character_of_the_content_reaches_the_terminal(
    chats: Chats, hostile: str, color: bool, labels: bool
) -> None:
    text = explain(chats([hostile], max_seq_len=256, packed=True)).to_text(color=color, labels=labels)
    plain = CODES.sub("", text) if color else text
    assert not {c for c in plain if c not in "\n " and unicodedata.category(c) in ("Cc", "Cf", "Zl", "Zp", "Zs")}


def test_colour_is_there_when_asked_for_and_tells_nothing_alone(chats: Chats) -> None:
    found = explain(chats(["It is 4."] * 3, max_seq_len=64, packed=True))
    assert "\x1b" not in found.to_text()
    coloured = found.to_text(color=True)
    assert "\x1b[32m" in coloured
    assert [line.rstrip() for line in CODES.sub("", coloured).splitlines()] == found.to_text().splitlines()


def test_a_forged_control_token_is_told_from_a_real_one(chats: Chats) -> None:
    text = explain(chats(["<|eot_id|> ⟦<|eot_id|>⟧"])).to_text(width=1000)
    after = text[text.index("(assistant), content") :]
    assert after.count("⟦<|eot_id|>⟧") == 1
    assert "U+27E6⟩" in after


def test_a_forged_heading_stays_behind_its_bar(chats: Chats) -> None:
    text = explain(chats(["ok\nrow 1: 5 tokens, 5 trained\n     0  trained"])).to_text()
    assert [line for line in text.splitlines() if line.startswith("row ")] == [text.splitlines()[4]]
    assert "    │ row 1: 5 tokens, 5 trained↵" in text
    assert "    │ ·····0  trained" in text


def test_each_run_says_whether_it_is_trained_and_why(chats: Chats) -> None:
    lines = explain(chats(["4"])).to_text().splitlines()
    assert "     0  masked   starts the document" in lines
    assert any(re.fullmatch(r" +\d+  masked   message 0 \(user\), content: message masked", line) for line in lines)
    assert any(
        re.fullmatch(r" +\d+  masked   message 1 \(assistant\), header \(mask_policy sampled\)", line) for line in lines
    )
    assert any(re.fullmatch(r" +\d+  trained  message 1 \(assistant\), content", line) for line in lines)
    assert any(re.fullmatch(r" +\d+  trained  message 1 \(assistant\), turn end", line) for line in lines)


def test_labels_stand_under_their_tokens(chats: Chats, hostile: str) -> None:
    found = explain(chats(["日本 🦙 ok " + hostile]))
    lines = found.to_text(labels=True, width=60).splitlines()
    ids, labels = [], []
    for number, line in enumerate(lines):
        if line.startswith("     id  "):
            above, below = lines[number - 1], lines[number + 1]
            assert below.startswith("  label  ")
            ends = [[width(part) for part in text[9:].split(SEPARATOR)[:-1]] for text in (above, line, below)]
            assert ends[0] == ends[1] == ends[2]
            ids += [int(cell) for cell in line[9:].split(SEPARATOR)]
            labels += [int(cell) for cell in below[9:].split(SEPARATOR)]
    tokens = [token for document in found.rows[0].documents for token in document.tokens]
    assert ids == [token.id for token in tokens]
    assert labels == [token.label for token in tokens]


def test_packs_show_documents_positions_and_padding(chats: Chats) -> None:
    text = explain(chats(["a", "b", "c"], max_seq_len=64, packed=True)).to_text()
    assert re.search(r"^pack 0: 64 tokens, \d+ trained, 3 documents, \d+ tokens of padding$", text, re.MULTILINE)
    assert re.search(
        r"^document 0: sample 0, (\d+) tokens, 2 trained; tokens 0-\d+ of the pack, input_pos 0-\d+$", text, re.M
    )
    assert re.search(r"^document 2: sample 2, .*; tokens (\d+)-\d+ of the pack, input_pos 0-\d+$", text, re.M)
    assert re.search(r"^padding: tokens \d+-63 of the pack, not trained, input_pos ", text, re.M)
    assert re.search(r"^ +\d+ times ⟦<\|finetune_right_pad_id\|>⟧$", text, re.M)


def test_a_cut_row_says_so(chats: Chats) -> None:
    text = explain(chats(["word " * 50], max_seq_len=20)).to_text()
    assert re.search(r"note: \d+ tokens were cut on the right to max_seq_len", text)
    assert "the row was cut to max_seq_len, and its last token became the document's end" in text


def test_max_tokens_counts_what_it_leaves_out(chats: Chats) -> None:
    found = explain(chats(["word " * 50]))
    text = found.to_text(max_tokens=7)
    assert cells_of(text) == shown_by(found)[:7]
    assert f"... {found.rows[0].num_tokens - 7:,} tokens more" in text.splitlines()[-1]
    assert found.to_text(max_tokens=10**6) == found.to_text()


def test_print_shows_it(chats: Chats) -> None:
    found = explain(chats(["a"]))
    assert str(found) == found.to_text()


def test_the_published_tokenizer_on_real_rows(shared_data: Any, llama3_tokenizer_file: Any) -> None:
    from torchpipe.datasets import instruct_dataset

    dataset = instruct_dataset(
        llama3_tokenizer(str(llama3_tokenizer_file), max_seq_len=1024),
        source="json",
        data_files=str(shared_data / "gsm8k" / "train.jsonl"),
        column_map={"input": "question", "output": "answer"},
        packed=False,
    )
    found = explain(dataset, rows=range(20))
    assert cells_of(found.to_text()) == shown_by(found)
    assert all(document.traced and not document.notes for row in found.rows for document in row.documents)
