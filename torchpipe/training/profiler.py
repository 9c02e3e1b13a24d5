"""Traces of a few steps by torch's profiler, as a config asks for them."""

import time
import warnings
from functools import partial
from pathlib import Path
from typing import Any

import torch
from omegaconf import DictConfig
from torch._C._profiler import _ExperimentalConfig
from torch.profiler import ProfilerActivity, profile, schedule, supported_activities, tensorboard_trace_handler

from torchpipe.errors import ConfigError
from torchpipe.training.rank import get_world_size_and_rank

DEFAULT_SCHEDULE: dict[str, int] = {"wait_steps": 5, "warmup_steps": 5, "active_steps": 2, "num_cycles": 1}
DEFAULT_PROFILE_DIR = "profiler_output"
_NUM_ROWS = 25
"""Operations in the table of the slowest."""


class DummyProfiler:
    """What is used as a profiler and does nothing.

    >>> with DummyProfiler() as profiler:
    ...     profiler.step()
    """

    def __enter__(self) -> "DummyProfiler":
        return self

    def __exit__(self, *error: object) -> None:
        self.stop()

    def start(self) -> None:
        """Does nothing."""

    def stop(self) -> None:
        """Does nothing."""

    def step(self) -> None:
        """Does nothing."""


def setup_torch_profiler(
    enabled: bool = False,
    cpu: bool = True,
    cuda: bool = True,
    xpu: bool = True,
    profile_memory: bool = False,
    with_stack: bool = False,
    record_shapes: bool = True,
    with_flops: bool = False,
    wait_steps: int | None = None,
    warmup_steps: int | None = None,
    active_steps: int | None = None,
    num_cycles: int | None = None,
    output_dir: str | Path | None = None,
) -> tuple[profile | DummyProfiler, DictConfig]:
    """A profiler and its settings as they are used; a :class:`DummyProfiler` unless ``enabled``.

    The profiler is a context manager whose ``step()`` is called after each optimizer step. It waits ``wait_steps``
    steps, runs ``warmup_steps`` without keeping anything, and records ``active_steps``; all of that ``num_cycles``
    times. Each time it writes a folder ``output_dir/iteration_<step>`` with, for each rank, a trace for TensorBoard,
    Perfetto or chrome://tracing, a table of the operations that took longest, the stacks where ``with_stack``, and on
    cuda a snapshot of the memory where ``profile_memory``.

    Args:
        enabled: False records nothing.
        cpu, cuda, xpu: what is recorded, of those that torch finds here; none of them: all.
        profile_memory: records allocations too. Needs ``with_stack`` and ``record_shapes``, which it turns on.
        with_stack: records where in the code an operation was called.
        record_shapes: records the shapes of its inputs.
        with_flops: estimates its floating-point operations.
        wait_steps, warmup_steps, active_steps, num_cycles: None: 5, 5, 2 and 1; 0 cycles go on until the end.
        output_dir: None: ``profiler_output``.

    Warns:
        UserWarning: what was left out or had to be changed, on rank 0.

    Raises:
        ConfigError: a number of steps is not possible.

    >>> profiler, config = setup_torch_profiler(enabled=False)
    >>> type(profiler).__name__, dict(config)
    ('DummyProfiler', {'enabled': False})
    """
    if not enabled:
        return DummyProfiler(), DictConfig({"enabled": False})
    if not (cpu or cuda or xpu):
        _warn("The profiler is given no activity, and records all that torch finds: cpu, cuda and xpu.")
        cpu = cuda = xpu = True
    wanted = {ProfilerActivity.CPU: cpu, ProfilerActivity.CUDA: cuda, ProfilerActivity.XPU: xpu}
    activities = [activity for activity in supported_activities() if wanted.get(activity)]
    if not activities:
        names = " and ".join(name for name, asked in (("cuda", cuda), ("xpu", xpu)) if asked)
        raise ConfigError(f"The profiler is to record {names} alone, which torch does not find here. Set cpu=true.")
    steps = _steps(
        {
            "wait_steps": wait_steps,
            "warmup_steps": warmup_steps,
            "active_steps": active_steps,
            "num_cycles": num_cycles,
        }
    )
    if profile_memory and not (with_stack and record_shapes):
        _warn("profile_memory needs with_stack and record_shapes: they are turned on.")
        with_stack = record_shapes = True
    if output_dir is None:
        _warn(f"The profiler is given no output_dir, and writes to {DEFAULT_PROFILE_DIR}.")
    folder = Path(output_dir or DEFAULT_PROFILE_DIR)
    folder.mkdir(parents=True, exist_ok=True)
    options: dict[str, Any] = {
        "profile_memory": profile_memory,
        "with_stack": with_stack,
        "record_shapes": record_shapes,
        "with_flops": with_flops,
    }
    profiler = _CycleByCycle(
        activities=activities,
        schedule=schedule(
            wait=steps["wait_steps"],
            warmup=steps["warmup_steps"],
            active=steps["active_steps"],
            repeat=steps["num_cycles"],
        ),
        # Without this no stack is written (https://github.com/pytorch/pytorch/issues/100253).
        experimental_config=_ExperimentalConfig(verbose=True) if with_stack else None,
        on_trace_ready=partial(_write, folder=folder),
        **options,
    )
    used = {"enabled": True, "output_dir": str(folder), "cpu": cpu, "cuda": cuda, "xpu": xpu, **options, **steps}
    return profiler, DictConfig(used)


class _CycleByCycle(profile):
    """Torch's profiler, which drops a cycle's events where the next begins: they are written by then.

    Torch warns of the drop; where warnings are errors, that ends the process by a segmentation fault.
    """

    def prepare_trace(self) -> None:
        """Begins a cycle."""
        self.profiler = None
        super().prepare_trace()


def _steps(given: dict[str, int | None]) -> dict[str, int]:
    """The numbers of steps, with the defaults for those that are None."""
    steps = {name: DEFAULT_SCHEDULE[name] if value is None else value for name, value in given.items()}
    missing = [f"{name}={steps[name]}" for name, value in given.items() if value is None]
    if missing:
        _warn(f"The profiler's schedule is not complete, and takes {', '.join(missing)}.")
    for name, value in steps.items():
        least = 1 if name == "active_steps" else 0
        if type(value) is not int or value < least:
            raise ConfigError(f"The profiler's {name} is {value!r}. Give a whole number, {least} or more.")
    return steps


def _write(profiler: Any, *, folder: Path) -> None:
    """Writes what one cycle recorded."""
    rank = get_world_size_and_rank()[1]
    here = folder / f"iteration_{profiler.step_num}"
    here.mkdir(exist_ok=True)
    tensorboard_trace_handler(str(here), worker_name=f"r{rank}-{time.strftime('%Y-%m-%d-%H-%M')}", use_gzip=True)(
        profiler
    )
    metric = "self_cpu_time_total"
    if any(activity != ProfilerActivity.CPU for activity in profiler.activities):
        metric = "self_device_time_total"
    if profiler.with_stack:
        profiler.export_stacks(str(here / f"rank{rank}_stacks.txt"), metric=metric)
    averages = profiler.key_averages(group_by_input_shape=profiler.record_shapes, group_by_stack_n=5)
    table = averages.table(sort_by=metric, row_limit=_NUM_ROWS)
    (here / f"rank{rank}_key_averages.txt").write_text(table + "\n", encoding="utf-8")
    if profiler.profile_memory and torch.cuda.is_available():
        torch.cuda.memory._dump_snapshot(str(here / f"rank{rank}_memory_snapshot.pickle"))


def _warn(sentence: str) -> None:
    if get_world_size_and_rank()[1] == 0:
        warnings.warn(sentence, stacklevel=3)
