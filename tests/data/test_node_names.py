"""Names that seeds are hashed from: a node's own, whatever stands beside it."""

import pytest
from omegaconf import OmegaConf

from torchpipe.data.node_names import config_name, node_names
from torchpipe.errors import ConfigError


def test_nodes_without_a_name_are_called_after_what_they_are_and_equal_ones_numbered():
    assert node_names([None, None, None], ["chat", "text", "chat"]) == ["chat", "text", "chat (2)"]
    assert node_names([None, "chat"], ["chat", "chat"]) == ["chat (2)", "chat"]


def test_names_are_given_once_and_are_text():
    with pytest.raises(ConfigError, match="Several are called 'math'. Give each a name of its own, or none"):
        node_names(["math", "math"], ["a", "b"])
    for wrong in ("", 3):
        with pytest.raises(ConfigError, match="A name is .*. Give a text, or leave it out"):
            node_names([wrong], ["a"])  # pyright: ignore[reportArgumentType]


def test_a_config_has_one_name_in_whatever_order_and_kind_it_is_written():
    config = {"_component_": "torchpipe.datasets.chat_dataset", "source": "json", "split": ["a", {"b": 1, "c": 2}]}
    turned = {"split": ["a", {"c": 2, "b": 1}], "source": "json", "_component_": "torchpipe.datasets.chat_dataset"}
    assert config_name(config) == config_name(turned) == config_name(OmegaConf.create(config))
    assert config_name(config).startswith("chat_dataset-")
    assert config_name({**config, "source": "csv"}) != config_name(config)
