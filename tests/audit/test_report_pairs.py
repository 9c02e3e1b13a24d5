"""What is told of pairs before training."""

import pytest

from torchpipe.audit import preview_pair, report_pairs
from torchpipe.datasets import preference_dataset
from torchpipe.errors import ConfigError
from torchpipe.models.tiny import tiny_tokenizer

ROWS = [
    {
        side: [{"role": "user", "content": "Which?"}, {"role": "assistant", "content": answer}]
        for side, answer in (("chosen", "this one"), ("rejected", "that one"))
    }
]
PAIRS = preference_dataset(tiny_tokenizer(max_seq_len=64), source=ROWS)


def test_pairs_and_their_sides_are_counted(capsys: pytest.CaptureFixture[str]) -> None:
    counts = report_pairs("training pairs", PAIRS, check_rows=True)
    assert counts is not None
    assert counts.rows == 2
    assert counts.longest == len(PAIRS[0]["chosen_input_ids"])
    out = capsys.readouterr().out
    assert out.startswith("training pairs: 1 pair, ")


def test_unchecked_pairs_are_not_read(capsys: pytest.CaptureFixture[str]) -> None:
    assert report_pairs("training pairs", PAIRS, check_rows=False) is None
    assert "training pairs: 1 pairs, not checked" in capsys.readouterr().out


def test_pairs_without_a_trained_token_are_refused() -> None:
    nothing = [{key: [-100] * 3 if "labels" in key else [1, 2, 3] for key in PAIRS[0]}]
    with pytest.raises(ConfigError, match="training pairs: no token is trained"):
        report_pairs("training pairs", nothing, check_rows=True)


def test_both_sides_are_shown_with_what_is_trained() -> None:
    shown = preview_pair(PAIRS[0], tiny_tokenizer().decode)
    chosen, rejected = shown.split("rejected:\n")
    assert chosen.startswith("chosen:\n")
    for side, answer in ((chosen, "this one"), (rejected, "that one")):
        (trained,) = [line for line in side.splitlines() if line.startswith("  trained")]
        assert answer in trained
        assert "Which?" not in trained
