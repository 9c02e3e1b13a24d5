"""Plans kept beside the store whose samples they are of: the next start plans nothing, and processes share one copy."""

import hashlib
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np

from torchpipe._progress import say
from torchpipe.data.packing import PackPlan, plan_packs
from torchpipe.errors import DataError, StoreError
from torchpipe.store.token_store import TokenStore

PLANS = "plans"
_FORMAT = 2
"""Goes up where the same lengths and options give another plan than before."""
FEWEST_SAMPLES = 20_000
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
    if store.num_samples < FEWEST_SAMPLES or not isinstance(options["strategy"], str) or "." in strategy:
        return plan_packs(store.lengths, capacity, group=group, **options)
    key = repr([store.digest, capacity, sorted(options.items()), *(() if group is None else ("by row",))])
    return kept_plan(plan_folder(store, key), lambda: plan_packs(store.lengths, capacity, group=group, **options))


def plan_folder(store: TokenStore, key: str) -> Path:
    """Where the plan of a key lies, beside a store. The key tells everything that decides the plan."""
    return store.path / PLANS / hashlib.blake2b(f"{_FORMAT} {key}".encode(), digest_size=16).hexdigest()


def kept_plan(folder: Path, make: Callable[[], PackPlan]) -> PackPlan:
    """The plan in a folder, its arrays memory-mapped: made and kept there by one process, while others wait for it.

    Where it can't be kept, each process makes it for itself, and a line says so.

    Args:
        folder: see :func:`plan_folder`.
        make: makes the plan.

    Raises:
        Exception: what ``make`` raises.
    """
    if (plan := _found(folder)) is not None:
        return plan
    with _turn(folder.parent):
        plan = _found(folder)  # another process may have made it meanwhile
        return _kept(make(), folder) if plan is None else plan


def drop_plan(folder: Path) -> None:
    """Removes a plan that is not needed any more, if it is there. A process that has mapped it keeps it."""
    shutil.rmtree(folder, ignore_errors=True)


def _found(folder: Path) -> PackPlan | None:
    if not folder.exists():
        return None
    try:
        return PackPlan.load(folder)
    except DataError as error:
        say(f"The plan in {folder} is made again, for it can't be read: {error}")
        drop_plan(folder)
        return None


def _kept(plan: PackPlan, folder: Path) -> PackPlan:
    if not len(plan):
        return plan
    try:
        plan.save(folder)
        return PackPlan.load(folder)  # mapped, in place of this process's own memory
    except (OSError, StoreError, DataError) as error:
        say(f"The plan of {folder.parent.parent} is not kept, and each process makes it again: {error}")
        return plan


@contextmanager
def _turn(folder: Path) -> Iterator[None]:
    """Held by one process at a time; by each at once where nothing can be written, or the file system has no locks."""
    from filelock import FileLock  # a plan that is there is read without it

    lock = FileLock(folder / ".lock")
    with suppress(OSError, NotImplementedError):  # what can't be kept is said when it is written
        folder.mkdir(parents=True, exist_ok=True)
        lock.acquire()
    try:
        yield
    finally:
        lock.release()
