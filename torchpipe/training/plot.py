"""The losses of runs as a picture."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from torchpipe._optional import import_optional
from torchpipe.errors import ConfigError

_MANY_STEPS = 200
"""Beyond so many steps a line is drawn through means too, for single steps hide it."""


def read_losses(log: str | Path) -> dict[str, list[tuple[int, float]]]:
    """The points (step, loss) of a run's ``log.jsonl``, under ``loss`` and ``held_out_loss``.

    A last line that is not complete, of a run that still writes, is left out.

    Raises:
        ConfigError: there is no such file, no loss in it, or a line that is none of a log.
    """
    path = Path(log)
    if path.is_dir():
        path /= "log.jsonl"
    if not path.is_file():
        raise ConfigError(f"{path} is not there. Give a run's log.jsonl, or its output_dir.")
    points: dict[str, list[tuple[int, float]]] = {"loss": [], "held_out_loss": []}
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(keepends=True), start=1):
        if not line.endswith("\n"):
            break
        try:
            record = json.loads(line)
            for name, found in points.items():
                if name in record:
                    found.append((int(record["step"]), float(record[name])))
        except (ValueError, KeyError, TypeError):
            raise ConfigError(f"{path}, line {number}: it is no line of a training log.") from None
    if not any(points.values()):
        raise ConfigError(f"{path} holds no loss yet. Plot it once a step is done.")
    return points


def plot_losses(logs: str | Path | Sequence[str | Path] | Mapping[str, str | Path], out: str | Path) -> Path:
    """Draws the losses of one run or several over their steps, and returns the picture's path.

    Each run has a colour: its training loss is a line (thin, with a line of means over it, where there are many steps),
    its held-out loss a line with dots.

    Args:
        logs: the ``log.jsonl`` of a run, or its folder; several of them; or several by name. A name is the folder's
            unless it is given.
        out: the picture; its ending says of what kind it is: ``.png``, ``.svg`` or ``.pdf``.

    Raises:
        MissingLibraryError: matplotlib is not installed.
        ConfigError: a log can't be read, there is none, or the ending is of no picture.
    """
    figure_module = require_plot()
    runs = {name: read_losses(log) for name, log in _named(logs).items()}
    if not runs:
        raise ConfigError("There is no log to plot. Give one log.jsonl at least.")
    out = Path(out)
    figure = figure_module.Figure(figsize=(8, 5), layout="constrained")  # no pyplot: it needs no display and no state
    kinds = figure.canvas.get_supported_filetypes()
    if out.suffix.removeprefix(".").lower() not in kinds:
        raise ConfigError(f"{out} is no name of a picture: its ending is one of {', '.join(sorted(kinds))}.")
    axes = figure.subplots()
    for number, (name, points) in enumerate(runs.items()):
        _draw(axes, f"C{number % 10}", name if len(runs) > 1 else "", points)
    axes.set_xlabel("step")
    axes.set_ylabel("loss per trained token")
    axes.grid(alpha=0.3)
    axes.legend()
    out.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(out, dpi=120)
    return out


def require_plot() -> Any:
    """The module that draws, for a run that wants to know before it trains whether its losses can be plotted.

    Raises:
        MissingLibraryError: matplotlib is not installed.
    """
    return import_optional("matplotlib.figure", needed_by="A plot", install="'torchpipe-data[plot]'")


def _draw(axes: Any, color: str, name: str, points: Mapping[str, Sequence[tuple[int, float]]]) -> None:
    """One run."""
    training, held_out = points["loss"], points["held_out_loss"]
    prefix = f"{name}: " if name else ""
    if training:
        steps, losses = zip(*training, strict=True)
        is_long = len(training) > _MANY_STEPS
        axes.plot(steps, losses, color=color, label=f"{prefix}training", linewidth=0.6 if is_long else 1.5,
                  alpha=0.4 if is_long else 1.0)  # fmt: skip
        if is_long:
            axes.plot(steps, _running_means(losses), color=color, linewidth=1.8)
    if held_out:
        steps, losses = zip(*held_out, strict=True)
        axes.plot(steps, losses, color=color, label=f"{prefix}held-out", linestyle="--", marker="o")


def _running_means(losses: Sequence[float]) -> list[float]:
    """For each step the mean of it and those before, of a fiftieth of the run."""
    window = max(1, len(losses) // 50)
    means: list[float] = []
    for end in range(1, len(losses) + 1):
        part = losses[max(0, end - window) : end]
        means.append(sum(part) / len(part))
    return means


def _named(logs: str | Path | Sequence[str | Path] | Mapping[str, str | Path]) -> dict[str, Path]:
    """The logs by name; two of one name have their paths as names."""
    if isinstance(logs, Mapping):
        return {str(name): Path(log) for name, log in logs.items()}
    paths = [Path(logs)] if isinstance(logs, str | Path) else [Path(log) for log in logs]
    names = [(path if path.suffix != ".jsonl" else path.parent).resolve().name for path in paths]
    is_clear = len(set(names)) == len(names)
    return dict(zip(names if is_clear else map(str, paths), paths, strict=True))
