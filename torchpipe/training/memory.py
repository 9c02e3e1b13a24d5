"""How much memory a run has used at most."""

import gc
import re
import sys
from collections.abc import Mapping
from pathlib import Path

import torch

_GIB = 2**30
_NAMES = {
    "peak_memory_active": "in use",
    "peak_memory_alloc": "allocated",
    "peak_memory_reserved": "reserved",
    "peak_memory_rss": "of this process",
}


def get_memory_stats(device: torch.device, reset_stats: bool = True) -> dict[str, float]:
    """The most memory that was used, in GiB; empty where nobody counts it.

    On cuda and xpu, of torch's allocator since the last reset: ``peak_memory_active``, ``peak_memory_alloc`` and
    ``peak_memory_reserved``. On the CPU ``peak_memory_rss``: the most memory of this process since it began, without
    the processes that it started; there is none on systems that do not tell.

    Args:
        device: whose memory.
        reset_stats: starts the count anew. The CPU's goes on.

    >>> sorted(get_memory_stats(torch.device("meta")))
    []
    """
    if device.type in ("cuda", "xpu"):
        module = torch.get_device_module(device)
        stats = {
            "peak_memory_active": module.memory_stats(device).get("active_bytes.all.peak", 0) / _GIB,
            "peak_memory_alloc": module.max_memory_allocated(device) / _GIB,
            "peak_memory_reserved": module.max_memory_reserved(device) / _GIB,
        }
        if reset_stats:
            module.reset_peak_memory_stats(device)
        return stats
    peak = _peak_rss() if device.type == "cpu" else None
    return {} if peak is None else {"peak_memory_rss": peak / _GIB}


def _peak_rss() -> int | None:
    """The most bytes of memory that this process has had."""
    status = Path("/proc/self/status")
    if status.is_file():  # on Linux ru_maxrss begins with that of the process that started this one
        found = re.search(r"^VmHWM:\s+(\d+) kB$", status.read_text(encoding="utf-8"), re.MULTILINE)
        return None if found is None else int(found[1]) * 1024
    try:
        import resource
    except ModuleNotFoundError:  # Windows
        return None
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024  # macOS counts bytes, the others KiB


def log_memory_stats(stats: Mapping[str, float], message: str = "Memory stats after model init:") -> None:
    """Prints a message and what :func:`get_memory_stats` found, a line each.

    >>> log_memory_stats({"peak_memory_alloc": 1.5}, "After init:")
    After init:
      peak memory allocated: 1.50 GiB
    """
    lines = [f"  peak memory {_NAMES.get(name, name)}: {value:.2f} GiB" for name, value in stats.items()]
    print("\n".join([message, *(lines or ["  this device does not count its memory"])]), flush=True)


def cleanup_before_training() -> None:
    """Frees what is not needed any more, and starts the counts of memory anew."""
    gc.collect()
    if torch.accelerator.is_available():
        module = torch.get_device_module()
        module.empty_cache()
        if hasattr(module, "reset_peak_memory_stats"):
            module.reset_peak_memory_stats()
