"""CPU seconds of building each door of data sets, and of encoding the same texts alone, on one thread.

    python doors.py CHATS.jsonl QUESTIONS.jsonl RANKS NUM_ROWS [DOOR ...]

RANKS are Llama 3's. A door and tiktoken take turns, some hundred rows each; each row once. The door makes a shard's
arrays of rows in memory, as a store's builder does. tiktoken's
``encode_ordinary`` encodes the texts of the rows' messages, and nothing else. ``contained`` is the time that the door
itself was in tiktoken, which it may give several texts at once; ``detection`` that of finding each row's shape.
"""

import gc
import json
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import tiktoken
from door_rows import DOORS, Row, rows_of
from store_rows import published_encoding

import torchpipe.datasets
from torchpipe.models.llama3 import llama3_tokenizer
from torchpipe.store.shard_maker import ShardMaker

AT_ONCE = 256
"""Rows of a turn."""
ENCODERS = ("encode_ordinary", "encode_to_numpy")
"""The methods of tiktoken.Encoding by which a door encodes texts."""


class Clock:
    """CPU seconds, by what they were spent on."""

    def __init__(self) -> None:
        self.seconds = {"door": 0.0, "contained": 0.0, "alone": 0.0, "detection": 0.0}

    def run(self, what: str, run: Callable[[], Any]) -> Any:
        """What ``run`` gives; its time is added to that of ``what``."""
        start = time.process_time()
        given = run()
        self.seconds[what] += time.process_time() - start
        return given

    @contextmanager
    def watching_tiktoken(self) -> Iterator[None]:
        """Adds the time of the encoder's calls to ``contained``."""
        methods: dict[str, Callable[..., Any]] = {name: getattr(tiktoken.Encoding, name) for name in ENCODERS}

        def watched(method: Callable[..., Any]) -> Callable[..., Any]:
            return lambda *given, **options: self.run("contained", lambda: method(*given, **options))

        for name, method in methods.items():
            setattr(tiktoken.Encoding, name, watched(method))
        try:
            yield
        finally:
            for name, method in methods.items():
                setattr(tiktoken.Encoding, name, method)


def texts_of(row: Row, transform: Any) -> list[str]:
    """The texts that a door's transform has encoded for a row, in one conversation or in two."""
    if "text" in row:
        return [row["text"]]
    if "segments" in row:
        return [segment["text"] for segment in row["segments"]]
    made = transform.message_transform(row)
    sides = [made[side] for side in ("messages", "chosen", "rejected") if side in made]
    return [message.text_content for messages in sides for message in messages]


def measured(name: str, rows: Sequence[Row], tokenizer: Any, encode: Callable[[str], Any]) -> dict[str, float]:
    """CPU seconds of a door, and how many rows it was given; ``encode`` is the encoder that it is compared with."""
    door, clock = DOORS[name], Clock()
    dataset: Any = getattr(torchpipe.datasets, door.builder)(tokenizer, source=rows, **door.arguments)
    all_texts = [texts_of(row, dataset.transform) for row in rows]
    with tempfile.TemporaryDirectory() as folder:
        maker = ShardMaker(recipe=dataset.recipe, folder=Path(folder), shard_rows=AT_ONCE)
        # The ranks are read, and the chat format is written, when they are first asked for.
        maker.rows.samples_of_rows(range(1))
    shape_of = getattr(getattr(dataset.transform, "message_transform", None), "shape_of", None)

    def encode_alone(some: range) -> None:
        for row in some:
            for text in all_texts[row]:
                encode(text)

    gc.collect()
    gc.freeze()  # as a store's builder does before it forks
    for number, start in enumerate(range(0, len(rows), AT_ONCE)):
        some = range(start, min(start + AT_ONCE, len(rows)))
        for is_door in (True, False) if number % 2 else (False, True):
            if is_door:
                with clock.watching_tiktoken():
                    clock.run("door", lambda: maker.samples_of(number, lambda _: None))  # noqa: B023
            else:
                clock.run("alone", lambda: encode_alone(some))  # noqa: B023
        if shape_of is not None:
            clock.run("detection", lambda: [shape_of(rows[row]) for row in some])  # noqa: B023
    gc.unfreeze()
    return {**clock.seconds, "rows": len(rows)}


def main(arguments: Sequence[str]) -> None:
    """Prints one JSON object: of each door, seconds."""
    warnings.simplefilter("ignore")
    chats, questions, ranks = map(Path, arguments[:3])
    tokenizer, encode = llama3_tokenizer(str(ranks)), published_encoding(ranks).encode_ordinary
    print(
        json.dumps(
            {
                name: measured(name, rows_of(name, chats, questions, int(arguments[3])), tokenizer, encode)
                for name in arguments[4:] or DOORS
            }
        )
    )


if __name__ == "__main__":
    main(sys.argv[1:])
