"""What a template's syntax tells before it is rendered, and the marks that tell the rest while it is.

Two things are read from the tree: whether all text after the last loop is the same for every conversation, and which of
the caller's options it depends on. Two things are put in: marks of the message that each loop stands at, and the name
of the loop whose steps a proof can go by.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any

from jinja2 import nodes

from torchpipe.tokenizers.jinja.messages import RowMessage, message_of, steps_of
from torchpipe.tokenizers.jinja.provenance import Mark
from torchpipe.tokenizers.jinja.text import TracedText, mark_text

AT = "_torchpipe_at"
"""Filter: (item, loop number) -> a mark of the message that the loop stands at, or the empty text."""
STEPS = "_torchpipe_steps"
"""Filter: what the last loop steps through."""
EXITS = "loop_exits"
"""Name, in the compiled template, of the marks of loops' ends by number."""

AT_MARK = "at"
"""Kind of the mark of a message that a loop stands at; its value is (loop number, message)."""
EXIT_MARK = "exit"
"""Kind of the mark of a loop's end; its value is the loop's number."""

PROMPT_FLAG = "add_generation_prompt"

# What may stand after the last loop: nothing that could read a message, a loop or a variable of the template's own.
_SAME_FOR_ALL = (
    nodes.Output,
    nodes.TemplateData,
    nodes.Const,
    nodes.Name,
    nodes.If,
    nodes.Not,
    nodes.And,
    nodes.Or,
    nodes.Test,
    nodes.Compare,
    nodes.Operand,
    nodes.CondExpr,
    nodes.Add,
    nodes.Concat,
)

# What ``loop`` tells without a look at its next item.
_LOOKS_BACK = frozenset({"index", "index0", "first", "previtem", "changed", "cycle", "depth", "depth0"})


@dataclass(frozen=True, kw_only=True)
class Shape:
    """What the tree of a template shows.

    Attributes:
        causal: whether all that follows the last top-level loop is the same text for every conversation.
        ending_options: the caller's options that this text depends on.
        body_options: the names that anything before it reads: the caller's options, and the template's own.
        names_read: all names that the template reads anywhere, its own too.
        num_loops: how many loops are marked.
    """

    causal: bool
    ending_options: frozenset[str]
    body_options: frozenset[str]
    names_read: frozenset[str]
    num_loops: int

    def ends_by(self, option: str) -> bool:
        """Whether ``option`` decides nothing but the text after the last loop."""
        return self.causal and option not in self.body_options


def instrument(tree: nodes.Template) -> Shape:
    """The shape of the template; the tree gets its marks in place."""
    loops = list(tree.find_all(nodes.For))
    numbers = {id(loop): number for number, loop in enumerate(loops)}
    stored = {name.name for name in tree.find_all(nodes.Name) if name.ctx != "load"}
    stored |= {macro.name for macro in tree.find_all(nodes.Macro)}
    last = max((place for place, node in enumerate(tree.body) if isinstance(node, nodes.For)), default=-1)
    ending = tree.body[last + 1 :]
    ending_options = frozenset(_names(ending))
    causal = (
        last >= 0
        and _goes_step_by_step(tree.body[last])
        and not ending_options & (stored | {"messages"})
        and all(isinstance(node, _SAME_FOR_ALL) for node in _descendants(ending))
    )
    shape = Shape(
        causal=causal,
        ending_options=ending_options,
        body_options=frozenset(_names(tree.body[: last + 1])),
        names_read=frozenset(_names(tree.body)),
        num_loops=len(numbers),
    )
    if causal:
        last_loop: nodes.For = tree.body[last]  # pyright: ignore[reportAssignmentType]
        last_loop.iter = _filter(last_loop.iter, STEPS)  # pyright: ignore[reportArgumentType]
    for number, loop in enumerate(loops):
        _mark_items(loop, number)
    _mark_exits(tree, numbers)
    return shape


def _goes_step_by_step(loop: nodes.Node) -> bool:
    """Whether a loop prints as it steps, alike for any number of items, and asks for none before its step.

    A recursive loop prints when it is over, and an ``else`` only where there was no item. What ``loop`` asks ahead of
    its step is noted while the template runs, but for a loop with a condition, which hides the conversation from it.
    """
    if not isinstance(loop, nodes.For) or loop.recursive or loop.else_:
        return False
    if loop.test is None:
        return True
    within = list(_descendants(loop.body))
    names = sum(isinstance(node, nodes.Name) and node.name == "loop" for node in within)
    looks_back = sum(
        isinstance(node, nodes.Getattr)
        and isinstance(node.node, nodes.Name)
        and node.node.name == "loop"
        and node.attr in _LOOKS_BACK
        for node in within
    )
    return names == looks_back


def _mark_items(loop: nodes.For, number: int) -> None:
    """Marks the message that each pass of the loop stands at: the item itself, or ``messages[item]``."""
    if not isinstance(loop.target, nodes.Name):
        return
    for body in _bodies_within(loop):
        for place in range(len(body) - 1, -1, -1):
            node = body[place]
            if isinstance(node, nodes.Assign) and isinstance(node.target, nodes.Name) and _is_indexed(node.node, loop):
                body.insert(place + 1, _output(_filter(_load(node.target.name), AT, number)))
    loop.body.insert(0, _output(_filter(_load(loop.target.name), AT, number)))


def _is_indexed(value: nodes.Node, loop: nodes.For) -> bool:
    return (
        isinstance(value, nodes.Getitem)
        and isinstance(value.node, nodes.Name)
        and isinstance(value.arg, nodes.Name)
        and value.node.name == "messages"
        and value.arg.name == getattr(loop.target, "name", None)
    )


def _mark_exits(parent: nodes.Node, numbers: dict[int, int]) -> None:
    """Puts the mark of a loop's end behind each loop."""
    for body in _bodies_within(parent):
        for place in range(len(body) - 1, -1, -1):
            if id(body[place]) in numbers:
                body.insert(place + 1, _output(_internal(f"{EXITS}[{numbers[id(body[place])]}]")))


def _bodies_within(parent: nodes.Node) -> list[list[nodes.Node]]:
    """The lists of statements at any depth."""
    found = []
    for node in (parent, *parent.find_all(nodes.Node)):
        found += [body for name in ("body", "else_") if isinstance(body := getattr(node, name, None), list)]
    return found


def _names(body: list[nodes.Node]) -> Iterator[str]:
    return (node.name for node in _descendants(body) if isinstance(node, nodes.Name) and node.ctx == "load")


def _descendants(body: list[nodes.Node]) -> Iterator[nodes.Node]:
    for node in body:
        yield node
        yield from node.find_all(nodes.Node)


def _internal(expression: str) -> nodes.InternalName:
    """An expression of the compiled template; jinja makes such nodes without their constructor too."""
    made: nodes.InternalName = object.__new__(nodes.InternalName)
    nodes.Node.__init__(made, expression)
    return made


def is_mark(node: nodes.Node) -> bool:
    """Whether a node of a marked template gives a mark, which is text already."""
    return isinstance(node, nodes.InternalName) or (isinstance(node, nodes.Filter) and node.name == AT)


def _load(name: str) -> nodes.Name:
    return nodes.Name(name, "load")


def _filter(value: nodes.Expr, name: str, *arguments: object) -> nodes.Filter:
    return nodes.Filter(value, name, [nodes.Const(argument) for argument in arguments], [], None, None)


def _output(value: nodes.Expr) -> nodes.Output:
    return nodes.Output([value])


def at(item: Any, loop: int) -> str:
    """The mark of the message that a loop stands at, or the empty text where the item is none."""
    if type(item) is RowMessage:
        return _at_mark(loop, item.index)
    message = message_of(item)
    return "" if message is None else _at_mark(loop, message)


@cache
def _at_mark(loop: int, message: int) -> TracedText:
    return mark_text(Mark(AT_MARK, (loop, message)))


class LoopExits(dict[int, TracedText]):
    """The marks of loops' ends, by number."""

    def __missing__(self, number: int) -> TracedText:
        mark = self[number] = mark_text(Mark(EXIT_MARK, number))
        return mark


MARKING_FILTERS: dict[str, Any] = {AT: at, STEPS: steps_of}
"""What a marked template calls."""
