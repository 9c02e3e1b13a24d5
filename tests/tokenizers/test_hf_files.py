"""The config files beside a model's tokenizer."""

import json
from pathlib import Path
from typing import Any

import pytest

from torchpipe.errors import SourceError, TokenizerError
from torchpipe.tokenizers.control_matcher import TokenFlags
from torchpipe.tokenizers.hf_files import AddedToken, HuggingFaceFiles, read_hf_files

CONFIG = {
    "bos_token": {"__type": "AddedToken", "content": "<s>", "lstrip": False},
    "eos_token": "</s>",
    "pad_token": None,
    "add_bos_token": True,
    "legacy": False,
    "model_max_length": 1e30,
    "additional_special_tokens": ["<|a|>", {"content": "<|b|>"}],
    "added_tokens_decoder": {
        "1": {"content": "<s>", "special": True},
        "7": {"content": "<think>", "special": False, "rstrip": True},
    },
    "chat_template": "{{ messages }}",
}


def write(folder: Path, **files: Any) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        path = folder / name.replace("__", ".")
        path.write_text(content if isinstance(content, str) else json.dumps(content), encoding="utf-8")
    return folder


def test_a_folder_tells_tokens_templates_and_stops(tmp_path: Path) -> None:
    files = read_hf_files(
        write(
            tmp_path, tokenizer_config__json=CONFIG, generation_config__json={"eos_token_id": [2, 5], "bos_token_id": 1}
        )
    )
    assert (files.bos_token, files.eos_token, files.pad_token, files.unk_token) == ("<s>", "</s>", None, None)
    assert files.additional_special_tokens == ("<|a|>", "<|b|>")
    assert files.added_tokens["<s>"] == AddedToken(text="<s>", token_id=1, special=True)
    assert files.special_tokens == {"<s>": 1, "<think>": 7}
    assert files.flags["<think>"] == TokenFlags(rstrip=True)
    assert (files.bos_token_id, files.eos_token_ids, files.pad_token_id) == (1, (2, 5), None)
    assert (files.add_bos_token, files.add_eos_token, files.legacy) == (True, None, False)
    assert files.chat_template() == "{{ messages }}"


def test_files_can_be_given_one_by_one(tmp_path: Path) -> None:
    write(tmp_path, a__json={"eos_token": "<e>"}, b__json={"eos_token_id": 3}, c__txt="C")
    files = read_hf_files(
        tokenizer_config=tmp_path / "a.json", generation_config=tmp_path / "b.json", chat_template=tmp_path / "c.txt"
    )
    assert (files.eos_token, files.eos_token_ids, files.chat_template()) == ("<e>", (3,), "C")
    assert read_hf_files() == HuggingFaceFiles()
    assert HuggingFaceFiles().chat_template(tools=True) is None


def test_named_templates_are_chosen_by_whether_tools_are_given(tmp_path: Path) -> None:
    named = [{"name": "default", "template": "D"}, {"name": "tool_use", "template": "T"}]
    files = read_hf_files(write(tmp_path, tokenizer_config__json={"chat_template": named}))
    assert (files.chat_template(), files.chat_template(tools=True)) == ("D", "T")
    files = read_hf_files(write(tmp_path, tokenizer_config__json={"chat_template": named[:1]}))
    assert files.chat_template(tools=True) == "D"
    files = read_hf_files(write(tmp_path, tokenizer_config__json={"chat_template": named[1:]}))
    with pytest.raises(TokenizerError, match=r"\['tool_use'\], and none of them is called 'default'"):
        files.chat_template()


def test_template_files_go_before_the_configs_template(tmp_path: Path) -> None:
    write(tmp_path, tokenizer_config__json=CONFIG, chat_template__json={"chat_template": "old"})
    assert read_hf_files(tmp_path).chat_template() == "old"
    write(tmp_path, chat_template__jinja="new")
    write(tmp_path / "additional_chat_templates", tool_use__jinja="tools")
    files = read_hf_files(tmp_path)
    assert (files.chat_template(), files.chat_template(tools=True)) == ("new", "tools")


def test_older_files_fill_what_the_config_leaves_out(tmp_path: Path) -> None:
    write(
        tmp_path,
        tokenizer_config__json={"eos_token": "<new>"},
        special_tokens_map__json={"eos_token": "<old>", "unk_token": {"content": "<unk>"}},
        added_tokens__json={"<think>": 9},
    )
    files = read_hf_files(tmp_path)
    assert (files.eos_token, files.unk_token, files.special_tokens) == ("<new>", "<unk>", {"<think>": 9})


def test_the_config_says_where_the_prefix_space_stands() -> None:
    assert HuggingFaceFiles().prefix_scheme == "always"
    assert HuggingFaceFiles(legacy=False).prefix_scheme == "first"
    assert HuggingFaceFiles(legacy=False, add_prefix_space=False).prefix_scheme == "never"


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ([], "holds a list. Give the model's own tokenizer_config.json"),
        ("{", "is not JSON"),
        ({"eos_token": 3}, "eos_token is 3. It should be a text, or an object"),
        ({"additional_special_tokens": "x"}, "additional_special_tokens is 'x'. It should be a list"),
        ({"added_tokens_decoder": {"x": {"content": "y"}}}, "added tokens of the model can't be read"),
        ({"chat_template": [{"name": "default"}]}, "chat_template should be a text, or a list"),
        ({"add_bos_token": "yes"}, "add_bos_token of tokenizer_config.json is 'yes'. It should be true or false"),
    ],
)
def test_a_config_of_another_form_is_named(config: Any, message: str, tmp_path: Path) -> None:
    write(tmp_path, tokenizer_config__json=config)
    with pytest.raises(TokenizerError, match=message):
        read_hf_files(tmp_path)


def test_other_files_of_another_form_are_named(tmp_path: Path) -> None:
    write(tmp_path, generation_config__json={"eos_token_id": "</s>"})
    with pytest.raises(TokenizerError, match=r"eos_token_id of generation_config\.json is '</s>'"):
        read_hf_files(tmp_path)
    with pytest.raises(SourceError, match="is no folder"):
        read_hf_files(tmp_path / "none")
    with pytest.raises(SourceError, match=r"Can't read .*none\.json"):
        read_hf_files(tokenizer_config=tmp_path / "none.json")
    (tmp_path / "latin.jinja").write_bytes(b"\xff")
    with pytest.raises(TokenizerError, match="is not UTF-8 text"):
        read_hf_files(chat_template=tmp_path / "latin.jinja")


def test_a_real_folder_is_read(llama3_tokenizer_json: Path) -> None:
    files = read_hf_files(llama3_tokenizer_json.parent)
    assert (files.bos_token, files.eos_token) == ("<|begin_of_text|>", "<|end_of_text|>")
    assert files.special_tokens["<|eot_id|>"] == 128_009
    assert files.chat_template() is None
