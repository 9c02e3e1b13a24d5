"""Plans kept beside the store whose samples they are of, so that the next start plans nothing."""

import hashlib
import shutil
from collections.abc import Mapping
from typing import Any

import numpy as np

from torchpipe._progress import say
from torchpipe.data.packing import PackPlan, plan_packs
from torchpipe.errors import DataError, StoreError
from torchpipe.store.token_store import TokenStore

PLANS = "plans"
_FORMAT = 1
_FEWEST_SAMPLES = 20_000
"""Of fewer samples a plan is made in less time than it is read."""


def stored_plan(
    store: TokenStore, capacity: int, options: Mapping[str, Any], *, group: np.ndarray | None = None
) -> PackPlan:
    """The plan of a store's packs: read where it was kept, made and kept where it was not.

    Args:
        store: of the samples.
        capacity: tokens of a pack.
        options: of :func:`~torchpipe.data.packing.plan_packs`. A planner of the user's own is never kept: its code may
            change.
        group: the row of each sample, where samples of a row share a pack.

    Raises:
        DataError, ConfigError: as ``plan_packs``.
    """
    strategy = str(options["strategy"])
    if store.num_samples < _FEWEST_SAMPLES or not isinstance(options["strategy"], str) or "." in strategy:
        return plan_packs(store.lengths, capacity, group=group, **options)
    key = repr([_FORMAT, store.digest, capacity, sorted(options.items()), *(() if group is None else ("by row",))])
    folder = store.path / PLANS / hashlib.blake2b(key.encode(), digest_size=16).hexdigest()
    if folder.exists():
        try:
            plan = PackPlan.load(folder)
        except DataError as error:
            say(f"The plan in {folder} is made again, for it can't be read: {error}")
            shutil.rmtree(folder, ignore_errors=True)
        else:
            if plan.num_samples == store.num_samples:
                return plan
    plan = plan_packs(store.lengths, capacity, group=group, **options)
    try:
        plan.save(folder)
    except (OSError, StoreError, DataError) as error:
        say(f"The plan of {store.path} is not kept, and is made again at the next start: {error}")
    return plan
