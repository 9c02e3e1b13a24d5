"""Steps, sampler and state in a process that has no torch: what is restored needs none."""

import subprocess
import sys

CODE = """
import json, sys
import numpy as np
from torchpipe.loading import GlobalSteps, StepSampler, WithPadding, compare_balance

class Packs(list):
    costs = np.arange(26) % 5

packs = Packs({"labels": [number]} for number in range(26))
def sampler(world_size):
    steps = GlobalSteps.of(packs, global_batch_size=6, balance="within_step")
    return StepSampler(steps, batch_size=2, rank=world_size - 1, world_size=world_size)

for before, after in ((2, 1), (1, 3), (4, 2), (2, 8)):
    whole = list(sampler(after))
    for step in range(0, 5, 2):
        stopped = sampler(before)
        for number, batch in enumerate(stopped, start=1):
            if number == step * stopped.accumulation:
                break
        state = json.loads(json.dumps(stopped.state_dict(num_batches=step * stopped.accumulation)))
        resumed = sampler(after)
        resumed.load_state_dict(state)
        assert list(resumed) == whole[step * resumed.accumulation :], (before, after, step)
assert WithPadding(packs)[-1] == {"labels": [-100]}
assert compare_balance(sampler(1).steps, world_size=2, batch_size=1)["within_step"].worst >= 1
print("torch" in sys.modules)
"""


def test_what_is_restored_needs_no_torch() -> None:
    result = subprocess.run([sys.executable, "-c", CODE], capture_output=True, text=True)
    assert result.stderr == ""
    assert result.stdout == "False\n"
