"""Edits that change what a transform gives, in places where code rarely stands: none leaves a stored result in use."""

import types
from collections.abc import Callable

import pytest

from torchpipe._fingerprint import fingerprint
from torchpipe.data import AlpacaToMessages
from torchpipe.errors import NoFingerprint

Module = Callable[..., types.ModuleType]

EDITED = {
    "a property of a class of its own": """
        class classproperty(property):
            def __get__(self, owner, kind):
                return self.fget(kind)
        class T:
            @classproperty
            def table(cls): return "one"
            def __call__(self, row): return self.table
        f = T()""",
    "a partial of a class of its own": """
        import functools
        class Bound(functools.partial): pass
        f = Bound(lambda text, row: text, "one")""",
    "a hook of an enum": """
        import enum
        class Kind(enum.Enum):
            ONE = "one"
            TWO = "two"
            @classmethod
            def _missing_(cls, value): return cls("one")
        f = lambda row: Kind(row["kind"]).value""",
    "the text of a class": """
        class T:
            "one"
            def __call__(self, row): return self.__doc__
        f = T()""",
    "what is noted of a field": """
        from dataclasses import dataclass, field, fields
        @dataclass
        class T:
            x: str = field(default="a", metadata={"prompt": "one"})
            def __call__(self, row): return fields(self)[0].metadata["prompt"]
        f = T()""",
}


@pytest.mark.parametrize("place", EDITED)
def test_an_edit_in_a_rare_place_counts(module: Module, place: str) -> None:
    usual = fingerprint(module(EDITED[place]).f)
    assert usual == fingerprint(module(EDITED[place]).f)
    assert usual != fingerprint(module(EDITED[place].replace('"one"', '"two"')).f)


@pytest.mark.parametrize("name", ["_html", "_types", "_copy"])
def test_a_module_of_the_user_is_not_taken_for_one_of_python(module: Module, name: str) -> None:
    def of(text: str) -> str:
        module(f"def clean(row): return {text!r}", name)
        return fingerprint(module(f"import {name}\ndef f(row): return {name}.clean(row)").f)

    assert of("one") == of("one") != of("two")


HOLDERS = """
    from collections import defaultdict, deque
    class Texts(deque): pass
    class Named(defaultdict): pass
    class Raw(bytearray): pass
    class Wrong(Exception): pass
    class T:
        def __init__(self, held): self.held = held
        def __call__(self, row): return self.held
"""


@pytest.mark.parametrize(
    "given",
    [
        'Texts(["one"])',
        'Texts(["one"], maxlen=3)',
        'Named(lambda: "one")',
        'Raw(b"one")',
        'Wrong("one")',
        'KeyError("one")',
    ],
)
def test_what_an_object_of_a_built_in_class_holds_counts(module: Module, given: str) -> None:
    made = vars(module(HOLDERS))
    usual, same, other = (fingerprint(eval(f"T({text})", made)) for text in (given, given, given.replace("one", "two")))
    assert usual == same != other


UNTOLD = {
    "from array import array\nclass Numbers(array): pass\nf = Numbers('i', [1])": r"^The value holds a users_own\.N",
    "class Texts(map): pass\nf = Texts(str, [1])": r"^The value holds a users_own\.Texts, an object of compiled code",
    "import numpy as np\nclass A(np.ndarray): pass\nf = np.zeros(3).view(A)": r"holds a users_own\.A, an object of",
    "import numpy as np\nf = np.ma.array([1, 2], mask=[0, 1])": r"numpy\.ma\.MaskedArray",
    "def f(row): return getattr(row['path'], 'read_text')()": r"^f uses \.read_text, which may give something else",
    "def f(row): return f.__annotations__": r"^f uses \.__annotations__",
}


@pytest.mark.parametrize("source", UNTOLD)
def test_what_hides_its_content_is_refused(module: Module, source: str) -> None:
    with pytest.raises(NoFingerprint, match=UNTOLD[source]):
        fingerprint(module(source).f)


def test_a_method_that_is_put_in_place_of_ours_counts(monkeypatch: pytest.MonkeyPatch, module: Module) -> None:
    usual = fingerprint(AlpacaToMessages())
    replaced = []
    for text in ("one", "two"):
        mine = module(f"def __call__(self, row): return {text!r}").__call__
        monkeypatch.setattr(AlpacaToMessages, "__call__", mine)
        replaced.append(fingerprint(AlpacaToMessages()))
    monkeypatch.undo()
    assert len({usual, *replaced}) == 3
    assert fingerprint(AlpacaToMessages()) == usual
