"""Functions and classes by their code, and by all that this code reaches: the part of fingerprints for user's code.

Compiled code is read, not source: of every global name that a function loads, the chain of attributes behind it is
followed to a function, class or constant, which is written as well. Names of files and lines, comments and annotations
don't count.
"""

import builtins
import dataclasses
import dis
import functools
import importlib
import sys
import types
import typing
from enum import Enum
from typing import Any

from torchpipe._code_changes import LOADS_ATTRIBUTE, changed_on_self, changed_outside, codes_of
from torchpipe._fingerprint import Writer, module_of, name_of, slots_of, type_name
from torchpipe._fingerprint_libraries import write_library
from torchpipe._fingerprint_names import IMPURE_BUILTINS, NO_BEHAVIOUR, PURE_MODULES, PURE_NUMPY, PURE_SUBMODULES
from torchpipe._own_code import is_own, library_version, own_code

_PACKAGE = __name__.partition(".")[0]

COMPILED_FUNCTIONS = (
    types.BuiltinFunctionType,
    types.MethodDescriptorType,
    types.WrapperDescriptorType,
    types.MethodWrapperType,
    types.ClassMethodDescriptorType,
    types.GetSetDescriptorType,
    types.MemberDescriptorType,
    type(functools.lru_cache(len)),
)

_MAKES_THE_OBJECT = frozenset({"__init__", "__new__", "__post_init__", "__setstate__", "__init_subclass__"})
_READS = frozenset(
    """cwd exists expanduser glob home is_dir is_file iterdir lstat now open read_bytes read_text rglob stat today
    urlopen utcnow __annotations__""".split()  # noqa: SIM905
)
"""Methods of paths and dates that look at what is outside, whatever object they are called on; and annotations, which
are no part of the code that is written here."""

_BY_NAME = frozenset({"attrgetter", "getattr", "methodcaller"})
"""What looks up the methods whose names stand in texts."""


def write_function(writer: Writer, function: types.FunctionType) -> None:
    """Writes a function: its name if it is ours or of a pure module, else its code and what that reaches.

    The module is that of its globals: ``functools.wraps`` copies the other names of a function onto another one.
    """
    module = str(function.__globals__.get("__name__", ""))
    name = function.__code__.co_qualname
    if _is_known(writer, module, name):
        if "<" not in name:
            return
        write_code(writer, function.__code__)  # one of several of that name
    elif _is_of_library(module):
        asked_for = function.__module__ if module.startswith("numpy.") else module  # which defines them elsewhere
        raise writer.refuse(f"uses {asked_for}.{name}, which may give something else each time")
    else:
        writer.once("the release of Python", lambda: "{}.{}".format(*sys.version_info))
        with writer.owner(name.rpartition("<locals>.")[2]):
            write_code(writer, function.__code__)
            if (changed := changed_outside(function)) is not None:
                raise writer.refuse(f"changes {changed}, so a row's result may depend on those before it")
            _write_reached(writer, function)
    with writer.owner(name.rpartition("<locals>.")[2]):
        writer.write(function.__defaults__)
        writer.write(sorted((function.__kwdefaults__ or {}).items()))
        for free, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
            try:
                held = cell.cell_contents
            except ValueError:
                held = "an empty cell"
            if free != "__class__" or not writer.is_written(held):  # of super(), in a class that is being written
                writer.write(held)
        writer.write(sorted(vars(function).items()))


def _is_known(writer: Writer, module: str, name: str) -> bool:
    """Writes a name that says all: one of ours, of a pure module, or a pure one of NumPy."""
    if is_own(module):
        writer.once("the code of torchpipe", own_code)
    elif _is_pure(module):
        writer.once("the release of Python", lambda: "{}.{}".format(*sys.version_info))
    elif module.partition(".")[0] == "numpy" and f"{module}.{name}".removeprefix("numpy.") in PURE_NUMPY:
        writer.once("the release of NumPy", lambda: library_version("numpy"))
    elif not write_library(writer, module):
        return False
    writer.mark("known", f"{module}.{name}")
    return True


def _is_pure(module: str) -> bool:
    if module.partition(".")[0] not in sys.stdlib_module_names:
        return module == "typing_extensions"  # the user's own _html.py is no part of html
    return module.lstrip("_") in PURE_MODULES or module in PURE_MODULES or module in PURE_SUBMODULES


def _is_of_library(module: str) -> bool:
    """Whether a module is one of Python's library or of NumPy, whose names are known or refused, and not followed."""
    top = module.partition(".")[0]
    return top == "numpy" or (top in sys.stdlib_module_names and top != "__main__")


def write_code(writer: Writer, code: types.CodeType) -> None:
    """Writes compiled code as such, without what it reaches."""
    writer.mark("code", code.co_code)
    writer.mark("flags", repr((code.co_flags, code.co_argcount, code.co_posonlyargcount, code.co_kwonlyargcount)))
    writer.mark("exceptions", getattr(code, "co_exceptiontable", b""))
    for names in (code.co_names, code.co_varnames, code.co_freevars, code.co_cellvars):
        writer.mark("names", "\0".join(names))
    writer.mark("constants", str(len(code.co_consts)))
    for constant in code.co_consts:
        write_code(writer, constant) if isinstance(constant, types.CodeType) else writer.write(constant)


def _write_reached(writer: Writer, function: types.FunctionType) -> None:
    """Writes what the global names of a function lead to, and refuses what is not pure."""
    chains: set[tuple[str, ...]] = set()
    imports: set[tuple[str, tuple[str, ...] | None, int]] = set()
    for code in codes_of(function.__code__):
        by_name = _BY_NAME & set(code.co_names) and _READS & {name for name in code.co_consts if isinstance(name, str)}
        if by_name:
            raise writer.refuse(f"uses .{min(by_name)}, which may give something else each time")
        steps = [step for step in dis.get_instructions(code) if step.opname not in ("CACHE", "PUSH_NULL", "PRECALL")]
        for place, step in enumerate(steps):
            if step.opname in ("LOAD_GLOBAL", "LOAD_NAME", "LOAD_FROM_DICT_OR_GLOBALS"):
                chain = [step.argval]
                for later in steps[place + 1 :]:
                    if later.opname not in LOADS_ATTRIBUTE:
                        break
                    chain.append(later.argval)
                chains.add(tuple(chain))
            elif step.opname in LOADS_ATTRIBUTE and step.argval in _READS:
                raise writer.refuse(f"uses .{step.argval}, which may give something else each time")
            elif step.opname == "IMPORT_NAME":
                level, names = steps[place - 2].argval, steps[place - 1].argval
                imports.add((step.argval, names, level))
    for chain in sorted(chains):
        _write_global(writer, function, chain)
    for module, names, level in sorted(imports, key=repr):
        _write_import(writer, function, module, names, level)


def _write_global(writer: Writer, function: types.FunctionType, chain: tuple[str, ...]) -> None:
    name, *attributes = chain
    writer.mark("global", name)
    if name in function.__globals__:
        value = function.__globals__[name]
        if isinstance(value, types.ModuleType):
            write_module(writer, value, attributes)
            return
        if (held := _changeable(value)) is not None:
            raise writer.refuse(
                f"uses the global {name}, a {type_name(held)}, which may change while rows are read (a "
                "tuple or a types.MappingProxyType may not)"
            )
        writer.write(value)
    elif name in IMPURE_BUILTINS:
        raise writer.refuse(f"uses {name}, which may give something else each time")
    elif not hasattr(builtins, name):
        writer.mark("nothing")


def _changeable(value: Any) -> Any:
    """The part of a constant that can be changed in place; None where there is none."""
    if isinstance(value, tuple):
        return next((found for item in value if (found := _changeable(item)) is not None), None)
    if isinstance(value, types.MappingProxyType):
        return next((found for item in value.values() if (found := _changeable(item)) is not None), None)
    is_plain = module_of(type(value)) in ("builtins", "collections")
    is_table = is_plain and isinstance(value, list | dict | set | bytearray)
    is_array = module_of(type(value)) == "numpy" and getattr(getattr(value, "flags", None), "writeable", False)
    return value if is_table or is_array else None


def write_module(writer: Writer, module: types.ModuleType, attributes: typing.Sequence[str]) -> None:
    """Writes what ``module.a.b.c`` leads to: a name of ours or of a pure module, else the object."""
    name = module.__name__
    for place, attribute in enumerate(attributes):
        following = getattr(module, attribute, None)
        if isinstance(following, types.ModuleType):
            write_module(writer, following, attributes[place + 1 :])
            return
        dotted = f"{name}.{attribute}"
        if name == "builtins" and attribute in IMPURE_BUILTINS:
            raise writer.refuse(f"uses {dotted}, which may give something else each time")
        if _is_known(writer, name, attribute):
            return
        if _is_of_library(name):
            raise writer.refuse(f"uses {dotted}, which may give something else each time")
        if _changeable(following) is not None:
            raise writer.refuse(f"uses {dotted}, a {type_name(following)}, which may change while rows are read")
        writer.mark("attribute", attribute)
        writer.write(following)
        return
    if not _is_known(writer, name, ""):
        raise writer.refuse(f"uses the module {name}, of which can't be told what it gives")


def _write_import(
    writer: Writer, function: types.FunctionType, name: str, names: tuple[str, ...] | None, level: int
) -> None:
    """Writes what an import inside a function brings."""
    package = function.__globals__.get("__package__") or ""
    try:
        module = importlib.import_module("." * level + name, package)
    except ImportError as error:
        raise writer.refuse(f"imports {name}, which fails ({error})") from None
    if names is None:
        if module.__name__.partition(".")[0] in sys.stdlib_module_names and not _is_pure(module.__name__):
            raise writer.refuse(f"uses {name}, which may give something else each time")
        if not _is_known(writer, module.__name__, ""):
            raise writer.refuse(f"imports {name} where it runs, so that its use can't be followed")
        return
    for attribute in names:
        write_module(writer, module, [attribute])


def write_compiled(writer: Writer, value: Any) -> None:
    """Writes a function of compiled code: the name of a pure one, and the object that it is bound to."""
    if hasattr(value, "cache_info"):
        writer.write(value.__wrapped__)
        return
    owner = getattr(value, "__objclass__", None)
    bound = getattr(value, "__self__", None)
    if isinstance(bound, types.ModuleType):
        owner = bound
    module = getattr(value, "__module__", None) or getattr(owner, "__name__", "builtins")
    name = getattr(value, "__qualname__", value.__name__)
    if isinstance(owner, type):
        module, name = module_of(owner), f"{owner.__qualname__}.{value.__name__}"
    if module in (None, "builtins") and name in IMPURE_BUILTINS:
        raise writer.refuse(f"uses {name}, which may give something else each time")
    if bound is not None and not isinstance(bound, types.ModuleType):
        if not _is_pure(module_of(type(bound))) and not is_own(module_of(type(bound))):
            raise writer.refuse(f"uses {name_of(type(bound))}.{value.__name__}, of which can't be told what it gives")
        writer.mark("bound", value.__name__)
        writer.write(bound)
    elif not _is_known(writer, str(module), name):
        raise writer.refuse(f"uses {module}.{name}, of which can't be told what it gives")


def write_class(writer: Writer, cls: type, *, is_made: bool = False) -> None:
    """Writes a class: its name if it is ours, builtin or of a pure module, else its code and that of its bases.

    Args:
        writer: what it is written to.
        cls: the class.
        is_made: it is that of an object, which has been made: what the constructor reads is in the attributes now.
    """
    name = name_of(cls)
    if _is_named(cls) and _is_known(writer, module_of(cls), cls.__qualname__):
        if is_own(module_of(cls)):
            _write_replaced(writer, cls)
        return
    if _is_of_library(module_of(cls)):
        raise writer.refuse(f"holds or uses a {name}, of which can't be told what it gives")
    if type(cls) is not type:
        writer.write(type(cls))
    writer.mark("class", cls.__name__)
    if isinstance(cls.__doc__, str) and not (dataclasses.is_dataclass(cls) and cls.__doc__.startswith(cls.__name__)):
        writer.mark("doc", cls.__doc__)  # that of a function is among its constants
    writer.mark("bases", str(len(cls.__bases__)))
    if is_made:
        writer.note_made(cls)
    for base in cls.__bases__:
        write_class(writer, base, is_made=True) if is_made else writer.write(base)
    if dataclasses.is_dataclass(cls):
        writer.mark("dataclass", repr(vars(cls).get("__dataclass_params__")))
        for field in dataclasses.fields(cls):
            writer.mark("field", f"{field.name} {field.init} {field.compare} {field.kw_only} {field.repr} {field.hash}")
            writer.mark("type", _text_of_type(field.type))
            writer.write(field.metadata)
            _write_default(writer, field.default)
            _write_default(writer, field.default_factory)
    for attribute in sorted(vars(cls)):
        held = vars(cls)[attribute]
        if attribute in NO_BEHAVIOUR or _is_made_by_python(cls, attribute, held):
            continue
        writer.mark("attribute", attribute)
        if attribute == "_owner" and writer.is_made(held):  # what a Config builds, which has been built
            continue
        with writer.owner(f"{cls.__name__}.{attribute}"):
            if is_made and isinstance(held, types.FunctionType) and attribute in _MAKES_THE_OBJECT:
                write_code(writer, held.__code__)
                continue
            is_method = isinstance(held, types.FunctionType) and attribute not in _MAKES_THE_OBJECT
            if is_method and (changed := changed_on_self(held)) is not None:
                raise writer.refuse(f"changes its object's {changed}, so a row's result may depend on those before it")
            writer.write(held)


def _write_replaced(writer: Writer, cls: type) -> None:
    """Writes the methods of a class of ours, and of its bases, that the user has put in place of ours."""
    for base in cls.__mro__:
        for attribute, held in vars(base).items() if is_own(module_of(base)) else ():
            function = getattr(held, "__func__", None) or getattr(held, "fget", None) or held
            module = str(getattr(function, "__globals__", {}).get("__name__", _PACKAGE))
            if not is_own(module) and module.partition(".")[0] not in {_PACKAGE, *sys.stdlib_module_names} - {
                "__main__"
            }:
                writer.mark("in place of", f"{name_of(base)}.{attribute}")
                writer.write(held)


def _text_of_type(annotation: Any) -> str:
    """An annotation as text that is the same in every process."""
    if isinstance(annotation, type) and not isinstance(annotation, types.GenericAlias):
        return name_of(annotation)
    is_text = isinstance(annotation, str) or module_of(type(annotation)) in ("typing", "types", "builtins")
    return str(annotation) if is_text else type_name(annotation)


def _is_named(cls: type) -> bool:
    """Whether the name of a class leads to it. That of a class inside a function does not."""
    found: Any = sys.modules.get(module_of(cls))
    for part in cls.__qualname__.split("."):
        found = getattr(found, part, None)
    return found is cls or module_of(cls) == "builtins"


def _write_default(writer: Writer, default: Any) -> None:
    writer.mark("no default") if default is dataclasses.MISSING else writer.write(default)


def _is_made_by_python(cls: type, attribute: str, held: Any) -> bool:
    """Whether an attribute follows from what is written elsewhere: slots, and methods of dataclasses, tuples, enums."""
    if isinstance(held, types.MemberDescriptorType | types.GetSetDescriptorType):
        return held.__objclass__ is cls and attribute in slots_of(cls)
    if isinstance(held, types.FunctionType) and held.__code__.co_filename == "<string>":
        return dataclasses.is_dataclass(cls)
    if type(held).__name__ == "_tuplegetter":
        return True
    is_sunder = attribute.startswith("_") and attribute.endswith("_")
    return issubclass(cls, Enum) and is_sunder and not callable(getattr(held, "__func__", held))
