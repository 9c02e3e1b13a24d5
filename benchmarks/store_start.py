"""Wall seconds of a process until the first packed batch of a data set that was tokenised before.

    python store_start.py start CONFIG.yaml | imports

``start`` does what a recipe does: it reads the config, builds tokenizer and data set, and takes a batch of four rows
out of a DataLoader. ``imports`` is what any such process has to load. Starting Python counts in neither: the clock
starts before the first import.
"""

import json
import sys
import time
from typing import Any

START = time.perf_counter()
BATCH_SIZE = 4


def first_batch(config: str) -> dict[str, Any]:
    """What the first batch holds, and whether Hugging Face's datasets was imported for it."""
    from functools import partial

    from torch.utils.data import DataLoader

    from torchpipe.config import instantiate
    from torchpipe.config.load import load_config
    from torchpipe.data import padded_collate_packed
    from torchpipe.datasets.instantiate import instantiate_dataset

    cfg = load_config(config)
    dataset = instantiate_dataset(cfg.dataset, instantiate(cfg.tokenizer))
    collate = partial(padded_collate_packed, mask="varlen")
    batch: Any = next(iter(DataLoader(dataset, batch_size=BATCH_SIZE, shuffle=True, collate_fn=collate)))
    return {"shape": list(batch["tokens"].shape), "packs": len(dataset), "datasets": "datasets" in sys.modules}


def main() -> None:
    """Prints one JSON object."""
    if sys.argv[1] == "imports":
        import omegaconf  # noqa: F401
        import torch  # noqa: F401

        told: dict[str, Any] = {}
    else:
        told = first_batch(sys.argv[2])
    print(json.dumps({"seconds": time.perf_counter() - START, **told}))


if __name__ == "__main__":
    main()
