"""The global steps of a run: which packs each optimizer step trains on, whatever the number of ranks."""

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from torchpipe._seeds import derive, hashed_permutation
from torchpipe.errors import ConfigError
from torchpipe.loading.balance import Balance, check_balance, even_steps, laid_out
from torchpipe.loading.order import epoch_order


@dataclass(frozen=True, kw_only=True, eq=False)
class GlobalSteps:
    """The steps of every epoch, from numbers alone. Each trains on ``global_batch_size`` packs; some may have fewer.

    A data set that is not packed has a sample in each pack.

    Attributes:
        num_packs: of an epoch.
        global_batch_size: packs of a step, over all ranks and micro-batches.
        seed, shuffle: the order of packs; False: as they come.
        balance: see :data:`~torchpipe.loading.balance.Balance`.
        costs: int64 [packs]: what each pack costs to train on, in any unit; None: all the same.
        pack_lens: int64 [packs]: the length of each pack; those of one step are equal. None: all have one length.
        plan: what tells these packs from others, where that is known (a plan's fingerprint).
        max_steps: of an epoch: later ones are left out, others in each epoch where packs are shuffled; None: all.

    Raises:
        ConfigError: a number is not possible, or the arrays don't have one entry a pack.

    >>> steps = GlobalSteps(num_packs=10, global_batch_size=4, shuffle=False)
    >>> len(steps), steps.packs(epoch=0, step=2).tolist()
    (3, [8, 9])
    >>> steps.layout(0, 2, world_size=2, batch_size=1).tolist()
    [[[8], [-1]], [[9], [-1]]]
    """

    num_packs: int
    global_batch_size: int
    seed: int = 0
    shuffle: bool = True
    balance: Balance = "within_step"
    costs: np.ndarray | None = None
    pack_lens: np.ndarray | None = None
    plan: str = ""
    max_steps: int | None = None
    _num_steps: int = field(default=0, init=False, repr=False)
    # The epoch that was asked for last and its steps: the packs in order, and where each step starts (steps + 1).
    _kept: tuple[int, tuple[np.ndarray, np.ndarray] | None] = field(default=(0, None), init=False, repr=False)

    def __post_init__(self) -> None:
        if self.num_packs == 0:
            raise ConfigError("There is nothing to train on: the data set is empty, or no row of it was kept.")
        for name, least in (("num_packs", 1), ("global_batch_size", 1), ("seed", 0), ("max_steps", 1)):
            value = getattr(self, name)
            if name == "max_steps" and value is None:
                continue
            if isinstance(value, bool) or not isinstance(value, int) or value < least:
                raise ConfigError(f"{name} is {value!r}. Give a whole number, {least} or more.")
        check_balance(self.balance)
        if self.balance == "steps" and not self.shuffle:
            raise ConfigError(
                "balance='steps' chooses which packs form a step, and shuffle=False keeps them as they come. Set "
                "shuffle=True, or balance='within_step'."
            )
        for name in ("costs", "pack_lens"):
            given = getattr(self, name)
            if given is None:
                continue
            array = np.asarray(given)
            if array.shape != (self.num_packs,) or array.dtype.kind not in "iu" or array.min() < 0:
                raise ConfigError(
                    f"{name} is an array {list(array.shape)} of {array.dtype}. Give a whole number, 0 or more, for "
                    f"each of the {self.num_packs:,} packs."
                )
            object.__setattr__(self, name, array.astype(np.int64, copy=False))
        sizes = (
            [self.num_packs] if self.pack_lens is None else np.unique(self.pack_lens, return_counts=True)[1].tolist()
        )
        num_steps = sum(-(-size // self.global_batch_size) for size in sizes)
        object.__setattr__(self, "_num_steps", min(num_steps, self.max_steps or num_steps))

    @classmethod
    def of(
        cls,
        dataset: Any,
        *,
        global_batch_size: int,
        seed: int = 0,
        shuffle: bool = True,
        balance: Balance = "within_step",
        max_steps: int | None = None,
    ) -> "GlobalSteps":
        """The steps of a map-style data set.

        Where it has them, its ``costs`` (else its ``lengths``) balance the ranks, ``pack_lens`` keeps packs of one
        length together, and ``fingerprint`` tells its packs from others.
        """
        plan = getattr(dataset, "fingerprint", "")
        if not isinstance(plan, str):  # a mix says which rows stand where, whatever they hold
            plan = getattr(getattr(dataset, "schedule", None), "fingerprint", "")
        return cls(
            num_packs=len(dataset),
            global_batch_size=global_batch_size,
            seed=seed,
            shuffle=shuffle,
            balance=balance,
            costs=getattr(dataset, "costs", getattr(dataset, "lengths", None)),
            pack_lens=getattr(dataset, "pack_lens", None),
            plan=plan,
            max_steps=max_steps,
        )

    def __len__(self) -> int:
        """The steps of an epoch."""
        return self._num_steps

    @property
    def num_steps(self) -> int:
        """The steps of an epoch."""
        return self._num_steps

    def steps_before(self, epoch: int) -> int:
        """The steps of all earlier epochs."""
        return epoch * self._num_steps

    @property
    def is_complete(self) -> bool:
        """Whether all packs are known."""
        return True

    def is_ready(self, epoch: int, step: int) -> bool:
        """Whether it can be said at once which packs the step has, or that the epoch has no such step."""
        return True

    def has(self, epoch: int, step: int) -> bool:
        """Whether the epoch has a step of that number."""
        return step < self._num_steps

    def wait(self, epoch: int, step: int, *, stop: Callable[[], bool] = lambda: False) -> bool:
        """Returns True once :meth:`is_ready` is true."""
        return True

    def read_before(self, epoch: int, step: int) -> dict[str, str | int]:
        """What of the data the steps before this one have read, where :meth:`identity` does not say it already."""
        return {}

    def packs(self, epoch: int, step: int) -> np.ndarray:
        """The packs of a step, int64, in the order that the epoch has them in.

        Args:
            step: of the epoch, from 0 on.
        """
        order, starts = self._steps_of(epoch)
        if not 0 <= step < self._num_steps:
            raise IndexError(f"Step {step} of epoch {epoch} was asked for, and it has {self._num_steps} steps.")
        return order[starts[step] : starts[step + 1]]

    def layout(self, epoch: int, step: int, *, world_size: int, batch_size: int) -> np.ndarray:
        """Which packs each rank trains on, int64 [world_size, accumulation, batch_size]; -1 is a padding pack.

        ``accumulation``, the micro-batches of a rank, is the same for all ranks and steps. The packs of the step are
        those of :meth:`packs` for every ``world_size`` and ``batch_size``.
        """
        packs = self.packs(epoch, step)
        return laid_out(
            packs,
            None if self.costs is None else self.costs[packs],
            balance=self.balance,
            global_batch_size=self.global_batch_size,
            world_size=world_size,
            batch_size=batch_size,
        )

    def identity(self) -> dict[str, str | int | bool]:
        """What decides the steps: a state of one run is for another of the same identity. JSON values."""
        known = self.plan or f"{self.num_packs} packs"
        if self.pack_lens is not None:
            known += f", lengths {_digest(self.pack_lens)}"
        if self.balance != "none" and self.costs is not None:
            known += f", costs {_digest(self.costs)}"
        return {
            "plan": known,
            "global_batch_size": self.global_batch_size,
            "seed": self.seed,
            "shuffle": self.shuffle,
            "balance": self.balance,
            **({} if self.max_steps is None else {"max_steps": self.max_steps}),
        }

    def _groups(self, order: np.ndarray) -> list[np.ndarray]:
        """The packs of each length, in the order given; the groups by where each is first met."""
        if self.pack_lens is None:
            return [order]
        lens = self.pack_lens[order]
        _, firsts, group_of = np.unique(lens, return_index=True, return_inverse=True)
        return [order[group_of == group] for group in np.argsort(firsts, kind="stable")]

    def _steps_of(self, epoch: int) -> tuple[np.ndarray, np.ndarray]:
        kept, steps = self._kept  # read once and replaced as a whole: a loader's thread asks too
        if kept != epoch or steps is None:
            steps = self._make(epoch)
            object.__setattr__(self, "_kept", (epoch, steps))
        return steps

    def _make(self, epoch: int) -> tuple[np.ndarray, np.ndarray]:
        order = epoch_order(self.num_packs, seed=self.seed, epoch=epoch, shuffle=self.shuffle)
        groups = self._groups(order)
        if self.balance == "steps" and self.costs is not None:
            groups = [
                even_steps(
                    np.sort(group),
                    self.costs[np.sort(group)],
                    global_batch_size=self.global_batch_size,
                    seed=derive(self.seed, "steps", epoch, number),
                )
                for number, group in enumerate(groups)
            ]
        steps = [
            group[start : start + self.global_batch_size]
            for group in groups
            for start in range(0, len(group), self.global_batch_size)
        ]
        if self.shuffle and len(groups) > 1:  # else all steps of one length come before those of the next
            steps = [steps[step] for step in hashed_permutation(len(steps), derive(self.seed, "order of steps", epoch))]
        starts = np.cumsum([0, *map(len, steps)], dtype=np.int64)
        return np.concatenate(steps), starts


def _digest(values: np.ndarray) -> str:
    return hashlib.blake2b(values.astype("<i8").tobytes(), digest_size=8).hexdigest()
