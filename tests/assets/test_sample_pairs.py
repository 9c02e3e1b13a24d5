"""What the sample pairs promise to those who train on them."""

import json
import subprocess
import sys
from collections import Counter
from itertools import pairwise
from pathlib import Path
from typing import Any

import torchpipe
from torchpipe.datasets import preference_dataset
from torchpipe.models.tiny import tiny_tokenizer

SAMPLE = Path(torchpipe.__file__).parent / "assets" / "sample_pairs.json"
PAIRS: list[dict[str, Any]] = json.loads(SAMPLE.read_text(encoding="utf-8"))


def answers(side: str) -> list[str]:
    return [pair[side][1]["content"] for pair in PAIRS]


def test_the_file_is_what_its_rule_makes(repository: Path) -> None:
    command = [sys.executable, "tools/make_sample_pairs.py", "--check"]
    done = subprocess.run(command, cwd=repository, capture_output=True, text=True)
    assert done.stdout == "sample_pairs.json: as made by the rule\n", done.stderr
    assert done.returncode == 0


def test_every_pair_has_one_question_and_two_answers_to_it() -> None:
    assert len(PAIRS) == 80
    assert SAMPLE.stat().st_size < 80_000
    assert all(list(pair) == ["topic", "chosen", "rejected"] for pair in PAIRS)
    for pair in PAIRS:
        assert [message["role"] for side in ("chosen", "rejected") for message in pair[side]] == [
            "user",
            "assistant",
        ] * 2
        assert pair["chosen"][0] == pair["rejected"][0]
    assert len({pair["chosen"][0]["content"] for pair in PAIRS}) == len(PAIRS)


def test_length_does_not_tell_which_answer_is_chosen() -> None:
    pairs = preference_dataset(tiny_tokenizer(max_seq_len=1024), source=PAIRS)
    lengths = [[len(pair[f"{side}_input_ids"]) for side in ("chosen", "rejected")] for pair in pairs]
    chosen, rejected = (sum(side) for side in zip(*lengths, strict=True))
    assert 0.95 < chosen / rejected < 1.05
    assert 0.4 < sum(one < other for one, other in lengths) / len(PAIRS) < 0.6


def test_every_rejected_answer_begins_and_ends_as_others_do() -> None:
    """Otherwise nothing could be learned from the first 80 % about the last 20 %."""
    first, last = (
        Counter(answer[:20] for answer in answers("rejected")),
        Counter(answer[-20:] for answer in answers("rejected")),
    )
    assert min(first.values()) >= 8
    assert min(last.values()) >= 8
    assert not any(answer[:20] in first for answer in answers("chosen"))


def test_neighbours_have_different_topics_but_for_a_few() -> None:
    same = [pair for pair, following in pairwise(PAIRS) if pair["topic"] == following["topic"]]
    assert len(same) <= len(PAIRS) // 10
