"""Every tokenizer, transform and template has a fingerprint, and every option of its constructor changes it.

The classes are found in the packages, and the options in the constructors' signatures, so that no new one is forgotten.
"""

import importlib
import inspect
import pickle
import pkgutil
from typing import Any

import pytest

from torchpipe._fingerprint import fingerprint
from torchpipe.data import Message

PACKAGES = (
    *("data", "data.overflow", "data.sample_transforms", "data.pair_transform", "data.kto_transform"),
    *("data.prompt_transform", "tokenizers", "vision", "modules.tokenizers", "models"),
)
KINDS = (
    *("Tokenizer", "Backend", "Messages", "Template", "Transform", "TrainOn", "OverflowPolicy", "PairPolicy"),
    "AttentionMask",
)
ABSTRACT = {"Backend", "BaseTokenizer", "FamilyTokenizer", "ModelTokenizer", "TextEncoderTokenizer", "Transform"}


def classes() -> list[type]:
    """The public classes that make samples of rows, or say how."""
    found: dict[type, None] = {}
    for name in PACKAGES:
        module = importlib.import_module(f"torchpipe.{name}")
        inner = pkgutil.walk_packages(module.__path__, f"{module.__name__}.") if name == "models" else ()
        for held in (module, *(importlib.import_module(each.name) for each in inner)):
            for public in getattr(held, "__all__", [each for each in vars(held) if not each.startswith("_")]):
                value = getattr(held, public)
                is_own = isinstance(value, type) and value.__module__.startswith("torchpipe.")
                if is_own and value.__name__.endswith(KINDS) and value.__name__ not in ABSTRACT:
                    found[value] = None
    return list(found)


@pytest.mark.parametrize("cls", classes(), ids=lambda cls: f"{cls.__module__}.{cls.__qualname__}")
def test_every_option_of_a_class_changes_its_fingerprint(cls: type, option_cases: dict[type, Any]) -> None:
    assert cls in option_cases, "A new class: add it to the table of tests/fingerprints/conftest.py"
    case = option_cases[cls]
    options = {parameter for parameter in inspect.signature(cls).parameters if parameter not in ("args", "kwargs")}
    assert set(case.other) | set(case.same) == options, "A new option: add another value of it to the table"
    usual = fingerprint(case.made())
    assert usual == fingerprint(case.made())
    assert usual == fingerprint(pickle.loads(pickle.dumps(case.made())))
    found = {usual}
    for option, value in case.same.items():
        assert fingerprint(case.made(**{option: value})) == usual, option
    for option, value in case.other.items():
        changes = {"image_mean": {"image_std": [0.2] * 3}, "image_start": {"image_end": "<|eot_id|>"}}.get(option, {})
        changed = fingerprint(case.made(**{option: value, **changes}))
        assert changed not in found or option in ("image_std", "image_end", "train_on_input"), option
        assert changed != usual, option
        found.add(changed)


def test_the_table_names_no_class_that_is_gone(option_cases: dict[type, Any]) -> None:
    assert set(option_cases) == set(classes())


def test_use_does_not_change_a_fingerprint(option_cases: dict[type, Any]) -> None:
    """Tokenizers keep what they have encoded; that is no part of what they are."""
    chat = [Message("user", "Hi", masked=True), Message("assistant", "Hello.")]
    encoded: list[type] = []
    wrote: list[type] = []
    for cls, case in option_cases.items():
        made = case.made()
        before = fingerprint(made)
        if hasattr(made, "encode"):
            try:
                made.encode("a b c", add_bos=False, add_eos=False)
            except TypeError:
                made.encode("a b c")
            encoded.append(cls)
        if hasattr(made, "tokenize_messages") and "vision" not in cls.__module__:
            made.decode(made.tokenize_messages(chat)[0])
            pickle.dumps(made)
            wrote.append(cls)
        assert fingerprint(made) == before, cls
    assert len(encoded) > 15
    assert len(wrote) > 12
