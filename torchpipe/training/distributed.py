"""Several processes that train one model: who is who, sums over all of them, and a common end."""

import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import timedelta
from types import TracebackType
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.rendezvous import rendezvous

from torchpipe.errors import ConfigError, DistributedError
from torchpipe.training.rank import get_world_size_and_rank

_BACKENDS = {"cpu": "gloo", "cuda": "nccl"}
_BUCKET_BYTES = 64 * 2**20


class Ranks:
    """The processes that ``torchrun`` started, or this one alone; a context manager.

    Data parallel, without a wrapper round the model: every rank holds the model, :meth:`sum_gradients` adds the
    gradients up once a step. Ranks are in touch from the start, and :meth:`join` makes them a process group; it is
    called when the data is ready, so that none waits inside a collective while another one prepares data. Inside the
    context only rank 0 prints; errors of every rank are seen.

    Args:
        device: ``cpu`` (gloo) or ``cuda`` (NCCL; each rank has the device of its local number).
        timeout: how long a rank waits in one collective. Not counted: the wait for data in :meth:`join`.

    Attributes:
        rank, world_size: this process, and how many there are.
        device: what it trains on.

    Raises:
        ConfigError: the environment says that there are several, and not where they meet; or the device is of another
            kind.

    >>> with Ranks("cpu") as ranks:
    ...     ranks.join()
    ...     print(ranks.rank, ranks.world_size, ranks.sum(2.0, 3.0))
    0 1 [2.0, 3.0]
    """

    def __init__(self, device: str = "cpu", *, timeout: timedelta = timedelta(minutes=10)) -> None:
        self.world_size, self.rank = get_world_size_and_rank()
        self.device = torch.device(device)
        self._timeout = timeout
        self._store: Any = None
        self._joined = False
        self._num_meetings = 0
        self._stdout = sys.stdout
        if self.world_size > 1:
            self._meet(device)

    @property
    def is_first(self) -> bool:
        """Whether this is rank 0, which writes what all have."""
        return self.rank == 0

    def _meet(self, device: str) -> None:
        if self.device.type not in _BACKENDS:
            raise ConfigError(f"{self.world_size} processes were started, which train on cpu or cuda, not on {device}.")
        if self.device.index is not None and self.device.type == "cuda":
            raise ConfigError(
                f"{self.world_size} processes were started, and {device} is one device. With cuda each has its own."
            )
        if self.device.type == "cuda":
            self.device = torch.device("cuda", int(os.environ.get("LOCAL_RANK", "0")))
        missing = [name for name in ("RANK", "MASTER_ADDR", "MASTER_PORT") if name not in os.environ]
        if missing:
            raise ConfigError(
                f"WORLD_SIZE is {self.world_size} and {', '.join(missing)} not set, so the processes can't find each "
                "other. Start them with torchrun (torchpipe run --nproc_per_node 2 ...), or unset WORLD_SIZE."
            )
        self._store, _, _ = next(rendezvous("env://", timeout=self._timeout))

    def __enter__(self) -> "Ranks":
        if not self.is_first:
            sys.stdout = open(os.devnull, "w", encoding="utf-8")  # closed on leaving
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if not self.is_first:
            sys.stdout.close()
            sys.stdout = self._stdout
        if kind is not None and not self._joined:
            self.tell_failure()
        if self._joined and kind is None:  # after an error the others may be waiting in a collective
            dist.destroy_process_group()

    def join(self) -> None:
        """Returns when every rank has called it, however long that takes, and they form a process group.

        Raises:
            DistributedError: another rank ended with an error before.
        """
        if self._store is None or self._joined:
            return
        self._store.set(_key("ready", self.rank), "")
        began, told = time.monotonic(), 0.0
        while missing := [rank for rank in range(self.world_size) if not self._store.check([_key("ready", rank)])]:
            self._raise_failure()
            waited = time.monotonic() - began
            if waited - told >= 10.0:
                told = waited
                ranks = f"ranks {', '.join(map(str, missing))}"
                print(f"waited {waited:.0f} s for the data of {ranks}", file=sys.stderr, flush=True)
            time.sleep(0.05 if waited < 10.0 else 0.5)
        if self.device.type == "cuda":
            torch.cuda.set_device(self.device)
        dist.init_process_group(
            _BACKENDS[self.device.type],
            store=self._store,
            rank=self.rank,
            world_size=self.world_size,
            timeout=self._timeout,
        )
        self._joined = True

    def of_first(self, name: str, choose: Callable[[], int]) -> int:
        """A number that rank 0 chooses, on every rank; also before :meth:`join`.

        Args:
            name: what is chosen; once in a run.

        >>> Ranks().of_first("seed", lambda: 7)
        7
        """
        if self._store is None:
            return choose()
        if self.is_first:
            self._store.set(_key(name, "of rank 0"), str(choose()))
        return int(self._store.get(_key(name, "of rank 0")))

    def meet(self, *flags: bool) -> list[int]:
        """How many ranks gave each flag, once every rank has called this, however long that takes.

        It is no collective, which would time out where a rank waits for data for long.

        Raises:
            DistributedError: another rank said meanwhile that it has failed.

        >>> Ranks().meet(True, False)
        [1, 0]
        """
        if self._store is None:
            return [int(flag) for flag in flags]
        self._num_meetings += 1
        number = self._num_meetings
        for place, flag in enumerate(flags):
            self._store.add(_key(f"meeting {number}", place), int(flag))
        here = _key(f"meeting {number}", "here")
        self._store.add(here, 1)
        began = time.monotonic()
        while self._store.add(here, 0) < self.world_size:
            self._raise_failure()
            time.sleep(0.001 if time.monotonic() - began < 0.1 else 0.1)
        counts = [self._store.add(_key(f"meeting {number}", place), 0) for place in range(len(flags))]
        if self.is_first:  # all are here, so all have read what the meeting before came to
            for place in ("here", *range(len(flags))):
                self._store.delete_key(_key(f"meeting {number - 1}", place))
        return counts

    def tell_failure(self) -> None:
        """Lets other ranks, which wait in :meth:`join` or :meth:`meet`, know that this one ends with an error."""
        if self._store is not None:
            self._store.set(_key("failed", "rank"), str(self.rank))

    def _raise_failure(self) -> None:
        if self._store.check([_key("failed", "rank")]):
            rank = self._store.get(_key("failed", "rank")).decode()
            when = "" if self._joined else " before training"
            raise DistributedError(f"Rank {rank} ended with an error{when}. Its output says why.")

    def sum(self, *values: float) -> list[float]:
        """Each value summed over all ranks, in float64."""
        if self.world_size == 1:
            return list(values)
        total = torch.tensor(values, dtype=torch.float64, device=self.device)
        dist.all_reduce(total)
        return total.tolist()

    def agree(self, values: Mapping[str, Any]) -> None:
        """Returns when every rank has given the same values; they are small and can be pickled.

        Raises:
            DistributedError: they differ; the first that does is named, with its value on two ranks.
        """
        if self.world_size == 1:
            return
        every: list[Any] = [None] * self.world_size
        dist.all_gather_object(every, dict(values))
        for rank, others in enumerate(every):
            for name in sorted({*every[0], *others}):
                first, other = every[0].get(name), others.get(name)
                if first != other:
                    raise DistributedError(
                        f"The ranks differ: {name} is {first!r} on rank 0 and {other!r} on rank {rank}. All of them "
                        "need the same config, data and output_dir."
                    )

    def share(self, model: nn.Module) -> None:
        """Gives every rank the parameters and buffers of rank 0."""
        if self.world_size > 1:
            for tensor in [*model.parameters(), *model.buffers()]:
                dist.broadcast(tensor.data, src=0)

    def sum_gradients(self, model: nn.Module) -> None:
        """Replaces each gradient by its sum over all ranks, in the gradient's own type.

        Where each rank's loss is its sum over trained tokens, divided by the trained weight of the whole step, the sum
        is the gradient of one big batch. A rank without a gradient of a parameter counts as zero; a parameter that has
        one on no rank keeps none.
        """
        if self.world_size == 1:
            return
        parameters = [parameter for parameter in model.parameters() if parameter.requires_grad]
        has_any = torch.tensor([parameter.grad is not None for parameter in parameters], dtype=torch.int32)
        has_any = has_any.to(self.device)
        dist.all_reduce(has_any, op=dist.ReduceOp.MAX)
        used = [parameter for parameter, has in zip(parameters, has_any.tolist(), strict=True) if has]
        for bucket in _buckets(used):
            parts = [torch.zeros_like(one) if one.grad is None else one.grad for one in bucket]
            flat = torch.cat([part.reshape(-1) for part in parts])
            dist.all_reduce(flat)
            for parameter, total in zip(bucket, flat.split([one.numel() for one in bucket]), strict=True):
                parameter.grad = total.view_as(parameter)


def _key(what: str, rank: int | str) -> str:
    """Under which a rank tells the others how it is; each try of a launcher that restarts has keys of its own."""
    return f"torchpipe/{os.environ.get('TORCHELASTIC_RESTART_COUNT', '0')}/{what}/{rank}"


def _buckets(parameters: Sequence[nn.Parameter]) -> Iterator[list[nn.Parameter]]:
    """The parameters in order, in lists of one type that are small enough to be copied: one collective each."""
    bucket: list[nn.Parameter] = []
    size = 0
    for parameter in parameters:
        if bucket and (parameter.dtype != bucket[0].dtype or size + parameter.nbytes > _BUCKET_BYTES):
            yield bucket
            bucket, size = [], 0
        bucket.append(parameter)
        size += parameter.nbytes
    if bucket:
        yield bucket
