"""What finding the lines of a JSONL file costs, in a process of its own.

    python jsonl_index.py write FILE BYTES SOURCE    rows of SOURCE, again and again, until there are so many bytes
    python jsonl_index.py read FILE                  reads the file into one buffer of a MiB
    python jsonl_index.py index FILE CACHE           finds its lines, opens the index again, and reads rows

Files are in the system's page cache before they are read. Prints one JSON object.
"""

import json
import shutil
import sys
import tempfile
import time
from pathlib import Path

_BUFFER = 2**20
_NUM_ROWS = 20_000


def write(file: str, num_bytes: str, source: str) -> dict[str, int]:
    """Writes whole copies of a file, at least so many bytes."""
    content = Path(source).read_bytes()
    content += b"" if content.endswith(b"\n") else b"\n"
    copies = 1 + int(num_bytes) // len(content)
    with open(file, "wb") as out:
        for _ in range(copies):
            out.write(content)
    return {"bytes": copies * len(content)}


def read(file: str) -> dict[str, float]:
    """Seconds of ``readinto`` until the file's end."""
    buffer = bytearray(_BUFFER)

    def once() -> float:
        start = time.perf_counter()
        with open(file, "rb", buffering=0) as opened:
            while opened.readinto(buffer):
                pass
        return time.perf_counter() - start

    once()
    return {"seconds": once(), "bytes": Path(file).stat().st_size}


def index(file: str, cache: str) -> dict[str, float]:
    """Seconds of finding the lines and of opening the index again, and anonymous memory that rows of it add."""
    from torchpipe.pipeline import IndexedJsonlSource

    read(file)
    config = IndexedJsonlSource.Config(patterns=(file,), cache_dir=tempfile.mkdtemp(dir=cache))
    start = time.perf_counter()
    config.build()
    seconds = time.perf_counter() - start
    before = _anonymous()
    start = time.perf_counter()
    source = config.build()
    source[len(source) // 2]
    again = time.perf_counter() - start
    step = max(1, len(source) // _NUM_ROWS)
    for row in range(0, len(source), step):
        source[row]
    added = _anonymous() - before
    assert config.cache_dir is not None
    shutil.rmtree(config.cache_dir)
    return {"seconds": seconds, "again": again, "rows": len(source), "added": added}


def _anonymous() -> int:
    """Bytes of this process's own memory."""
    with open("/proc/self/smaps_rollup") as file:
        return 1024 * next(int(line.split()[1]) for line in file if line.startswith("Anonymous:"))


if __name__ == "__main__":
    print(json.dumps({"write": write, "read": read, "index": index}[sys.argv[1]](*sys.argv[2:])))
