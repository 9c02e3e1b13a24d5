"""Writes a rank file as ``vocab.json`` and ``merges.txt``, the form that GPT-2, Qwen and Phi-4 publish.

It needs no packages.
A rank file lists tokens in the order of their merges. The merge of a token is the pair of pieces that the merges before
it leave of its bytes.
"""

import base64
import json
from itertools import pairwise
from pathlib import Path


def byte_alphabet() -> dict[int, str]:
    """GPT-2's alphabet: printable bytes of Latin-1 for themselves, the others from U+0100 on."""
    printable = {*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
    others = [byte for byte in range(256) if byte not in printable]
    return {byte: chr(byte) for byte in printable} | {byte: chr(256 + n) for n, byte in enumerate(others)}


def write_byte_level_files(rank_file: Path, folder: Path) -> tuple[Path, Path]:
    """Paths of ``vocab.json`` and ``merges.txt`` in ``folder``."""
    lines = map(bytes.split, rank_file.read_bytes().splitlines())
    ranks = {base64.b64decode(token): int(rank) for token, rank in lines}
    spelling = str.maketrans({chr(byte): char for byte, char in byte_alphabet().items()})

    def spell(token: bytes) -> str:
        return token.decode("latin-1").translate(spelling)

    merges = ["#version: 0.2"]
    for token, rank in sorted(ranks.items(), key=lambda item: item[1]):
        pieces = [token[index : index + 1] for index in range(len(token))]
        while len(pieces) > 2:
            merged = [ranks.get(a + b, rank) for a, b in pairwise(pieces)]
            first = merged.index(min(merged))
            if merged[first] >= rank:
                break
            pieces[first : first + 2] = [pieces[first] + pieces[first + 1]]
        if len(pieces) == 2:
            merges.append(" ".join(map(spell, pieces)))
    vocab = {spell(token): rank for token, rank in ranks.items()}
    (folder / "vocab.json").write_text(json.dumps(vocab, ensure_ascii=False), encoding="utf-8")
    (folder / "merges.txt").write_text("\n".join(merges) + "\n", encoding="utf-8")
    return folder / "vocab.json", folder / "merges.txt"
