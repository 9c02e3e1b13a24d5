"""Two hosts, each a network namespace of its own, that torchrun makes one run of. Needs Linux, root and `ip`."""

import json
import os
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from numbered_graphs import labels_of

SCRIPT = Path(__file__).with_name("ranks_of_graphs.py")
ADDRESSES = ("10.213.71.1", "10.213.71.2")


def ip(*words: str) -> None:
    """Runs ``ip``; where that can't be, the test fails, for there is nothing else that shows what it is to show."""
    if shutil.which("ip") is None:
        pytest.fail("There is no program ip, which makes network namespaces. Install iproute2.")
    done = subprocess.run(["ip", *words], capture_output=True, text=True)
    if done.returncode:
        pytest.fail(f"ip {' '.join(words)} failed: {done.stderr.strip()}. It needs root and Linux.")


@pytest.fixture
def hosts() -> Iterator[tuple[str, str]]:
    """The names of two namespaces with a cable between them, of the addresses above."""
    names = (f"tp{os.getpid()}a", f"tp{os.getpid()}b")
    try:
        for name in names:
            ip("netns", "add", name)
        ip("link", "add", "cable", "netns", names[0], "type", "veth", "peer", "name", "cable", "netns", names[1])
        for name, address in zip(names, ADDRESSES, strict=True):
            for words in (
                ("addr", "add", f"{address}/24", "dev", "cable"),
                ("link", "set", "cable", "up"),
                ("link", "set", "lo", "up"),
            ):
                ip("-n", name, *words)
        yield names
    finally:
        for name in names:
            subprocess.run(["ip", "netns", "del", name], capture_output=True)


@pytest.mark.soak
def test_two_hosts_give_each_row_once_and_end_at_the_same_batch(hosts: tuple[str, str], tmp_path: Path) -> None:
    processes = []
    for number, name in enumerate(hosts):
        folder = tmp_path / name  # hosts share no disk
        folder.mkdir()
        launcher = ["--nnodes", "2", "--node_rank", str(number), "--nproc_per_node", "2"]
        launcher += ["--master_addr", ADDRESSES[0], "--master_port", "29511"]
        command = [sys.executable, "-m", "torch.distributed.run", *launcher, str(SCRIPT), str(folder)]
        processes.append(
            subprocess.Popen(
                ["ip", "netns", "exec", name, *command, "finite", "one_store", "failing"],
                env={**os.environ, "GLOO_SOCKET_IFNAME": "cable", "TP_SOCKET_IFNAME": "cable"},
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
            )
        )
    outputs = [process.communicate(timeout=300)[0] for process in processes]
    assert [process.returncode for process in processes] == [0, 0], outputs

    def found(check: str) -> list:
        folders = [tmp_path / hosts[rank // 2] for rank in range(4)]
        return [json.loads((folders[rank] / f"{check}.4.{rank}.json").read_text()) for rank in range(4)]

    passes = {name: [of_rank[name] for of_rank in found("finite")] for name in found("finite")[0]}
    for name, by_rank in {**passes, "planned": found("one_store")}.items():
        assert len({len(batches) for batches in by_rank}) == 1, name
        given = Counter(token for batches in by_rank for batch in batches for token in batch)
        if not name.startswith("random"):  # whose rows are cropped
            assert given == labels_of(103 if name == "planned" else 1 if name.startswith("fewer") else 33), name
    said = [sentence.split(":")[0] for _, *sentences, _ in found("failing") for sentence in sentences]
    assert said == ["DistributedError"] * 3 + ["ValueError"] * 3 + ["DistributedError"] * 6
