"""A plan as JSON. docs/plan.md describes the schema; a change of it is a new number."""

import json
from dataclasses import asdict
from typing import Any

from torchpipe.audit.graph_plan import GraphPlan
from torchpipe.audit.plan_report import PlanReport, SectionPlan
from torchpipe.data.pair_transform import SIDES
from torchpipe.loading import Spread

SCHEMA = "torchpipe.plan/1"


def to_dict(report: PlanReport) -> dict[str, Any]:
    """The plan as plain values."""
    return {
        "schema": SCHEMA,
        "ranks": report.world_size,
        "settings": dict(report.settings),
        "cost": {"of": report.cost.of, "why_not_own": report.cost.why_not_own, **asdict(report.cost.model)},
        "sections": [_section(section) for section in report.sections],
        "alternatives": [asdict(one) for one in report.alternatives],
        "why_no_alternatives": report.why_no_alternatives,
        "graph": None if report.graph is None else _graph(report.graph),
    }


def to_json(report: PlanReport, *, indent: int | None = None) -> str:
    """The same as one JSON text of printable ASCII."""
    return json.dumps(to_dict(report), ensure_ascii=True, indent=indent)


def _graph(plan: GraphPlan) -> dict[str, Any]:
    rows = None
    if plan.rows is not None:
        spreads = {way: _spread(spread) for way, spread in plan.rows.spreads.items()}
        rows = {**asdict(plan.rows), "fill": plan.rows.fill, "spread": _spread(plan.rows.spread), "spreads": spreads}
    told = asdict(plan)
    del told["steps_told"]
    return {**told, "rows": rows, "steps_an_epoch": plan.steps_an_epoch}


def _spread(spread: Spread) -> dict[str, Any]:
    told = asdict(spread)
    del told["length_correlation"]  # of documents' lengths, which were not given
    return told


def _section(section: SectionPlan) -> dict[str, Any]:
    steps = section.steps
    spreads = {balance: _spread(spread) for balance, spread in section.spreads.items()}
    return {
        "section": section.section,
        "names": list(section.names),
        "ledger": dict(section.ledger),
        "counts": asdict(section.counts),
        "mix": section.mix or None,
        "packed": section.is_packed,
        "max_seq_len": section.max_seq_len,
        "strategy": section.strategy,
        "item": "pack" if section.is_packed else section.noun,
        "num_pairs": section.num_pairs,
        "tokens_of_sides": (
            None if section.tokens_of_sides is None else dict(zip(SIDES, section.tokens_of_sides, strict=True))
        ),
        "num_items": section.num_items,
        "num_documents": section.num_documents,
        "documents_a_pack": section.num_documents / section.num_items if section.is_packed else None,
        "num_tokens": section.num_tokens,
        "num_padding": section.num_positions - section.num_tokens,
        "fill": section.fill,
        "global_batch_size": steps.global_batch_size,
        "batch_size": section.batch_size,
        "micro_batches": section.micro_batches,
        "num_padding_items": section.num_padding_items,
        "steps_an_epoch": len(steps),
        "num_steps": section.num_steps,
        "shuffle": steps.shuffle,
        "balance": steps.balance,
        "spreads": spreads,
    }
