"""Peak memory that a loss adds in one forward and backward, over the bytes of the full logits.

    python loss_memory.py linear|full

A process measures one loss, so that its peak is not raised by anything before. The first, small step brings in what
torch loads or allocates once. What is counted holds the gradients of hidden states and weight as well.
"""

import argparse
import json
import resource
import sys
from pathlib import Path

import torch
from torch import nn

NUM_TOKENS, VOCAB_SIZE, EMBED_DIM = 4096, 128_256, 64


def peak() -> int:
    """Bytes of this process's largest resident set so far; the kernel counts KiB on Linux."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)


def resident() -> int:
    """Bytes that are resident now; without Linux's /proc, the peak so far."""
    pages = Path("/proc/self/statm")
    return int(pages.read_text().split()[1]) * resource.getpagesize() if pages.exists() else peak()


def growth(loss: str, num_tokens: int, vocab_size: int) -> int:
    """Bytes by which one step raises the peak."""
    from torchpipe.modules import linear_cross_entropy

    hidden = torch.randn(num_tokens, EMBED_DIM, requires_grad=True)
    weight = torch.randn(vocab_size, EMBED_DIM, requires_grad=True)
    targets = torch.randint(0, vocab_size, (num_tokens,))
    before = peak()
    if loss == "linear":
        linear_cross_entropy(hidden, weight, targets).backward()
    else:
        nn.functional.cross_entropy(hidden @ weight.T, targets).backward()
    return peak() - before


def main() -> None:
    """Prints one JSON object."""
    parser = argparse.ArgumentParser()
    parser.add_argument("loss", choices=("linear", "full"))
    loss = parser.parse_args().loss
    growth(loss, 64, 512)
    peak_bytes = growth(loss, NUM_TOKENS, VOCAB_SIZE)
    logits_bytes = NUM_TOKENS * VOCAB_SIZE * 4
    print(json.dumps({"bytes": peak_bytes, "logits_bytes": logits_bytes}))


if __name__ == "__main__":
    main()
