"""A builder for configs of tests: chats that come slowly, or not before they may.

Its name in a config is ``slow_chats.slow_chats``, with this folder on the path.
"""

import os
import time
from pathlib import Path
from typing import Any

from torchpipe.data import OpenAIToMessages
from torchpipe.datasets import sft_dataset


class SlowChats:
    """Rows of a few words, whose lengths differ.

    Attributes:
        num_rows: how many.
        gate: a file; rows from ``first_behind`` on wait until it is there.
        bad: a file; while it is there, row ``first_behind + 1`` is no chat.
    """

    def __init__(self, num_rows: int, gate: str, first_behind: int, bad: str) -> None:
        self.num_rows, self.gate, self.first_behind, self.bad = num_rows, gate, first_behind, bad

    def fingerprint(self) -> str:
        return f"{self.num_rows} chats"

    def __len__(self) -> int:
        return self.num_rows

    def __getitem__(self, row: int) -> dict[str, Any]:
        while row >= self.first_behind and self.gate and not os.path.exists(self.gate):
            time.sleep(0.01)
        if row == self.first_behind + 1 and self.bad and Path(self.bad).exists():
            return {"messages": "none"}
        words = " ".join(f"word{(row * 7 + place) % 50}" for place in range(5 + row * 3 % 23))
        return {"messages": [{"role": "user", "content": f"Row {row}?"}, {"role": "assistant", "content": words}]}


def slow_chats(
    tokenizer: Any, *, num_rows: int = 48, gate: str = "", first_behind: int = 18, bad: str = "", **options: Any
) -> Any:
    """The packed data set of them."""
    rows = SlowChats(num_rows, gate, first_behind, bad)
    return sft_dataset(tokenizer, source=rows, message_transform=OpenAIToMessages(), packed=True, **options)
