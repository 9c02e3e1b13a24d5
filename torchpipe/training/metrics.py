"""What a run tells while it trains: a bar or lines for the person, a JSON line a step for the file."""

import json
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn


class TrainingLog:
    """A context manager that reports optimizer steps.

    On a terminal it draws one progress bar; elsewhere it prints a line every ``every`` steps. Each step is one JSON
    line in ``path``, which is appended to.

    Args:
        path: the JSON lines file.
        num_steps: steps of the whole run; done_steps: those that an earlier process did.
        every: steps between printed lines, where there is no terminal.
    """

    def __init__(self, path: Path, *, num_steps: int, done_steps: int, every: int) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self._file = path.open("a", encoding="utf-8")
        self._num_steps = num_steps
        self._every = max(1, every)
        self._trained_tokens = 0
        self._clock = time.perf_counter()
        self._bar = Progress(
            TextColumn("training"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.fields[numbers]}"),
            TimeRemainingColumn(),
            console=Console(stderr=True),
            disable=not sys.stderr.isatty(),
        )
        self._task = self._bar.add_task("training", total=num_steps, completed=done_steps, numbers="")

    def __enter__(self) -> "TrainingLog":
        self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._bar.stop()
        self._file.close()

    def step(self, step: int, *, loss: float, tokens: int, trained_tokens: int) -> None:
        """Reports one optimizer step.

        Args:
            step: counted from 1.
            loss: per trained token.
            tokens: positions in the step's batches, padding included; trained_tokens: those with a label.
        """
        now = time.perf_counter()
        seconds, self._clock = now - self._clock, now
        self._trained_tokens += trained_tokens
        rate = tokens / max(seconds, 1e-9)
        self.write({"step": step, "loss": loss, "tokens_per_second": round(rate), "trained_tokens": trained_tokens})
        numbers = f"loss {loss:.3f}  {rate:,.0f} tokens/s  {self._trained_tokens:,} trained tokens"
        self._bar.update(self._task, completed=step, numbers=numbers)
        if self._bar.disable and (step % self._every == 0 or step == self._num_steps):
            print(f"step {step}/{self._num_steps}  {numbers}", flush=True)

    def say(self, text: str) -> None:
        """Prints a line above the bar, never wrapped."""
        self._bar.console.print(text, soft_wrap=True, markup=False, highlight=False) if not self._bar.disable else print(
            text, flush=True
        )

    def write(self, record: Mapping[str, Any]) -> None:
        """Appends one JSON line to the file."""
        self._file.write(json.dumps(record) + "\n")
        self._file.flush()

    def restart_clock(self) -> None:
        """Leaves what was done since the last step (validation, saving) out of the next step's rate."""
        self._clock = time.perf_counter()
