"""Wall seconds of a process that shows the first pack of the tiny config, or only imports what data needs.

python explain_time.py explain|imports
"""

import json
import subprocess
import sys
import time
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parent.parent
CHATS = REPOSITORY / "torchpipe" / "assets" / "sample_chats.json"
COMMANDS = {
    "explain": ["-m", "torchpipe.cli.main", "explain", "-n", "1", "configs/tiny/sft.yaml", f"data_file={CHATS}"],
    "imports": ["-c", "import torch, omegaconf, datasets"],
}

start = time.perf_counter()
subprocess.run([sys.executable, *COMMANDS[sys.argv[1]]], cwd=REPOSITORY, stdout=subprocess.DEVNULL, check=True)
print(json.dumps({"seconds": time.perf_counter() - start}))
