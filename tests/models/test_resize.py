"""Embedding and output projection grow to the tokenizer's new special tokens, or the ids are refused."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from torchpipe.errors import CheckpointError, ConfigError, TokenizerError
from torchpipe.models import DecoderConfig, load_hf_weights, resize_token_embeddings, save_hf_weights
from torchpipe.models.llama3 import Llama3Tokenizer
from torchpipe.models.tiny import tiny_llama3, tiny_tokenizer

Fresh = Callable[..., Any]


def tokenizer_of(*new: int, vocab_size: int = 64) -> SimpleNamespace:
    special_tokens = {"<s>": 0, "<end>": 63} | {f"<new_{token_id}>": token_id for token_id in new}
    return SimpleNamespace(vocab_size=max([vocab_size - 1, *new]) + 1, special_tokens=special_tokens)


@pytest.mark.parametrize("tied", [True, False])
def test_new_rows_are_the_mean_of_the_old_ones_and_old_logits_stay(
    config: DecoderConfig, fresh: Fresh, tied: bool
) -> None:
    model = fresh(replace(config, tied_embeddings=tied))
    tokens = torch.arange(20).view(1, 20)
    old, embedding, output = model(tokens), model.tok_embeddings.weight.clone(), model.output.weight.clone()
    assert resize_token_embeddings(model, tokenizer_of(64, 65)) == 2
    assert model.config is not None
    assert model.config.vocab_size == 66
    assert torch.equal(model(tokens)[..., :64], old)
    for before, after in ((embedding, model.tok_embeddings.weight), (output, model.output.weight)):
        assert torch.equal(after[:64], before)
        torch.testing.assert_close(after[64:], before.mean(0).expand(2, -1))
    assert (model.output.weight is model.tok_embeddings.weight) is tied
    assert all(parameter.requires_grad for parameter in model.parameters())
    model(torch.tensor([[64, 65]])).sum().backward()
    assert model.tok_embeddings.weight.grad is not None


def test_the_same_rows_come_out_whatever_was_drawn_before(fresh: Fresh) -> None:
    one, other = fresh(), fresh()
    resize_token_embeddings(one, tokenizer_of(64))
    torch.rand(5)
    resize_token_embeddings(other, tokenizer_of(64))
    assert torch.equal(one.tok_embeddings.weight, other.tok_embeddings.weight)


def test_a_tokenizer_with_fewer_ids_changes_nothing(fresh: Fresh) -> None:
    model = fresh()
    weight = model.tok_embeddings.weight
    assert resize_token_embeddings(model, tokenizer_of(vocab_size=60)) == 0
    assert model.tok_embeddings.weight is weight


def test_a_resized_model_is_saved_and_loaded_with_its_new_rows(
    tmp_path: Path, config: DecoderConfig, fresh: Fresh
) -> None:
    model = fresh()
    resize_token_embeddings(model, tokenizer_of(64))
    save_hf_weights(model, tmp_path)
    again = fresh(replace(config, vocab_size=65), seed=1)
    load_hf_weights(again, tmp_path)
    assert torch.equal(again.output.weight, model.output.weight)


def test_a_real_tokenizer_with_a_new_special_token(tmp_path: Path) -> None:
    base = tiny_tokenizer()
    added = [{"content": text, "id": token_id} for text, token_id in base.special_tokens.items()]
    (tmp_path / "tokenizer.json").write_text(json.dumps({"added_tokens": added}))
    model: Any = tiny_llama3(vocab_size=base.vocab_size, num_layers=1, max_seq_len=16)
    tokenizer = Llama3Tokenizer(base.backend.name, {**base.special_tokens, "<|think|>": base.vocab_size})
    with pytest.warns(UserWarning, match=r"tokenizer files in .* lack '<\|think\|>'\. Add the new tokens to a copy"):
        assert resize_token_embeddings(model, tokenizer, checkpoint_dir=tmp_path) == 1
    assert tokenizer.special_tokens["<|think|>"] == base.vocab_size == model.tok_embeddings.num_embeddings - 1


def test_ids_with_gaps_and_another_models_tokenizer_are_refused(fresh: Fresh) -> None:
    model = fresh()
    with pytest.raises(CheckpointError, match="has 67 ids and the checkpoint 64, and 1 ids between, such as 65"):
        resize_token_embeddings(model, tokenizer_of(64, 66))
    with pytest.raises(CheckpointError, match="36 ids between, such as 64, .* more ordinary tokens is another model's"):
        resize_token_embeddings(model, tokenizer_of(vocab_size=100))
    assert model.tok_embeddings.num_embeddings == 64


@pytest.mark.parametrize("file", ["tokenizer.json", "tokenizer_config.json"])
def test_ids_that_differ_from_the_checkpoints_are_refused(tmp_path: Path, fresh: Fresh, file: str) -> None:
    if file == "tokenizer.json":
        content = {"added_tokens": [{"content": "<s>", "id": 1}, {"content": "<pad>", "id": 63}]}
    else:
        content = {"added_tokens_decoder": {"1": {"content": "<s>"}, "63": {"content": "<pad>"}}}
    (tmp_path / file).write_text(json.dumps(content))
    with pytest.raises(CheckpointError, match=r"'<s>' is 0, and there 1; '<end>' is 63, which there is '<pad>'\. Use"):
        resize_token_embeddings(fresh(), tokenizer_of(64), checkpoint_dir=tmp_path)
    (tmp_path / "tokenizer_config.json").write_text("[]")
    with pytest.raises(TokenizerError, match=r"tokenizer_config\.json can't be read"):
        resize_token_embeddings(fresh(), tokenizer_of(64), checkpoint_dir=tmp_path)


def test_llama_3s_image_token_alone_adds_no_row(fresh: Fresh) -> None:
    """Its decoders of text are published without that row, which is one past their last."""
    model, tokenizer = fresh(), tokenizer_of(64)
    tokenizer.image_id = 64
    assert resize_token_embeddings(model, tokenizer) == 0
    tokenizer.special_tokens["<new>"], tokenizer.vocab_size = 65, 66
    assert resize_token_embeddings(model, tokenizer) == 2


def test_a_reserved_token_may_be_given_a_meaning(tmp_path: Path, fresh: Fresh) -> None:
    added = [{"content": "<|reserved_special_token_9|>", "id": 63}]
    (tmp_path / "tokenizer.json").write_text(json.dumps({"added_tokens": added}))
    assert resize_token_embeddings(fresh(), tokenizer_of(), checkpoint_dir=tmp_path) == 0


def test_new_rows_of_a_frozen_embedding_are_told(adapted: Fresh) -> None:
    model = adapted(apply_lora_to_output=False)
    with pytest.warns(UserWarning, match="frozen, so the rows of the new tokens '<new_64>' stay the mean"):
        resize_token_embeddings(model, tokenizer_of(64))
    assert not model.tok_embeddings.weight.requires_grad
    with pytest.warns(UserWarning, match="'<new_69>' and 3 more stay the mean"):
        resize_token_embeddings(model, tokenizer_of(*range(64, 73)))
    with pytest.raises(ConfigError, match="The output projection has a LoRA adapter"):
        resize_token_embeddings(adapted(), tokenizer_of(64))
