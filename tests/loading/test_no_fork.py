"""A fork and the locks that other threads hold."""

import os
import signal
import threading
from collections.abc import Callable

import pytest

from torchpipe.loading.no_fork import NoFork

TURNS = 40


def forked(work: Callable[[], bool]) -> bool:
    """Whether a new process does its work; it has a minute."""
    process = os.fork()
    if process == 0:
        signal.alarm(60)
        os._exit(0 if work() else 1)
    return os.waitpid(process, 0)[1] == 0


@pytest.mark.usefixtures("threads_take_turns")
def test_threads_that_fork_at_once_wait_for_all_code_within() -> None:
    guards = [NoFork(level=number % 2) for number in range(4)]
    inside, stopped = [False] * len(guards), threading.Event()
    forks: list[bool] = []

    def work(number: int) -> None:
        while not stopped.is_set():
            with guards[number]:
                inside[number] = True
                stopped.wait(0.0003)
                inside[number] = False

    def fork() -> None:
        forks.extend(forked(lambda: not any(inside)) for _ in range(TURNS))

    workers = [threading.Thread(target=work, args=(number,)) for number in range(len(guards))]
    forking = [threading.Thread(target=fork) for _ in range(3)]
    for thread in (*workers, *forking):
        thread.start()
    for thread in forking:
        thread.join()
    stopped.set()
    for thread in workers:
        thread.join()
    assert forks == [True] * (3 * TURNS)


@pytest.mark.parametrize("is_within", [True, False])
def test_a_new_process_does_not_wait_for_threads_that_it_has_not(is_within: bool) -> None:
    mine, others = NoFork(), NoFork()
    is_entered, may_leave = threading.Event(), threading.Event()

    def stay() -> None:
        with others:
            is_entered.set()
            may_leave.wait(60)

    thread = threading.Thread(target=stay)
    thread.start()
    is_entered.wait()
    if is_within:
        with mine:
            process = os.fork()
    else:
        may_leave.set()
        process = os.fork()
    if process == 0:
        signal.alarm(60)
        with mine, others:
            pass
        os._exit(0 if forked(lambda: True) else 1)
    may_leave.set()
    thread.join()
    assert os.waitpid(process, 0)[1] == 0
