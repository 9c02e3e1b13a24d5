"""What the measurements of the token store are given: chats, tokenizer files, tokenised samples, and large stores.

    python store_inputs.py FOLDER DATA NUM_ROWS NUM_TOKENS

It prints the config and the store of :func:`write_start`. The benchmark calls the functions.
"""

import json
import runpy
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from tokenizer_inputs import PARITY, oracle_file
from trl_preparation import write_trl_tokenizer

CAPACITY = 4096
CHAT: dict[str, Any] = {"source": "json", "conversation_column": "messages", "conversation_style": "openai"}
"""The arguments of chat_dataset, which torchpipe's and torchtune's have in common."""
EOS, BOS = "<|eot_id|>", "<|begin_of_text|>"


def write_inputs(folder: Path, data: Path, *, num_rows: int) -> None:
    """Writes chats.jsonl and mixed.jsonl (a tenth of the rows), Llama 3's tokenizer in both forms, and samples/.

    Args:
        folder: where to; it is made.
        data: the shared data folder.
        num_rows: of the chats.
    """
    folder.mkdir()
    make_chats = data.parent / "bench" / "make_chats.py"
    for kind, rows in (("chat", num_rows), ("mixed", num_rows // 10)):
        file = folder / ("chats.jsonl" if kind == "chat" else "mixed.jsonl")
        command = [sys.executable, make_chats, file, "--rows", str(rows), "--kind", kind]
        subprocess.run(command, check=True, capture_output=True)
    write_tokenizer(folder, oracle_file("llama3"), data / "templates" / "trl" / "llama3_training.jinja")
    write_samples(folder)


def write_tokenizer(folder: Path, ranks: Path, template: Path) -> None:
    """Writes ranks.model, and for TRL tokenizer.json and chat_template.jinja."""
    from torchpipe.tokenizers.families import LLAMA3

    derive: Any = runpy.run_path(str(PARITY / "byte_level_files.py"))["write_byte_level_files"]
    vocab, merges = derive(ranks, folder)
    controls = list(LLAMA3.control_tokens)
    write_trl_tokenizer(folder, vocab, merges, pattern=LLAMA3.pattern, controls=controls, nfc=False)
    shutil.copyfile(ranks, folder / "ranks.model")
    shutil.copyfile(template, folder / "chat_template.jinja")


def recipe_of(folder: Path, file: str = "chats.jsonl", *, max_seq_len: int = CAPACITY) -> Any:
    """The recipe of the chats' store; longer rows are cut."""
    from torchpipe.datasets import chat_dataset
    from torchpipe.models.llama3 import llama3_tokenizer

    tokenizer = llama3_tokenizer(str(folder / "ranks.model"), max_seq_len=max_seq_len)
    dataset: Any = chat_dataset(tokenizer, data_files=str(folder / file), **CHAT)
    return dataset.recipe


def write_samples(folder: Path) -> None:
    """Tokenises the chats into ``store`` and ``samples/``: tokens, trained and lengths as ``.npy``; and the lengths of
    mixed.jsonl at 32,768.
    """
    from torchpipe.store import build_store

    store = build_store(recipe_of(folder), cache_dir=folder / "cache")
    (folder / "store.json").write_text(json.dumps(str(store.path)), encoding="utf-8")
    (folder / "samples").mkdir()
    tokens = np.concatenate([shard.array("tokens") for shard in store.shards])
    np.save(folder / "samples" / "tokens.npy", tokens)
    trained = [
        np.unpackbits(shard.array("trained"), count=shard.num_tokens, bitorder="little") for shard in store.shards
    ]
    np.save(folder / "samples" / "trained.npy", np.concatenate(trained).astype(bool))
    np.save(folder / "samples" / "lengths.npy", np.asarray(store.lengths))
    mixed = build_store(recipe_of(folder, "mixed.jsonl", max_seq_len=32_768), cache_dir=folder / "cache")
    np.save(folder / "mixed_lengths.npy", np.asarray(mixed.lengths))


def samples_of(folder: Path) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Tokens and labels of each sample, int64. The labels are -100 where none is trained."""
    tokens, trained, lengths = (
        np.load(folder / "samples" / f"{name}.npy") for name in ("tokens", "trained", "lengths")
    )
    labels = np.full(len(tokens), -100, dtype=np.int64)
    np.copyto(labels[:-1], tokens[1:], where=trained[:-1], casting="unsafe")
    ends = np.cumsum(lengths, dtype=np.int64).tolist()
    for start, stop in zip([0, *ends[:-1]], ends, strict=True):
        yield tokens[start:stop].astype(np.int64), labels[start:stop]


def write_start(folder: Path, *, num_rows: int, num_tokens: int | None = None) -> tuple[Path, Path]:
    """A config whose store is there, and the store's folder.

    Args:
        folder: of the inputs.
        num_rows: of the chats that the config names.
        num_tokens: the store is written anew, without tokenising, with as many tokens: the tokenised chats over and
            over. Its key stays that of the config. None leaves the store as it is built.
    """
    from torchpipe.store import build_store

    name = f"start_{num_tokens or num_rows}"
    rows = (folder / "chats.jsonl").read_text(encoding="utf-8").splitlines(keepends=True)[:num_rows]
    (folder / f"{name}.jsonl").write_text("".join(rows), encoding="utf-8")
    cache = folder / f"{name}.cache"
    built = build_store(recipe_of(folder, f"{name}.jsonl"), cache_dir=cache)
    if num_tokens is not None:
        write_repeated(built.path, Path(json.loads((folder / "store.json").read_text())), num_tokens)
    config = {
        "tokenizer": {
            "_component_": "torchpipe.models.llama3.llama3_tokenizer",
            "path": str(folder / "ranks.model"),
            "max_seq_len": CAPACITY,
        },
        "dataset": {
            "_component_": "torchpipe.datasets.chat_dataset",
            **CHAT,
            "data_files": str(folder / f"{name}.jsonl"),
            "packed": True,
            "strategy": "best_fit_decreasing",
            "cache_dir": str(cache),
        },
    }
    path = folder / f"{name}.yaml"
    path.write_text(json.dumps(config), encoding="utf-8")  # JSON is YAML
    return path, built.path


def write_repeated(folder: Path, base: Path, num_tokens: int) -> None:
    """Writes the shards of ``base`` over and over into the store at ``folder``, which keeps its key."""
    from torchpipe.store import ShardData, TokenStore, publish_store, shard_folder, write_shard
    from torchpipe.store.accounts import ledger_counts
    from torchpipe.store.flat_samples import READ_FILE, REMARKS_FILE
    from torchpipe.store.manifest import open_shards

    for made in ("shards", "index", "plans"):
        shutil.rmtree(folder / made, ignore_errors=True)
    (folder / "manifest.json").unlink()
    shards, first_row, written, number = TokenStore.open(base).shards, 0, 0, 0
    while written < num_tokens:
        shard = shards[number % len(shards)]
        lengths = np.asarray(shard.array("lengths"))
        stop_row = first_row + len(lengths)
        data = ShardData(
            tokens=np.asarray(shard.array("tokens")),
            trained=np.unpackbits(shard.array("trained"), count=shard.num_tokens, bitorder="little").astype(bool),
            lengths=lengths,
            rows=np.arange(first_row, stop_row),
            first_row=first_row,
            num_rows=len(lengths),
            extra={REMARKS_FILE: np.empty((0, 2), np.int64), READ_FILE: np.array([[first_row, stop_row]])},
        )
        write_shard(shard_folder(folder, number), data)
        first_row, written, number = stop_row, written + shard.num_tokens, number + 1
    publish_store(folder, num_shards=number, ledger=ledger_counts(open_shards(folder, range(number))))


if __name__ == "__main__":
    made, rows = Path(sys.argv[1]), int(sys.argv[3])
    write_inputs(made, Path(sys.argv[2]), num_rows=rows)
    print(json.dumps([str(path) for path in write_start(made, num_rows=rows, num_tokens=int(sys.argv[4]))]))
