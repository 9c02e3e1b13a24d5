"""What became of a data set's rows, in the lines that a run prints before it trains."""

from collections.abc import Mapping
from typing import Any

from torchpipe.data.ledger import SampleCounts
from torchpipe.data.ledger_summary import described_reasons
from torchpipe.data.ledger_words import Noun
from torchpipe.datasets import count_samples, describe_mix, describe_packing
from torchpipe.errors import ConfigError
from torchpipe.store.rows import kind_of, noun_of_kind


def report_rows(name: str, dataset: Any, *, check_rows: bool, noun: Noun | None = None) -> SampleCounts | None:
    """The counts of a data set's rows, after printing them; None where they are not known.

    Counting reads every row once, so that errors of rows show before training.

    Args:
        name: what the rows are called.
        dataset: of samples or packs.
        check_rows: False counts only where the counts are kept already.
        noun: what is counted, see :meth:`~torchpipe.data.ledger.SampleCounts.describe`; None: as the data set says.

    Raises:
        ConfigError: no token of the rows is trained.
        Exception: a bad row's own error, which names it.
    """
    counts = count_samples(dataset) if check_rows or hasattr(dataset, "counts") else None
    noun = noun or noun_of_kind(kind_of(dataset))
    print(f"{name}: {counts.describe(noun) if counts else f'{len(dataset):,} {noun}s, not checked'}", flush=True)
    ledger = getattr(dataset, "ledger", None) if hasattr(dataset, "counts") else None  # of others it reads all rows
    left_out = {} if ledger is None else {why: count for why, count in ledger.left_out.items() if why != "other_part"}
    if ledger is not None and left_out:
        print(f"{name}, left out: {'; '.join(described_reasons(left_out, ledger.examples))}", flush=True)
    if packing := describe_packing(dataset):
        print(f"{name}, packed: {packing}", flush=True)
    if mix := describe_mix(dataset):
        print(f"{name}, mixed: {mix}", flush=True)
    if counts and counts.trained_tokens == 0:
        raise ConfigError(f"{name}: no token is trained. Check masking_strategy, and max_seq_len where rows were cut.")
    return counts


def report_held_out(held_out: Mapping[str, Any], *, check_rows: bool) -> dict[str, SampleCounts | None]:
    """The counts of held-out data sets by their names, after printing them; see :func:`report_rows`."""
    return {
        name: report_rows(
            "held-out rows" if len(held_out) == 1 else f"held-out rows of {name}", rows, check_rows=check_rows
        )
        for name, rows in held_out.items()
    }
