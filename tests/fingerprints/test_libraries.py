"""Objects of libraries that samples are made with: by what they hold, and the library's version."""

import sys
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jinja2.sandbox
import numpy as np
import pytest
import tokenizers
from tokenizers import models, pre_tokenizers

from torchpipe._fingerprint import fingerprint
from torchpipe.errors import NoFingerprint

Module = Callable[..., types.ModuleType]


def words(*texts: str, **changes: Any) -> tokenizers.Tokenizer:
    made = tokenizers.Tokenizer(models.WordLevel({text: number for number, text in enumerate(texts)}, unk_token="?"))
    for name, value in changes.items():
        setattr(made, name, value)
    return made


def template(text: str = "{{ messages|trim }}", names: dict[str, Any] | None = None, **settings: Any) -> Any:
    environment = jinja2.sandbox.SandboxedEnvironment(**settings)
    environment.globals.update(names or {})
    return environment.from_string(text)


def refuse(message: str) -> str:
    raise jinja2.exceptions.TemplateError(message)


def refuse_loudly(message: str) -> str:
    raise jinja2.exceptions.TemplateError(message.upper())


def test_a_tokenizer_counts_by_all_that_it_holds() -> None:
    assert fingerprint(words("?", "a")) == fingerprint(words("?", "a"))
    cut = words("?", "a")
    cut.enable_truncation(3)
    more = words("?", "a")
    more.add_special_tokens(["<s>"])
    spaced = words("?", "a", pre_tokenizer=pre_tokenizers.Whitespace())
    as_text = words("?", "a", encode_special_tokens=True)
    told = [fingerprint(one) for one in (words("?", "a"), words("?", "b"), cut, more, spaced, as_text)]
    assert len(set(told)) == len(told)


def test_a_template_counts_by_its_code_and_by_what_it_may_call() -> None:
    assert fingerprint(template(names={"refuse": refuse})) == fingerprint(template(names={"refuse": refuse}))
    made = [
        template(),
        template("{{ messages|upper }}"),
        template("{% block a %}{{ messages }}{% endblock %}"),
        template("{% block a %}{{ messages }}{% endblock %}", names={"a": 1}),
        template(names={"refuse": refuse}),
        template(names={"refuse": refuse_loudly}),
        template(undefined=jinja2.StrictUndefined),
        template(autoescape=True),
        jinja2.Template("{{ messages|trim }}"),
    ]
    told = [fingerprint(one) for one in made]
    assert len(set(told)) == len(told)
    first, second = jinja2.Environment(), jinja2.Environment()
    first.filters["shout"] = str.upper
    second.filters["shout"] = str.lower
    assert fingerprint(first) != fingerprint(second) != fingerprint(jinja2.Environment(trim_blocks=True))


@pytest.mark.parametrize("held", ["environment", "template"])
def test_templates_that_may_read_files_are_refused(held: str) -> None:
    environment = jinja2.Environment(loader=jinja2.FileSystemLoader("."))
    value = environment if held == "environment" else environment.from_string("{% include 'a' %}")
    with pytest.raises(NoFingerprint, match="holds a loader of jinja2, whose templates may include files"):
        fingerprint(value)


def test_code_that_renders_templates_counts_by_its_text(module: Module) -> None:
    source = "import jinja2\nTEXT = '{{ a }}'\ndef f(row): return jinja2.Environment().from_string(TEXT).render(a=row)"
    assert fingerprint(module(source).f) == fingerprint(module(source).f)
    assert fingerprint(module(source).f) != fingerprint(module(source.replace("{{ a }}", "{{ a }}!")).f)
    with pytest.raises(NoFingerprint, match="FileSystemLoader"):
        fingerprint(module(source.replace("Environment()", "Environment(loader=jinja2.FileSystemLoader('.'))")).f)


TITAN = """
import json
import logging
import os

import jinja2.sandbox
from tokenizers import Tokenizer

logger = logging.getLogger()


class HuggingFaceTokenizer:
    def __init__(self, *, tokenizer_path):
        self.tokenizer_path = tokenizer_path
        self.tokenizer = self._load(os.path.join(tokenizer_path, "tokenizer.json"))
        self.bos_id = self.eos_id = self.tokenizer.token_to_id("a")
        self.set_chat_template("{{ messages[0].content }}")

    def _load(self, path):
        logger.info("Loading tokenizer from %s", path)
        with open(path) as file:
            return Tokenizer.from_str(json.dumps(json.load(file)))

    def set_chat_template(self, template):
        def raise_exception(message):
            raise jinja2.exceptions.TemplateError(message)

        environment = jinja2.sandbox.SandboxedEnvironment()
        environment.globals["raise_exception"] = raise_exception
        self._chat_template = environment.from_string(template)

    def encode(self, text, add_bos=True, add_eos=True):
        return [self.bos_id] * add_bos + self.tokenizer.encode(text).ids + [self.eos_id] * add_eos
"""


@pytest.fixture
def titan(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    """Function (tokenizer, code) -> a tokenizer of a package that is called torchtitan."""

    def made(tokenizer: tokenizers.Tokenizer, code: str = TITAN) -> Any:
        folder = tmp_path / str(len(list(tmp_path.iterdir()))) / "torchtitan" / "components"
        folder.mkdir(parents=True)
        for package in (folder, folder.parent):
            (package / "__init__.py").write_text("")
        (folder / "tokenizer.py").write_text(code)
        monkeypatch.syspath_prepend(folder.parent.parent)
        for name in [name for name in sys.modules if name.partition(".")[0] == "torchtitan"]:
            monkeypatch.delitem(sys.modules, name)
        tokenizer.save(str(tmp_path / "tokenizer.json"))
        from torchtitan.components.tokenizer import HuggingFaceTokenizer  # pyright: ignore[reportMissingImports]

        return HuggingFaceTokenizer(tokenizer_path=str(tmp_path))

    return made


def test_torchtitans_tokenizer_is_told_though_its_code_reads_files(titan: Callable[..., Any]) -> None:
    told = fingerprint(titan(words("a", "?")))
    assert fingerprint(titan(words("a", "?"))) == told
    other_template = titan(words("a", "?"))
    other_template.set_chat_template("{{ messages }}")
    others = [
        fingerprint(other_template),
        fingerprint(titan(words("a", "?", "b"))),
        fingerprint(titan(words("a", "?"), TITAN.replace("add_bos=True", "add_bos=False"))),
    ]
    assert len({told, *others}) == 4


def test_functions_of_numpy_in_a_package_below_it_are_known(module: Module) -> None:
    source = "from numpy.lib.stride_tricks import sliding_window_view\ndef f(row): return sliding_window_view(row, 3)"
    other = "import numpy as np\ndef f(row): return np.lib.stride_tricks.sliding_window_view(row, 4)"
    assert module(source).f(np.arange(4)).shape == (2, 3)
    assert fingerprint(module(source).f) != fingerprint(module(other).f)
