"""Several ranks in processes of their own."""

import os
import socket
import subprocess
import sys
from collections.abc import Callable

import pytest


@pytest.fixture
def run_ranks() -> Callable[..., list[subprocess.CompletedProcess[str]]]:
    """Function (code, world_size) -> what each rank's process came to; rank 0 first."""

    def run(code: str, world_size: int) -> list[subprocess.CompletedProcess[str]]:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        meet = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "WORLD_SIZE": str(world_size)}
        processes = [
            subprocess.Popen(
                [sys.executable, "-c", code],
                env={**os.environ, **meet, "RANK": str(rank)},
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            )
            for rank in range(world_size)
        ]
        outputs = [process.communicate(timeout=120) for process in processes]
        return [
            subprocess.CompletedProcess(process.args, process.returncode, out, err)
            for process, (out, err) in zip(processes, outputs, strict=True)
        ]

    return run
