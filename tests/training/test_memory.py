import subprocess
import sys

import pytest
import torch

from torchpipe.training import cleanup_before_training, get_memory_stats, log_memory_stats


def test_the_cpu_tells_the_most_memory_of_the_process() -> None:
    before = get_memory_stats(torch.device("cpu"))
    held = torch.ones(32 * 2**20)  # 128 MiB, above what other tests may have left
    after = get_memory_stats(torch.device("cpu"))
    assert list(after) == ["peak_memory_rss"]
    assert held.nbytes / 2**30 <= after["peak_memory_rss"] < 1000
    assert after["peak_memory_rss"] >= before["peak_memory_rss"]


def test_the_memory_of_the_process_that_started_this_one_does_not_count() -> None:
    held = torch.ones(256 * 2**20)  # 1 GiB
    code = (
        "import torch; from torchpipe.training.memory import get_memory_stats;"
        "print(get_memory_stats(torch.device('cpu'))['peak_memory_rss'])"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert float(result.stdout) < held.nbytes / 2**30


def test_a_device_that_counts_no_memory_has_no_numbers_and_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    assert get_memory_stats(torch.device("meta")) == {}
    log_memory_stats({})
    assert capsys.readouterr().out == "Memory stats after model init:\n  this device does not count its memory\n"


def test_each_number_has_a_line(capsys: pytest.CaptureFixture[str]) -> None:
    stats = {"peak_memory_active": 1.0, "peak_memory_alloc": 2.0, "peak_memory_reserved": 3.126}
    log_memory_stats(stats, message="Step 5:")
    assert capsys.readouterr().out.splitlines() == [
        "Step 5:",
        "  peak memory in use: 1.00 GiB",
        "  peak memory allocated: 2.00 GiB",
        "  peak memory reserved: 3.13 GiB",
    ]


def test_cleaning_up_needs_no_accelerator() -> None:
    cleanup_before_training()
