"""Folders of weights in Hugging Face's layout: files that are cut off, absent, elsewhere or of another kind."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from torchpipe.errors import CheckpointError
from torchpipe.models import load_hf_weights

Fresh = Callable[..., Any]
Refuses = Callable[..., CheckpointError]


def test_a_file_that_was_cut_off_anywhere_is_one_sentence(folder: Path, fresh: Fresh, refuses: Refuses) -> None:
    path = folder / "model.safetensors"
    whole = path.read_bytes()
    header = 8 + int.from_bytes(whole[:8], "little")
    model = fresh(seed=1)
    lengths = {0, 1, 7, 8, 9, header - 1, header, header + 1, len(whole) - 1, *range(0, len(whole), len(whole) // 40)}
    for length in sorted(lengths):
        path.write_bytes(whole[:length])
        error = refuses(model, folder, rf"model\.safetensors \({length:,} bytes\) can't be read as safetensors:")
        assert str(error).endswith("It is cut off or another kind of file: fetch it again.")
        assert "\n" not in str(error)


def test_an_index_that_names_an_absent_file_is_refused(shards: Path, fresh: Fresh, refuses: Refuses) -> None:
    name = sorted(path.name for path in shards.glob("*.safetensors"))[1]
    (shards / name).unlink()
    refuses(fresh(seed=1), shards, rf"index\.json names {name}, and .* has no such file\. .*Fetch the whole checkpoint")


@pytest.mark.parametrize(
    "place",
    ["../other.safetensors", "{folder}/model.safetensors", "sub/model.safetensors", "..\\\\a", "", "..", "x" * 300],
)
def test_an_index_that_leads_out_of_its_folder_is_refused(
    tmp_path: Path, folder: Path, fresh: Fresh, place: str, refuses: Refuses
) -> None:
    (tmp_path / "other.safetensors").write_bytes((folder / "model.safetensors").read_bytes())
    names = load_file(folder / "model.safetensors")
    index = {"weight_map": dict.fromkeys(names, place.format(folder=folder))}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    refuses(fresh(seed=1), folder, "index.json has tensors in .*, which is no name of a file beside it")


def test_a_list_and_an_index_that_disagree_are_refused(shards: Path, fresh: Fresh, refuses: Refuses) -> None:
    names = sorted(path.name for path in shards.glob("*.safetensors"))
    refuses(fresh(seed=1), shards, f"disagree: the list lacks {names[-1]}. List the files", names[:-1])
    (shards / "model-extra.safetensors").write_bytes((shards / names[0]).read_bytes())
    refuses(fresh(seed=1), shards, "the list adds model-extra.safetensors", [*names, "model-extra.safetensors"])
    load_hf_weights(fresh(seed=1), shards, names[::-1])


def test_a_name_in_the_list_that_is_no_file_is_refused_with_the_nearest(
    folder: Path, fresh: Fresh, refuses: Refuses
) -> None:
    message = "The list of files has modle.safetensors.*Did you mean 'model.safetensors'"
    refuses(fresh(seed=1), folder, message, ["modle.safetensors"])


def test_one_file_named_where_there_are_shards_is_answered_with_the_shards(
    shards: Path, fresh: Fresh, refuses: Refuses
) -> None:
    first = min(path.name for path in shards.glob("*.safetensors"))
    refuses(
        fresh(seed=1), shards, f"has model.safetensors, .* Give the files of its index: {first}", ["model.safetensors"]
    )


def test_a_folder_of_an_adapter_is_no_checkpoint(folder: Path, fresh: Fresh, refuses: Refuses) -> None:
    (folder / "model.safetensors").rename(folder / "adapter_model.safetensors")
    message = (
        r"no model\.safetensors and no index; it holds adapter_model\.safetensors\. Name a whole checkpoint's folder"
    )
    refuses(fresh(seed=1), folder, message)


def test_shards_that_do_not_hold_what_the_index_says_are_refused(shards: Path, fresh: Fresh, refuses: Refuses) -> None:
    names = sorted(path.name for path in shards.glob("*.safetensors"))
    first, second = (load_file(shards / name) for name in names[:2])
    moved = next(iter(first))
    save_file({**second, moved: first.pop(moved)}, shards / names[1])
    save_file(first, shards / names[0])
    refuses(fresh(seed=1), shards, f"{moved} is to lie in {names[0]} and is in {names[1]}")
    save_file({**load_file(shards / names[0]), moved: torch.ones(1)}, shards / names[0])
    refuses(fresh(seed=1), shards, f"{moved} lies in {names[0]} and in {names[1]}")
    (shards / "model.safetensors.index.json").write_text('{"weight_map": 3}')
    refuses(fresh(seed=1), shards, "can't be read as an index of safetensors files")


def test_a_folder_of_pickled_weights_says_how_to_convert_them(tmp_path: Path, fresh: Fresh, refuses: Refuses) -> None:
    (tmp_path / "pytorch_model.bin").write_bytes(b"")
    message = r"has its weights in pytorch_model\.bin, and only safetensors are read.*from_pretrained.*save_pretrained"
    refuses(fresh(), tmp_path, message)
    refuses(fresh(), tmp_path, message, ["pytorch_model.bin"])


def test_folders_without_weights_are_refused(tmp_path: Path, fresh: Fresh, refuses: Refuses) -> None:
    refuses(fresh(), tmp_path, "holds no safetensors file")
    refuses(fresh(), tmp_path / "none", "none is no folder")
