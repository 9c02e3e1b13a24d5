"""The tokenizer of a publisher's format, by the format's name."""

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any, Literal

from torchpipe._suggest import did_you_mean, listed
from torchpipe.data.train_on import TrainOnLike
from torchpipe.errors import ConfigError
from torchpipe.tokenizers.conversation import OnLost
from torchpipe.tokenizers.files import open_backend, read_special_tokens
from torchpipe.tokenizers.publisher_formats import PUBLISHER_FORMATS
from torchpipe.tokenizers.publisher_tokenizer import PublisherFormatTokenizer
from torchpipe.tokenizers.render import MaskPolicy

_BY_NAME = {row.name: row for row in PUBLISHER_FORMATS}


def chat_format_tokenizer(
    family: str,
    path: str | Path,
    *,
    special_tokens_path: str | None = None,
    max_seq_len: int | None = None,
    truncation_type: Literal["left", "right"] = "right",
    mask_policy: MaskPolicy = "sampled",
    train_on: TrainOnLike = None,
    on_unproved: OnLost = "refuse",
    options: Mapping[str, Any] | None = None,
    allowed_special: Collection[str] = (),
) -> PublisherFormatTokenizer:
    """The tokenizer that writes conversations as a family's publisher does: tools, calls, results and reasoning too.

    Args:
        family: the row of ``docs/chat_formats.md``, such as ``"mistral_v3"``.
        path: the tokenizer file that the family publishes: a SentencePiece model, a ``tekken.json``, tiktoken ranks or
            a ``tokenizer.json``, told by how it begins.
        special_tokens_path: a ``tokenizer.json`` whose added tokens give the control tokens' ids; None takes those of
            ``path``, or numbers them from the end of the ranks as the family does.
        max_seq_len: the most tokens a sample may have; None: no limit.
        truncation_type: the side that is cut.
        mask_policy: ``"sampled"`` trains what the model itself would write; ``"message"`` whole trained messages.
        train_on: which parts of a trained message count; None: all.
        on_unproved: what becomes of a row of which the format leaves something out; ``"refuse"``, ``"split"``,
            ``"drop"`` or ``"common_prefix"``; see :data:`~torchpipe.tokenizers.conversation.OnLost`.
        options: what the row lets a caller set.
        allowed_special: control tokens, by text, that a row's own text may spell.

    Raises:
        ConfigError: there is no such row, or it has no such option.
        SourceError: a file is missing.
        TokenizerError: a file is not of this family.
    """
    row = _BY_NAME.get(family)
    if row is None:
        raise ConfigError(
            f"There is no format {family!r}. The formats are {listed(_BY_NAME)}.{did_you_mean(family, _BY_NAME)}"
        )
    return PublisherFormatTokenizer(
        open_backend(path, row),
        row,
        special_tokens=read_special_tokens(special_tokens_path),
        max_seq_len=max_seq_len,
        truncation_type=truncation_type,
        mask_policy=mask_policy,
        train_on=train_on,
        on_unproved=on_unproved,
        options=options,
        allowed_special=allowed_special,
    )
