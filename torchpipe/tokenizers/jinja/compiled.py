"""How chat templates become Python code: jinja's way, with limits, and with less to do for each attribute and sum."""

from collections.abc import MutableMapping
from functools import cached_property
from typing import Any

from jinja2 import Template, compiler, nodes
from jinja2.compiler import Frame
from jinja2.ext import Extension
from jinja2.nodes import EvalContext
from jinja2.parser import Parser
from jinja2.runtime import Context

from torchpipe.tokenizers.jinja.syntax import is_mark

DICT_NAMES = frozenset(dir(dict))
"""The attributes of dicts. Any other name that a template asks a dict for is one of its keys."""


class CodeGenerator(compiler.CodeGenerator):
    """jinja's own, which also counts the template's steps and looks at the size of sums.

    Where the environment ``adds_at_once``, the terms of a printed sum are handed on as a tuple, and those of another
    long sum are added in one step.
    """

    _parts_of: nodes.Add | None = None

    def write_commons(self) -> None:
        """Names what compiled code uses everywhere."""
        super().write_commons()
        self.writeline("tick = environment.state().tick")
        self.writeline("added = environment.added")
        self.writeline("item = environment.item")

    def enter_frame(self, frame: Frame) -> None:
        """Counts the step of a loop, or the call of a macro."""
        super().enter_frame(frame)
        self.writeline("tick()")

    def visit_Getattr(self, node: nodes.Getattr, frame: Frame) -> None:  # noqa: N802
        """Writes ``a.b``."""
        if node.attr in DICT_NAMES:
            super().visit_Getattr(node, frame)
            return
        self.write("item(")
        self.visit(node.node, frame)
        self.write(f", {node.attr!r})")

    def visit_Add(self, node: nodes.Add, frame: Frame) -> None:  # noqa: N802
        """Writes ``a + b``."""
        is_long = isinstance(node.left, nodes.Add)
        if node is self._parts_of or (is_long and self.environment.adds_at_once):  # type: ignore[attr-defined]
            self.write("(" if node is self._parts_of else "summed((")
            for term in _terms(node):
                self.visit(term, frame)
                self.write(", ")
            self.write(")" if node is self._parts_of else "))")
        elif isinstance(node.left, nodes.Const) or isinstance(node.right, nodes.Const):
            super().visit_Add(node, frame)  # grows no faster than the template is long
        else:
            self.write("added(")
            self.visit(node.left, frame)
            self.write(", ")
            self.visit(node.right, frame)
            self.write(")")

    def _output_child_pre(self, node: nodes.Expr, frame: Frame, finalize: Any) -> None:
        if self.environment.adds_at_once and not (frame.eval_ctx.volatile or frame.eval_ctx.autoescape):  # type: ignore[attr-defined]
            if isinstance(node, nodes.Add):
                self._parts_of = node
                self.write("parts(")
                return
            if is_mark(node):
                self.write("(")
                return
        super()._output_child_pre(node, frame, finalize)


def _terms(node: nodes.Expr) -> list[nodes.Expr]:
    """The terms of a sum, as they are added from left to right. Texts that stand together are one term."""
    if not isinstance(node, nodes.Add):
        return [node]
    *before, last = _terms(node.left)
    if _is_text(last) and _is_text(node.right):
        return [*before, nodes.Const(last.value + node.right.value)]  # type: ignore[attr-defined]
    return [*before, last, node.right]


def _is_text(node: nodes.Expr) -> bool:
    return isinstance(node, nodes.Const) and type(node.value) is str


class LeanContext(Context):
    """The names that a template reads, made with less ado: no template is imported or extended here."""

    def __init__(self, environment: Any, parent: dict[str, Any], blocks: dict[str, Any]) -> None:
        self.parent = parent
        self.vars = {}
        self.environment = environment
        self.exported_vars = set()
        self.name = None
        self.globals_keys = set()
        self.blocks = {name: [block] for name, block in blocks.items()} if blocks else {}

    @cached_property
    def eval_ctx(self) -> EvalContext:  # type: ignore[override]
        """What blocks and filters ask about escaping; few templates do."""
        return EvalContext(self.environment, None)


class CompiledTemplate(Template):
    """jinja's own, whose compiled code sees what its environment puts in place of jinja's runtime."""

    @classmethod
    def _from_namespace(cls, environment: Any, namespace: MutableMapping[str, Any], globals: Any) -> Template:
        namespace.update(environment.runtime)
        return super()._from_namespace(environment, namespace, globals)

    def chunks(self, names: dict[str, Any]) -> Any:
        """What the template prints, piece by piece."""
        return self.root_render_func(LeanContext(self.environment, {**self._shared, **names}, self.blocks))

    @cached_property
    def _shared(self) -> dict[str, Any]:
        return dict(self.globals)  # jinja keeps a chain of mappings, which is slow to read


class Generation(Extension):
    """``{% generation %}``: a scope of its own, and nothing else. Tracing finds what the model writes without it."""

    tags = {"generation"}  # noqa: RUF012

    def parse(self, parser: Parser) -> nodes.Node:
        """The node of the tag that the parser stands at."""
        scope = nodes.Scope(lineno=next(parser.stream).lineno)
        scope.body = parser.parse_statements(("name:endgeneration",), drop_needle=True)
        return scope
