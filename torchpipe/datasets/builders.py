"""One-call data sets for common shapes of rows, and the door for a transform of one's own."""

from collections.abc import Callable, Mapping, Sequence
from copy import copy
from typing import Any, Literal

from torchpipe._suggest import did_you_mean, listed
from torchpipe.data.masking import MaskingStrategy, mask_messages
from torchpipe.data.message_transforms import (
    AlpacaToMessages,
    InputOutputToMessages,
    OpenAIToMessages,
    ShareGPTToMessages,
)
from torchpipe.data.messages import Message
from torchpipe.data.overflow import Overflow, StopToken, TruncationType, overflow_policy
from torchpipe.data.packing import Strategy as PackingStrategy
from torchpipe.data.protocols import Transform
from torchpipe.data.row_policy import OnError, OnUntrained
from torchpipe.data.splits import Holdout
from torchpipe.datasets.growing import GrowingPackedDataset
from torchpipe.datasets.packed import PackedDataset
from torchpipe.datasets.sft import SFTDataset
from torchpipe.datasets.stored import StoredDataset
from torchpipe.datasets.stored_options import Start, StoredOptions
from torchpipe.errors import ConfigError
from torchpipe.sources import Source
from torchpipe.store import SFTRecipe

Strategy = MaskingStrategy | str | None
Built = SFTDataset | StoredDataset | PackedDataset | GrowingPackedDataset
"""What a builder gives: by itself, with ``cache``, with ``packed``, with ``start="by_shard"``."""


class MaskedMessages:
    """A message transform whose messages are masked anew by a strategy.

    Args:
        message_transform: row to ``{"messages": [...]}``; its messages are copied, not changed.
        masking_strategy: which messages are trained; it replaces the masks that the transform set.
    """

    def __init__(self, message_transform: Transform, masking_strategy: MaskingStrategy | str) -> None:
        self.message_transform = message_transform
        self.masking_strategy = masking_strategy
        mask_messages([], masking_strategy)  # an unknown strategy is refused here

    def __call__(self, sample: Mapping[str, Any]) -> dict[str, Any]:
        """The transform's row with re-masked messages. What are no messages stays, and is refused by the data set."""
        row = dict(self.message_transform(sample))
        messages = row.get("messages")
        if isinstance(messages, Sequence) and all(isinstance(message, Message) for message in messages):
            row["messages"] = [copy(message) for message in messages]
            mask_messages(row["messages"], self.masking_strategy)
        return row


def sft_dataset(
    tokenizer: Any,
    *,
    source: Source,
    message_transform: Transform,
    filter_fn: Callable[..., bool] | str | None = None,
    packed: bool = False,
    split_across_pack: bool = False,
    masking_strategy: Strategy = None,
    overflow: Overflow | None = None,
    max_seq_len: int | None = None,
    truncation_type: TruncationType | None = None,
    stop_token: StopToken | None = None,
    strategy: PackingStrategy | str | None = None,
    cache: bool = False,
    cache_dir: str | None = None,
    num_proc: int | None = None,
    start: Start = "when_complete",
    shard_rows: int | None = None,
    fingerprint: Literal["ends", "content"] = "ends",
    on_error: OnError = "raise",
    max_error_share: float = 1.0,
    quarantine_file: str | None = None,
    on_untrained: OnUntrained = "leave_out",
    holdout: Holdout | Mapping[str, Any] | None = None,
    drop_duplicates: bool | Sequence[str] = False,
    streaming: bool = False,
    **load_dataset_kwargs: Any,
) -> Built:
    """A data set whose rows a transform of one's own turns into messages.

    Args:
        tokenizer: the model transform.
        source: a name for ``load_dataset``, or an object with ``__len__`` and ``__getitem__``.
        message_transform: row to ``{"messages": [...]}``.
        filter_fn: keeps the rows for which it is true; a function or the dotted name of one.
        packed: True packs samples into rows of max_seq_len tokens.
        split_across_pack: packed only: whether a sample may go on in the next row.
        masking_strategy: None keeps the masks that the transform set; otherwise it is applied after the transform.
        overflow: what becomes of rows longer than max_seq_len: "error", "truncate"; packed, also "drop" and "split".
            None leaves it to the tokenizer, which cuts.
        max_seq_len: with ``overflow``, the most tokens of a sample; None: the tokenizer's.
        truncation_type: where "truncate" cuts: "right", "left" or "turns"; None: the tokenizer's.
        stop_token: whether a turn that "truncate" cuts on the right keeps its stop token: "cut" or "keep".
        strategy: how rows are filled, where ``packed``; see :data:`~torchpipe.data.packing.Strategy`. None is
            torchtune's.
        cache: True tokenises once, into a store that later runs, ranks and workers read; packing always does. Items
            are then the store's samples, so that ``overflow`` may be "drop" or "split" too.
        cache_dir: where that store is kept; None: TORCHPIPE_CACHE, or ``~/.cache/torchpipe``. It and ``num_proc`` go to
            ``load_dataset`` too, or, without packing and cache, to that alone.
        num_proc: processes that tokenise; None: one a processor.
        start: packed only: "by_shard" trains on the first shard while the others are tokenised in the background. Each
            shard is packed on its own, and the first epoch has them in order, as far as the seed shuffles: within a
            shard. A stopped run resumes on the same batches, whether or not the rest was finished meanwhile.
        shard_rows: by_shard only: rows of the source a shard; None: 4,096.
        fingerprint: what tells a local file from what it was when its rows were stored: "ends": its path, size, time of
            change, inode, and the bytes at both ends; "content": all of its bytes and nothing else, which reads it.
        on_error: what becomes of a row that can't be used; see :data:`~torchpipe.data.row_policy.OnError`. "skip" and
            "quarantine" need packing or cache.
        max_error_share: the largest share of all rows that may be left out so; with more, building fails.
        quarantine_file: where "quarantine" writes such rows, a JSON object a line.
        on_untrained: what becomes of a row without a trained token: "leave_out" counts it, "keep", "raise". Without
            packing or cache, "leave_out" keeps it and warns.
        holdout: uses one part of a split of the rows: ``{share: 0.05, part: train}``, and the same with ``part:
            validation`` for the other; see :class:`~torchpipe.data.splits.Holdout`.
        drop_duplicates: True leaves out rows whose content an earlier row has; a list of columns compares those alone.
        streaming: True gives a :class:`~torchpipe.datasets.StreamedDataset`: the same items, one after another, for a
            ``DataLoader``; rows are neither counted nor numbered.
        load_dataset_kwargs: passed to ``load_dataset``; ``split`` is "train" unless given.

    Raises:
        ConfigError: ``packed`` without a max_seq_len, or an option that does not fit.
    """
    options = StoredOptions(
        packed=packed,
        split_across_pack=split_across_pack,
        max_seq_len=max_seq_len,
        strategy=strategy,
        cache=cache,
        cache_dir=cache_dir,
        num_proc=num_proc,
        start=start,
        shard_rows=shard_rows,
        fingerprint=fingerprint,
        on_error=on_error,
        max_error_share=max_error_share,
        quarantine_file=quarantine_file,
        on_untrained=on_untrained,
        holdout=holdout,
        drop_duplicates=drop_duplicates,
        streaming=streaming,
    )
    options.capacity(tokenizer)
    if masking_strategy is not None:
        message_transform = MaskedMessages(message_transform, masking_strategy)
    policy = overflow_policy(
        tokenizer, overflow, max_seq_len=max_seq_len, truncation_type=truncation_type, stop_token=stop_token
    )
    recipe = SFTRecipe(
        message_transform=message_transform,
        model_transform=tokenizer,
        filter_fn=filter_fn,
        overflow=policy,
        **options.row_fields(source, load_dataset_kwargs),
    )
    return options.built(recipe, tokenizer, unstored=SFTDataset.of_recipe)


def chat_dataset(
    tokenizer: Any,
    *,
    source: Source,
    conversation_column: str,
    conversation_style: Literal["sharegpt", "openai"],
    train_on_input: bool | None = None,
    new_system_prompt: str | None = None,
    packed: bool = False,
    filter_fn: Callable[..., bool] | str | None = None,
    split: str = "train",
    masking_strategy: Strategy = None,
    split_across_pack: bool = False,
    tools_column: str | None = "tools",
    system_column: str | None = "system",
    split_reasoning: bool = False,
    **load_dataset_kwargs: Any,
) -> Built:
    """Conversations: one column holds a list of turns.

    Args:
        conversation_column: the column's name.
        conversation_style: ``"sharegpt"``: turns ``{"from", "value"}``; ``"openai"``: turns ``{"role", "content"}``.
        train_on_input: deprecated; True trains on all messages, False on the assistant's. Use ``masking_strategy``.
        new_system_prompt: replaces the rows' system messages.
        masking_strategy: None trains on the assistant's messages.
        tools_column, system_column: columns that rows may have beside their turns: the tools that they offer, and a
            system prompt; None leaves such columns out.
        split_reasoning: True takes a ``<think>...</think>`` at the start of an assistant's text out of it, as the
            message's ``reasoning``.

    The other arguments are those of :func:`sft_dataset`.

    Raises:
        ConfigError: the style is unknown, or an option does not fit.
    """
    styles = {
        "sharegpt": (ShareGPTToMessages, "conversations"),
        "openai": (OpenAIToMessages, "messages"),
    }
    if conversation_style not in styles:
        raise ConfigError(
            f"Unsupported conversation style: {conversation_style!r}. There are {listed(styles)}."
            f"{did_you_mean(conversation_style, styles)}"
        )
    transform_class, key = styles[conversation_style]
    return sft_dataset(
        tokenizer,
        source=source,
        message_transform=transform_class(
            train_on_input=train_on_input,
            column_map={key: conversation_column, "tools": tools_column, "system": system_column},
            new_system_prompt=new_system_prompt,
            masking_strategy=masking_strategy,
            split_reasoning=split_reasoning,
        ),
        filter_fn=filter_fn,
        packed=packed,
        split_across_pack=split_across_pack,
        split=split,
        **load_dataset_kwargs,
    )


def instruct_dataset(
    tokenizer: Any,
    *,
    source: Source,
    column_map: dict[str, str] | None = None,
    train_on_input: bool | None = None,
    new_system_prompt: str | None = None,
    packed: bool = False,
    filter_fn: Callable[..., bool] | str | None = None,
    split: str = "train",
    masking_strategy: Strategy = None,
    split_across_pack: bool = False,
    **load_dataset_kwargs: Any,
) -> Built:
    """Prompt and answer: one column each.

    Args:
        column_map: which columns hold ``input`` and ``output``, as ``{"input": "question", "output": "answer"}``.
        train_on_input: deprecated; see :func:`chat_dataset`.
        new_system_prompt: put before every row.
        masking_strategy: None trains on the answer.

    The other arguments are those of :func:`sft_dataset`.
    """
    return sft_dataset(
        tokenizer,
        source=source,
        message_transform=InputOutputToMessages(
            train_on_input=train_on_input,
            column_map=column_map,
            new_system_prompt=new_system_prompt,
            masking_strategy=masking_strategy,
        ),
        filter_fn=filter_fn,
        packed=packed,
        split_across_pack=split_across_pack,
        split=split,
        **load_dataset_kwargs,
    )


def alpaca_dataset(
    tokenizer: Any,
    *,
    source: Source = "tatsu-lab/alpaca",
    column_map: dict[str, str] | None = None,
    train_on_input: bool | None = None,
    packed: bool = False,
    filter_fn: Callable[..., bool] | str | None = None,
    split: str = "train",
    masking_strategy: Strategy = None,
    split_across_pack: bool = False,
    **load_dataset_kwargs: Any,
) -> Built:
    """Alpaca's columns ``instruction``, ``input`` and ``output``, in Alpaca's prompt.

    Args:
        column_map: other names for those columns.
        train_on_input: deprecated; see :func:`chat_dataset`.
        masking_strategy: None trains on all messages, the prompt included.

    The other arguments are those of :func:`sft_dataset`.
    """
    return sft_dataset(
        tokenizer,
        source=source,
        message_transform=AlpacaToMessages(
            train_on_input=train_on_input, column_map=column_map, masking_strategy=masking_strategy
        ),
        filter_fn=filter_fn,
        packed=packed,
        split_across_pack=split_across_pack,
        split=split,
        **load_dataset_kwargs,
    )
