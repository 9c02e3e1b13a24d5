"""What a run of a config would do, without doing it: its rows, packs, steps, and how even its ranks are."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, get_args

import numpy as np
from omegaconf import DictConfig, OmegaConf

from torchpipe.audit.graph_config import is_of_graph
from torchpipe.audit.graph_plan import MAX_STEPS, GraphPlan, plan_graph
from torchpipe.audit.plan_compare import Alternative, compare
from torchpipe.audit.plan_cost import StatedCost, cost_of_config
from torchpipe.audit.plan_parts import Part, parts_of
from torchpipe.config import Setting, instantiate, read_settings
from torchpipe.data.ledger import SampleCounts, sum_of_counts
from torchpipe.data.ledger_words import Noun
from torchpipe.data.pair_transform import SIDES
from torchpipe.datasets import MixDataset, PackedDataset, describe_mix, instantiate_dataset, instantiate_held_out
from torchpipe.errors import ConfigError
from torchpipe.loading import Balance, GlobalSteps, Spread, measure_spread
from torchpipe.loading.balance import PADDING, num_micro_batches

SETTINGS: dict[str, Setting] = {
    "batch_size": Setting(8, at_least=1),
    "gradient_accumulation_steps": Setting(1, at_least=1),
    "global_batch_size": Setting(None, at_least=1, can_be_null=True),
    "balance": Setting("within_step"),
    "shuffle": Setting(True),
    "seed": Setting(0, at_least=0, can_be_null=True),
    "epochs": Setting(1, at_least=1),
    "max_steps": Setting(None, at_least=1, can_be_null=True),
    "max_steps_per_epoch": Setting(None, at_least=1, can_be_null=True),
}
"""What decides the steps, of a config. The ``sft`` recipe has the same."""

PAIRS_BATCH_SIZE = 4
"""The default ``batch_size`` of the ``dpo`` recipe, which trains on pairs; all else in common has the same defaults."""


@dataclass(frozen=True, kw_only=True)
class SectionPlan:
    """What a run makes of one section.

    Attributes:
        section: its key.
        names: of its data sets.
        ledger: rows read, stored, and left out under each reason, and what is remarked of those stored.
        counts: samples and tokens, as a run prints them.
        max_seq_len: tokens of a pack; None where samples are not packed.
        strategy: how packs are filled; None where samples are not packed.
        noun: what the items are where they are not packed: rows, pairs or prompts.
        tokens_of_sides: of pairs, the tokens of all chosen and of all rejected sides; None elsewhere.
        num_items: packs, or samples (pairs) that are not packed.
        num_documents: samples, and parts of them, in all items.
        num_positions: tokens and padding of all items. Of samples that are not packed, those of the micro-batches that
            were measured, each as long as its longest sample; ``num_tokens`` are then theirs.
        num_tokens: those of them that are no padding.
        steps: the global steps.
        num_steps: optimizer steps of the whole run; None of held-out rows.
        world_size: ranks; batch_size: items of a micro-batch.
        micro_batches: of a rank in a step.
        num_padding_items: padding packs of an epoch.
        spreads: over ranks, in the first epoch, by :data:`~torchpipe.loading.Balance`; "steps" only where rows are
            shuffled.
        mix: the shares of a mix, realised and asked for; "" where nothing is mixed.
    """

    section: str
    names: tuple[str, ...]
    ledger: Mapping[str, int]
    counts: SampleCounts
    max_seq_len: int | None
    strategy: str | None
    noun: Noun
    tokens_of_sides: tuple[int, int] | None
    num_items: int
    num_documents: int
    num_positions: int
    num_tokens: int
    steps: GlobalSteps
    num_steps: int | None
    world_size: int
    batch_size: int
    micro_batches: int
    num_padding_items: int
    spreads: Mapping[str, Spread]
    mix: str = ""

    @property
    def is_packed(self) -> bool:
        """Whether items are packs."""
        return self.max_seq_len is not None

    @property
    def samples_an_item(self) -> int:
        """Samples that belong together: the two of a pair."""
        return len(SIDES) if self.noun == "pair" else 1

    @property
    def num_pairs(self) -> int | None:
        """Pairs that were read and are used; None where items are no pairs."""
        return self.counts.rows // len(SIDES) if self.noun == "pair" else None

    @property
    def fill(self) -> float:
        """The part of all positions that holds tokens."""
        return self.num_tokens / self.num_positions


@dataclass(frozen=True, kw_only=True)
class PlanReport:
    """The plan of a config.

    Attributes:
        world_size: ranks.
        settings: what decides the steps: batch_size, gradient_accumulation_steps, ...
        cost: of a document, and whose coefficients it has.
        sections: ``dataset``, unless there is a graph, and ``dataset_val`` where there is one.
        alternatives: strategies and lengths for ``dataset``.
        why_no_alternatives: why there are none; None where there are.
        graph: of the section ``dataloader``, where the rows come from one; None elsewhere.
    """

    world_size: int
    settings: Mapping[str, Any]
    cost: StatedCost
    sections: tuple[SectionPlan, ...]
    alternatives: tuple[Alternative, ...]
    why_no_alternatives: str | None = None
    graph: GraphPlan | None = None


def plan_config(
    cfg: DictConfig,
    *,
    world_size: int = 1,
    strategies: Sequence[str] | None = None,
    max_seq_lens: Sequence[int] | None = None,
) -> PlanReport:
    """What a run of a config on so many ranks would do. Its tokenizer and data sets are built, and no model.

    Data sets with a store are opened, or built, as a run does; other rows are read once. The steps are those of the
    ``sft`` recipe (of pairs: of ``dpo``), and so are the defaults of what the config leaves out.

    Args:
        cfg: a whole config.
        world_size: ranks.
        strategies: that are compared; None: :data:`~torchpipe.audit.plan_compare.STRATEGIES` and the config's own.
        max_seq_lens: that are compared; None: the config's own.

    Raises:
        ConfigError: a section or an option is not possible.
        Exception: a bad row's own error, which names it.
    """
    for name, values in (("ranks", [world_size]), ("max_seq_len", max_seq_lens or [])):
        for value in values:
            if type(value) is not int or value < 1:
                raise ConfigError(f"{name} is {value!r}. Give a whole number, 1 or more.")
    settings = _settings(cfg)
    asked = [name for name, given in (("strategies", strategies), ("max_seq_len", max_seq_lens)) if given]
    has_graph = is_of_graph(cfg, "dataset")
    if has_graph and asked:
        raise ConfigError(f"A graph takes no {' and no '.join(asked)}. {_NO_OTHER_PACKS}")
    for key in ("tokenizer",) if has_graph else ("tokenizer", "dataset"):
        if cfg.get(key) is None:
            raise ConfigError(
                f"The config has no {key} section, and a plan is made of the tokenizer and the data sets."
            )
    cost = cost_of_config(cfg)
    graph = plan_graph(cfg, settings, world_size=world_size, cost=cost) if has_graph else None
    tokenizer = instantiate(cfg["tokenizer"], caller_globals={})
    sections = []
    found: list[list[Part]] = []
    for key in ("dataset", "dataset_val"):
        if cfg.get(key) is None:
            continue
        for name, dataset in _named(key, cfg[key], tokenizer).items():
            section = cfg[key]
            if isinstance(section, Mapping) and "_component_" not in section:
                section = section[name.partition(".")[2]]
            found.append(parts_of(dataset, section))
            if not has_graph and "batch_size" not in cfg and all(part.noun == "pair" for part in found[0]):
                settings["batch_size"] = PAIRS_BATCH_SIZE
            sections.append(_planned(name, dataset, found[-1], settings, world_size, cost))
    alternatives, why = [], None
    if has_graph:
        return PlanReport(
            world_size=world_size,
            settings=settings,
            cost=cost,
            sections=tuple(sections),
            alternatives=(),
            why_no_alternatives=_NO_OTHER_PACKS,
            graph=graph,
        )
    try:
        alternatives = compare(
            found[0],
            strategies=strategies,
            max_seq_lens=max_seq_lens,
            steps_of=lambda costs: _steps(settings, world_size, num_packs=len(costs), costs=costs),
            cost=cost.model,
            world_size=world_size,
            batch_size=settings["batch_size"],
        )
    except ConfigError as error:
        if asked:
            raise
        why = str(error)
    return PlanReport(
        world_size=world_size,
        settings=settings,
        cost=cost,
        sections=tuple(sections),
        alternatives=tuple(alternatives),
        why_no_alternatives=why,
    )


_NO_OTHER_PACKS = "No other packs are compared: the nodes of the graph say how its rows are packed."


def _named(key: str, section: Any, tokenizer: Any) -> dict[str, Any]:
    """The data sets of a section, by the section's name; held-out ones that are looked at one by one have their own."""
    if key == "dataset":
        return {key: instantiate_dataset(section, tokenizer, caller_globals={})}
    held_out = instantiate_held_out(section, tokenizer, caller_globals={})
    return {key if name == "held-out" else f"{key}.{name}": dataset for name, dataset in held_out.items()}


def _settings(cfg: DictConfig) -> dict[str, Any]:
    """What decides the steps, with the defaults of what the config leaves out."""
    given = {key: "???" if OmegaConf.is_missing(cfg, key) else cfg[key] for key in SETTINGS if key in cfg}
    settings: Any = OmegaConf.to_container(read_settings(OmegaConf.create(given), SETTINGS))
    settings["seed"] = settings["seed"] or 0  # null: a run draws one
    if settings["global_batch_size"] and settings["gradient_accumulation_steps"] > 1:
        raise ConfigError(
            "global_batch_size says how many micro-batches a step has, and gradient_accumulation_steps too. Set one."
        )
    return settings


def _steps(settings: Mapping[str, Any], world_size: int, **packs: Any) -> GlobalSteps:
    """The global steps of training, as the recipe makes them."""
    per_step = settings["batch_size"] * settings["gradient_accumulation_steps"] * world_size
    return GlobalSteps(
        global_batch_size=settings["global_batch_size"] or per_step,
        **{key: settings[key] for key in ("seed", "shuffle", "balance")},
        **packs,
    )


def _planned(
    section: str, dataset: Any, parts: Sequence[Part], settings: Mapping[str, Any], world_size: int, cost: StatedCost
) -> SectionPlan:
    batch_size, is_trained = settings["batch_size"], section == "dataset"
    if is_trained:
        empty = _steps(settings, world_size, num_packs=1)
        steps = GlobalSteps.of(
            dataset,
            global_batch_size=empty.global_batch_size,
            seed=empty.seed,
            shuffle=empty.shuffle,
            balance=empty.balance,
        )
    else:  # each validation goes through the rows once, in order
        steps = GlobalSteps.of(dataset, global_batch_size=batch_size * world_size, shuffle=False)
    micro_batches = num_micro_batches(steps.global_batch_size, world_size=world_size, batch_size=batch_size)
    costs = np.concatenate([part.costs(cost.model) for part in parts])
    plans = [part.plan for part in parts if part.plan is not None]
    is_packed = len(plans) == len(parts)
    packed = [
        one
        for part in parts
        for one in (part.dataset.datasets if isinstance(part.dataset, MixDataset) else [part.dataset])
        if isinstance(one, PackedDataset)
    ]
    lens = {one.max_seq_len for one in packed}
    strategies = dict.fromkeys(str(one.strategy) for one in packed)
    if is_packed:
        num_tokens = sum(int(plan.num_tokens.sum()) for plan in plans)
        num_positions = sum(int(plan.pack_lens.sum()) for plan in plans)
    else:
        lengths = np.concatenate([part.lengths_of_items for part in parts]).astype(np.int64)
        num_tokens, num_positions = _padded(steps, lengths, world_size=world_size, batch_size=batch_size)
    noun = parts[0].noun if len({part.noun for part in parts}) == 1 else "row"
    sides = None
    if noun == "pair":
        sides = np.concatenate([part.lengths_of_items for part in parts]).sum(axis=0, dtype=np.int64).tolist()
    num_epochs_steps = settings["epochs"] * min(len(steps), settings["max_steps_per_epoch"] or len(steps))
    return SectionPlan(
        section=section,
        names=tuple(part.name for part in parts),
        ledger={name: sum(part.ledger.get(name, 0) for part in parts) for part in parts for name in part.ledger},
        counts=sum_of_counts([part.counts for part in parts]),
        max_seq_len=max(lens) if is_packed else None,
        strategy=", ".join(strategies) if is_packed else None,
        noun=noun,
        tokens_of_sides=None if sides is None else (sides[0], sides[1]),
        num_items=steps.num_packs,
        num_documents=sum(len(part.lengths if part.plan is None else part.plan.sample) for part in parts),
        num_positions=num_positions,
        num_tokens=num_tokens,
        steps=steps,
        num_steps=min(num_epochs_steps, settings["max_steps"] or num_epochs_steps) if is_trained else None,
        world_size=world_size,
        batch_size=batch_size,
        micro_batches=micro_batches,
        num_padding_items=len(steps) * world_size * micro_batches * batch_size - steps.num_packs,
        spreads={
            balance: measure_spread(
                replace(steps, balance=balance),
                world_size=world_size,
                batch_size=batch_size,
                costs=costs,
                max_steps=MAX_STEPS,
            )
            for balance in get_args(Balance)
            if balance != "steps" or steps.shuffle
        },
        mix=describe_mix(dataset),
    )


def _padded(steps: GlobalSteps, lengths: np.ndarray, *, world_size: int, batch_size: int) -> tuple[int, int]:
    """Tokens of micro-batches, and their positions where each sample is as long as the longest of its micro-batch.

    Args:
        steps, world_size, batch_size: whose micro-batches they are.
        lengths: tokens of each item's samples: [items, samples an item].
    """
    longest, totals = lengths.max(axis=1), lengths.sum(axis=1)
    num_steps = min(len(steps), MAX_STEPS)
    num_tokens = num_positions = 0
    for number in range(num_steps):
        layout = steps.layout(0, number * len(steps) // num_steps, world_size=world_size, batch_size=batch_size)
        is_real = layout != PADDING
        num_tokens += int(np.where(is_real, totals[layout], 0).sum())
        widths = np.where(is_real, longest[layout], 0).max(axis=2)
        num_positions += int((widths * is_real.sum(axis=2)).sum()) * lengths.shape[1]
    return num_tokens, num_positions
