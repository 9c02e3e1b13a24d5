"""One-call data sets of pairs."""

from collections.abc import Callable
from typing import Any

from torchpipe.data.overflow import StopToken
from torchpipe.data.pair_policy import OnFault, PairOverflow, PairPolicy, PromptTruncation
from torchpipe.data.preference_transforms import (
    ChosenRejectedToMessages,
    PromptedPairToMessages,
    StackExchangePairedToMessages,
)
from torchpipe.data.protocols import Transform
from torchpipe.datasets.growing import GrowingPackedDataset
from torchpipe.datasets.own_transform import own_or_made
from torchpipe.datasets.packed import PackedDataset
from torchpipe.datasets.preference import PreferenceDataset, StoredPreferenceDataset
from torchpipe.datasets.stored_options import StoredOptions
from torchpipe.errors import ConfigError
from torchpipe.sources import Source
from torchpipe.store.preference_recipe import PreferenceRecipe

BuiltPairs = PreferenceDataset | StoredPreferenceDataset | PackedDataset | GrowingPackedDataset
"""What a builder of pairs gives: by itself, with ``cache``, with ``packed``, with ``start="by_shard"``."""


def preference_dataset(
    tokenizer: Any,
    *,
    source: Source,
    column_map: dict[str, str] | None = None,
    train_on_input: bool = False,
    new_system_prompt: str | None = None,
    filter_fn: Callable[..., bool] | str | None = None,
    split: str = "train",
    message_transform: Transform | None = None,
    packed: bool = False,
    pack_len: int | None = None,
    overflow: PairOverflow | None = None,
    max_seq_len: int | None = None,
    max_prompt_len: int | None = None,
    max_response_len: int | None = None,
    prompt_truncation: PromptTruncation = "left",
    stop_token: StopToken = "cut",
    on_equal: OnFault = "refuse",
    on_prompts_differ: OnFault = "refuse",
    **load_dataset_kwargs: Any,
) -> BuiltPairs:
    """Pairs of answers to one prompt, one of them preferred.

    Args:
        tokenizer: the model transform; of text alone.
        source: a name for ``load_dataset``, or an object with ``__len__`` and ``__getitem__``.
        column_map: which columns hold ``chosen`` and ``rejected``, two conversations; with ``prompt`` in it, they hold
            two answers to that column's prompt (:class:`~torchpipe.data.PromptedPairToMessages`).
        train_on_input: deprecated. True trains on users' messages too, but for those of the shared prompt, which are
            never trained.
        new_system_prompt: replaces the rows' system messages.
        filter_fn: keeps the rows for which it is true; a function or the dotted name of one.
        split: of the source.
        message_transform: a transform of one's own, row to ``{"chosen": [...], "rejected": [...]}``; in place of
            ``column_map``, ``train_on_input`` and ``new_system_prompt``.
        packed: True packs pairs into rows of ``pack_len`` tokens. Both sides of a pair are in one row: documents 2k and
            2k + 1 of it, the chosen one first, as ``seq_lens`` counts them; see
            :func:`~torchpipe.data.padded_collate_packed_pairs`.
        pack_len: packed only: tokens of a row; None: twice the most tokens of a side, so that every pair fits.
        overflow: what becomes of pairs that are too long: "error", "truncate"; stored, also "drop". None leaves it to
            the tokenizer, which cuts each side by itself.
        max_seq_len: with ``overflow``, the most tokens of a side, prompt and response; None: the tokenizer's, or
            half of ``pack_len``.
        max_prompt_len: with ``overflow``, the most tokens of the prompt, which is cut the same way on both sides.
        max_response_len: with ``overflow``, the most tokens of a response.
        prompt_truncation: what a prompt that is cut loses: "left": its first tokens; "turns": its oldest turns.
        stop_token: whether a response that is cut keeps its stop token: "cut" or "keep".
        on_equal: of a pair whose answers are equal: "refuse" is an error, which ``on_error`` handles; "keep" uses it.
        on_prompts_differ: the same of a pair whose conversations differ before an answer.
        load_dataset_kwargs: those of :class:`~torchpipe.datasets.stored_options.StoredOptions` (``cache``,
            ``cache_dir``, ``num_proc``, ``strategy``, ``on_error``, ...; :func:`~torchpipe.datasets.sft_dataset` says
            what each means); all others are passed to ``load_dataset``.

    Raises:
        ConfigError: an option does not fit.
    """
    policy = PairPolicy(
        on_equal=on_equal,
        on_prompts_differ=on_prompts_differ,
        overflow=overflow,
        max_seq_len=max_seq_len if overflow is None else _side_len(tokenizer, max_seq_len, pack_len),
        max_prompt_len=max_prompt_len,
        max_response_len=max_response_len,
        prompt_truncation=prompt_truncation,
        stop_token=stop_token,
    )
    options, rest = StoredOptions.taken_from(
        load_dataset_kwargs, packed=packed, max_seq_len=_pack_len(tokenizer, packed, pack_len, policy)
    )
    recipe = PreferenceRecipe(
        message_transform=own_or_made(
            message_transform,
            PromptedPairToMessages if column_map and "prompt" in column_map else ChosenRejectedToMessages,
            train_on_input=train_on_input or None,
            column_map=column_map,
            new_system_prompt=new_system_prompt,
        ),
        model_transform=tokenizer,
        filter_fn=filter_fn,
        policy=policy,
        **options.row_fields(source, {"split": split, **rest}),
    )
    return options.built(recipe, tokenizer, unstored=PreferenceDataset.of_recipe, stored=StoredPreferenceDataset)


def _side_len(tokenizer: Any, given: int | None, pack_len: int | None = None) -> int | None:
    """The most tokens of a side: as given, the tokenizer's, or half a pack's."""
    if given is None:
        given = getattr(tokenizer, "max_seq_len", None)
    return pack_len // 2 if given is None and pack_len is not None else given


def _pack_len(tokenizer: Any, packed: bool, given: int | None, policy: PairPolicy) -> int | None:
    if not packed:
        if given is not None:
            raise ConfigError(f"pack_len={given!r} has no effect without packed=True. Set both or neither.")
        return None
    if given is not None:
        return given
    side = _side_len(tokenizer, policy.max_seq_len)
    if side is None:
        raise ConfigError("packed=True needs the length of a pack: set pack_len, or max_seq_len on the tokenizer.")
    return 2 * side


def hh_rlhf_helpful_dataset(
    tokenizer: Any,
    *,
    source: Source = "RLHFlow/HH-RLHF-Helpful-standard",
    column_map: dict[str, str] | None = None,
    train_on_input: bool = False,
    new_system_prompt: str | None = None,
    filter_fn: Callable[..., bool] | str | None = None,
    split: str = "train",
    **load_dataset_kwargs: Any,
) -> BuiltPairs:
    """Anthropic's helpfulness pairs, as conversations in the columns ``chosen`` and ``rejected``.

    Args:
        column_map: other names for those columns.

    The other arguments are those of :func:`preference_dataset`.
    """
    return preference_dataset(
        tokenizer,
        source=source,
        column_map=column_map,
        train_on_input=train_on_input,
        new_system_prompt=new_system_prompt,
        filter_fn=filter_fn,
        split=split,
        **load_dataset_kwargs,
    )


def stack_exchange_paired_dataset(
    tokenizer: Any,
    *,
    source: Source = "lvwerra/stack-exchange-paired",
    column_map: dict[str, str] | None = None,
    train_on_input: bool = False,
    filter_fn: Callable[..., bool] | str | None = None,
    split: str = "train",
    **load_dataset_kwargs: Any,
) -> BuiltPairs:
    """Questions of Stack Exchange with two answers each: the columns ``question``, ``response_j`` and ``response_k``.

    ``data_dir`` is "data/rl" unless given, or ``data_files`` is.

    Args:
        column_map: other names for them, under ``prompt``, ``chosen`` and ``rejected``.

    The other arguments are those of :func:`preference_dataset`.
    """
    if isinstance(source, str) and "data_files" not in load_dataset_kwargs:
        load_dataset_kwargs.setdefault("data_dir", "data/rl")
    return preference_dataset(
        tokenizer,
        source=source,
        message_transform=StackExchangePairedToMessages(
            train_on_input=train_on_input,
            column_map=column_map or {"prompt": "question", "chosen": "response_j", "rejected": "response_k"},
        ),
        filter_fn=filter_fn,
        split=split,
        **load_dataset_kwargs,
    )
