"""A plan as text."""

from collections.abc import Sequence

from torchpipe._counted import counted
from torchpipe.audit import graph_plan_text
from torchpipe.audit.plan_compare import MAX_STEPS as MAX_STEPS_COMPARED
from torchpipe.audit.plan_compare import Alternative
from torchpipe.audit.plan_report import PlanReport, SectionPlan
from torchpipe.audit.plan_words import UNDER, spread_words
from torchpipe.data.ledger import described_sizes
from torchpipe.data.pair_transform import SIDES


def to_text(report: PlanReport) -> str:
    """The plan: a block of lines for each section, and the table of alternatives."""
    blocks = [] if report.graph is None else [graph_plan_text.to_text(report.graph)]
    blocks += [_section(section, report) for section in report.sections]
    if report.graph is None or report.graph.rows is not None or report.sections:
        blocks.append(_cost(report))
    blocks.append(report.why_no_alternatives or _table(report.alternatives, report.sections[0].noun))
    return "\n\n".join(blocks)


def _cost(report: PlanReport) -> str:
    first = report.sections[0] if report.graph is None else None
    evened = ""
    if report.graph is not None:
        rows = report.graph.rows
        evened = "" if rows is None or rows.balance == "none" else "\nA run evens ranks out by the cost for Llama 3 8B."
    elif first is not None and first.is_packed:
        evened = "\nA run evens ranks out by the cost for Llama 3 8B."
    elif first is not None and first.steps.costs is not None:
        evened = "\nPadding is not counted. A run evens ranks out by tokens."
    return f"cost: of tokens and attention, with the coefficients of {report.cost.told}.{evened}"


def _section(section: SectionPlan, report: PlanReport) -> str:
    lines = [("ledger", described_sizes(section.ledger)), _counts(section)]
    if section.tokens_of_sides is not None:
        lines.append(("sides", _sides(section.tokens_of_sides, section.counts.rows // len(SIDES))))
    if section.mix:
        lines.append(("mix", section.mix))
    if section.is_packed:
        padding = section.num_positions - section.num_tokens
        held = section.num_documents // section.samples_an_item
        what = "documents" if section.noun == "row" else f"{section.noun}s"
        lines.append(
            (
                "packs",
                f"{section.num_items:,} of {section.max_seq_len:,} tokens ({section.strategy}): fill "
                f"{section.fill:.2%}, {held / section.num_items:.1f} {what} a pack, {padding:,} tokens of padding",
            )
        )
    else:
        padded = "both sides of its pairs are padded to the longest side" if section.noun == "pair" else ""
        lines.append(
            (
                "rows" if section.noun == "row" else "batches",
                f"not packed: {section.fill:.2%} of a micro-batch is tokens, if "
                f"{padded or 'it is padded to its longest'}",
            )
        )
    steps = section.steps
    whole = "" if section.num_steps is None else f" an epoch, {section.num_steps:,} in the run"
    lines += [
        ("steps", f"{len(steps):,}{whole or ' for each validation'}; {_global_batch(section, report)}"),
        (
            "ranks",
            f"{section.world_size:,}, each with {counted(section.micro_batches, 'micro-batch', 'es')} of "
            f"{counted(section.batch_size, _item(section))} a step; "
            f"{counted(section.num_padding_items, f'padding {_item(section)}')} to fill the steps",
        ),
        ("balance", _balance(section)),
    ]
    names = " + ".join(section.names)
    return "\n".join([f"{section.section}: {names}", *(f"  {name:<8} {told}" for name, told in lines)])


def _counts(section: SectionPlan) -> tuple[str, str]:
    name = {"row": "samples", "pair": "pairs", "prompt": "prompts"}[section.noun]
    return name, section.counts.describe(section.noun)


def _sides(tokens: Sequence[int], num_pairs: int) -> str:
    told = zip(SIDES, tokens, strict=True)
    return ", ".join(f"{total:,} tokens {side} ({total / num_pairs:.0f} a pair)" for side, total in told)


def _item(section: SectionPlan) -> str:
    return "pack" if section.is_packed else section.noun


def _global_batch(section: SectionPlan, report: PlanReport) -> str:
    packs = f"{counted(section.steps.global_batch_size, _item(section))} a step"
    if section.num_steps is None:
        return f"{packs} = batch_size {section.batch_size} x {counted(section.world_size, 'rank')}"
    if report.settings["global_batch_size"]:
        return f"{packs} (global_batch_size)"
    accumulation = report.settings["gradient_accumulation_steps"]
    return (
        f"{packs} = batch_size {section.batch_size} x gradient_accumulation_steps {accumulation} x "
        f"{counted(section.world_size, 'rank')}"
    )


def _balance(section: SectionPlan) -> str:
    if section.world_size == 1:
        return "one rank: nothing to share out"
    own = section.spreads[section.steps.balance]
    known = section.steps.costs is not None
    told = [f"{section.steps.balance if known else 'in order'}: {spread_words(own)}"]
    if known:
        others = [
            f"{name}: {spread.worst:.3f} and {spread.mean:.3f}"
            for name, spread in section.spreads.items()
            if name != section.steps.balance
        ]
        told.append("; ".join(others))
    else:
        known_if = "cached" if section.noun == "prompt" else "packed or cached"
        told.append(f"what {_item(section)}s cost isn't known to a run before it reads them ({known_if}, it is)")
    total = len(section.steps)
    if section.steps.num_packs < section.steps.global_batch_size:
        told.append("the one step is a short one")
    elif own.num_steps < total:
        told.append(f"measured on {own.num_steps:,} of {total:,} steps, short ones left out")
    return UNDER.join(told)


def _table(alternatives: Sequence[Alternative], noun: str) -> str:
    rows = [_columns(noun), *(_cells(one, noun) for one in alternatives)]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    balance_at = sum(widths[:6]) + 2 * 6
    lines = [" " * balance_at + "worst max/mean over ranks with balance"]
    for row, alternative in zip(rows, [None, *alternatives], strict=True):
        cells = [
            cell.ljust(width) if column in (1,) else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        told = f"longer {noun}s" if alternative is None else _longer_rows(alternative, noun)
        lines.append(f"{'  '.join(cells)}  {told}".rstrip())
    if any(one.is_of_config for one in alternatives):
        lines.append("* as the config has it")
    if not all(one.is_exact for one in alternatives):
        lines.append(
            "~ estimated from lengths: a run may cut rows elsewhere, where turns begin or around calls and pictures"
        )
    if any(one.num_steps is not None and one.num_steps > MAX_STEPS_COMPARED for one in alternatives):
        lines.append(f"the balance of at most {MAX_STEPS_COMPARED} steps of an epoch was measured")
    return "\n".join(lines)


def _columns(noun: str) -> tuple[str, ...]:
    held = "docs/pack" if noun == "row" else f"{noun}s/pack"
    return ("max_seq_len", "strategy", "packs", "fill", held, "steps", "none", "within_step", "steps")


def _cells(one: Alternative, noun: str) -> tuple[str, ...]:
    name = f"{one.strategy}{' *' if one.is_of_config else ''}"
    if one.num_packs is None or one.fill is None or one.documents_a_pack is None or one.worst is None:
        return (f"{one.max_seq_len:,}", name, *["-"] * 7)
    about = "" if one.is_exact else "~"
    return (
        f"{one.max_seq_len:,}",
        name,
        f"{about}{one.num_packs:,}",
        f"{one.fill:.2%}",
        f"{one.documents_a_pack / (len(SIDES) if noun == 'pair' else 1):.1f}",
        f"{about}{one.num_steps:,}",
        *("-" if worst is None else f"{worst:.3f}" for worst in one.worst.values()),
    )


def _longer_rows(one: Alternative, noun: str) -> str:
    if one.num_refused:
        return f"a run stops: overflow is error, and {counted(one.num_refused, noun)} too long"
    if one.num_packs is None:
        return f"a run stops: {counted(one.num_left_out, noun)} left out, and none to pack"
    about = "" if one.is_exact else "~"
    parts = [
        f"{counted(one.num_cut, noun)} cut by {one.num_tokens_cut:,} tokens" if one.num_cut else "",
        f"{counted(one.num_split, noun)} split" if one.num_split else "",
        f"{counted(one.num_left_out, noun)} left out" if one.num_left_out else "",
    ]
    return f"{about}{', '.join(filter(None, parts))}" if any(parts) else "none"
