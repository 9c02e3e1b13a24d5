"""Conversations as plain text between BOS and EOS, on a real Mistral model file."""

from pathlib import Path

import pytest

from torchpipe.data import Message
from torchpipe.errors import DataError
from torchpipe.tokenizers.base_tokenizers import SentencePieceBaseTokenizer
from torchpipe.tokenizers.plain_turns import tokenize_messages_no_special_tokens

USER = Message(role="user", content="Name a colour ", masked=True)
ASSISTANT = Message(role="assistant", content="Blue it is")


class Mistral(SentencePieceBaseTokenizer):
    max_seq_len: int | None = None

    def plain(self, text: str, trim: bool = False) -> list[int]:
        return self.encode(text, add_bos=False, add_eos=False, trim_leading_whitespace=trim)


@pytest.fixture
def mistral(shared_data: Path) -> Mistral:
    return Mistral(str(shared_data / "tokenizers" / "mistral" / "tokenizer.model.v1"))


def test_bos_starts_a_turn_and_eos_ends_it(mistral: Mistral) -> None:
    tokens, mask = tokenize_messages_no_special_tokens(mistral, [USER, ASSISTANT, USER, ASSISTANT], bos_id=1, eos_id=2)
    asked, answered = mistral.plain("Name a colour"), mistral.plain("Blue it is")
    assert tokens == [1, *asked, *answered, 2] * 2
    assert mask == ([True] * (1 + len(asked)) + [False] * (len(answered) + 1)) * 2


def test_a_message_that_goes_on_has_no_space_before_it(mistral: Mistral) -> None:
    tokens, _ = tokenize_messages_no_special_tokens(mistral, [Message(role="user", content="say:\n"), ASSISTANT])
    assert tokens == mistral.plain("say:\n") + mistral.plain("Blue it is", trim=True)


def test_nothing_is_replaced_where_nothing_is_cut(mistral: Mistral) -> None:
    whole, mask = tokenize_messages_no_special_tokens(mistral, [ASSISTANT, USER], bos_id=1, eos_id=2)
    mistral.max_seq_len = len(whole)
    assert tokenize_messages_no_special_tokens(mistral, [ASSISTANT, USER], bos_id=1, eos_id=2) == (whole, mask)
    assert whole[-1] != 2


def test_a_conversation_is_cut_on_either_side(mistral: Mistral) -> None:
    chat = [USER, ASSISTANT] * 3
    whole, mask = tokenize_messages_no_special_tokens(mistral, chat, bos_id=1, eos_id=2)
    turn = len(whole) // 3
    mistral.max_seq_len = turn + 2
    tokens, cut_mask = tokenize_messages_no_special_tokens(mistral, chat, bos_id=1, eos_id=2)
    assert (tokens, cut_mask) == ([*whole[: turn + 1], 2], mask[: turn + 2])
    assert tokenize_messages_no_special_tokens(mistral, chat, bos_id=1, eos_id=2, truncation_type="left") == (
        whole[-turn - 2 :],
        mask[-turn - 2 :],
    )
    mistral.max_seq_len = turn  # the first turn fits exactly, and the others are cut
    assert tokenize_messages_no_special_tokens(mistral, chat, bos_id=1, eos_id=2)[0] == whole[:turn]
    assert tokenize_messages_no_special_tokens(mistral, [], bos_id=1, eos_id=2) == ([], [])


def test_a_picture_is_refused(mistral: Mistral) -> None:
    picture = Message(role="user", content=[{"type": "image", "content": b""}])
    with pytest.raises(DataError, match=r"Message 0 \(user\) holds an image, and the plain text format has no"):
        tokenize_messages_no_special_tokens(mistral, [picture])
