"""What a function changes outside itself, read from its compiled code: then a row's result depends on those before it.

This finds the plain ways (``self.n += 1``, ``self.seen.add(x)``, ``global n``), not every way that there is.
"""

import dis
import types
from collections.abc import Callable, Iterator
from itertools import pairwise

LOADS_ATTRIBUTE = frozenset({"LOAD_ATTR", "LOAD_METHOD"})
_CHANGING = frozenset(
    """add append appendleft clear difference_update discard extend insert intersection_update pop popitem popleft
    remove reverse setdefault sort symmetric_difference_update update write""".split()  # noqa: SIM905
)


def codes_of(code: types.CodeType) -> Iterator[types.CodeType]:
    """A function's code, and that of the functions, lambdas and comprehensions inside it."""
    yield code
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from codes_of(constant)


def changed_outside(function: types.FunctionType) -> str | None:
    """The global, the outer variable, or the attribute of a global that a function changes; None without any."""
    outer = set(function.__code__.co_freevars)
    for code in codes_of(function.__code__):
        for step in dis.get_instructions(code):
            if step.opname in ("STORE_GLOBAL", "DELETE_GLOBAL"):
                return f"the global {step.argval}"
            if step.opname in ("STORE_DEREF", "DELETE_DEREF") and step.argval in outer:
                return f"the outer {step.argval}"
        found = _changed_attribute(code, lambda step: step.opname == "LOAD_GLOBAL")
        if found is not None:
            return f"the global {found[0]}.{found[1]}"
    return None


def changed_on_self(function: types.FunctionType) -> str | None:
    """The attribute that a method changes on its object; None without any."""
    code = function.__code__
    if not code.co_argcount:
        return None
    me = code.co_varnames[0]

    def loads_me(step: dis.Instruction) -> bool:
        return step.opname.startswith("LOAD_FAST") and (step.argval == me or step.argval[-1:] == (me,))

    found = _changed_attribute(code, loads_me)
    return None if found is None else found[1]


def _changed_attribute(code: types.CodeType, loads_owner: Callable[[dis.Instruction], bool]) -> tuple[str, str] | None:
    """What ``loads_owner`` loads, and its attribute that is set, added to, or changed by a method."""
    steps = [step for step in dis.get_instructions(code) if step.opname not in ("CACHE", "COPY", "NOP")]
    # owner.n += 1 is: load owner, load n, ..., swap, store n.
    added = {step.argval for last, step in pairwise(steps) if (last.opname, step.opname) == ("SWAP", "STORE_ATTR")}
    for last, step, following in zip(steps, steps[1:], [*steps[2:], None], strict=False):
        is_loaded = step.opname in LOADS_ATTRIBUTE
        calls = following is not None and following.opname in LOADS_ATTRIBUTE and following.argval in _CHANGING
        if loads_owner(last) and (step.opname == "STORE_ATTR" or (is_loaded and (calls or step.argval in added))):
            return str(last.argval), step.argval
    return None
