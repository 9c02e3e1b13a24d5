"""Ranks go on with a step together, however long the data of one takes."""

import subprocess
from collections.abc import Callable

RunRanks = Callable[..., list[subprocess.CompletedProcess[str]]]

CODE = """
import sys, time
from datetime import timedelta
from torchpipe.errors import DataError
from torchpipe.training import Ranks, StepWait

class Steps:
    def __init__(self, rank):
        self.rank, self.num_waits, self.is_complete = rank, 0, False

    def wait(self, epoch, step, *, stop):
        self.num_waits += 1
        if step == 1 and self.rank == 1:
            time.sleep(SLOW)
        if step == 2:
            self.is_complete = self.rank == 0
        if step == 3:
            self.is_complete = True
        if step == FAILS and self.rank == 1:
            raise DataError("Row 7 is bad.")
        return not (step == STOPS and self.rank == 1)

with Ranks(timeout=timedelta(seconds=4)) as ranks:
    ranks.join()
    steps = Steps(ranks.rank)
    say = lambda word: print(word, file=sys.stderr)
    wait = StepWait(ranks, steps, stop=lambda: False, save=lambda: say("saved"), on_complete=lambda: say("complete"))
    for step in range(6):
        if not wait(0, step):
            say(f"stopped at {step}")
            break
        assert ranks.sum(1.0) == [2.0]
    say(f"waits {steps.num_waits}, stopped {wait.was_stopped}")
"""


def run(
    run_ranks: RunRanks, *, stops: int = -1, fails: int = -1, slow: float = 0.1
) -> list[subprocess.CompletedProcess[str]]:
    code = CODE.replace("STOPS", str(stops)).replace("FAILS", str(fails)).replace("SLOW", str(slow))
    return run_ranks(code, 2)


def test_a_rank_that_waits_long_holds_nobody_in_a_collective(run_ranks: RunRanks) -> None:
    for result in run(run_ranks, slow=6.0):  # longer than a collective may take
        assert result.returncode == 0, result.stderr
        # All have everything from step 3 on: then nothing is waited for any more.
        assert result.stderr.splitlines() == ["complete", "waits 4, stopped False"]


def test_all_ranks_stop_where_one_is_asked_to(run_ranks: RunRanks) -> None:
    for result in run(run_ranks, stops=2):
        assert result.stderr.splitlines() == ["stopped at 2", "waits 3, stopped True"]


def test_an_error_of_one_rank_ends_all_after_it_has_saved(run_ranks: RunRanks) -> None:
    first, second = run(run_ranks, fails=2)
    assert "saved" in second.stderr
    assert "DataError: Row 7 is bad." in second.stderr
    assert "DistributedError: Rank 1 ended with an error. Its output says why." in first.stderr
