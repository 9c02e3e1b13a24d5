"""What figures were measured on."""

import importlib.metadata
import os
import platform
from pathlib import Path

from peers import REQUIREMENTS, requirements


def machine() -> str:
    """What the figures were measured on."""
    cpu = platform.processor() or platform.machine()
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        names = [
            line.split(":", 1)[1].strip() for line in cpuinfo.read_text().splitlines() if line.startswith("model name")
        ]
        cpu = names[0] if names else cpu
    names = ("torch", "tiktoken", "sentencepiece", "tokenizers", "datasets", "grain")
    versions = ", ".join(f"{name} {importlib.metadata.version(name)}" for name in names)
    peers = ", ".join(dict.fromkeys(line for peer in REQUIREMENTS for line in requirements(peer)))
    return (
        f"{os.cpu_count()} x {cpu}, {platform.system()} {platform.machine()}; Python {platform.python_version()}, "
        f"{versions}, against {peers}; 1 thread; load average at the start {os.getloadavg()[0]:.1f}"
    )
