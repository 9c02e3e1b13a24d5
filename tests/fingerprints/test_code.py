"""Functions and classes of the user: all that their code reaches counts, and what may change is refused by name."""

import pickle
import types
from collections.abc import Callable
from operator import attrgetter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from torchpipe._fingerprint import fingerprint
from torchpipe._fingerprint_names import PURE_NUMPY
from torchpipe.errors import NoFingerprint, TorchpipeError

Module = Callable[..., types.ModuleType]

TRANSFORM = """
import functools
import re
from json import dumps
from operator import itemgetter
from types import MappingProxyType

MARK = ("a", 1, 2.5)
TABLE = MappingProxyType({"x": "y"})
SPACE = re.compile("[ ]+", re.IGNORECASE)
first = itemgetter("text")

def helper(text, *, times=2):
    return SPACE.sub(" ", text) * times

def outer(text):
    return helper(text) + MARK[0]

def scaled(factor):
    offset = factor + 1
    def scale(row):
        return {"text": outer(row["text"]), "n": factor * offset}
    return scale

def noted(function):
    @functools.wraps(function)
    def call(row):
        return function(row)
    return call

class Base:
    LIMIT = 3

    def cleaned(self, text):
        return text[: self.LIMIT]

class Clean(Base):
    def __init__(self, suffix="!"):
        self.suffix = suffix

    def __call__(self, row):
        return {"text": self.cleaned(self.joined(row["text"])) + self.mark}

    @staticmethod
    def joined(text):
        return "".join(text)

    @property
    def mark(self):
        return self.suffix

    @classmethod
    def made(cls):
        return cls("?")

@noted
def wrapped(row):
    return {"text": outer(row["text"])}

def even(n):
    return n == 0 or odd(n - 1)

def odd(n):
    return n != 0 and even(n - 1)

def uses(row):
    from textwrap import dedent
    return dedent(dumps(row)) + TABLE["x"]

partly = functools.partial(helper, times=3)
small = lambda row: {"text": row["text"].lower()}
"""


def all_of(module: types.ModuleType) -> dict[str, str]:
    names = ("outer", "partly", "small", "wrapped", "even", "uses", "first", "helper")
    values = {name: getattr(module, name) for name in names}
    values |= {"scale": module.scaled(2), "object": module.Clean(), "made": module.Clean.made(), "class": module.Clean}
    values |= {"method": module.Clean().cleaned, "static": module.Clean.joined}
    return {name: fingerprint(value) for name, value in values.items()}


def test_the_same_code_has_the_same_fingerprint_wherever_it_stands(module: Module) -> None:
    usual = all_of(module(TRANSFORM))
    assert len(set(usual.values())) == len(usual)
    assert all_of(module("# a comment, and other lines\n\n" + TRANSFORM)) == usual
    assert all_of(module(TRANSFORM.replace("def helper(text,", "def helper(text: str,"))) == usual
    assert all_of(module(TRANSFORM, "somewhere_else"))["scale"] == usual["scale"]


@pytest.mark.parametrize(
    ("before", "after", "changed"),
    [
        ('sub(" ", text)', 'sub("  ", text)', "outer helper partly scale wrapped"),
        ('"[ ]+"', '"[ ]*"', "outer helper partly scale wrapped"),
        ("re.IGNORECASE", "re.MULTILINE", "outer helper partly scale wrapped"),
        ("times=2", "times=4", "outer helper partly scale wrapped"),
        ('"a", 1', '"b", 1', "outer scale wrapped"),
        ("1, 2.5", "1, 2.75", "outer scale wrapped"),
        ('"x": "y"', '"x": "z"', "uses"),
        ("import dedent", "import indent as dedent", "uses"),
        ("from json import dumps", "from json import loads as dumps", "uses"),
        ("factor + 1", "factor + 2", "scale"),
        ('itemgetter("text")', 'itemgetter("other")', "first"),
        ("times=3", "times=5", "partly"),
        ("lower()", "upper()", "small"),
        ("return function(row)", "return dict(function(row))", "wrapped"),
        ("n - 1)\n\ndef odd", "n - 2)\n\ndef odd", "even"),
        ("odd(n):\n    return n != 0", "odd(n):\n    return n > 0", "even"),
        ("LIMIT = 3", "LIMIT = 4", "object made class method"),
        ("text[: self", "text[1 : self", "object made class method"),
        ('"".join(text)', '"-".join(text)', "object made class method static"),
        ("return self.suffix", "return self.suffix * 2", "object made class method"),
        ('suffix="!"', 'suffix="."', "object class method"),
        ('cls("?")', 'cls(".")', "object made class method"),
        ("class Clean(Base)", "class Clean", "object made class method"),
    ],
)
def test_an_edit_changes_what_reaches_it_and_nothing_else(
    module: Module, before: str, after: str, changed: str
) -> None:
    usual = all_of(module(TRANSFORM))
    assert before in TRANSFORM
    source = TRANSFORM.replace(before, after, 1)
    if after == "class Clean":
        source = source.replace("self.cleaned(self.joined", "(self.joined").replace(
            "suffix\n", "suffix\n    cleaned = 0\n"
        )
        edited = module(source)
        edited.Clean.cleaned = lambda self, text: text
    else:
        edited = module(source)
    found = all_of(edited)
    assert {name for name in usual if usual[name] != found[name]} == set(changed.split())


def test_an_attribute_of_an_object_counts_and_the_order_of_attributes_does_not(module: Module) -> None:
    clean = module(TRANSFORM).Clean
    one, two = clean(), clean()
    one.a, one.b = 1, {"x": [1]}
    two.b, two.a = {"x": [1]}, 1
    assert fingerprint(one) == fingerprint(two) != fingerprint(clean())
    two.b["x"].append(2)
    assert fingerprint(one) != fingerprint(two)


def test_slots_fields_and_enums_count(module: Module) -> None:
    source = """
    import dataclasses
    import enum

    class Slotted:
        __slots__ = ("a", "__b")
        def __init__(self, a):
            self.a, self.__b = a, a

    class Kind(enum.Enum):
        ONE = "one"
        TWO = "two"

    @dataclasses.dataclass(frozen=True, kw_only=True)
    class Fields:
        number: int = 1
        kind: Kind = Kind.ONE
        names: list = dataclasses.field(default_factory=list)
        def __call__(self, row):
            return row, self.number
    """
    first = module(source)
    values = [
        first.Slotted(1),
        first.Slotted(2),
        first.Kind.ONE,
        first.Kind.TWO,
        first.Fields(),
        first.Fields(number=2),
    ]
    values += [first.Fields(kind=first.Kind.TWO), first.Fields(names=[1]), first.Fields]
    usual = [fingerprint(value) for value in values]
    assert len(set(usual)) == len(usual)
    second = module(source.replace("number: int = 1", "number: int = 3"))
    assert fingerprint(second.Fields) != usual[-1]
    assert fingerprint(second.Kind.ONE) == usual[2]
    third = module(source.replace('TWO = "two"', 'TWO = "2"'))
    assert fingerprint(third.Kind.TWO) != usual[3]


def test_functions_of_numpy_that_depend_on_their_arguments_alone_are_told_apart(module: Module) -> None:
    source = "import numpy as np\ndef f(row): return np.concatenate([np.asarray(row), np.zeros(1, np.int64)])"
    first, other = module(source), module(source.replace("zeros", "ones"))
    assert fingerprint(first.f) == fingerprint(module(source).f)
    assert fingerprint(first.f) != fingerprint(other.f)


def test_the_pure_names_of_numpy_are_there_and_are_no_readers_of_files() -> None:
    assert all(attrgetter(name)(np) is not NotImplemented for name in PURE_NUMPY)
    assert not PURE_NUMPY & {"load", "fromfile", "memmap", "loadtxt", "genfromtxt", "empty", "empty_like", "random"}


REFUSED = {
    "import random\ndef f(row): return random.random()": r"^f uses random\.random, which may give something else",
    "from random import random\ndef f(row): return random()": r"^f uses random\.Random\.random",
    "import numpy as np\ndef f(row): return np.random.rand()": r"^f uses numpy\.random\.rand, which may give",
    "import numpy as np\ndef f(row): return np.load(row)": r"^f uses numpy\.load, which may give something else",
    "from numpy import load\ndef f(row): return load(row)": r"^f uses numpy\.load, which may give something else",
    "import numpy as np\ndef f(row): return np.memmap(row)": r"^f uses numpy\.memmap, which may give something else",
    "from numpy import memmap\ndef f(row): return memmap(row)": r"^f holds or uses a numpy\.memmap, of which",
    "import numpy as np\ndef f(row): return np.datetime64('now')": r"^f uses numpy\.datetime64, which may give",
    "import numpy as np\ndef f(row): return np.empty(3)": r"^f uses numpy\.empty, which may give something else",
    "import time\nf = lambda row: time.time()": r"^<lambda> uses time\.time",
    "from datetime import datetime\ndef f(row): return datetime.now()": r"^f uses \.now, which may give",
    "import os\ndef f(row): return os.environ['A']": r"^f uses os\.environ",
    "def f(row): return open('a').read()": "^f uses open, which may give something else each time",
    "from pathlib import Path\ndef f(row): return Path('a').name": r"^f holds or uses a pathlib\.Path",
    "import builtins\ndef f(row): return builtins.open('a')": r"^f uses \.open",
    "from datetime import date\nday = date(2024, 1, 1)\ndef f(row): return day.today()": r"^f uses \.today",
    "class T:\n    def __call__(self, row): return self.path.read_text()\nf = T()": r"^T\.__call__ uses \.read_text",
    "from torchpipe.sources import load_rows\ndef f(row): return load_rows(row)": r"\(reached from f\)",
    "class T:\n    n = 0\n    def __call__(self, row): T.n += 1\nf = T()": r"^T\.__call__ changes the global T\.n",
    "def f(row): return hash(row['text'])": "^f uses hash",
    "def f(row): return eval(row['text'])": "^f uses eval",
    "def f(row):\n    import random\n    return random.random()": "^f uses random",
    "def f(row):\n    import requests as r\n    return r.get(row)": "^f imports requests where it runs",
    "import uuid\ndef helper(row): return uuid.uuid4()\ndef f(row): return helper(row)": r"^helper uses uuid\.uuid4",
    "SEEN = {}\nf = lambda row: SEEN.get(row)": "^<lambda> uses the global SEEN, a dict, which may change",
    "NAMES = ([],)\ndef f(row): return NAMES": "^f uses the global NAMES, a list, which may change",
    "count = 0\ndef f(row):\n    global count\n    count += 1": "^f changes the global count",
    "def made(n):\n def f(row):\n  nonlocal n\n  n += 1\n return f\nf = made(0)": "^f changes the outer n",
    "numbers = iter([1])\ndef f(row): return next(numbers)": "^f holds a list_iterator, an object of compiled code",
    "numbers = (1 for _ in 'ab')\ndef f(row): return next(numbers)": "^f holds a generator, an object of compiled code",
    "def two():\n yield 2\nnumbers = two()\ndef f(row): return next(numbers)": "^f holds a generator, an object of",
    "import itertools\ncount = itertools.count()\ndef f(row): return next(count)": r"^f holds a itertools\.count",
    "import threading\nlock = threading.Lock()\ndef f(row): return lock": r"^f holds a _thread\.lock",
    "import sys\ndef f(row): return getattr(sys, 'argv')": "^f uses the module sys",
    "class T:\n    def __call__(self, row): self.n += 1\nf = T()": r"^T\.__call__ changes its object's n",
    "class T:\n    def __call__(self, row): self.last = row\nf = T()": r"^T\.__call__ changes its object's last",
    "class T:\n    def __call__(self, row): self.seen.add(row)\nf = T()": r"^T\.__call__ changes its object's seen",
    "class T:\n    def _r(self): open('a')\n    def __call__(self, row): self._r()\nf = T()": r"^T\._r uses open",
    "import io\nclass T: pass\nf = T()\nf.file = io.StringIO()": r"^T\.file holds or uses a _io\.StringIO",
}


@pytest.mark.parametrize("source", REFUSED)
def test_code_that_may_give_something_else_is_refused_by_name(module: Module, source: str) -> None:
    with pytest.raises(NoFingerprint, match=REFUSED[source]) as refused:
        fingerprint(module(source).f)
    assert isinstance(refused.value, TorchpipeError)
    assert isinstance(refused.value, TypeError)
    assert "give the object a method fingerprint()" in str(refused.value)


def test_a_method_fingerprint_speaks_for_its_object_but_not_for_a_subclass(module: Module) -> None:
    source = """
    import random

    class Table:
        def __init__(self, version):
            self.version = version
            self.held = iter([1])
        def __call__(self, row):
            return random.random()
        def fingerprint(self):
            return self.version

    class Other(Table):
        def __call__(self, row):
            return 1

    def noisy(row):
        return random.random()

    noisy.fingerprint = lambda: "1"
    """
    made = module(source)
    one, two = made.Table("1"), made.Table("2")
    assert fingerprint(one) == fingerprint(made.Table("1")) != fingerprint(two)
    with pytest.raises(NoFingerprint, match=r"Table\.__call__ uses random\.random"):
        fingerprint(made.Other("1"))
    assert fingerprint(made.noisy) == fingerprint(made.noisy)
    made.noisy.fingerprint = lambda: "2"
    two.version = None
    with pytest.raises(NoFingerprint, match=r"users_own\.Table\.fingerprint\(\) returned None, not a text"):
        fingerprint(two)


def test_a_users_subclass_of_ours_counts_by_its_code(module: Module) -> None:
    source = """
    from torchpipe.data import OpenAIToMessages

    class Mine(OpenAIToMessages):
        def __call__(self, sample):
            return super().__call__({"messages": sample["turns"]})
    """
    usual = fingerprint(module(source).Mine())
    assert usual == fingerprint(module(source).Mine())
    assert usual != fingerprint(module(source.replace("turns", "messages")).Mine())
    assert usual != fingerprint(module(source).Mine(new_system_prompt="x"))


def test_what_refers_to_itself_comes_to_an_end(module: Module) -> None:
    made = module("def f(row): return g(row)\ndef g(row): return f(row)\nclass T:\n    def again(self): return T()\n")
    clean = made.T()
    clean.me = clean
    held: list[Any] = [1]
    held.append(held)
    clean.held = held
    assert len(fingerprint(made.f)) == len(fingerprint(made.g)) == 32
    assert fingerprint(clean) == fingerprint(clean)
    deep: list[Any] = []
    for _ in range(100_000):
        deep = [deep]
    with pytest.raises(NoFingerprint, match="^list is nested too deeply"):
        fingerprint(deep)


def test_what_a_constructor_has_read_counts_by_its_content(module: Module, tmp_path: Path) -> None:
    source = """
    from pathlib import Path

    class Base:
        def __call__(self, row):
            return row

    class Words(Base):
        def __init__(self, path):
            super().__init__()
            self.words = Path(path).read_text().split()

        def __call__(self, row):
            return super().__call__([word for word in row["text"].split() if word in self.words])

    def builds(row):
        return Words("words.txt")(row)
    """
    made = module(source)
    for name, words in (("one", "a b"), ("same", "a b"), ("other", "a c")):
        (tmp_path / name).write_text(words)
    one, same, other = (fingerprint(made.Words(tmp_path / name)) for name in ("one", "same", "other"))
    assert one == same != other
    with pytest.raises(NoFingerprint, match=r"Words\.__init__ uses \.read_text.* \(reached from builds\)"):
        fingerprint(made.builds)
    again = module(source.replace("in row[", "in reversed(row[").replace("split() if", "split()) if"))
    assert fingerprint(again.Words(tmp_path / "one")) != one


def test_wraps_does_not_lend_a_name_of_ours(module: Module) -> None:
    source = """
    import functools
    from torchpipe.data import mask_messages

    @functools.wraps(mask_messages)
    def f(row):
        return 1
    """
    assert fingerprint(module(source).f) != fingerprint(module(source.replace("return 1", "return 2")).f)


def test_an_object_that_was_pickled_keeps_its_fingerprint(module: Module) -> None:
    made = module(
        """
        class Upper:
            def __call__(self, row):
                return {"text": row["text"].upper()}
        """
    ).Upper()
    before = fingerprint(made)
    pickle.dumps(made)  # leaves __slotnames__ on the class
    assert "__slotnames__" in vars(type(made))
    assert fingerprint(made) == before
