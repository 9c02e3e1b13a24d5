"""Names of torchtune's that are not here yet: a sentence that says so, wherever they are asked for."""

import importlib

import pytest

from torchpipe._dotpath import resolve
from torchpipe._not_yet import NOT_YET
from torchpipe.config import validate
from torchpipe.errors import ConfigError, InstantiationError

PLACES = [(module, name) for module, names in NOT_YET.items() for name in names]


@pytest.mark.parametrize(("module", "name"), PLACES)
def test_a_name_that_is_not_here_yet_says_so_in_yaml(module: str, name: str) -> None:
    with pytest.raises(InstantiationError, match=rf"torchpipe has no {module}\.{name} yet\.") as told:
        resolve(f"{module}.{name}")
    assert "Did you mean" not in str(told.value)


@pytest.mark.parametrize(("module", "name"), PLACES)
def test_a_name_that_is_not_here_yet_says_so_on_import(module: str, name: str) -> None:
    with pytest.raises(ImportError, match=rf"^torchpipe has no {module}\.{name} yet\. [A-Z].*\S\.$"):
        exec(f"from {module} import {name}")


def test_a_name_that_is_not_here_yet_is_an_attribute_that_is_missing() -> None:
    datasets = importlib.import_module("torchpipe.datasets.multimodal")
    assert not hasattr(datasets, "vqa_dataset")
    assert getattr(datasets, "vqa_dataset", None) is None
    with pytest.raises(AttributeError, match="torchpipe has no torchpipe.datasets.multimodal.vqa_dataset yet"):
        _ = datasets.vqa_dataset
    with pytest.raises(AttributeError, match="module 'torchpipe.datasets.multimodal' has no attribute 'nothing'"):
        _ = datasets.nothing


@pytest.mark.parametrize(("module", "name"), PLACES)
def test_the_table_holds_no_name_that_is_here(module: str, name: str) -> None:
    assert name not in vars(importlib.import_module(module))


def test_validate_says_it_for_a_config() -> None:
    config = {"dataset": {"_component_": "torchpipe.datasets.multimodal.vqa_dataset", "source": "json"}}
    with pytest.raises(ConfigError, match=r"dataset: _component_: Could not find .*no .*vqa_dataset yet"):
        validate(config)
