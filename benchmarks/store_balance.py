"""How even 64 ranks are at packs of 32,768 tokens, for the cost of an 8B model and for its attention alone.

    python store_balance.py LENGTHS.npy NUM_SAMPLES

The lengths are drawn with a seed from those in LENGTHS.npy, real ones of the ``mixed`` workload. Numbers alone decide,
so that one run says all: it is the same on every machine.
"""

import json
import sys
from collections.abc import Sequence
from dataclasses import asdict

import numpy as np

CAPACITY = 32_768
WORLD_SIZE = 64
ACCUMULATIONS = (1, 4, 8)


def main(arguments: Sequence[str]) -> None:
    """Prints one JSON object: cost, packs a rank and balance to what loading.Spread says; and the packs."""
    from torchpipe.data.packing.cost import LLAMA3_8B_COST, CostModel
    from torchpipe.data.packing.plan import plan_packs
    from torchpipe.loading import GlobalSteps, compare_balance

    known = np.load(arguments[0])
    lengths = known[np.random.default_rng(0).integers(0, len(known), int(arguments[1]))]
    plan = plan_packs(lengths, CAPACITY)
    models = {"8B": LLAMA3_8B_COST, "attention": CostModel(per_token=0, per_pair=1)}
    found = {}
    for cost, model in models.items():
        for accumulation in ACCUMULATIONS:
            global_batch_size = WORLD_SIZE * accumulation
            if len(plan) < global_batch_size:
                continue
            steps = GlobalSteps(num_packs=len(plan), global_batch_size=global_batch_size, costs=plan.costs(model))
            compared = compare_balance(
                steps,
                world_size=WORLD_SIZE,
                batch_size=1,
                num_documents=np.diff(plan.pack_offsets),
                num_tokens=plan.num_tokens,
            )
            found[f"{cost}, {accumulation}"] = {name: asdict(spread) for name, spread in compared.items()}
    fill = int(plan.num_tokens.sum()) / (len(plan) * CAPACITY)
    print(json.dumps({"spreads": found, "packs": len(plan), "samples": len(lengths), "fill": fill}))


if __name__ == "__main__":
    main(sys.argv[1:])
