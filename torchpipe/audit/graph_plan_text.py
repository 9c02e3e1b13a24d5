"""The plan of a graph as text."""

from collections.abc import Iterator, Sequence

from torchpipe._counted import counted
from torchpipe.audit.graph_plan import GraphPlan, NodePlan, RowsPlan, SourcePlan
from torchpipe.audit.plan_words import UNDER, spread_words
from torchpipe.pipeline.account import described_account, fill_of
from torchpipe.pipeline.graph_words import in_graph_words

_ENDS = {"first": "up to the end of the first source", "all": "until all sources were gone through"}


def to_text(plan: GraphPlan) -> str:
    """A block of lines: each source, what each node does, the rows, the steps, and how even the ranks are."""
    lines = [("source", _source(source)) for source in plan.sources]
    lines += [(node.kind, _node(node)) for node in reversed(plan.nodes)]  # from the sources on
    if plan.rows is None:
        head = f"{plan.section}: run by Grain, as rows come, and not planned: {plan.why_not_planned}"
        known = f"batches of {plan.num_tokens_per_batch:,} tokens, documents of at most {plan.max_context_length:,}"
        lines.append(("known", f"{known}; what becomes of rows and how many there are, a run counts"))
        lines.append(("steps", _steps(plan)))
        return _block(head, lines)
    lines.append(("rows", _rows(plan, plan.rows)))
    lines.append(("steps", _steps(plan)))
    lines.append(("balance", _balance(plan, plan.rows)))
    return _block(f"{plan.section}: planned from {', '.join(source.name for source in plan.sources)}", lines)


def _block(head: str, lines: Sequence[tuple[str, str]]) -> str:
    return "\n".join([head, *(f"  {name:<8} {told}" for name, told in lines)])


def _source(source: SourcePlan) -> str:
    name = f"{source.name}, of {source.source}"
    if source.account is None:
        number = "a stream, or rows that are counted when it is opened"
        return f"{name}: {number if source.num_rows is None else counted(source.num_rows, 'row')}"
    told = f"{name}: {described_account(source.account)}"
    return told if source.counts is None else f"{told}{UNDER}{in_graph_words(source.counts.describe())}"


def _node(node: NodePlan) -> str:
    return UNDER.join({"mix": _mix, "packing": _packing}.get(node.kind, _concat)(node))


def _mix(node: NodePlan) -> Iterator[str]:
    settings, by = node.settings, node.settings["by"].replace("_", " ")
    yield f"{node.name}, by {by}, {_ENDS[settings['stop']]}: {counted(node.num_rows, 'row')}"
    for part in node.parts:
        share = node.account.get(part)
        if share is None:
            yield f"{part}: nothing, for it has no rows to give"
            continue
        yield (
            f"{part}: {share['served']:.2%} served of {share['target']:.2%}, {counted(share['rows'], 'row')}, gone "
            f"through {share['epochs']:.2f} times"
        )


def _packing(node: NodePlan) -> Iterator[str]:
    account = node.account
    yield f"{node.name}, {node.settings['strategy']}: fill {fill_of(account):.2%}; {described_account(account)}"


def _concat(node: NodePlan) -> Iterator[str]:
    yield f"{node.name}: {counted(node.num_rows, 'row')} of {', '.join(node.parts)}"


def _rows(plan: GraphPlan, rows: RowsPlan) -> str:
    told = (
        f"{rows.num_rows:,} in the first epoch, in batches of {plan.num_tokens_per_batch:,} tokens: fill "
        f"{rows.fill:.2%}, {rows.num_documents / rows.num_rows:.1f} documents a row, "
        f"{rows.num_positions - rows.num_tokens:,} tokens of padding{UNDER}{rows.num_tokens:,} tokens, "
        f"{rows.num_trained:,} trained ({rows.num_trained / rows.num_tokens:.0%})"
    )
    if rows.longest > plan.num_tokens_per_batch:
        told += f"{UNDER}a run stops: the longest row has {rows.longest:,} tokens, and a batch has no room for it"
    return told


def _steps(plan: GraphPlan) -> str:
    told = [] if plan.steps_an_epoch is None else [f"{plan.steps_an_epoch:,.1f} an epoch"]
    told += [] if plan.num_steps is None else [f"{plan.num_steps:,} in the run"]
    return f"{', '.join(told)}; {plan.steps_told}" if told else plan.steps_told


def _balance(plan: GraphPlan, rows: RowsPlan) -> str:
    if plan.world_size == 1:
        return "one rank: nothing to share out"
    told = [f"{rows.balance}: {spread_words(rows.spread)}"]
    if plan.rows_a_batch * plan.micro_batches > 1:
        others = [(way, spread) for way, spread in rows.spreads.items() if way != rows.balance]
        told.append("; ".join(f"{way}: {spread.worst:.3f} and {spread.mean:.3f}" for way, spread in others))
    else:
        told.append("a rank has one row of a step, and there is nothing to even out")
    whole, rest = divmod(rows.num_rows, plan.global_batch_size)
    if not whole:
        told.append("an epoch has fewer rows than a step, and they were measured as one")
    elif rows.spread.num_steps < whole + bool(rest):
        told.append(f"measured on {counted(rows.spread.num_steps, 'whole step')} of the first epoch")
    return UNDER.join(told)
