"""Names whose code is known to give the same for the same arguments, or not to."""

PURE_MODULES = frozenset(
    """__future__ abc array ast base64 binascii bisect builtins collections contextlib copy csv dataclasses decimal
    difflib enum fractions functools hashlib heapq html itertools json keyword math numbers operator re reprlib
    statistics string struct sre_compile sre_constants sre_parse textwrap types typing typing_extensions unicodedata
    warnings zlib""".split()  # noqa: SIM905
)
"""Modules of the standard library whose functions give the same for the same arguments (and ``warnings``)."""

PURE_SUBMODULES = frozenset({"collections.abc", "json.decoder", "json.encoder", "urllib.parse", "html.entities"})

PURE_NUMPY = frozenset(
    """abs absolute add all any append arange argmax argmin argsort array array_equal asarray ascontiguousarray
    atleast_1d bincount bool_ broadcast_to ceil clip column_stack concatenate copy count_nonzero cumsum diff divide dot
    dtype equal expand_dims flatnonzero flip float16 float32 float64 floor frombuffer full full_like greater
    greater_equal hstack iinfo int16 int32 int64 int8 integer intp invert isfinite isin isnan less less_equal linspace
    logical_and logical_not logical_or max maximum mean min minimum mod multiply nan ndim newaxis nonzero not_equal ones
    ones_like pad power prod ravel repeat reshape resize roll round searchsorted shape sign size sort split sqrt squeeze
    stack std subtract sum take take_along_axis tile transpose tril triu uint16 uint32 uint64 uint8 union1d unique
    vstack where zeros zeros_like""".split()  # noqa: SIM905
)
"""Names of NumPy that give the same for the same arguments, with the same release of it: no files, no memory that was
not written, no random numbers."""

IMPURE_BUILTINS = frozenset(
    {"__import__", "breakpoint", "compile", "eval", "exec", "globals", "hash", "id", "input", "locals", "open"}
)
"""Builtins that read what is outside, or look up names that can't be followed."""
