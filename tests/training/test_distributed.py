"""Ranks: they wait for each other's data outside of any collective, and their gradient is that of one big batch."""

import subprocess
from collections.abc import Callable

import pytest
import torch
from torch import nn

from torchpipe.errors import ConfigError
from torchpipe.training import Ranks

RunRanks = Callable[..., list[subprocess.CompletedProcess[str]]]

# 101 trained tokens in two micro-batches of 1 and 100; the last parameter is used by rank 1 alone, another by none.
GRADIENTS = """
import sys
import torch
from torch import nn
from torchpipe.training import Ranks

with Ranks() as ranks:
    ranks.join()
    print("seen")  # by rank 0 alone
    torch.manual_seed(ranks.rank)  # ranks start apart
    model = nn.ModuleDict({"used": nn.Linear(3, 1), "seldom": nn.Linear(3, 1), "never": nn.Linear(3, 1)})
    model["never"].half()
    ranks.share(model)
    start = {name: value.clone() for name, value in model.state_dict().items()}
    rows = torch.arange(303, dtype=torch.float32).reshape(101, 3) / 300
    mine = rows[:1] if ranks.rank == 0 else rows[1:]
    loss = model["used"](mine).square().mean()
    if ranks.rank:
        loss = loss + model["seldom"](mine).square().mean()
    (loss * (len(mine) / 101)).backward()
    ranks.sum_gradients(model)
    ranks.agree({"step": 3})
    if ranks.is_first:
        torch.save({"start": start, "grads": {n: p.grad for n, p in model.named_parameters()}}, sys.argv[1])
    assert ranks.sum(1.5, float(ranks.rank)) == [3.0, 1.0]
    ranks.agree({"step": 3, "rows": 5 + ranks.rank})
"""


def test_the_gradient_over_ranks_is_that_of_one_big_batch(run_ranks: RunRanks, tmp_path) -> None:
    code = f"import sys; sys.argv = ['', {str(tmp_path / 'found.pt')!r}]\n{GRADIENTS}"
    first, second = run_ranks(code, 2)
    assert (first.stdout, second.stdout) == ("seen\n", "")
    for result in (first, second):  # all of them stop where they differ
        assert "The ranks differ: rows is 5 on rank 0 and 6 on rank 1. All of them need the same" in result.stderr
    found = torch.load(tmp_path / "found.pt")
    model = nn.ModuleDict({"used": nn.Linear(3, 1), "seldom": nn.Linear(3, 1), "never": nn.Linear(3, 1)})
    model["never"].half()
    model.load_state_dict(found["start"])
    rows = torch.arange(303, dtype=torch.float32).reshape(101, 3) / 300
    (model["used"](rows).square().mean() + model["seldom"](rows[1:]).square().sum() / 101).backward()
    for name, parameter in model.named_parameters():
        if name.startswith("never"):
            assert found["grads"][name] is None
        else:
            torch.testing.assert_close(found["grads"][name], parameter.grad)


SLOW = """
import sys, time
from datetime import timedelta
from torchpipe.training import Ranks

with Ranks(timeout=timedelta(seconds=2)) as ranks:
    if ranks.is_first:
        time.sleep(4)  # prepares data for longer than a collective may take
    ranks.join()
    assert ranks.sum(1.0) == [2.0]
    ranks.agree({"step": 1})
"""


def test_slow_data_of_one_rank_is_waited_for_outside_of_a_collective(run_ranks: RunRanks) -> None:
    assert [result.returncode for result in run_ranks(SLOW, 2)] == [0, 0]


FAILING = """
from torchpipe.errors import DataError
from torchpipe.training import Ranks

with Ranks() as ranks:
    if ranks.rank == 1:
        raise DataError("Row 7 can't be read.")
    ranks.join()
"""


def test_a_rank_that_fails_before_training_is_not_waited_for(run_ranks: RunRanks) -> None:
    first, second = run_ranks(FAILING, 2)
    assert (first.returncode, second.returncode) == (1, 1)
    assert "DistributedError: Rank 1 ended with an error before training. Its output says why." in first.stderr
    assert "Row 7 can't be read." in second.stderr


def test_one_process_needs_no_group() -> None:
    model = nn.Linear(2, 1)
    with Ranks("cpu") as ranks:
        ranks.join()
        assert (ranks.rank, ranks.world_size, ranks.is_first) == (0, 1, True)
        ranks.share(model)
        ranks.sum_gradients(model)
        ranks.agree({"step": 1})
        assert ranks.sum(1, 2.5) == [1, 2.5]
    assert model.weight.grad is None


@pytest.mark.parametrize(
    ("device", "sentence"),
    [
        ("mps", "2 processes were started, which train on cpu or cuda, not on mps"),
        ("cuda:1", "2 processes were started, and cuda:1 is one device. With cuda each has its own"),
    ],
)
def test_several_processes_need_a_device_each(monkeypatch: pytest.MonkeyPatch, device: str, sentence: str) -> None:
    monkeypatch.setenv("WORLD_SIZE", "2")
    with pytest.raises(ConfigError, match=sentence):
        Ranks(device)


CHOOSING = """
from torchpipe.training import Ranks

with Ranks() as ranks:
    chosen = ranks.of_first("seed", lambda: 40 + ranks.rank)
    ranks.join()
    assert ranks.sum(float(chosen)) == [80.0]
"""


def test_what_rank_0_chooses_is_known_to_all_before_they_join(run_ranks: RunRanks) -> None:
    assert [rank.returncode for rank in run_ranks(CHOOSING, 2)] == [0, 0]
