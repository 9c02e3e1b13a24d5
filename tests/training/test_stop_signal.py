"""SIGTERM is a wish inside the context and what it was outside."""

import os
import signal
import threading

from torchpipe.training import StopSignal


def test_sigterm_is_noted_and_the_handler_put_back() -> None:
    before = signal.getsignal(signal.SIGTERM)
    with StopSignal() as stop:
        assert not stop.asked
        os.kill(os.getpid(), signal.SIGTERM)
        os.kill(os.getpid(), signal.SIGTERM)  # a launcher may send it twice
        assert stop.asked
    assert signal.getsignal(signal.SIGTERM) is before


def test_outside_the_main_thread_nothing_changes() -> None:
    before = signal.getsignal(signal.SIGTERM)
    handlers = []

    def use() -> None:
        with StopSignal():
            handlers.append(signal.getsignal(signal.SIGTERM))

    thread = threading.Thread(target=use)
    thread.start()
    thread.join()
    assert handlers == [before]
