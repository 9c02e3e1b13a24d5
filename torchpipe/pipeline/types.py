"""What a graph is built with: facts of the run, in two frozen records."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from torchpipe.errors import ConfigError

if TYPE_CHECKING:
    import grain


MOST_TOKENS = 2**31 - 1
"""Of a row: ``cu_seqlens`` has 32 bits."""


@dataclass(frozen=True, kw_only=True, slots=True)
class DatasetBuildContext:
    """What all nodes of a graph share.

    Attributes:
        tokenizer: of the model.
        max_context_length: tokens of the longest document that the model takes.
        num_tokens_per_batch: tokens of a row of a packed batch, which one rank trains on at once.
        read_options: how many threads read rows by number, and how many rows ahead, where Grain runs the graph; None:
            none, until rows wait, and then as many as help. ``grain.ReadOptions(num_threads=0)``: never any.
        max_num_documents: the most documents of a packed row; None: no limit.

    Raises:
        ConfigError: a number is not possible.
    """

    _unfingerprinted: ClassVar[frozenset[str]] = frozenset({"read_options"})  # how rows are read decides none

    tokenizer: Any
    max_context_length: int
    num_tokens_per_batch: int
    read_options: "grain.ReadOptions | None" = None
    max_num_documents: int | None = None

    def __post_init__(self) -> None:
        for name in ("max_context_length", "num_tokens_per_batch", "max_num_documents"):
            value = getattr(self, name)
            if value is None and name == "max_num_documents":
                continue
            if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= MOST_TOKENS:
                told = f"{MOST_TOKENS:,} at most" if type(value) is int and value > 0 else "1 or more"
                raise ConfigError(f"{name} is {value!r}. Give a whole number, {told}.")


@dataclass(frozen=True, kw_only=True, slots=True)
class DatasetIterationPolicy:
    """In which order a graph gives its rows, and which part of them.

    A parent hands its children a policy of their own: a seed is hashed from the parent's and the child's name.

    Attributes:
        seed: of orders and of random processors, 0 or more.
        shuffle: False gives rows as they come.
        repeat: whether a new epoch begins after the last row.
        dp_rank, dp_world_size: which part of the rows, of how many equal ones.
        streaming_shuffle_buffer_size: rows that a stream is shuffled in at a time.

    Raises:
        ConfigError: a number is not possible.
    """

    seed: int
    shuffle: bool
    repeat: bool
    dp_rank: int
    dp_world_size: int
    streaming_shuffle_buffer_size: int

    def __post_init__(self) -> None:
        for name, least in (("seed", 0), ("dp_rank", 0), ("dp_world_size", 1), ("streaming_shuffle_buffer_size", 1)):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int) or value < least:
                raise ConfigError(f"{name} is {value!r}. Give a whole number, {least} or more.")
        if self.dp_rank >= self.dp_world_size:
            raise ConfigError(
                f"dp_rank is {self.dp_rank}. With dp_world_size={self.dp_world_size} it is from 0 to "
                f"{self.dp_world_size - 1}."
            )
