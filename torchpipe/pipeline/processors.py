"""Rows to what a batch is made of: the base class of processors, and a generator that tells whether one draws."""

from abc import ABC, abstractmethod
from typing import Any, ClassVar, NamedTuple, NoReturn

import numpy as np

from torchpipe.config.configurable import Configurable
from torchpipe.data.ledger import Reason
from torchpipe.errors import ConfigError
from torchpipe.pipeline.types import DatasetBuildContext


class Outcome(NamedTuple):
    """What a processor made of one row.

    Attributes:
        value: what it returned; None: the row is left out.
        left_out: under which reason a ledger counts a row that is left out; None where there is a value.
    """

    value: Any
    left_out: Reason | None = None


class SampleProcessor(Configurable, ABC):
    """Turns one row into what packing and collation take, mostly a :class:`~torchpipe.pipeline.TextSequence`.

    A subclass nests its ``Config`` and defines ``__call__``. It must be picklable, and must not change the row. Where
    several threads may call it at once, its class says ``can_be_read_ahead = True``; see
    :func:`~torchpipe.data.protocols.can_be_read_ahead`.

    Args:
        config: its settings.
        context: what all nodes of the graph share.

    Attributes:
        deterministic: whether the same row always becomes the same value. True: it draws no random numbers, and a draw
            is an error. False: it does, so its graph is run by Grain. None: the build finds out.

    >>> class Lengths(SampleProcessor):
    ...     def __call__(self, sample, rng):
    ...         return len(sample["text"]) or None
    >>> context = DatasetBuildContext(tokenizer=None, max_context_length=8, num_tokens_per_batch=8)
    >>> lengths = Lengths.Config().build(context=context)
    >>> without_draws(lengths, {"text": "four"})
    Outcome(value=4, left_out=None)
    >>> without_draws(lengths, {"text": ""})
    Outcome(value=None, left_out='dropped')
    """

    deterministic: ClassVar[bool | None] = None

    class Config(Configurable.Config):
        """The settings; a subclass adds fields, in a dataclass that may be changed or in a frozen one."""

        __slots__ = ()

    def __init__(self, config: Any, *, context: DatasetBuildContext) -> None:
        self.config = config
        self.context = context

    @abstractmethod
    def __call__(self, sample: Any, rng: np.random.Generator) -> Any:
        """What becomes of a row; None leaves it out.

        Args:
            sample: the row, not to be changed.
            rng: whence all random numbers come that it needs.
        """

    def outcome(self, sample: Any, rng: np.random.Generator) -> Outcome:
        """What calling it gives, and, where that is nothing, the reason: "dropped" unless a subclass knows better."""
        value = self(sample, rng)
        return Outcome(value, "dropped" if value is None else None)


class DrewRandom(BaseException):
    """A processor asked a :class:`WatchedGenerator` for a random number.

    No ``Exception``, so that a processor which goes on after a failed augmentation does not go on after this.
    """


class WatchedGenerator(np.random.Generator):
    """A generator that gives no numbers: the first use of it raises :class:`DrewRandom`.

    It takes the place of the generator while a graph is built, which tells whether a processor is a function of its
    row alone. Copying it, or asking for its bit generator, is a use too.

    Args:
        seed: of the generator that it stands for; no number of it is ever given.

    Attributes:
        drew: whether it was used. A processor may have swallowed the exception.

    >>> WatchedGenerator().random()
    Traceback (most recent call last):
    torchpipe.pipeline.processors.DrewRandom: random
    """

    _drew = False

    def __init__(self, seed: int = 0) -> None:
        super().__init__(np.random.Philox(seed))

    @property
    def drew(self) -> bool:
        """Whether it was used."""
        return self._drew

    def __getattribute__(self, name: str) -> Any:
        if not name.startswith("_") and name != "drew":
            self._note(name)
        return object.__getattribute__(self, name)

    def __repr__(self) -> str:
        return f"{type(self).__name__}(drew={self.drew})"

    __str__ = __repr__

    def __reduce__(self) -> NoReturn:
        self._note("a copy of it")

    def _note(self, what: str) -> NoReturn:
        self._drew = True
        raise DrewRandom(what)


def without_draws(processor: SampleProcessor, sample: Any) -> Outcome:
    """What a processor makes of a row, where it draws no random number for that.

    Raises:
        DrewRandom: it draws one, and may; or it is said not to be deterministic.
        ConfigError: it draws one, and its class says that it never does.
    """
    if processor.deterministic is False:
        raise DrewRandom("deterministic is False")
    rng = WatchedGenerator()
    drawn = "a number"
    try:
        outcome = processor.outcome(sample, rng)
    except DrewRandom as draw:
        drawn = str(draw)
    else:
        if not rng.drew:
            return outcome
    if processor.deterministic:
        raise ConfigError(
            f"{type(processor).__qualname__} is said to be deterministic, and asked the random generator for "
            f"{drawn}. Take the draw out, or set deterministic to False, for Grain to run the graph."
        )
    raise DrewRandom(drawn)
