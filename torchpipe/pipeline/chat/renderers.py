"""The ``renderers`` package: its configs as the ``renderer`` of a chat processor, and a tokenizer as it expects one."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from torchpipe._optional import import_optional
from torchpipe._suggest import did_you_mean, listed
from torchpipe.errors import ConfigError, NoFingerprint
from torchpipe.pipeline.chat.renderer_tokenizer import RendererTokenizerWrapper

_GUESSES = frozenset({"auto", "default"})


class RendererConfig(Protocol):
    """What ``renderer`` of a chat processor may be: a value that builds a renderer for a tokenizer."""

    def build(self, *, tokenizer: Any) -> Any:
        """The renderer: ``render(messages, tools=)``, ``get_stop_token_ids()``, ``effective_thinking_retention``."""
        ...


@dataclass(frozen=True, kw_only=True, slots=True)
class RenderersLibraryConfig:
    """A renderer of the ``renderers`` package, which has to be installed: ``pip install "torchpipe-data[renderers]"``.

    Attributes:
        renderers_config: a config of that package, as ``renderers.Qwen3RendererConfig()``; or a table of its fields
            with its ``name``, or the name alone, as YAML has them. ``auto`` and ``default`` are refused: what is
            trained must not depend on a guess by a model's name, nor on a template whose masks can't be told.

    Raises:
        ConfigError: it is none, or one of the two.
        MissingLibraryError: the package is not installed.
    """

    renderers_config: Any

    def __post_init__(self) -> None:
        object.__setattr__(self, "renderers_config", _config_of(self.renderers_config))

    def build(self, *, tokenizer: Any) -> Any:
        """The renderer for a tokenizer.

        Args:
            tokenizer: see :class:`~torchpipe.pipeline.chat.renderer_tokenizer.RendererTokenizerWrapper`.

        Raises:
            ConfigError: the tokenizer is of another kind, or lacks a control token of the format.
        """
        library = renderers_library()
        wrapped = RendererTokenizerWrapper(tokenizer)
        try:
            return library.create_renderer(wrapped, self.renderers_config)
        except (AssertionError, ValueError, TypeError, KeyError) as error:
            raise ConfigError(
                f"The renderer {self.renderers_config.name!r} can't be made for this tokenizer: {error} Give the "
                "renderer of the tokenizer's model."
            ) from error

    def fingerprint(self) -> str:
        """A text that two of them share only if they render alike: the config's fields, and the package's version.

        Raises:
            NoFingerprint: it is a renderer of the user's own, whose code is not followed.
        """
        config = self.renderers_config
        if config.name == "custom":
            raise NoFingerprint("A renderer of your own can't be told from others by its config.")
        return f"renderers {renderers_library().__version__} {config.model_dump_json()}"

    @classmethod
    def from_renderers(cls, config: Any) -> "RenderersLibraryConfig":
        """The ``renderer`` that a config of the package stands for."""
        return cls(renderers_config=config)


RenderersConfigAdapter = RenderersLibraryConfig
"""The later name of :class:`RenderersLibraryConfig`."""

from_renderers = RenderersLibraryConfig.from_renderers
"""The ``renderer`` of a chat processor that a config of the package stands for."""


def renderers_library() -> Any:
    """The package.

    Raises:
        MissingLibraryError: it is not installed.
    """
    return import_optional("renderers", needed_by="A renderer", install="'torchpipe-data[renderers]'")


def _config_of(given: Any) -> Any:
    library = renderers_library()
    if isinstance(given, library.BaseRendererConfig):
        name, config = str(given.name), given
    elif isinstance(given, str):
        name, config = given, None
    elif isinstance(given, Mapping) and isinstance(given.get("name"), str):
        name, config = given["name"], None
    else:
        held = f"is a table without a 'name': {listed(given)}" if isinstance(given, Mapping) else f"is {given!r}"
        raise ConfigError(
            f"renderers_config {held}. Give a config of the renderers package, as renderers.Qwen3RendererConfig(), a "
            "renderer's name, or a table of its fields with its name."
        )
    kinds = _kinds(library)
    names = sorted(kinds.keys() - _GUESSES)
    if name in _GUESSES:
        raise ConfigError(
            f"renderers_config is {name!r}, which leaves open what is trained. Name the renderer of your model: one of "
            f"{listed(names)}."
        )
    if config is not None:
        return config
    if name not in kinds:
        raise ConfigError(f"There is no renderer {name!r}. It is one of {listed(names)}.{did_you_mean(name, names)}")
    fields = {key: value for key, value in given.items() if key != "name"} if isinstance(given, Mapping) else {}
    try:
        return kinds[name](**fields)
    except ValueError as error:
        raise ConfigError(f"renderers_config {given!r} is refused: {error}") from error


def _kinds(library: Any) -> dict[str, Any]:
    """The classes of configs, by the name of the renderer."""
    found = (getattr(library, name) for name in library.__all__ if name.endswith("RendererConfig"))
    fields = ((kind, getattr(kind, "model_fields", {}).get("name")) for kind in found)
    return {field.default: kind for kind, field in fields if field is not None and isinstance(field.default, str)}
