"""Trains the tiny tokenizers that come with the package, from the sample chats that come with it.

    python tools/train_tiny_tokenizers.py          # write torchpipe/assets/tiny_llama3/
    python tools/train_tiny_tokenizers.py --check  # exit status 1 when the files there are not what this would write

One byte-level BPE of 2,048 tokens is written twice: as ``tokenizer.model`` (tiktoken's ranks) and as ``tokenizer.json``
(Hugging Face). Both have Llama 3's split expression and give the same ids. The control tokens follow in Llama 3's
order; a rank file has no place for them, so only ``tokenizer.json`` lists them.

The trainer is written out here, because a library's may break ties between equally frequent pairs differently in
another version, and the two files are compared byte for byte by a test.
"""

import argparse
import base64
import json
import sys
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from functools import cache
from itertools import pairwise
from pathlib import Path

from tokenizers import Regex
from tokenizers.pre_tokenizers import Split

import torchpipe
from torchpipe.tokenizers.families import LLAMA3_CONTROL_TOKENS, LLAMA3_PATTERN

NUM_TOKENS = 2048
ASSETS = Path(torchpipe.__file__).resolve().parent / "assets"
SAMPLE = ASSETS / "sample_chats.json"
FOLDER = ASSETS / "tiny_llama3"

Pair = tuple[int, int]


def byte_characters() -> dict[int, str]:
    """The character that stands for each byte in ``tokenizer.json``, in the order of the 256 first ids.

    GPT-2's table (https://github.com/openai/gpt-2, encoder.py, MIT): printable bytes stand for themselves and come
    first; the rest, among them the space, are shown as the characters from U+0100 on.

    >>> table = byte_characters()
    >>> table[ord("a")], table[ord(" ")], list(table)[0] == ord("!")
    ('a', 'Ġ', True)
    """
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    table = {byte: chr(byte) for byte in printable}
    rest = (byte for byte in range(256) if byte not in table)
    return table | {byte: chr(0x100 + offset) for offset, byte in enumerate(rest)}


def corpus(path: Path) -> list[str]:
    """The texts to train on: every message with its role before it, as the chat format will write them."""
    chats = json.loads(path.read_text(encoding="utf-8"))
    return [f"{message['role']}\n\n{message['content']}" for chat in chats for message in chat["messages"]]


def count_words(texts: Iterable[str]) -> Counter[bytes]:
    """How often each piece of the split expression occurs, as UTF-8 bytes."""
    split = Split(Regex(LLAMA3_PATTERN), "isolated")
    return Counter(piece.encode() for text in texts for piece, _ in split.pre_tokenize_str(text))


def merge_word(word: Sequence[int], pair: Pair, token: int) -> list[int]:
    """``word`` with every occurrence of ``pair`` replaced by ``token``, from the left.

    >>> merge_word([1, 1, 1, 2], (1, 1), 9)
    [9, 1, 2]
    """
    merged: list[int] = []
    for symbol in word:
        if merged and (merged[-1], symbol) == pair:
            merged[-1] = token
        else:
            merged.append(symbol)
    return merged


def train(words: Counter[bytes], num_tokens: int) -> tuple[list[bytes], list[Pair]]:
    """The tokens by id, and the pair of ids that makes each token after the first 256.

    Byte-pair encoding (Sennrich et al. 2016, https://arxiv.org/abs/1508.07909): the most frequent pair of neighbours
    becomes a token, until there are ``num_tokens``. Of equally frequent pairs the one with the lower ids wins.
    """
    tokens = [bytes([byte]) for byte in byte_characters()]
    id_of_byte = {token[0]: index for index, token in enumerate(tokens)}
    symbols = [[id_of_byte[byte] for byte in word] for word in words]
    counts = list(words.values())

    pair_counts: Counter[Pair] = Counter()
    words_with: defaultdict[Pair, set[int]] = defaultdict(set)
    for index, word in enumerate(symbols):
        for pair in pairwise(word):
            pair_counts[pair] += counts[index]
            words_with[pair].add(index)

    merges: list[Pair] = []
    while len(tokens) < num_tokens:
        best = min(pair_counts, key=lambda pair: (-pair_counts[pair], pair))
        for index in sorted(words_with.pop(best)):
            word = symbols[index]
            for pair in pairwise(word):
                pair_counts[pair] -= counts[index]
            symbols[index] = word = merge_word(word, best, len(tokens))
            for pair in pairwise(word):
                pair_counts[pair] += counts[index]
                words_with[pair].add(index)  # pairs that are gone stay listed: looking once more costs nothing
        del pair_counts[best]
        merges.append(best)
        tokens.append(tokens[best[0]] + tokens[best[1]])
    # A merge never crosses a boundary inside a finished token, so no two pairs spell the same bytes; ranks rely on it.
    assert len(set(tokens)) == num_tokens
    return tokens, merges


def rank_file(tokens: Sequence[bytes]) -> str:
    """tiktoken's format: a line ``base64(bytes) rank`` a token."""
    return "".join(f"{base64.b64encode(token).decode()} {rank}\n" for rank, token in enumerate(tokens))


def tokenizer_json(tokens: Sequence[bytes], merges: Sequence[Pair]) -> str:
    """The Hugging Face file: the same tokens and merges, and the control tokens after them."""
    table = byte_characters()
    shown = ["".join(table[byte] for byte in token) for token in tokens]
    byte_level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False}
    content = {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [
            {
                "id": len(tokens) + offset,
                "content": text,
                "single_word": False,
                "lstrip": False,
                "rstrip": False,
                "normalized": False,
                "special": True,
            }
            for offset, text in enumerate(LLAMA3_CONTROL_TOKENS)
        ],
        "normalizer": None,
        "pre_tokenizer": {
            "type": "Sequence",
            "pretokenizers": [
                {"type": "Split", "pattern": {"Regex": LLAMA3_PATTERN}, "behavior": "Isolated", "invert": False},
                byte_level,
            ],
        },
        "post_processor": None,
        "decoder": byte_level,
        "model": {
            "type": "BPE",
            "dropout": None,
            "unk_token": None,
            "continuing_subword_prefix": None,
            "end_of_word_suffix": None,
            "fuse_unk": False,
            "byte_fallback": False,
            "ignore_merges": True,
            "vocab": {text: index for index, text in enumerate(shown)},
            "merges": [f"{shown[left]} {shown[right]}" for left, right in merges],
        },
    }
    return json.dumps(content, ensure_ascii=False, indent=1) + "\n"


@cache
def made_files() -> dict[str, str]:
    """The text of each file, by its name."""
    tokens, merges = train(count_words(corpus(SAMPLE)), NUM_TOKENS)
    return {"tokenizer.model": rank_file(tokens), "tokenizer.json": tokenizer_json(tokens, merges)}


def main(argv: Sequence[str] | None = None) -> int:
    """Exit status: 0, or 1 when ``--check`` finds a file that differs."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--check", action="store_true", help="compare with the files in the package, write nothing")
    arguments = parser.parse_args(argv)

    files = {FOLDER / name: text for name, text in made_files().items()}
    if arguments.check:
        stale = [path for path, text in files.items() if not path.is_file() or path.read_bytes() != text.encode()]
        for path in stale:
            print(f"{path} is not what {SAMPLE.name} gives. Run this without --check.", file=sys.stderr)
        return 1 if stale else 0
    FOLDER.mkdir(exist_ok=True)
    for path, text in files.items():
        path.write_bytes(text.encode())
        print(f"{path}: {len(text.encode()):,} bytes")
    return 0


if __name__ == "__main__":
    sys.exit(main())
