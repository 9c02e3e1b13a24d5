"""Ranks that agree where a stream ends and tell each other where its parts stand, since none knows it of the others."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from torchpipe.errors import ConfigError, DistributedError


def can_agree(world_size: int) -> bool:
    """Whether there are several ranks, each a process of ``torch.distributed``."""
    if world_size == 1:
        return False
    import torch.distributed as dist

    return dist.is_available() and dist.is_initialized() and dist.get_world_size() >= world_size


class Agreement:
    """Tells all ranks what each of them has to say.

    It has a group of processes of its own, on the CPU, whatever the training uses. All processes of the run make it
    and ask, equally often and at the same places.

    Args:
        world_size: data-parallel ranks. One needs nobody to agree with.

    Raises:
        ConfigError: there are several, and ``torch.distributed`` is not started.
        DistributedError: when it is asked: another process has ended, or did not ask within 30 minutes.
    """

    def __init__(self, world_size: int) -> None:
        self._group: Any = None
        if world_size == 1:
            return
        if not can_agree(world_size):
            raise ConfigError(
                "A graph that ends and can't be planned needs ranks that agree where it does. Call "
                "torch.distributed.init_process_group first, or set repeat=True."
            )
        import torch.distributed as dist

        self._group = dist.new_group(backend="gloo")

    def any(self, *mine: bool) -> list[bool]:
        """For each answer whether any rank gave it as True."""
        if self._group is None:
            return list(mine)
        import torch
        import torch.distributed as dist

        answers = torch.tensor(mine, dtype=torch.uint8)
        with _others_answer():
            dist.all_reduce(answers, op=dist.ReduceOp.MAX, group=self._group)
        return [bool(answer) for answer in answers.tolist()]

    def every(self, mine: Any) -> list[Any]:
        """What each process says; small, and can be pickled."""
        if self._group is None:
            return [mine]
        import torch.distributed as dist

        found: list[Any] = [None] * dist.get_world_size(self._group)
        with _others_answer():
            dist.all_gather_object(found, mine, group=self._group)
        return found


@contextmanager
def _others_answer() -> Iterator[None]:
    try:
        yield
    except RuntimeError as error:  # gloo's, whose text names neither
        why = str(error).strip().splitlines()[0]
        raise DistributedError(f"Another rank has ended or does not answer ({why}). Its output says why.") from error
