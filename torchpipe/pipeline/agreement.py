"""Ranks that agree where a stream ends, since none of them knows it of the others."""

from typing import Any

from torchpipe.errors import ConfigError


class Agreement:
    """Tells all ranks whether any of them says yes.

    It has a group of processes of its own, so that a thread may ask while the training waits for other things. All
    ranks make it, and ask, equally often.

    Args:
        world_size: data-parallel ranks. One needs nobody to agree with.

    Raises:
        ConfigError: there are several, and ``torch.distributed`` is not started.
    """

    def __init__(self, world_size: int) -> None:
        self._group: Any = None
        if world_size == 1:
            return
        import torch.distributed as dist

        if not (dist.is_available() and dist.is_initialized()):
            raise ConfigError(
                "A graph that ends and can't be planned needs ranks that agree where it does. Call "
                "torch.distributed.init_process_group first, or set repeat=True."
            )
        self._group = dist.new_group(backend="gloo")

    def any(self, *mine: bool) -> list[bool]:
        """For each answer whether any rank gave it as True."""
        if self._group is None:
            return list(mine)
        import torch
        import torch.distributed as dist

        answers = torch.tensor(mine, dtype=torch.uint8)
        dist.all_reduce(answers, op=dist.ReduceOp.MAX, group=self._group)
        return [bool(answer) for answer in answers.tolist()]
