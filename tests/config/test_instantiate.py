import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from omegaconf import OmegaConf

from torchpipe.config import ConfigError, InstantiationError, instantiate

Write = Callable[[str, str], Path]


class Box:
    """What a test builds: keeps what it was given."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self.args, self.kwargs = args, kwargs


def make_pair(left: Any, right: Any = "r") -> tuple[Any, Any]:
    return left, right


def fails_inside(value: int) -> None:
    raise TypeError(f"inside with {value}")


def test_none_gives_none() -> None:
    assert instantiate(None) is None


def test_a_component_is_called_with_the_keys_beside_it() -> None:
    loss = instantiate({"_component_": "torch.nn.CrossEntropyLoss", "reduction": "sum"})
    assert isinstance(loss, torch.nn.CrossEntropyLoss)
    assert loss.reduction == "sum"


def test_arguments_lie_over_the_config_and_positions_go_to_the_top_component() -> None:
    config = OmegaConf.create({"_component_": "make_pair", "right": {"a": 1, "b": 2}})
    assert instantiate(config, "l", right={"b": 3}) == ("l", {"a": 1, "b": 3})


def test_the_config_is_left_as_it_was() -> None:
    config = {"_component_": "make_pair", "left": {"_component_": "Box"}, "right": [1]}
    before = repr(config)
    instantiate(config, right=[2])
    assert repr(config) == before


def test_nested_components_are_built_in_dicts_and_lists_and_other_dicts_stay_dicts() -> None:
    box = instantiate(
        {
            "_component_": "Box",
            "deep": {"list": [{"_component_": "make_pair", "left": 1}, {"plain": 2}]},
            "plain": {"x": {"y": 1}},
        }
    )
    assert box.kwargs["deep"]["list"] == [(1, "r"), {"plain": 2}]
    assert type(box.kwargs["plain"]) is dict
    assert type(box.kwargs["plain"]["x"]) is dict


def test_objects_pass_through_untouched() -> None:
    model, rows, plain, generator = torch.nn.Linear(2, 2), [{"a": object()}], {"x": 1}, iter([1])
    box = instantiate(
        OmegaConf.create({"_component_": "Box"}), model=model, rows=rows, plain=plain, generator=generator
    )
    for name, given in {"model": model, "rows": rows, "plain": plain, "generator": generator}.items():
        assert box.kwargs[name] is given


def test_an_optimizer_takes_parameters_as_a_position() -> None:
    model = torch.nn.Linear(2, 2)
    optimizer = instantiate(OmegaConf.create({"_component_": "torch.optim.AdamW", "lr": 0.5}), model.parameters())
    assert optimizer.param_groups[0]["params"][0] is model.weight


def test_rows_of_data_cannot_name_components() -> None:
    rows = [{"_component_": "os.system", "command": "true"}]
    assert instantiate({"_component_": "Box"}, rows=rows).kwargs["rows"] is rows


def test_a_dict_argument_with_a_component_is_built() -> None:
    box = instantiate({"_component_": "Box"}, inner={"_component_": "make_pair", "left": 1})
    assert box.kwargs["inner"] == (1, "r")


def test_interpolations_are_resolved_from_the_whole_config() -> None:
    cfg = OmegaConf.create({"folder": "f", "tokenizer": {"_component_": "make_pair", "left": "${folder}/t.model"}})
    assert instantiate(cfg.tokenizer)[0] == "f/t.model"


def test_interpolations_are_resolved_in_a_dict_that_holds_objects() -> None:
    marker = object()
    box = instantiate({"_component_": "Box", "size": 3, "same": "${size}", "object": marker, "again": "${object}"})
    assert box.kwargs == {"size": 3, "same": 3, "object": marker, "again": marker}


def test_an_interpolation_to_nothing_names_its_key() -> None:
    cfg = OmegaConf.create({"data": {"_component_": "Box", "path": "${nowhere}"}})
    with pytest.raises(InstantiationError, match=r"data\.path: Interpolation key 'nowhere' not found"):
        instantiate(cfg.data)


def test_a_value_that_must_be_given_names_its_key() -> None:
    cfg = OmegaConf.create({"data": {"_component_": "Box", "path": "???"}})
    with pytest.raises(InstantiationError, match=r"data\.path: the value is still '\?\?\?'.*data\.path=\.\.\."):
        instantiate(cfg.data)


def test_a_value_taken_from_one_that_must_be_given_says_so() -> None:
    cfg = OmegaConf.create({"file": "???", "data": {"_component_": "Box", "path": "${file}"}})
    with pytest.raises(InstantiationError, match=r"data\.path: it takes its value by .* a key that is still '\?\?\?'"):
        instantiate(cfg.data)


def test_a_config_that_holds_itself_is_an_error() -> None:
    cfg = OmegaConf.create({"data": {"_component_": "Box", "self": "${data}"}})
    with pytest.raises(InstantiationError, match=r"nested without end|refers|Recursion|self"):
        instantiate(cfg.data)


@pytest.mark.parametrize("config", ["x", 3, [1]])
def test_what_is_no_mapping_is_refused(config: Any) -> None:
    with pytest.raises(ValueError, match=f"A config is a dict or a DictConfig; got {type(config).__name__}"):
        instantiate(config)


def test_a_misspelt_component_key_is_named() -> None:
    with pytest.raises(InstantiationError, match=r"no _component_ among the keys \(_compnent_\)\. Did you mean"):
        instantiate({"_compnent_": "Box"})


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("", "is empty"),
        (".a.b", "begins or ends with a dot"),
        ("a.b.", "begins or ends with a dot"),
        ("a..b", "two in a row"),
        ("a.b c", "'b c' can't be a Python name"),
        (7, r"A dotted name is needed.*got 7 \(int\)"),
        ("no_such_package.thing", "no module called 'no_such_package'"),
        ("no_such_name", "no module, or name in the code that reads the config, called 'no_such_name'"),
        ("torchpipe.constantz.X", r"module 'torchpipe' has no 'constantz'\. Did you mean 'constants'\?"),
        ("torch.optim.AdmW", r"has no 'AdmW'\. Did you mean 'AdamW'\?"),
        ("torchpipe.models.lama3.x", r"module 'torchpipe.models' has no 'lama3'\. Did you mean 'llama3'\?"),
        ("torchpipe.models.llama3.lama3_tokenizer", r"Did you mean 'llama3_tokenizer'\?"),
        ("torchpipe.data.Message.from_dct", r"'torchpipe.data.Message' has no 'from_dct'\. Did you mean 'from_dict'\?"),
        ("torch.nn", "'torch.nn' is a module"),
        ("torchpipe.constants.IGNORE_INDEX", "is a int"),
    ],
)
def test_a_name_that_leads_nowhere_says_why(name: Any, message: str) -> None:
    with pytest.raises(InstantiationError, match=message):
        instantiate({"_component_": name})


@pytest.mark.parametrize(
    "name",
    [
        "torchpipe.models.qwen3.qwen3",  # QWEN3 is a format
        "torchpipe.models.llama3.llama3_80b",
        "torchpipe.models.tiny.lora_tiny_llama3",
        "torchpipe.models.llama3.open_backed",  # imported there
        "torchpipe.datasets.dpo_dataset",
        "torchpipe.constants.IGNORE_INDEXES",
    ],
)
def test_what_is_another_thing_is_not_offered_for_a_name(name: str) -> None:
    module, _, last = name.rpartition(".")
    with pytest.raises(InstantiationError, match=rf"module '{module}' has no '{last}'\.$"):
        instantiate({"_component_": name})


def test_a_name_of_torchtunes_says_what_to_write() -> None:
    expected = r"torchtune is not installed.*Replace 'torchtune' with 'torchpipe', as torchpipe\.data\.Message\.$"
    with pytest.raises(InstantiationError, match=expected):
        instantiate({"_component_": "torchtune.data.Message"})


def test_a_module_that_imports_torchtune_says_what_to_write(write: Write) -> None:
    write("half_renamed.py", "import os\nfrom torchtune.data import Message\ndef rows(): pass\n")
    expected = r"half_renamed.py, line 2\)\. torchtune is not installed.* Replace 'torchtune' with 'torchpipe'\.$"
    with pytest.raises(InstantiationError, match=expected):
        instantiate({"_component_": "half_renamed.rows"})


def test_a_module_that_imports_what_is_not_here_yet_is_told_so(write: Write) -> None:
    write("early.py", "from torchpipe.datasets.multimodal import vqa_dataset\n")
    expected = r"failed: torchpipe has no torchpipe.datasets.multimodal.vqa_dataset yet\..*early.py, line 1\)\."
    with pytest.raises(InstantiationError, match=expected):
        instantiate({"_component_": "early.rows"})


def test_bare_names_come_from_the_calling_module_before_modules(write: Write) -> None:
    write("Box.py", "raise RuntimeError('this module is not wanted')")
    assert isinstance(instantiate({"_component_": "Box"}), Box)


def test_bare_names_come_from_the_globals_that_are_given() -> None:
    assert instantiate({"_component_": "mine"}, caller_globals={"mine": lambda: 5}) == 5


def test_a_class_in_the_calling_module_can_be_walked() -> None:
    class Outer:
        class Inner:
            pass

    assert isinstance(instantiate({"_component_": "Outer.Inner"}, caller_globals={"Outer": Outer}), Outer.Inner)


def test_nested_attributes_resolve_by_the_longest_importable_prefix(write: Write) -> None:
    write("pkg/__init__.py", "class thing:\n    where = 'attribute'\n    class Config: pass\n")
    write("pkg/thing.py", "class Other: pass\n")
    assert instantiate({"_component_": "pkg.thing.Other"}).__class__.__module__ == "pkg.thing"
    assert instantiate({"_component_": "pkg.thing.Config"}).__class__.__qualname__ == "thing.Config"
    assert instantiate({"_component_": "pkg.thing"}).where == "attribute"


def test_a_function_that_shares_its_files_name_is_meant_not_the_file(write: Write) -> None:
    write("pkg2/__init__.py", "from pkg2.build import build\n")
    write("pkg2/build.py", "def build(): return 'built'\n")
    assert instantiate({"_component_": "pkg2.build"}) == "built"


def test_a_module_of_the_working_folder_is_found_and_stays_importable(write: Write) -> None:
    write("data/dataset.py", "def custom_dataset(tokenizer, n=1):\n    from data import late\n    return late.X, n\n")
    write("data/late.py", "X = 'late'\n")
    assert instantiate({"_component_": "data.dataset.custom_dataset", "n": 2}, "tokenizer") == ("late", 2)


def test_the_working_folders_module_wins_over_an_installed_one(write: Write, tmp_path: Path) -> None:
    installed = tmp_path / "installed"
    write("installed/shadowed.py", "def make(): return 'installed'\n")
    sys.path.insert(0, str(installed))
    write("shadowed.py", "def make(): return 'own'\n")
    assert instantiate({"_component_": "shadowed.make"}) == "own"


def test_a_working_folders_subfolder_joins_an_installed_package_of_its_name(write: Write) -> None:
    import datasets

    write("datasets/my_own_rows.py", "def rows(): return [1]\n")
    places = list(datasets.__path__)
    try:
        assert instantiate({"_component_": "datasets.my_own_rows.rows"}) == [1]
        assert callable(datasets.load_dataset)
    finally:
        datasets.__path__[:] = places


def test_a_file_that_an_installed_package_hides_is_named(write: Write) -> None:
    own = write("datasets.py", "def rows(): return [1]\n")
    with pytest.raises(InstantiationError, match=rf"Your {own} is hidden by the installed package at .*rename yours"):
        instantiate({"_component_": "datasets.rows"})


def test_a_failing_import_inside_a_module_is_reported_as_that(write: Write) -> None:
    write("mine/broken.py", "import os\nimport not_installed_here\n")
    expected = (
        r"module 'mine.broken' .*import inside it failed: No module named 'not_installed_here' .*broken.py, line 2"
    )
    with pytest.raises(InstantiationError, match=expected) as caught:
        instantiate({"_component_": "mine.broken.X"})
    assert isinstance(caught.value.__cause__, ModuleNotFoundError)


def test_a_broken_working_folder_module_can_be_mended_and_tried_again(write: Write) -> None:
    write("mended.py", "from math import no_such_thing\n")
    with pytest.raises(InstantiationError, match=r"cannot import name 'no_such_thing' from 'math'.*mended.py, line 1"):
        instantiate({"_component_": "mended.f"})
    assert "mended" not in sys.modules


def test_another_failure_of_a_module_keeps_its_own_type(write: Write) -> None:
    write("mine2/bad.py", "1 / 0\n")
    with pytest.raises(ZeroDivisionError) as caught:
        instantiate({"_component_": "mine2.bad.X"})
    assert "mine2.bad.X" in caught.value.__notes__[0]


def test_an_unknown_argument_is_answered_with_the_nearest_and_all_names() -> None:
    cfg = OmegaConf.create({"optimizer": {"_component_": "make_pair", "lft": 1}})
    expected = (
        r"^optimizer: make_pair can't be called as written\. It takes no argument 'lft'\. Did you mean 'left'\? "
        r"Missing argument: 'left'\. It takes: 'left', 'right'\.$"
    )
    with pytest.raises(InstantiationError, match=expected):
        instantiate(cfg.optimizer)


def test_a_missing_argument_names_the_nested_key() -> None:
    cfg = OmegaConf.create({"data": {"_component_": "Box", "parts": [{"_component_": "make_pair"}]}})
    with pytest.raises(InstantiationError, match=r"^data\.parts\[0\]: make_pair .*Missing argument: 'left'"):
        instantiate(cfg.data)


def test_an_argument_given_twice_is_named() -> None:
    with pytest.raises(InstantiationError, match="'left' is given twice, by code and by the config"):
        instantiate({"_component_": "make_pair", "left": 1}, 2)


def test_too_many_positions_are_counted() -> None:
    with pytest.raises(InstantiationError, match="given 1 more positional"):
        instantiate({"_component_": "make_pair"}, 1, 2, 3)


def test_a_key_that_is_no_word_is_named() -> None:
    with pytest.raises(InstantiationError, match="can't take the key 3"):
        instantiate({"_component_": "Box", 3: 1})


def test_a_type_error_inside_a_component_stays_a_type_error_and_gets_a_note() -> None:
    cfg = OmegaConf.create({"job": {"_component_": "fails_inside", "value": 3}})
    with pytest.raises(TypeError, match="inside with 3") as caught:
        instantiate(cfg.job)
    assert not isinstance(caught.value, ConfigError)
    assert caught.value.__notes__ == ["While building job: fails_inside"]


def test_nothing_is_called_when_a_nested_component_is_wrong() -> None:
    called = []
    names = {"first": lambda: called.append(1), "Box": Box}
    config = {"_component_": "Box", "a": {"_component_": "first"}, "b": {"_component_": "os.system", "command": "x"}}
    with pytest.raises(InstantiationError, match=r"^b: _component_: 'os\.system' is refused"):
        instantiate(config, caller_globals=names)
    assert called == []


def test_the_yaml_file_is_named(write: Write) -> None:
    from torchpipe.config.load import load_config

    cfg = load_config(write("job.yaml", "data:\n  source:\n    _component_: torch.optim.Nope\n"))
    with pytest.raises(InstantiationError, match=r"job\.yaml: data\.source: _component_: Could not find"):
        instantiate(cfg.data.source)


def test_a_config_that_contains_itself_is_a_sentence() -> None:
    config: dict[str, Any] = {"_component_": "torchpipe.errors.DataError", "list": [1]}
    config["list"].append(config)
    with pytest.raises(InstantiationError, match=r"^The config contains itself, or nests deeper than can be read"):
        instantiate(config)
