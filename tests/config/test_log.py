import logging

import pytest
import yaml
from omegaconf import OmegaConf

from torchpipe.config import InstantiationError, log_config
from torchpipe.config.log import is_secret


def test_the_config_is_logged_sorted_and_resolved(caplog: pytest.LogCaptureFixture) -> None:
    cfg = OmegaConf.create({"z": 1, "a": {"path": "${folder}/x"}, "folder": "f"})
    with caplog.at_level(logging.DEBUG, logger="torchpipe.config"):
        text = log_config("sft", cfg)
    assert text == "a:\n  path: f/x\nfolder: f\nz: 1\n"
    assert text in caplog.records[0].getMessage()
    assert "sft" in caplog.records[0].getMessage()
    assert caplog.records[0].levelno == logging.DEBUG


def test_only_rank_0_logs(caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RANK", "1")
    with caplog.at_level(logging.DEBUG, logger="torchpipe.config"):
        log_config("sft", OmegaConf.create({"a": 1}))
    assert caplog.records == []


SECRET = """token hf_token HF_TOKEN hfToken auth_token api_key apiKey api-key apikey password db_password
client_secret secret access_key private_key credentials wandb_api_key"""

PUBLIC = """tokenizer tokens special_tokens_path max_tokens pad_token eos_token image_token num_tokens token_ids key
keys key_map monkey secretary tokenizer_path author keyword token_budget"""


@pytest.mark.parametrize("key", SECRET.split())
def test_secret_keys_are_known(key: str) -> None:
    assert is_secret(key)


@pytest.mark.parametrize("key", PUBLIC.split())
def test_other_keys_are_no_secrets(key: str) -> None:
    assert not is_secret(key)


def test_secrets_are_masked_wherever_they_stand() -> None:
    cfg = OmegaConf.create(
        {
            "hf_token": "abc",
            "source": [{"api_key": "def", "url": "https://me:ghi@host/x"}],
            "secrets": {"a": "jkl", "b": [1234]},
            "use_auth_token": True,
            "password": None,
            "tokenizer": {"path": "t.model"},
        }
    )
    text = log_config("sft", cfg)
    assert not any(secret in text for secret in ("abc", "def", "ghi", "jkl", "1234"))
    plain = yaml.safe_load(text)
    assert plain["tokenizer"] == {"path": "t.model"}
    assert (plain["use_auth_token"], plain["password"]) == (True, None)
    assert cfg.hf_token == "abc"


def test_what_cannot_be_resolved_names_its_key() -> None:
    with pytest.raises(InstantiationError, match=r"^a: Interpolation key 'b' not found"):
        log_config("sft", OmegaConf.create({"a": "${b}"}))
