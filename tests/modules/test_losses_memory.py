import os
import subprocess
import sys
from pathlib import Path

NUM_TOKENS, VOCAB_SIZE, EMBED_DIM = 4096, 128_256, 64

# A process of its own: its peak memory is not raised by what other tests held. (On Linux ru_maxrss would be: a child
# inherits its parent's. VmHWM starts anew.) The first, small step brings in all that torch loads or allocates once.
MEASURE = f"""
import pathlib, re, resource, sys, torch
from torchpipe.modules import linear_cross_entropy

def peak_bytes():
    if sys.platform == "darwin":
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return 1024 * int(re.search(r"VmHWM:\\s+(\\d+) kB", pathlib.Path("/proc/self/status").read_text())[1])

def growth(num_tokens, vocab_size):
    hidden = torch.randn(num_tokens, {EMBED_DIM}, requires_grad=True)
    weight = torch.randn(vocab_size, {EMBED_DIM}, requires_grad=True)
    targets = torch.randint(0, vocab_size, (num_tokens,))
    before = peak_bytes()
    linear_cross_entropy(hidden, weight, targets).backward()
    assert hidden.grad is not None and weight.grad is not None
    return peak_bytes() - before

torch.set_num_threads(2)
growth(64, 512)
print(growth({NUM_TOKENS}, {VOCAB_SIZE}))
"""


def test_forward_and_backward_hold_at_most_a_quarter_of_the_logits(repository: Path):
    environment = {**os.environ, "PYTHONPATH": str(repository)}
    result = subprocess.run(
        [sys.executable, "-c", MEASURE], capture_output=True, text=True, env=environment, check=False
    )
    assert result.returncode == 0, result.stderr
    growth = int(result.stdout)
    weight_gradient_bytes = VOCAB_SIZE * EMBED_DIM * 4
    assert weight_gradient_bytes < growth  # the measurement sees what must be there
    assert growth <= NUM_TOKENS * VOCAB_SIZE * 4 / 4
