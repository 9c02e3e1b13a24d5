"""A vocabulary and merges (``vocab.json``, ``merges.txt``) made from a file of tiktoken ranks: the same encoder.

A rank file lists tokens in the order of their merges. The merge of a token is the pair of pieces that the merges before
it leave of its bytes. No import of the package: scripts of other environments use it too.
"""

import base64
import json
from itertools import pairwise
from pathlib import Path


def derive_byte_level_files(rank_file: Path, folder: Path) -> tuple[Path, Path]:
    """Writes the two files and gives their paths."""
    pairs = map(bytes.split, rank_file.read_bytes().splitlines())
    ranks = {base64.b64decode(token): int(rank) for token, rank in pairs}
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = sorted(set(range(256)) - set(printable))
    alphabet = {byte: chr(byte) for byte in printable} | {byte: chr(256 + n) for n, byte in enumerate(others)}

    def spelled(token: bytes) -> str:
        return token.decode("latin-1").translate(alphabet)

    lines = ["#version: 0.2"]
    for token, rank in sorted(ranks.items(), key=lambda item: item[1]):
        pieces = [token[index : index + 1] for index in range(len(token))]
        while len(pieces) > 2:
            merged = [ranks.get(a + b, rank) for a, b in pairwise(pieces)]
            first = merged.index(min(merged))
            if merged[first] >= rank:
                break
            pieces[first : first + 2] = [pieces[first] + pieces[first + 1]]
        if len(pieces) == 2:
            lines.append(" ".join(map(spelled, pieces)))
    vocab, merges = folder / "vocab.json", folder / "merges.txt"
    vocab.write_text(json.dumps({spelled(t): rank for t, rank in ranks.items()}, ensure_ascii=False), encoding="utf-8")
    merges.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return vocab, merges
