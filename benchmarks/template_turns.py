"""Time of each message of long conversations, and of cutting rendered text into pieces over encoding it.

    python template_turns.py FOLDER

FOLDER holds what ``template_rows.py`` writes. Every row is one conversation of all messages of the chats, cut to a
length. Prints, for each length, microseconds a message from messages to ids and mask, and to the turns alone; and the
seconds of PieceEncoder beside those that the back end needs for the same texts.
"""

import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from template_rows import chat_template_tokenizer

from torchpipe.tokenizers.control_matcher import ControlMatcher
from torchpipe.tokenizers.pieces import PieceEncoder

LENGTHS = (200, 2000)
ROUNDS = 3


def fastest(function: Callable[[], Any]) -> float:
    """Seconds of the fastest of a few calls."""
    times = []
    for _ in range(ROUNDS):
        start = time.process_time()
        function()
        times.append(time.process_time() - start)
    return min(times)


def main() -> None:
    """Prints one JSON object."""
    folder = Path(sys.argv[1])
    tokenizer = chat_template_tokenizer(folder)
    with (folder / "chats.jsonl").open(encoding="utf-8") as lines:
        chats: list[list[dict[str, Any]]] = [json.loads(line)["messages"] for line in lines]
    turns = [message for chat in chats for message in chat if message["role"] != "system"]
    results: dict[str, Any] = {"microseconds": {}}
    for length in LENGTHS:
        row = turns[:length]
        results["microseconds"][length] = 1e6 * fastest(lambda row=row: tokenizer.tokenize_messages(row)) / length
    rendered = [tokenizer.chat_template.trace(chat, None, False, tokenizer.template_kwargs) for chat in chats]
    backend = tokenizer.backend
    encode = PieceEncoder(ControlMatcher(tokenizer.special_tokens), backend)
    texts = [
        one.text[piece.start : piece.stop]
        for one in rendered
        for piece in encode(one.text, one.template_ranges)
        if not piece.control
    ]
    results["pieces"] = fastest(lambda: [encode.cut(one.text, one.template_ranges) for one in rendered])
    results["encode"] = fastest(lambda: [backend.encode(text) for text in texts])
    print(json.dumps(results))


if __name__ == "__main__":
    main()
