"""Whether a model fits the rows that it is to be trained on."""

from collections.abc import Mapping
from typing import Any

from torchpipe.data.ledger import SampleCounts
from torchpipe.errors import ConfigError


def check_model(model: Any, counts: SampleCounts | None, sample: Mapping[str, Any]) -> None:
    """Refuses a model that the rows do not fit.

    Args:
        model: has ``max_seq_len`` and ``tok_embeddings``.
        counts: of the rows; None where they were not counted.
        sample: one of them.

    Raises:
        ConfigError: a row is longer than the model takes, or has a token that it does not know.
    """
    longest = max(counts.longest if counts else 0, len(sample["tokens"]))  # a pack's padding counts positions on
    if longest > model.max_seq_len:
        raise ConfigError(
            f"The longest row has {longest} tokens and the model takes {model.max_seq_len}. Lower "
            "tokenizer.max_seq_len, or raise the model's."
        )
    if counts and counts.largest_token_id >= model.tok_embeddings.num_embeddings:
        raise ConfigError(
            f"The rows hold token id {counts.largest_token_id} and the model has "
            f"{model.tok_embeddings.num_embeddings} embeddings. Give it at least model.vocab_size="
            f"{counts.largest_token_id + 1}."
        )
