"""The commands on a config whose rows come from a graph."""

import json
import re
import shutil
from pathlib import Path

import pytest

from torchpipe._shipped_files import sample_file
from torchpipe.cli.main import main

LEAF = "dataloader.dataset.dataset.datasets.0.dataset"
SPLIT = [f"dataloader.dataset.dataset.datasets.{place}.dataset.source.split=train[:24]" for place in (0, 1)]


@pytest.fixture
def words(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Config and overrides of tiny/graph on a few chats; the working folder is a new one."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TORCHPIPE_CACHE", str(tmp_path / "cache"))
    shutil.copy(sample_file(), "chats.json")
    return ["tiny/graph", "data_file=chats.json", "dataloader.num_proc=1", *SPLIT]


def test_plan_shows_the_graph_as_text_and_as_json(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", *words, "--ranks", "2"]) == 0
    assert capsys.readouterr().out.startswith(
        "dataloader: planned from chats, last turns\n  source   chats, of chats.json"
    )
    assert main(["plan", *words, "--ranks", "2", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["graph"]["world_size"] == 2
    assert main(["plan", *words, "--strategies", "next_fit"]) == 1
    assert "Error: A graph takes no strategies. No other packs are compared" in capsys.readouterr().err


def test_explain_shows_a_source_the_graph_and_a_node(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", *words]) == 0
    assert capsys.readouterr().out.startswith("chats, of chats.json (24 of 280 rows): 24 rows\n")
    assert main(["explain", *words, "--section", "dataloader", "--max-tokens", "9"]) == 0
    shown = capsys.readouterr().out
    assert re.search(r"\npack 0: 2,048 tokens, .* documents, .* tokens of padding\n", shown)
    assert re.search(r"\ndocument 0: row \d+ of (chats|last turns), ", shown)
    assert "tokens more" in shown
    assert main(["explain", *words, "--section", "last turns", "--row", "-1", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["rows"][0]["row"] == 23
    assert main(["explain", *words, "--inference", "--section", "chats"]) == 0
    assert "1 assistant turn, all contexts the same" in capsys.readouterr().out
    assert main(["explain", *words, "--section", "chat"]) == 1
    assert "Did you mean 'chats'?" in capsys.readouterr().err


def test_validate_names_what_is_wrong_anywhere_in_the_graph(
    words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["validate", "tiny/graph"]) == 0
    wrong = [
        f"{LEAF}.processor.masking_strategies=all",
        f"{LEAF}.pre_filters=[torchpipe.data.nowhere, torchpipe.constants.IGNORE_INDEX]",
        f"{LEAF}.post_filters=nowhere.keeps",
        "dataloader.dataset.packing_bins=3",
        "dataloader.collator={_component_: torchpipe.pipeline.TextColator.Config}",
    ]
    assert main(["validate", "tiny/graph", *wrong]) == 1
    found = capsys.readouterr().err
    for sentence in (
        "It takes no argument 'masking_strategies'. Did you mean 'masking_strategy'?",
        "datasets[0].dataset.pre_filters[0]: Could not find 'torchpipe.data.nowhere'",
        "pre_filters[1]: 'torchpipe.constants.IGNORE_INDEX' is of type int, and has to be a function.",
        "post_filters: ",
        "It takes no argument 'packing_bins'. Did you mean 'num_packing_bins'?",
        "Did you mean 'TextCollator'?",
    ):
        assert sentence in found, sentence
    assert len(found.splitlines()) == 6


@pytest.mark.parametrize("key", ["messages_fn", "tools_fn"])
def test_validate_looks_for_the_functions_of_a_processor(
    key: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    functions = {"messages_fn": "torchpipe.data.validate_messages", key: "torchpipe.data.validate_mesages"}
    processor = {"_component_": "torchpipe.pipeline.ChatProcessor.Config", **functions}
    file = tmp_path / "mine.yaml"
    file.write_text(json.dumps({"processor": processor}))
    assert main(["validate", str(file)]) == 1
    assert f"processor.{key}: Could not find 'torchpipe.data.validate_mesages'" in capsys.readouterr().err
    assert main(["validate", str(file), "--no-import"]) == 0


def test_store_ls_says_which_node_and_which_file_a_store_is_of(
    words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["plan", *words]) == 0
    capsys.readouterr()
    assert main(["store", "ls"]) == 0
    shown = capsys.readouterr().out
    assert shown.count("    source: chats.json (24 of 280 rows)\n") == 2
    assert "    node: chats\n" in shown
    assert "    node: last turns\n" in shown


def test_it_is_listed_and_can_be_copied(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["ls"]) == 0
    assert "sft     tiny/graph\n" in capsys.readouterr().out
    assert main(["cp", "tiny/graph", "mine.yaml"]) == 0
    assert main(["validate", "mine.yaml"]) == 0
    assert "17 components, all found and callable as written" in capsys.readouterr().out
