"""The trace of a sample keeps step with its tokens, through truncation too."""

import pytest

from torchpipe.data.sequences import truncate
from torchpipe.data.trace import CUT_END, Origin, TokenTrace

RUNS = [
    (Origin("document_start", -1, False, "starts the document"), 1),
    (Origin("header", 0, False, "message masked"), 3),
    (Origin("content", 1, True, "message trained", "content"), 2),
    (Origin("turn_end", 1, True, "message trained"), 1),
]


def test_runs_are_spread_over_their_tokens() -> None:
    trace = TokenTrace.from_runs(RUNS)
    assert len(trace) == 7
    assert [origin.kind for origin in trace] == ["document_start"] + ["header"] * 3 + ["content"] * 2 + ["turn_end"]
    assert trace[5] == Origin("content", 1, True, "message trained", "content")
    assert trace.trained.tolist() == [False] * 4 + [True] * 3


def test_an_origin_is_nineteen_bytes() -> None:
    trace = TokenTrace.from_runs(RUNS)
    columns = (trace.kind, trace.message, trace.trained, trace.reason, trace.part, trace.proof, trace.start, trace.stop)
    assert sum(column.itemsize for column in columns) == 19


def test_characters_and_proofs_are_kept_apart() -> None:
    origins = [Origin("content", 1, True, "sampled", "content", "causal", 4, 9), Origin("footer", 1, True, "sampled")]
    assert list(TokenTrace.from_runs([(origin, 1) for origin in origins])) == origins


def test_a_run_without_tokens_leaves_nothing() -> None:
    assert len(TokenTrace.from_runs([(RUNS[0][0], 0), RUNS[1]])) == 3
    assert len(TokenTrace.from_runs([])) == 0


@pytest.mark.parametrize("side", ["left", "right"])
@pytest.mark.parametrize("length", [0, 1, 3, 6, 7, 8, None])
def test_truncation_cuts_the_trace_as_it_cuts_the_tokens(side: str, length: int | None) -> None:
    trace = TokenTrace.from_runs(RUNS)
    cut = trace.truncate(length, side)  # pyright: ignore[reportArgumentType]
    kept = truncate(list(trace), length, None, side)
    assert list(cut) == kept
    assert cut.num_cut == 7 - len(kept)
    assert cut.cut_side == (side if len(kept) < 7 else None)


def test_the_end_that_truncation_puts_is_the_documents() -> None:
    cut = TokenTrace.from_runs(RUNS).truncate(5, "right", end_trained=False)
    assert cut[4] == Origin("document_end", -1, False, CUT_END)
    assert cut[3] == RUNS[1][0]


def test_truncation_leaves_the_whole_trace_as_it_was() -> None:
    trace = TokenTrace.from_runs(RUNS)
    trace.truncate(5, "right", end_trained=False)
    assert list(trace) == list(TokenTrace.from_runs(RUNS))


def test_a_trace_that_is_cut_twice_counts_both() -> None:
    cut = TokenTrace.from_runs(RUNS).truncate(6, end_trained=False).truncate(4)
    assert (len(cut), cut.num_cut, cut.cut_side) == (4, 3, "right")
    assert list(cut) == list(TokenTrace.from_runs(RUNS))[:4]
