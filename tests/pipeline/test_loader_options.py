"""Options of a loader that can't be are refused by name, whichever way its graph runs."""

import copy
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from numbered_graphs import Loader, single

from torchpipe.errors import ConfigError
from torchpipe.pipeline import (
    GrainDataLoader,
    TextCollator,
)


@pytest.mark.parametrize("copied", [copy.deepcopy, pickle.dumps])
def test_a_loader_is_not_copied(copied: Callable[[Any], Any], loader: Loader) -> None:
    with pytest.raises(TypeError, match=r"can't be copied or sent to another process.*give that loader the state_dict"):
        copied(loader(single(9)))


@pytest.mark.parametrize(
    ("option", "sentence"),
    [
        ({"num_workers": -1}, "num_workers is -1. Give a whole number, 0 or more"),
        ({"num_workers": 10**30}, "num_workers is 10+. These are processes of this machine: 4,096 at most"),
        ({"num_proc": 10**6}, "num_proc is 1000000. These are processes"),
        ({"cache_dir": 5}, "cache_dir is 5. Give the path of a folder"),
        ({"max_num_documents": 2**40}, "max_num_documents is 1099511627776. Give a whole number, 2,147,483,647 at"),
        ({"num_epochs": 0}, "num_epochs is 0. Give a whole number, 1 or more"),
        ({"allow_changed": "seed"}, "allow_changed is 'seed'. Give a list of names"),
        ({"allow_changed": 3}, "allow_changed is 3. Give a list of names"),
        ({"shuffle": "no"}, "shuffle is 'no'. It is one of 'True', 'False'"),
        ({"repeat": "false"}, "repeat is 'false'. It is one of"),
        ({"planned": 1}, "planned is 1. It is one of 'True', 'False', 'None'"),
        ({"balance": "steps"}, "a graph's order of rows doesn't depend on that. It is one of 'none', 'within_step'"),
        ({"balance": None}, "balance is None. It is one of"),
        ({"read_options": 3}, "read_options is 3. Give a grain.ReadOptions"),
        ({"collator": None}, "collator is None. Give the Config of a Collator, such as"),
        ({"collator": TextCollator}, "collator is <class .*TextCollator'>. Give the Config of a Collator"),
    ],
)
def test_an_option_that_can_not_be_is_named(
    option: dict[str, Any], sentence: str, loader: Loader, tmp_path: Path
) -> None:
    with pytest.raises(ConfigError, match=sentence):
        loader(single(5), **{"cache_dir": str(tmp_path), **option})


@pytest.mark.parametrize("number", [0, 2.0, True])
@pytest.mark.parametrize("planned", [None, False])
def test_a_batch_has_a_whole_number_of_rows(number: Any, planned: bool | None, loader: Loader) -> None:
    class Several(TextCollator):
        def num_rows_per_batch(self) -> int:
            return number

    with pytest.raises(ConfigError, match=f"num_rows_per_batch of Several gives {number}. It is a whole number"):
        loader(single(5), collator=Several.Config(), planned=planned)


def test_an_argument_that_there_is_not_is_refused() -> None:
    config: Any = GrainDataLoader.Config(dataset=single(5))
    with pytest.raises(TypeError, match="dp_wold_size"):
        config.build(tokenizer=None, max_context_length=8, num_tokens_per_batch=8, dp_wold_size=2)
