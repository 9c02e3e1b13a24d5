import os
import subprocess
import sys
from pathlib import Path

NUM_TOKENS, VOCAB_SIZE, EMBED_DIM = 4096, 128_256, 64

# A process of its own: its peak memory is not raised by what other tests held. The first, small step brings in
# everything that torch loads or allocates once.
MEASURE = f"""
import resource, torch
from torchpipe.modules import linear_cross_entropy

def growth(num_tokens, vocab_size):
    hidden = torch.randn(num_tokens, {EMBED_DIM}, requires_grad=True)
    weight = torch.randn(vocab_size, {EMBED_DIM}, requires_grad=True)
    targets = torch.randint(0, vocab_size, (num_tokens,))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    linear_cross_entropy(hidden, weight, targets).backward()
    assert hidden.grad is not None and weight.grad is not None
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before

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
    unit = 1 if sys.platform == "darwin" else 1024  # ru_maxrss counts KiB on Linux
    peak_bytes = int(result.stdout) * unit
    weight_gradient_bytes = VOCAB_SIZE * EMBED_DIM * 4
    assert weight_gradient_bytes < peak_bytes  # the measurement sees what must be there
    assert peak_bytes <= NUM_TOKENS * VOCAB_SIZE * 4 / 4
