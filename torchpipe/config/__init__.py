"""Configs: YAML files whose ``_component_`` keys name what is built, and the commands that read them."""

from torchpipe._dotpath import resolve
from torchpipe.config.configurable import Configurable
from torchpipe.config.instantiate import instantiate
from torchpipe.config.keys import Setting, read_settings
from torchpipe.config.log import log_config
from torchpipe.config.parse import parse
from torchpipe.config.torchtune_keys import adopt_torchtune_keys
from torchpipe.config.validate import validate
from torchpipe.errors import ConfigError, InstantiationError

__all__ = [
    "ConfigError",
    "Configurable",
    "InstantiationError",
    "Setting",
    "adopt_torchtune_keys",
    "instantiate",
    "log_config",
    "parse",
    "read_settings",
    "resolve",
    "validate",
]
