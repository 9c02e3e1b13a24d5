"""Dotted names to objects: ``pkg.mod.Class.Config`` by the longest importable prefix, then attributes."""

import importlib
import importlib.machinery
import importlib.util
import os
import pkgutil
import sys
import types
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from torchpipe._not_yet import not_yet
from torchpipe._refusal import object_refusal, spelling_refusal
from torchpipe._suggest import callables_of, did_you_mean, misspelt
from torchpipe.errors import InstantiationError

# What torchpipe itself imports, some of it late. A file of the same name in the working folder must not replace it.
_NEEDED = frozenset(
    """torchpipe torch numpy datasets tiktoken sentencepiece tokenizers jinja2 omegaconf safetensors PIL filelock rich
    grain transformers huggingface_hub pyarrow pandas fsspec yaml tqdm regex requests torchvision""".split()  # noqa: SIM905
)

_OWN_FILES = (Path(__file__), Path(__file__).with_name("_not_yet.py"))  # no place to correct an import in

_OWN_CODE = (
    "A config names your own functions and classes, or a library's. If you need this one, call it in a function of "
    "your own and name that"
)

_REPLACE_TORCHTUNE = "torchtune is not installed, and torchpipe does without it. Replace 'torchtune' with 'torchpipe'"

# Packages that configs name often and torchpipe does not need, with what to do without them.
_INSTEAD = {
    "bitsandbytes": "Install it (it needs a CUDA device), or use torch's own optimizer, which takes more memory: "
    "optimizer=torch.optim.AdamW on the command line changes it and keeps its other keys",
    "torchao": "Install it, or leave the key out",
}


def check_spelling(path: object, *, allow_unsafe: bool = False) -> str:
    """The path itself, if it can name something; nothing is imported.

    Raises:
        InstantiationError: not a string, empty, a part is no name, or the spelling alone says that it is refused.

    >>> check_spelling("torch.optim.AdamW")
    'torch.optim.AdamW'
    """
    if not isinstance(path, str):
        raise InstantiationError(
            f"A dotted name is needed, as 'my_package.my_module.my_function'; got {path!r} ({type(path).__name__})."
        )
    if not path.strip():
        raise InstantiationError("The dotted name is empty. Write it as 'my_package.my_module.my_function'.")
    if path.startswith(".") or path.endswith(".") or ".." in path:
        raise InstantiationError(
            f"'{path}' is no dotted name: it begins or ends with a dot, or has two in a row. Relative names don't work "
            "here; write the full name, as 'my_package.my_module.my_function'."
        )
    for part in path.split("."):
        if not part.isidentifier():
            raise InstantiationError(f"'{path}' is no dotted name: {part!r} can't be a Python name.")
    reason = None if allow_unsafe else spelling_refusal(path)
    if reason is not None:
        hint = _OWN_CODE
        if "standard library" in reason:
            hint += "; if it is your own file, rename it, for its name is taken"
        raise InstantiationError(f"'{path}' is refused: {reason}. {hint}.")
    return path


def resolve(path: object, *, caller_globals: Mapping[str, Any] | None = None, allow_unsafe: bool = False) -> Any:
    """The object that a dotted name stands for.

    Modules in the working folder are found. A name without a dot, and the first part of a dotted one if it is a
    class, is looked up in ``caller_globals`` first.

    Args:
        path: the dotted name.
        caller_globals: global names of the code that reads the config.
        allow_unsafe: skip the refusals of ``torchpipe._refusal``.

    Raises:
        InstantiationError: the name is malformed, not found or refused, or its module can't be imported.

    >>> resolve("torchpipe.constants.IGNORE_INDEX")
    -100
    """
    path = check_spelling(path, allow_unsafe=allow_unsafe)
    parts = path.split(".")
    known = dict(caller_globals or {})
    start = known.get(parts[0])
    if parts[0] in known and not isinstance(start, types.ModuleType) and (len(parts) == 1 or isinstance(start, type)):
        target = _attributes(start, parts[1:], path, allow_unsafe)
    else:
        target = _find(parts, path, known, allow_unsafe)
    reason = object_refusal(target) if callable(target) and not allow_unsafe else None
    if reason is not None:
        raise InstantiationError(f"'{path}' is refused: {reason}. {_OWN_CODE}.")
    return target


class _NotFoundError(InstantiationError):
    """An attribute is missing; another prefix may have it."""


def _find(parts: list[str], path: str, known: Mapping[str, Any], allow_unsafe: bool) -> Any:
    top = _import_top(parts[0], path)
    if top is None and parts[0] == "torchtune":
        raise InstantiationError(f"Could not find '{path}': {_REPLACE_TORCHTUNE}, as torchpipe.{'.'.join(parts[1:])}.")
    if top is None and parts[0] in _INSTEAD:
        raise InstantiationError(f"Could not find '{path}': {parts[0]} is not installed. {_INSTEAD[parts[0]]}.")
    if top is None:
        what = "module, or name in the code that reads the config," if len(parts) == 1 else "module"
        raise InstantiationError(
            f"Could not find '{path}': there is no {what} called '{parts[0]}'.{did_you_mean(parts[0], known)} Is its "
            f"package installed, or its file or folder in the working folder ({os.getcwd()})?"
        )
    try:
        return _from_modules(top, parts, path, allow_unsafe)
    except _NotFoundError as error:
        missing = error
    if _extend_by_working_folder(top):
        try:
            return _from_modules(top, parts, path, allow_unsafe)
        except _NotFoundError as error:
            missing = error
    raise InstantiationError(f"{missing}{_hidden_in_working_folder(top)}") from missing.__cause__


def _from_modules(top: types.ModuleType, parts: list[str], path: str, allow_unsafe: bool) -> Any:
    """The object, from the longest importable prefix that leads to it."""
    modules = [top]
    for end in range(2, len(parts) + 1):
        module = _import_submodule(modules[-1], ".".join(parts[:end]), path)
        if module is None:
            break
        modules.append(module)
    missing: _NotFoundError | None = None
    for depth in range(len(modules), 0, -1):
        try:
            target = _attributes(modules[depth - 1], parts[depth:], path, allow_unsafe)
        except _NotFoundError as error:
            missing = missing or error
        else:
            # pkg.instantiate may be both a file and the function that the package takes from it: the function is meant.
            if not isinstance(target, types.ModuleType):
                return target
    if missing is not None:
        raise missing
    return modules[-1]


def _attributes(start: Any, names: list[str], path: str, allow_unsafe: bool) -> Any:
    """``start.a.b.c``, refused where it steps through somebody else's module or a refused class."""
    top = path.partition(".")[0]
    current = start
    for place, name in enumerate(names):
        try:
            following = getattr(current, name)
        except AttributeError as error:
            if isinstance(current, types.ModuleType):
                owner = f"module '{current.__name__}'"
                sentence = not_yet(current.__name__, name)
                if sentence is not None:
                    raise _NotFoundError(f"Could not find '{path}': {sentence}") from error
            else:
                owner = f"'{'.'.join(path.split('.')[: -len(names) + place])}'"
            hint = misspelt(name, _names_in(current, last=place == len(names) - 1))
            raise _NotFoundError(f"Could not find '{path}': {owner} has no '{name}'.{hint}") from error
        except ImportError as error:
            raise _broken(getattr(current, "__name__", path), path, error) from error
        last = place == len(names) - 1
        if not allow_unsafe:
            if isinstance(following, types.ModuleType) and following.__name__.partition(".")[0] != top:
                raise InstantiationError(
                    f"'{path}' is refused: it reaches into another package's module, {following.__name__}, by way of "
                    f"'{top}'. Write the name as its own package has it."
                )
            reason = None if last or isinstance(following, types.ModuleType) else object_refusal(following)
            if reason is not None:
                raise InstantiationError(f"'{path}' is refused at '{name}': {reason}. {_OWN_CODE}.")
        current = following
    return current


def _names_in(owner: Any, *, last: bool) -> list[str]:
    """What may be meant at a place of a dotted name: at its end what can be called, before it also modules."""
    files = [found.name for found in pkgutil.iter_modules(getattr(owner, "__path__", []))]
    public = [name for name in files if not name.startswith("_")]
    return [*callables_of(owner), *([] if last else public)]


def _import_top(name: str, path: str) -> types.ModuleType | None:
    """The first part's module. One in the working folder wins, unless the name is taken by what torchpipe needs."""
    folder = os.getcwd()
    if folder not in sys.path:
        sys.path.append(folder)
    if name not in sys.modules:
        importlib.invalidate_caches()
        spec = None if name in _NEEDED else importlib.machinery.PathFinder.find_spec(name, [folder])
        # A folder without __init__.py has no loader. It may be a clone around the package: the installed one wins.
        if spec is not None and spec.loader is not None:
            module = importlib.util.module_from_spec(spec)
            sys.modules[name] = module
            try:
                spec.loader.exec_module(module)
            except BaseException as error:
                del sys.modules[name]
                if isinstance(error, ImportError):
                    raise _broken(name, path, error) from error
                raise
    return _import(name, path)


def _import_submodule(parent: types.ModuleType, name: str, path: str) -> types.ModuleType | None:
    if not hasattr(parent, "__path__"):
        return None
    last = name.rpartition(".")[2]
    before = vars(parent).get(last)
    module = _import(name, path)
    if module is not None and before is not None and vars(parent).get(last) is module:
        setattr(parent, last, before)  # importing a file hides the object of that name that the package offers
    return module


def _import(name: str, path: str) -> types.ModuleType | None:
    """The module, or None if there is none of that name. What fails inside a module that exists is its own error."""
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is not None and (name == error.name or name.startswith(error.name + ".")):
            return None
        raise _broken(name, path, error) from error
    except ImportError as error:
        raise _broken(name, path, error) from error
    except Exception as error:
        error.add_note(f"While importing module '{name}' for '{path}'.")
        raise


def _broken(module: str, path: str, error: ImportError) -> InstantiationError:
    place = ""
    step = error.__traceback__
    while step is not None:
        file = step.tb_frame.f_code.co_filename
        if not file.startswith("<") and Path(file) not in _OWN_FILES and Path(file).parent.name != "importlib":
            place = f" ({file}, line {step.tb_lineno})"
        step = step.tb_next
    from_torchtune = isinstance(error, ModuleNotFoundError) and str(error.name).partition(".")[0] == "torchtune"
    todo = _REPLACE_TORCHTUNE if from_torchtune else "Install what is missing, or correct that import"
    return InstantiationError(
        f"Could not import module '{module}' for '{path}': the module exists, but an import inside it failed: "
        f"{str(error).removesuffix('.')}{place}. {todo}."
    )


def _extend_by_working_folder(top: types.ModuleType) -> bool:
    """True if the working folder's folder of that name was added to where the package finds its submodules."""
    folder = Path(os.getcwd(), top.__name__)
    places = getattr(top, "__path__", None)
    if places is None or not folder.is_dir() or str(folder) in list(places):
        return False
    places.append(str(folder))
    importlib.invalidate_caches()
    return True


def _hidden_in_working_folder(top: types.ModuleType) -> str:
    origin = getattr(top, "__file__", None)
    own = [Path(os.getcwd(), top.__name__, "__init__.py"), Path(os.getcwd(), f"{top.__name__}.py")]
    hidden = next((file for file in own if file.is_file() and str(file) != origin), None)
    if hidden is None or origin is None:
        return ""
    return f" Your {hidden} is hidden by the installed package at {origin}: rename yours."
