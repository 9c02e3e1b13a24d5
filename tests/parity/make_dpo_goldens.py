"""Writes ``dpo_goldens.json``: what torchtune's DPOLoss and get_batch_log_probs make of the same input.

Run by hand, with the Python of an environment that holds the packages of ``benchmarks/peers.txt``:

    python tests/parity/make_dpo_goldens.py [--out dpo_goldens.json]

Input and output both are in the file: a few numbers each.
"""

import argparse
import json
import random
import warnings
from pathlib import Path
from typing import Any

SEED = 11


def log_probs_cases(rng: random.Random) -> list[dict[str, Any]]:
    """Logits and labels of two rows each, the second padded."""
    cases = []
    for width, vocab_size in ((4, 5), (7, 3)):
        logits = [[[round(rng.gauss(0, 3), 3) for _ in range(vocab_size)] for _ in range(width)] for _ in range(2)]
        trained = [range(1, width), range(2, width - 1)]
        labels = [[rng.randrange(vocab_size) if at in row else -100 for at in range(width)] for row in trained]
        cases.append({"logits": logits, "labels": labels})
    return cases


def loss_cases(rng: random.Random) -> list[dict[str, Any]]:
    """Log-probabilities of four pairs under a policy and a reference, for several settings of the loss."""
    return [
        {"settings": settings, "log_probs": [[round(-rng.uniform(1, 90), 3) for _ in range(4)] for _ in range(4)]}
        for settings in ({}, {"beta": 0.5}, {"beta": 0.05, "label_smoothing": 0.1})
    ]


def main() -> None:
    """Computes the outputs and writes the file."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path(__file__).with_name("dpo_goldens.json"))
    out = parser.parse_args().out
    warnings.simplefilter("ignore")
    import torch
    import torchtune  # pyright: ignore[reportMissingImports]
    from torchtune.rlhf import get_batch_log_probs  # pyright: ignore[reportMissingImports]
    from torchtune.rlhf.loss import DPOLoss  # pyright: ignore[reportMissingImports]

    rng = random.Random(SEED)
    log_probs, losses = log_probs_cases(rng), loss_cases(rng)
    for case in log_probs:
        inputs = torch.tensor(case["logits"], dtype=torch.float64), torch.tensor(case["labels"])
        case["sum"] = get_batch_log_probs(*inputs).tolist()
        case["mean"] = get_batch_log_probs(*inputs, return_average_logprobs=True).tolist()
    for case in losses:
        inputs = [torch.tensor(values, dtype=torch.float64, requires_grad=True) for values in case["log_probs"]]
        found = DPOLoss(**case["settings"])(*inputs)
        gradients = torch.autograd.grad(found[0].sum(), inputs[:2])
        case["out"] = [values.tolist() for values in found]
        case["gradients"] = [gradient.tolist() for gradient in gradients]
    made = {"torchtune": torchtune.__version__, "get_batch_log_probs": log_probs, "DPOLoss": losses}
    out.write_text(json.dumps(made, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
