"""All that is wrong with a config's components, found without building any."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from omegaconf import DictConfig, ListConfig

from torchpipe._dotpath import resolve
from torchpipe.config.instantiate import check_component_spelling, check_names, find_component
from torchpipe.config.merge import COMPONENT, file_of, join_key, key_path_of, located, to_plain
from torchpipe.config.signature import check_call
from torchpipe.errors import ConfigError, InstantiationError


def validate(
    cfg: DictConfig | Mapping[Any, Any],
    *,
    import_components: bool = True,
    caller_globals: Mapping[str, Any] | None = None,
    allow_unsafe: bool = False,
) -> None:
    """Returns when every component of the config, nested ones too, can be called as written; nothing is called.

    A component inside another one must be complete. One at the top may lack arguments, for the recipe passes some
    when it builds it, and so may those under the keys that a component names in ``dataset_arguments``; an argument that
    it doesn't take is always wrong. A value that is still ``???`` is one that
    will be given, so it is no problem here. Functions that are given by their dotted names are looked for where a
    component names their arguments in ``function_arguments``.

    Args:
        cfg: a whole config, or a part of one.
        import_components: False checks names, ``${...}`` and what is refused by its spelling, and imports nothing:
            the check for a config that you don't trust yet. Importing a module runs it.
        caller_globals: where names without a dot are looked up first.
        allow_unsafe: let pass what ``instantiate`` refuses by default.

    Raises:
        ConfigError: one error for all problems. Its message lists them, one a line, each with its key path; its
            attribute ``errors`` is the list of them.

    >>> validate({"loss": {"_component_": "torch.nn.CrossEntropyLoss", "reductoin": "sum"}})
    Traceback (most recent call last):
        ...
    torchpipe.errors.ConfigError: loss: torch.nn.CrossEntropyLoss can't be called as written. It takes no argument \
'reductoin'. Did you mean 'reduction'? It takes: 'weight', 'size_average', 'ignore_index', 'reduce', 'reduction', \
'label_smoothing'.
    """
    if not isinstance(cfg, DictConfig | ListConfig | Mapping):
        raise ConfigError(f"A config is a DictConfig or a dict; got {type(cfg).__name__}.")
    check = _Check(
        file=file_of(cfg),
        import_components=import_components,
        caller_globals=caller_globals or {},
        allow_unsafe=allow_unsafe,
    )
    plain = to_plain(cfg, check.problems, [])
    check.value(plain, key_path_of(cfg), nested=False)
    if check.problems:
        raise collected(check.problems)


def overview(cfg: DictConfig) -> tuple[int, list[str]]:
    """How many components a config holds, nested ones included, and the keys of the values that are still ``???``."""

    def count(value: Any) -> int:
        if isinstance(value, dict):
            return (COMPONENT in value) + sum(count(item) for item in value.values())
        return sum(count(item) for item in value) if isinstance(value, list) else 0

    to_be_given: list[str] = []
    return count(to_plain(cfg, [], to_be_given)), to_be_given


def collected(problems: Sequence[ConfigError]) -> ConfigError:
    """One ConfigError for several: the message has one line each, ``errors`` is the list."""
    if len(problems) == 1:
        message = str(problems[0])
    else:
        message = "\n".join([f"{len(problems)} problems in the config:", *(f"  - {problem}" for problem in problems)])
    error = ConfigError(message)
    vars(error)["errors"] = list(problems)
    return error


@dataclass(kw_only=True)
class _Check:
    file: str | None
    import_components: bool
    caller_globals: Mapping[str, Any]
    allow_unsafe: bool
    problems: list[ConfigError] = field(default_factory=list)

    def value(self, value: Any, key_path: str, *, nested: bool) -> None:
        if isinstance(value, dict):
            inside = nested or COMPONENT in value
            built_apart = self.component(value, key_path, nested=nested) if COMPONENT in value else ()
            for key, item in value.items():
                self.value(item, join_key(key_path, key), nested=inside and key not in built_apart)
        elif isinstance(value, list):
            for place, item in enumerate(value):
                self.value(item, join_key(key_path, place), nested=nested)

    def component(self, config: dict[str, Any], key_path: str, *, nested: bool) -> Sequence[str]:
        """Checks one component; the arguments of it whose own components are built by others, and may be incomplete."""
        where = located(key_path, self.file)
        name = config[COMPONENT]
        arguments = {key: item for key, item in config.items() if key != COMPONENT}
        try:
            check_names(arguments, where, name)
            if not self.import_components:
                check_component_spelling(name, where, allow_unsafe=self.allow_unsafe)
                return ()
            target = find_component(name, where, caller_globals=self.caller_globals, allow_unsafe=self.allow_unsafe)
        except InstantiationError as error:
            self.problems.append(error)
            return ()
        except (Exception, SystemExit) as error:
            # The module exists and fails while it is imported: a problem of this config like any other.
            reason = f"importing it raised {type(error).__name__}: {error}"
            self.problems.append(InstantiationError(f"{where}{COMPONENT}: '{name}': {reason}"))
            return ()
        sentences = check_call(target, 0, arguments).sentences(missing_matters=nested)
        if sentences:
            self.problems.append(InstantiationError(f"{where}{name} can't be called as written. {sentences}"))
        self.functions(arguments, getattr(target, "function_arguments", ()), key_path)
        return getattr(target, "dataset_arguments", ())

    def functions(self, arguments: Mapping[str, Any], keys: Sequence[str], key_path: str) -> None:
        """Checks the arguments that are functions where they are given by their dotted names, alone or in a list."""
        for key in keys:
            given = arguments.get(key)
            for place, name in enumerate(given if isinstance(given, list) else [given]):
                if not isinstance(name, str) or name == "???":
                    continue
                path = join_key(key_path, key)
                where = located(join_key(path, place) if isinstance(given, list) else path, self.file)
                try:
                    found = resolve(name, allow_unsafe=self.allow_unsafe)
                except ConfigError as error:
                    self.problems.append(InstantiationError(f"{where}{error}"))
                    continue
                if not callable(found):
                    told = f"'{name}' is of type {type(found).__name__}, and has to be a function."
                    self.problems.append(InstantiationError(f"{where}{told}"))
