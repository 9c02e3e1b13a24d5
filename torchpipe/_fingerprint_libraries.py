"""What libraries hold that samples are made with: tokenizers, templates and tensors, by what they say of themselves."""

import hashlib
import sys
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from torchpipe._fingerprint_memory import answer_of
from torchpipe._own_code import library_version

if TYPE_CHECKING:
    from torchpipe._fingerprint import Writer

READ_WHEN_MADE = frozenset({"torchtitan.components.tokenizer"})
"""Modules whose classes read files while an object is made, and nothing afterwards: they count by the module's code,
which is not followed."""

_PURE_JINJA2 = frozenset({"environment", "exceptions", "ext", "filters", "runtime", "sandbox", "tests", "utils"})
"""Modules of jinja2 that read no files: templates are read by its loaders."""

_TABLES = (
    ("filters", "DEFAULT_FILTERS"),
    ("tests", "DEFAULT_TESTS"),
    ("globals", "DEFAULT_NAMESPACE"),
    ("policies", "DEFAULT_POLICIES"),
)
"""Tables of names of an environment of jinja2, and what that library calls those that all have."""

_SETTINGS = (
    *("block_start_string", "block_end_string", "variable_start_string", "variable_end_string"),
    *("comment_start_string", "comment_end_string", "line_statement_prefix", "line_comment_prefix"),
    *("trim_blocks", "lstrip_blocks", "newline_sequence", "keep_trailing_newline", "is_async"),
    *("autoescape", "finalize", "undefined"),
)
"""Its other settings."""


def write_library(writer: "Writer", module: str) -> bool:
    """Writes what speaks for all code of a module of a library, where there is such a thing.

    Args:
        writer: what it is written to.
        module: its dotted name.
    """
    top, _, rest = module.partition(".")
    if top == "jinja2" and rest in _PURE_JINJA2:
        _write_release(writer, "jinja2")
    elif module in READ_WHEN_MADE:
        writer.once(f"the code of {module}", lambda: _file_hash(str(sys.modules[module].__file__)))
    else:
        return False
    return True


def write_held(writer: "Writer", value: Any) -> bool:
    """Writes an object of a library that tells what it holds; False: it is none.

    Raises:
        NoFingerprint: it depends on more than it holds.
    """
    write = _HELD.get(f"{type(value).__module__}.{type(value).__name__}")
    if write is not None:
        write(writer, value)
    return write is not None


def _write_tokenizer(writer: "Writer", tokenizer: Any) -> None:
    """A tokenizer of the tokenizers library, as its file would have it."""
    _write_release(writer, "tokenizers")
    writer.mark("tokenizer", answer_of(tokenizer, "to_str()", lambda: tokenizer.to_str().encode()))
    writer.write(tokenizer.encode_special_tokens)


def _write_template(writer: "Writer", template: Any) -> None:
    """A compiled template of jinja2: its code, and what it is rendered with."""
    from torchpipe import _fingerprint_code as code

    _write_environment(writer, template.environment)
    for name, function in sorted({"": template.root_render_func, **template.blocks}.items()):
        writer.mark("block", name)
        code.write_code(writer, function.__code__)
    _write_names(writer, template.globals, "DEFAULT_NAMESPACE")


def _write_environment(writer: "Writer", environment: Any) -> None:
    """What templates of jinja2 are compiled and rendered with, but for what all have."""
    if environment.loader is not None:
        raise writer.refuse("holds a loader of jinja2, whose templates may include files")
    _write_release(writer, "jinja2")
    for attribute, default in _TABLES:
        _write_names(writer, getattr(environment, attribute), default)
    writer.write([getattr(environment, name) for name in _SETTINGS])
    writer.write([type(environment), *(type(one) for one in environment.extensions.values())])


def _write_names(writer: "Writer", names: Any, default: str) -> None:
    """Of a table of names those that are not in jinja2's own one."""
    usual = getattr(sys.modules["jinja2.defaults"], default)
    own = {name: held for name, held in names.items() if name not in usual or held is not usual[name]}
    writer.mark("names", str(len(own)))
    for name in sorted(own):
        writer.mark("name", name)
        writer.write(own[name])


def _write_tensor(writer: "Writer", tensor: Any) -> None:
    plain = tensor.detach().cpu().contiguous()
    writer.mark("tensor", f"{plain.dtype}{tuple(plain.shape)}")
    writer.mark("bytes", plain.reshape(-1).view(sys.modules["torch"].uint8).numpy().tobytes())


_HELD: dict[str, Any] = {
    "tokenizers.Tokenizer": _write_tokenizer,
    "jinja2.environment.Template": _write_template,
    "jinja2.environment.Environment": _write_environment,
    "jinja2.sandbox.SandboxedEnvironment": _write_environment,
    "jinja2.sandbox.ImmutableSandboxedEnvironment": _write_environment,
    "torch.Tensor": _write_tensor,
    "torch.dtype": lambda writer, dtype: writer.mark("dtype", repr(dtype)),
}
"""By the name of the type; none of these libraries is imported here."""


def _write_release(writer: "Writer", library: str) -> None:
    writer.once(f"the release of {library}", lambda: library_version(library))


@cache
def _file_hash(file: str) -> str:
    return hashlib.blake2b(Path(file).read_bytes(), digest_size=16).hexdigest()
