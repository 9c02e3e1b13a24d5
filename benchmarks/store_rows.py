"""CPU seconds from rows of messages to tokens and labels, on one thread, by one of four.

    python store_rows.py tiktoken|torchpipe|torchpipe-arrow|torchtune|trl FOLDER NUM_ROWS

FOLDER is that of ``store_inputs.write_inputs``. ``tiktoken`` encodes the messages' texts and nothing else.
``torchpipe`` makes a shard's arrays of the rows, as its builder does; they are in memory as for tiktoken, or, with
``-arrow``, read from the file by ``datasets``, as torchtune's SFTDataset and TRL's preparation read theirs. Imports,
the tokenizer and opening the file are not timed.
"""

import json
import sys
import time
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

CHAT: dict[str, Any] = {"conversation_column": "messages", "conversation_style": "openai"}


def first_rows(folder: Path, num_rows: int) -> list[dict[str, Any]]:
    """Rows of the chats."""
    with (folder / "chats.jsonl").open(encoding="utf-8") as lines:
        return [json.loads(line) for line, _ in zip(lines, range(num_rows), strict=False)]


def published_encoding(ranks: Path) -> Any:
    """tiktoken's encoder of Llama 3's ranks, with the split expression as it is published."""
    import tiktoken
    from tiktoken.load import load_tiktoken_bpe

    from torchpipe.tokenizers.families import LLAMA3

    return tiktoken.Encoding(
        "llama3", pat_str=LLAMA3.pattern, mergeable_ranks=load_tiktoken_bpe(str(ranks)), special_tokens={}
    )


def tiktoken_tokens(folder: Path, num_rows: int) -> Callable[[], int]:
    """Encodes every text by tiktoken's own call."""
    rows = first_rows(folder, num_rows)
    encoding = published_encoding(folder / "ranks.model")
    texts = [message["content"] for row in rows for message in row["messages"]]
    return lambda: sum(len(encoding.encode_ordinary(text)) for text in texts)


def torchpipe_tokens(folder: Path, num_rows: int, *, in_memory: bool) -> Callable[[], int]:
    """Makes a shard, as the builder of a store does, and all of its labels."""
    from torchpipe.datasets import chat_dataset
    from torchpipe.models.llama3 import llama3_tokenizer
    from torchpipe.store.shard_maker import ShardMaker

    tokenizer = llama3_tokenizer(str(folder / "ranks.model"))
    given: Any = {"source": first_rows(folder, num_rows)} if in_memory else {
        "source": "json", "data_files": str(folder / "chats.jsonl"), "split": f"train[:{num_rows}]"
    }  # fmt: skip
    dataset: Any = chat_dataset(tokenizer, **given, **CHAT)
    maker = ShardMaker(recipe=dataset.recipe, folder=folder, shard_rows=num_rows)
    maker.rows.samples_of(0)  # the ranks are read when the tokenizer is first called, elsewhere when it is made

    def run() -> int:
        data = maker.samples_of(0, lambda _: None)
        return len(data.all_labels())

    return run


def torchtune_tokens(folder: Path, num_rows: int) -> Callable[[], int]:
    """Reads every sample of torchtune's data set."""
    from torchtune.datasets import chat_dataset  # pyright: ignore[reportMissingImports]
    from torchtune.models.llama3 import llama3_tokenizer  # pyright: ignore[reportMissingImports]

    tokenizer = llama3_tokenizer(str(folder / "ranks.model"))
    file = str(folder / "chats.jsonl")
    dataset: Any = chat_dataset(tokenizer, source="json", data_files=file, split=f"train[:{num_rows}]", **CHAT)
    return lambda: sum(len(sample["tokens"]) for sample in dataset)


def trl_tokens(folder: Path, num_rows: int) -> Callable[[], int]:
    """Prepares the rows as TRL's trainer does."""
    from trl_preparation import load_chats, preparation

    rows = load_chats(folder / "chats.jsonl").select(range(num_rows))
    prepare = preparation(folder, eos="<|eot_id|>", bos="<|begin_of_text|>")
    return lambda: sum(prepare(rows).with_format("arrow")[:]["input_ids"].combine_chunks().value_lengths().to_pylist())


WAYS: dict[str, Callable[[Path, int], Callable[[], int]]] = {
    "tiktoken": tiktoken_tokens,
    "torchpipe": lambda folder, num_rows: torchpipe_tokens(folder, num_rows, in_memory=True),
    "torchpipe-arrow": lambda folder, num_rows: torchpipe_tokens(folder, num_rows, in_memory=False),
    "torchtune": torchtune_tokens,
    "trl": trl_tokens,
}


def main(arguments: Sequence[str]) -> None:
    """Prints one JSON object."""
    warnings.simplefilter("ignore")
    way, folder, num_rows = arguments
    run = WAYS[way](Path(folder), int(num_rows))
    start = time.process_time()
    num_tokens = run()
    print(json.dumps({"seconds": time.process_time() - start, "tokens": num_tokens}))


if __name__ == "__main__":
    main(sys.argv[1:])
