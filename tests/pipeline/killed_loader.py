"""A loader that is killed again and again: python killed_loader.py FOLDER WAY NUM_KILLS NUM_BATCHES.

Each try is a process of its own, forked here from one that has imported all but has no threads. It builds the loaders
of some ranks, goes on from the state that was saved last, and writes a line for each batch of the run to ``log``: its
number and the digest of its tensors. Every third turn of the ranks it saves the state. The parent kills it when it has
written some lines more, or while the store is built; the next one may have another number of ranks and workers.

Every fourth kill a new run is begun, with no state and no store. ``undisturbed`` is the log of one that is not killed.
"""

import json
import os
import random
import signal
import sys
import time
import traceback
import warnings
from pathlib import Path
from typing import Any

from numbered_graphs import digest, loader_of, part_full, write_whole

from torchpipe.pipeline import merged_states

SAVE_EVERY = 3
KILLS_A_RUN = 4


def read(folder: Path, way: str, num_batches: int, *, world_size: int, seconds: float, **options: Any) -> None:
    """The batches until so many of the run were read, from the state in the folder on."""
    file = folder / "state.json"
    saved = json.loads(file.read_text()) if file.exists() else {"given": 0, "state": {}}
    graph = part_full(seconds=seconds)[way]
    ranks = [
        loader_of(graph, str(folder / "cache"), rank=rank, world_size=world_size, num_logical_shards=4, **options)
        for rank in range(world_size)
    ]
    for one in ranks:
        one.load_state_dict(saved["state"])
    given, each = saved["given"], [iter(one) for one in ranks]
    with (folder / "log").open("ab", buffering=0) as log:
        turn = 0
        while given < num_batches:
            for batches in each:
                log.write(f"{given} {digest(next(batches))}\n".encode())
                os.fsync(log.fileno())
                given += 1
            turn += 1
            if turn % SAVE_EVERY == 0:
                state = merged_states([one.state_dict() for one in ranks])
                write_whole(file, json.dumps({"given": given, "state": state}))
    for one in ranks:
        one.close()


def started(folder: Path, way: str, num_batches: int, **options: Any) -> int:
    """The id of a new process that reads."""
    folder.mkdir(parents=True, exist_ok=True)
    process = os.fork()
    if process:
        return process
    status = 1
    try:
        os.dup2(os.open(folder / "out", os.O_WRONLY | os.O_CREAT | os.O_APPEND), 2)
        warnings.filterwarnings("ignore", "This DataLoader will create")
        read(folder, way, num_batches, **options)
        status = 0
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(status)


def lines_in(folder: Path) -> int:
    log = folder / "log"
    return log.read_bytes().count(b"\n") if log.exists() else 0


def ended(process: int) -> int | None:
    """Minus the signal, or the exit status, of a process; None while it runs."""
    found, status = os.waitpid(process, os.WNOHANG)
    return os.waitstatus_to_exitcode(status) if found else None


def killed(folder: Path, way: str, num_batches: int, moments: random.Random) -> bool:
    """Starts a process and kills it; whether it was still running then."""
    how = {"world_size": moments.choice([1, 2, 3, 4]), "num_workers": moments.choice([0, 0, 1, 2])}
    process = started(
        folder,
        way,
        num_batches,
        **how,
        num_prefetch_batches=moments.choice([0, 2]),
        num_proc=moments.choice([1, 2]),
        seconds=0.005,
    )
    is_first = not lines_in(folder)
    in_build = is_first and moments.random() < 0.5
    wanted = 0 if in_build else lines_in(folder) + moments.randint(1, num_batches // KILLS_A_RUN)
    status = None
    while status is None and lines_in(folder) < wanted:
        time.sleep(0.002)
        status = ended(process)
    if status is None:
        time.sleep(moments.random() * (0.8 if in_build else 0.02))
        os.kill(process, signal.SIGKILL)
        status = os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])
    if status > 0:
        sys.exit((folder / "out").read_text())
    return status == -signal.SIGKILL


def main() -> None:
    top, way, num_kills, num_batches = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
    options = {"world_size": 1, "seconds": 0.0}
    os.waitpid(started(top / "undisturbed", way, num_batches, **options), 0)
    moments = random.Random(f"{way} {num_kills}")
    done, tries, before_a_batch = 0, 0, 0
    while done < num_kills and tries < 2 * num_kills + 4:
        folder = top / f"run{done // KILLS_A_RUN:03d}"
        if killed(folder, way, num_batches, moments):
            done += 1
            before_a_batch += not lines_in(folder) and any(folder.glob("cache/store/*"))
        tries += 1
    for folder in sorted(top.glob("run*")):
        if os.waitpid(started(folder, way, num_batches, world_size=3, seconds=0.0), 0)[1]:
            sys.exit((folder / "out").read_text())
    print(json.dumps({"kills": done, "of store builds": before_a_batch}))


if __name__ == "__main__":
    main()
