"""What a run tells while it trains: a bar or lines for the person, a JSON line a step for the file."""

import json
import sys
import time
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any

from filelock import FileLock, Timeout
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from torchpipe.errors import CheckpointError


class TrainingLog:
    """A context manager that reports optimizer steps.

    On a terminal it draws one progress bar; elsewhere it prints a line every ``every`` steps. Each step is one JSON
    line in ``path``.

    Args:
        path: the JSON lines file. Lines of steps up to ``done_steps`` are kept, later ones are written anew.
        num_steps: steps of the whole run, None while that isn't known (see :meth:`expect`); done_steps: those that an
            earlier process did and saved.
        every: steps between printed lines, where there is no terminal, and between those of ``metric_logger``.
        silent: report nothing and touch no file, for ranks beside the first.
        metric_logger: makes a logger (see :mod:`torchpipe.training.metric_logging`), or None; called on entering.
        config: what is given to the logger's ``log_config``.

    Raises (on entering):
        CheckpointError: another process has the file open.
    """

    def __init__(
        self,
        path: Path,
        *,
        num_steps: int | None,
        done_steps: int,
        every: int,
        silent: bool = False,
        metric_logger: Callable[[], Any] = lambda: None,
        config: Any = None,
    ) -> None:
        self._silent = silent
        if not silent:
            path.parent.mkdir(parents=True, exist_ok=True)
        self._lock = FileLock(path.with_suffix(".lock"))
        self._path, self._done_steps = path, done_steps
        self._num_steps = num_steps
        self._every = max(1, every)
        self._make_logger, self._config, self._logger = metric_logger, config, None
        self._trained_tokens = 0
        self._clock = time.perf_counter()
        self._bar = Progress(
            TextColumn("training"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.fields[numbers]}"),
            TimeRemainingColumn(),
            console=Console(stderr=True),
            disable=silent or not sys.stderr.isatty(),
        )
        self._task = self._bar.add_task("training", total=num_steps, completed=done_steps, numbers="")

    def __enter__(self) -> "TrainingLog":
        if self._silent:
            return self
        try:
            self._lock.acquire(timeout=0)
        except Timeout:
            raise CheckpointError(
                f"Another run is writing to {self._path.parent}. Wait for it to end, or give another output_dir."
            ) from None
        kept = _lines_up_to(self._path, self._done_steps)
        rewritten = self._path.with_suffix(".tmp")
        rewritten.write_text("".join(kept), encoding="utf-8")
        rewritten.replace(self._path)
        self._logger = self._make_logger()
        if self._logger is not None:
            self._logger.log_config(self._config)
        self._file = self._path.open("a", encoding="utf-8")
        self._clock = time.perf_counter()
        self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._silent:
            return
        self._bar.stop()
        self._file.close()
        if self._logger is not None:
            self._logger.close()
        self._lock.release()
        if kind is KeyboardInterrupt:
            print("interrupted: resume=true goes on from the newest checkpoint", file=sys.stderr, flush=True)

    def expect(self, num_steps: int) -> None:
        """Takes the number of steps of the whole run, once it is known."""
        self._num_steps = num_steps
        self._bar.update(self._task, total=num_steps)

    def step(
        self, step: int, *, loss: float, tokens: int, trained_tokens: int, more: Mapping[str, float] | None = None
    ) -> None:
        """Reports one optimizer step.

        Args:
            step: counted from 1.
            loss: per trained token.
            tokens: positions in the step's batches, padding included; trained_tokens: those with a label.
            more: other numbers by name.
        """
        if self._silent:
            return
        now = time.perf_counter()
        seconds, self._clock = now - self._clock, now
        self._trained_tokens += trained_tokens
        rate = tokens / max(seconds, 1e-9)
        measured = {"loss": loss, **(more or {}), "tokens_per_second": round(rate), "trained_tokens": trained_tokens}
        self._write({"step": step, **measured})
        if self._logger is not None and step % self._every == 0:
            self._logger.log_dict(measured, step=step)
        numbers = f"loss {loss:.3f}  {rate:,.0f} tokens/s  {self._trained_tokens:,} trained tokens so far"
        self._bar.update(self._task, completed=step, numbers=numbers)
        if self._bar.disable and (step % self._every == 0 or step == self._num_steps):
            print(f"{self._place(step)}  {numbers}", flush=True)

    def validation(
        self, step: int, *, loss: float | Mapping[str, float], more: Mapping[str, float] | None = None
    ) -> None:
        """Reports the loss over the held-out rows after a step. Its time does not count in the next step's rate.

        Args:
            step: counted from 1.
            loss: over all of them; or by name, see :func:`~torchpipe.training.held_out_losses`.
            more: other numbers over them by name; in the log their names begin with ``held_out_``.
        """
        if self._silent:
            return
        parts = dict(loss) if isinstance(loss, Mapping) else {"held-out": loss}
        measured = {"held_out_loss": parts.pop("held-out")}
        measured |= {f"held_out_{name}": value for name, value in (more or {}).items()}
        self._write({"step": step, **measured} | ({"held_out_losses": parts} if parts else {}))
        if self._logger is not None:
            self._logger.log_dict({**measured, **{f"{part} loss": one for part, one in parts.items()}}, step=step)
        numbers = "".join(f", {name} {part:.3f}" for name, part in parts.items())
        numbers += "".join(f"  {name.replace('_', ' ')} {value:.3f}" for name, value in (more or {}).items())
        text = f"{self._place(step)}  held-out loss {measured['held_out_loss']:.3f}{numbers}"
        if self._bar.disable:
            print(text, flush=True)
        else:
            self._bar.console.print(text, soft_wrap=True, markup=False, highlight=False)
        self._clock = time.perf_counter()

    def _place(self, step: int) -> str:
        return f"step {step}/{'?' if self._num_steps is None else self._num_steps}"

    def _write(self, record: Mapping[str, Any]) -> None:
        self._file.write(json.dumps(record) + "\n")
        self._file.flush()


def _lines_up_to(path: Path, step: int) -> list[str]:
    """The file's lines of steps up to ``step``. A last line that a kill cut short is left out."""
    if step == 0 or not path.exists():
        return []
    lines = path.read_text(encoding="utf-8", errors="replace").splitlines(keepends=True)
    steps = [_step_of(line) for line in lines]
    if num_damaged := steps[:-1].count(None):  # the last line may have been cut by a kill
        warnings.warn(f"{path}: {num_damaged} damaged lines are left out", stacklevel=3)
    return [line for line, at in zip(lines, steps, strict=True) if at is not None and at <= step]


def _step_of(line: str) -> int | None:
    try:
        return int(json.loads(line)["step"]) if line.endswith("\n") else None
    except (ValueError, KeyError, TypeError):
        return None
