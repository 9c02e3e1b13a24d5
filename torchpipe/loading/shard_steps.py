"""The global steps of a run over packs that are finished shard by shard while it trains."""

from bisect import bisect_left, bisect_right
from collections.abc import Callable
from typing import Any, Protocol

import numpy as np

from torchpipe._seeds import derive, hashed_permutation
from torchpipe.errors import ConfigError
from torchpipe.loading.balance import Balance, check_balance, laid_out
from torchpipe.loading.epoch_steps import EpochSteps
from torchpipe.loading.order import epoch_order
from torchpipe.loading.steps import GlobalSteps


class ShardedPacks(Protocol):
    """A data set whose packs are finished shard by shard, in order; they are numbered through all shards."""

    @property
    def num_rows(self) -> int:
        """Rows of the source, which tells it from others before its packs do."""
        ...

    @property
    def num_shards(self) -> int | None:
        """Shards of the whole; None while it isn't finished."""
        ...

    def is_there(self, shard: int | None) -> bool:
        """Whether a shard and those before it can be read, or it is known that there are none of that number.

        Args:
            shard: None: all of them, and nothing refuses the whole.
        """
        ...

    def wait_for(self, shard: int | None, *, stop: Callable[[], bool] = ...) -> bool:
        """Waits until :meth:`is_there`, or ``stop()``; which of the two it was. Raises what keeps it from coming."""
        ...

    def packs_of(self, shard: int) -> range:
        """The numbers of the packs of a shard that is there."""
        ...

    def of_packs(self, name: str, packs: np.ndarray) -> np.ndarray | None:
        """``trained_counts``, ``weight_sums`` or ``costs`` of some packs."""
        ...

    def digest_of(self, num_shards: int) -> str:
        """A hash of all packs of the first shards, which are there."""
        ...


class ShardSteps:
    """The steps of every epoch, as far as they are known, and the rest when it is; each of ``global_batch_size`` packs.

    The first epoch has the packs of shard 0, then those of shard 1, and so on; later ones have the shards in an order
    by hash. The packs of a shard are shuffled by a hash. Steps are cut from that sequence, so that one may have packs
    of two shards or more; the last one may have fewer. All of it is a function of the packs, ``seed``, the epoch and
    ``global_batch_size``, and not of when a shard was finished. It has what
    :class:`~torchpipe.loading.GlobalSteps` has for a loader.

    Args:
        packs: the data set.
        global_batch_size: packs of a step, over all ranks and micro-batches.
        seed, shuffle: the order of packs; False: as they come, in every epoch.
        balance: "within_step" or "none", see :data:`~torchpipe.loading.balance.Balance`.

    Raises:
        ConfigError: a number is not possible, or ``balance`` needs all packs at once.
    """

    def __init__(
        self,
        packs: ShardedPacks,
        *,
        global_batch_size: int,
        seed: int = 0,
        shuffle: bool = True,
        balance: Balance = "within_step",
    ) -> None:
        for name, value, least in (("global_batch_size", global_batch_size, 1), ("seed", seed, 0)):
            if isinstance(value, bool) or not isinstance(value, int) or value < least:
                raise ConfigError(f"{name} is {value!r}. Give a whole number, {least} or more.")
        check_balance(balance)
        if balance == "steps":
            raise ConfigError(
                "balance='steps' needs all packs before the first step, and start='by_shard' trains before they are "
                "there. Set balance='within_step', or start='when_complete'."
            )
        self.global_batch_size, self.seed, self.shuffle, self.balance = global_batch_size, seed, shuffle, balance
        self._packs = packs
        # The epoch that was asked for last: where the shards that are known begin, in its order, and where they end.
        # Neither is ever changed: a loader's thread asks too, maybe for another epoch.
        self._kept: tuple[int, tuple[int, ...]] = (0, (0,))

    @property
    def is_complete(self) -> bool:
        """Whether all shards are there."""
        return self._packs.is_there(None)

    @property
    def num_steps(self) -> int | None:
        """The steps of an epoch; None while that isn't known."""
        if not self.is_complete:
            return None
        return -(-self._num_packs // self.global_batch_size)

    def steps_before(self, epoch: int) -> int:
        """The steps of all earlier epochs; waits until they are known."""
        return epoch * len(self) if epoch else 0

    def __len__(self) -> int:
        """The steps of an epoch; waits until that is known."""
        self._packs.wait_for(None)
        return self.num_steps or 0

    @property
    def _num_packs(self) -> int:
        assert self._packs.num_shards is not None
        return self._packs.packs_of(self._packs.num_shards - 1).stop

    def is_ready(self, epoch: int, step: int) -> bool:
        """Whether it can be said at once which packs the step has, or that the epoch has no such step."""
        return self._known(epoch, step)[1] is None

    def has(self, epoch: int, step: int) -> bool:
        """Whether the epoch has a step of that number; waits until that can be said.

        Raises:
            ConfigError: there is no pack at all.
        """
        has = step * self.global_batch_size < self._waited(epoch, step)[-1]
        if not has and self._num_packs == 0:
            raise ConfigError("There is nothing to train on: the data set is empty, or no row of it was kept.")
        return has

    def wait(self, epoch: int, step: int, *, stop: Callable[[], bool] = lambda: False) -> bool:
        """Waits until :meth:`is_ready` or ``stop()``, and says which of the two it was.

        Raises:
            Exception: what keeps a shard from being finished or from being trained on.
        """
        while (missing := self._known(epoch, step)[1]) is not None:
            if not self._packs.wait_for(missing[0], stop=stop):
                return False
        return True

    def packs(self, epoch: int, step: int) -> np.ndarray:
        """The packs of a step, int64, in the order that the epoch has them in; waits until they are known.

        Args:
            step: of the epoch, from 0 on.
        """
        if step < 0 or not self.has(epoch, step):
            raise IndexError(f"Step {step} of epoch {epoch} was asked for, and it has {self.num_steps} steps.")
        starts, start = self._waited(epoch, step), step * self.global_batch_size
        stop = min(start + self.global_batch_size, starts[-1])
        found = []
        place = bisect_right(starts, start) - 1
        while starts[place] < stop:
            order = self._order(epoch, place)
            found.append(order[max(0, start - starts[place]) : stop - starts[place]])
            place += 1
        return np.concatenate(found)

    def layout(self, epoch: int, step: int, *, world_size: int, batch_size: int) -> np.ndarray:
        """Which packs each rank trains on; see :meth:`torchpipe.loading.GlobalSteps.layout`."""
        packs = self.packs(epoch, step)
        return laid_out(
            packs,
            self._packs.of_packs("costs", packs),
            balance=self.balance,  # pyright: ignore[reportArgumentType]  # it was checked
            global_batch_size=self.global_batch_size,
            world_size=world_size,
            batch_size=batch_size,
        )

    def identity(self) -> dict[str, str | int | bool]:
        """What decides the steps, beside :meth:`read_before`. JSON values."""
        return {
            "plan": f"by_shard, {self._packs.num_rows} rows",
            "global_batch_size": self.global_batch_size,
            "seed": self.seed,
            "shuffle": self.shuffle,
            "balance": self.balance,
        }

    def read_before(self, epoch: int, step: int) -> dict[str, str | int]:
        """The shards that the steps before this one have read, and a hash of their packs; waits for them."""
        if epoch > 0:
            self._packs.wait_for(None)
            num_shards = self._packs.num_shards or 0
        else:
            num_packs = step * self.global_batch_size
            starts = self._waited(0, max(0, step - 1))
            num_shards = bisect_left(starts, min(num_packs, starts[-1]))
        return {"shards": num_shards, "samples": self._packs.digest_of(num_shards)}

    def _waited(self, epoch: int, step: int) -> tuple[int, ...]:
        """Where the shards of the epoch begin, in its order, as far as the step needs, and where they end."""
        self.wait(epoch, step)
        return self._known(epoch, step)[0]

    def _known(self, epoch: int, step: int) -> tuple[tuple[int, ...], tuple[int | None] | None]:
        """Where the shards begin that are known, and what has to be waited for before the step is: a shard, or None
        for all of them; None: nothing.
        """
        kept, starts = self._kept
        if epoch != kept:
            starts = (0,)
        missing = None
        if epoch > 0 and not self._packs.is_there(None):
            missing = (None,)
        while missing is None and starts[-1] < (step + 1) * self.global_batch_size:
            place = len(starts) - 1
            if not self._packs.is_there(place):
                missing = (place,)
            elif place == self._packs.num_shards:
                break
            else:
                starts = (*starts, starts[-1] + len(self._packs.packs_of(self._shard(epoch, place))))
        self._kept = (epoch, starts)
        return starts, missing

    def _shard(self, epoch: int, place: int) -> int:
        if epoch == 0 or not self.shuffle:
            return place
        assert self._packs.num_shards is not None
        return int(hashed_permutation(self._packs.num_shards, derive(self.seed, "order of shards", epoch))[place])

    def _order(self, epoch: int, place: int) -> np.ndarray:
        shard = self._shard(epoch, place)
        packs = self._packs.packs_of(shard)
        seed = derive(self.seed, "shard", shard)
        return packs.start + epoch_order(len(packs), seed=seed, epoch=epoch, shuffle=self.shuffle)


def steps_of(
    dataset: Any,
    *,
    global_batch_size: int,
    seed: int = 0,
    shuffle: bool = True,
    balance: Balance = "within_step",
    max_steps: int | None = None,
) -> GlobalSteps | ShardSteps | EpochSteps:
    """The steps of a data set: as far as they are known where its packs are finished shard by shard, else all of them;
    where it is made of those of several epochs (``mixes``), those of each.

    The arguments are those of :meth:`GlobalSteps.of <torchpipe.loading.GlobalSteps.of>`.

    Raises:
        ConfigError: ``max_steps`` is given, and it isn't known yet how many steps an epoch has.
    """
    options: dict[str, Any] = {
        "global_batch_size": global_batch_size,
        "seed": seed,
        "shuffle": shuffle,
        "balance": balance,
    }
    if (mixes := getattr(dataset, "mixes", None)) is not None:
        return EpochSteps([GlobalSteps.of(one, max_steps=max_steps, **options) for one in mixes])
    if not hasattr(dataset, "packs_of"):
        return GlobalSteps.of(dataset, max_steps=max_steps, **options)
    if max_steps is not None:
        raise ConfigError(
            f"max_steps is {max_steps}, of an epoch, and the rows are tokenised while they are trained on: how many "
            "steps an epoch has is known late. Limit the steps of the whole run, or leave start: by_shard out."
        )
    return ShardSteps(dataset, **options)
