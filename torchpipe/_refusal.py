"""Which objects a config may not name, judged by where the object lives and not by how it is spelled.

A config names what will be called. One from somebody else could name ``os.system``, or reach it as
``my.mod.run`` or ``torch.os.system``. What is refused: the standard library and builtins, loaders that unpickle,
compilers and launchers, and recursion into a config system. A user's own functions and classes are never refused;
a config that names them runs them, which is why a stranger's config is read (or validated without importing) first.
"""

import functools
import sys
import types
import typing
from collections.abc import Iterator
from typing import Any

_STANDARD = sys.stdlib_module_names | {"builtins", "distutils"}

_HEAP_TYPE = 1 << 9  # Py_TPFLAGS_HEAPTYPE

_LOADER = "it can run code that is stored in a file"
_LAUNCHER = "it can start programs or compile code"
_CONFIG = "it builds objects from configs itself, so that what it builds would go unchecked"

_WRITER = "it can write or remove any file"

# Module prefix -> why. A prefix covers the module and everything below it.
REFUSED_MODULES: dict[str, str] = {
    **dict.fromkeys(
        (
            "torch.hub",
            "torch.serialization",
            "torch.package",
            "torch.jit",
            "torch.export",
            "torch._export",
            "torch.distributed.checkpoint",
            "torch.utils.model_zoo",
            "torch.utils.model_dump",
            "torch.utils.show_pickle",
            "torch.ops",
            "torch._ops",
            "torch.classes",
            "torch._classes",
            "torch.cuda.memory",
            "torch.xpu.memory",
            "numpy.lib.format",
            "numpy.lib._format_impl",
            "numpy.lib.npyio",
            "numpy.lib._npyio_impl",
            "numpy.ctypeslib",
            "pandas.io.pickle",
            "hypothesis.internal",
            "jinja2",
            "pygments.lexers",
            "sympy",
            "transformers.dynamic_module_utils",
            "transformers.utils.import_utils",
            "cffi",
            "cloudpickle",
            "dill",
            "joblib",
            "jsonpickle",
            "pickle5",
            "ruamel",
            "yaml",
        ),
        _LOADER,
    ),
    **dict.fromkeys(
        (
            "torch.utils.cpp_extension",
            "torch.utils._cpp_extension_versioner",
            "torch.utils.benchmark",
            "torch.utils.bottleneck",
            "torch.utils.collect_env",
            "torch.utils.hipify",
            "torch.distributed.run",
            "torch.distributed.launch",
            "torch.distributed.launcher",
            "torch.distributed.elastic",
            "torch.distributed.rpc",
            "torch.multiprocessing",
            "torch.fx",
            "torch.testing",
            "torch.onnx",
            "numpy.distutils",
            "numpy.f2py",
            "numpy.testing",
            "pandas.core.computation",
            "_distutils_hack",
            "_pytest",
            "absl",
            "click",
            "execnet",
            "fabric",
            "invoke",
            "IPython",
            "loky",
            "multiprocess",
            "paramiko",
            "pexpect",
            "pip",
            "pyright",
            "pkg_resources",
            "plumbum",
            "psutil",
            "ptyprocess",
            "pytest",
            "setuptools",
            "sh",
            "torchpipe.cli",
            "torchrun",
        ),
        _LAUNCHER,
    ),
    **dict.fromkeys(("fsspec", "rich.console"), _WRITER),
    **dict.fromkeys(
        (
            "torchpipe.config",
            "torchpipe._dotpath",
            "torchpipe._refusal",
            "torchtune.config",
            "fire",
            "hydra",
            "nemo_run",
            "omegaconf",
        ),
        _CONFIG,
    ),
}

# Objects that live beside harmless ones, as module.name.
REFUSED_OBJECTS: dict[str, str] = {
    **dict.fromkeys(("numpy.load", "torch.load", "pandas.read_pickle"), _LOADER),
    **dict.fromkeys(("torch.compile", "pandas.eval"), _LAUNCHER),
    **dict.fromkeys(("safetensors.torch.save_file", "safetensors.numpy.save_file"), _WRITER),
    **dict.fromkeys(
        ("numpy.save", "numpy.savez", "numpy.savez_compressed", "numpy.savetxt", "numpy.memmap", "torch.from_file"),
        _WRITER,
    ),
}

# The C functions behind torch's public names. Nothing else in torch's private modules is allowed.
_TORCH_PRIVATE_HOMES = ("torch._C", "torch._tensor", "torch._opaque_base", "torch._jit_internal", "torch._linalg_utils")


def spelling_refusal(path: str) -> str | None:
    """Why a dotted path is refused before anything is imported, or None.

    >>> spelling_refusal("os.system")
    "'os' is part of Python's standard library"
    >>> spelling_refusal("torch.optim.AdamW") is None
    True
    """
    parts = path.split(".")
    if parts[0] in _STANDARD:
        return f"'{parts[0]}' is part of Python's standard library"
    for part in parts:
        if part.startswith("__"):
            return f"'{part}' is one of Python's internal names"
    if parts[0] == "torch":
        if parts[-1] == "from_file":
            return _WRITER  # a method of every storage class
        for part in parts[1:]:
            if part.startswith("_"):
                return f"'{part}' is private to torch"
    return _listed(path)


def object_refusal(target: Any) -> str | None:
    """Why a resolved object is refused, or None. The reason names where the object really lives."""
    try:
        homes = list(_homes(target))
    except RecursionError:
        return "it wraps itself"
    for module, name in homes:
        full = f"{module}.{name}" if name else module
        if module.partition(".")[0] in _STANDARD:
            return f"it is {full}, which lives in Python's standard library"
        reason = _listed(full)
        if reason is None and module.startswith("torch._") and not _under(module, _TORCH_PRIVATE_HOMES):
            reason = "it is private to torch"
        if reason is not None:
            return f"it is {full}: {reason}"
    return None


def _listed(full: str) -> str | None:
    if full in REFUSED_OBJECTS:
        return REFUSED_OBJECTS[full]
    parts = full.split(".")
    for end in range(1, len(parts) + 1):
        reason = REFUSED_MODULES.get(".".join(parts[:end]))
        if reason is not None:
            return reason
    return None


def _under(module: str, prefixes: tuple[str, ...]) -> bool:
    return any(module == prefix or module.startswith(prefix + ".") for prefix in prefixes)


def _homes(target: Any) -> Iterator[tuple[str, str]]:
    """Every ``(module, qualified name)`` that answers for an object: its own, and those of what it wraps."""
    kind = type(target)
    if isinstance(target, (functools.partial, functools.partialmethod)):
        yield from _homes(target.func)
        if kind not in (functools.partial, functools.partialmethod):
            yield from _homes(kind)
    elif isinstance(target, (staticmethod, classmethod)):
        yield from _homes(target.__func__)
    elif isinstance(target, types.ModuleType):
        yield target.__name__, ""
    elif not isinstance(target, type) and typing.get_origin(target) is not None:  # list[int], Generic[T]
        yield from _homes(typing.get_origin(target))
    elif issubclass(kind, type):
        # Classes of compiled extensions that name no module say "builtins"; Python's own are static types.
        foreign = _module_of(target) == "builtins" and target.__flags__ & _HEAP_TYPE
        yield "" if foreign else _module_of(target), target.__qualname__
    elif kind is types.MethodType:
        yield from _homes(target.__func__)
        owner = target.__self__
        yield from _homes(owner if isinstance(owner, type) else type(owner))
    elif kind is types.FunctionType:
        yield _module_of(target) or str(target.__globals__.get("__name__", "")), target.__qualname__
    elif kind is types.BuiltinFunctionType:
        yield from _c_function_homes(target)
    elif kind is types.MethodWrapperType:
        yield from _homes(type(target.__self__))
    elif isinstance(getattr(target, "__objclass__", None), type):  # str.join, dict.update
        yield from _homes(target.__objclass__)
    elif kind is functools._lru_cache_wrapper:
        yield from _homes(target.__wrapped__)
    else:
        # An instance: its class answers, and so does the module it claims where it is a function of another
        # kind (numpy's ufuncs, Cython's and pybind's functions, torch's operators).
        yield from _homes(kind)
        if _module_of(target) != _module_of(kind):
            yield _module_of(target), str(getattr(target, "__name__", kind.__name__))


def _module_of(target: Any) -> str:
    module = getattr(target, "__module__", None)
    return module if isinstance(module, str) else ""


def _c_function_homes(target: Any) -> Iterator[tuple[str, str]]:
    owner = target.__self__
    if owner is None or isinstance(owner, types.ModuleType) or type(owner).__name__ == "PyCapsule":
        yield _module_of(target) or (owner.__name__ if isinstance(owner, types.ModuleType) else ""), target.__name__
        return
    # A C method bound to something: the class in whose body it stands, which may be a base of the user's class.
    lineage = type.mro(owner) if isinstance(owner, type) else []
    definer = next((c for c in [*lineage, *type.mro(type(owner))] if target.__name__ in vars(c)), type(owner))
    yield from _homes(definer)
