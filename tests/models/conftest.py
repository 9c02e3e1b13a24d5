"""Tiny Llamas of the transformers library and of our own, of the same sizes."""

import warnings
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

import pytest
import torch

from torchpipe.errors import CheckpointError
from torchpipe.models import DecoderConfig, RopeScaling, build_decoder, load_hf_weights, save_hf_weights
from torchpipe.models.lora import build_lora_decoder
from torchpipe.modules import TransformerDecoder

SCALING = RopeScaling(scale_factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0, old_context_len=64)
CONFIG = DecoderConfig(
    vocab_size=64,
    num_layers=2,
    num_heads=4,
    num_kv_heads=2,
    embed_dim=32,
    intermediate_dim=48,
    head_dim=16,  # not embed_dim / num_heads, as in several published sizes
    max_seq_len=256,
    rope_base=500_000.0,
    rope_scaling=SCALING,
)


@pytest.fixture
def config() -> DecoderConfig:
    """The sizes that the other fixtures share; the output projection is not tied."""
    return CONFIG


@contextmanager
def _quiet() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


@pytest.fixture
def quiet() -> Callable[[], AbstractContextManager[None]]:
    """Function () -> a context in which the transformers library may warn."""
    return _quiet


@pytest.fixture
def fresh() -> Callable[..., Any]:
    """Function (config, seed) -> a decoder with weights large enough that logits differ; norms differ too."""

    def build(config: DecoderConfig = CONFIG, seed: int = 0) -> Any:
        torch.manual_seed(seed)
        model = build_decoder(config).eval()
        for parameter in model.parameters():
            torch.nn.init.normal_(parameter, mean=float(parameter.dim() == 1), std=0.2)
        return model

    return build


@pytest.fixture
def adapted() -> Callable[..., Any]:
    """Function (config, **LoRA's arguments) -> a decoder with adapters on every matrix that change the logits."""

    def build(config: DecoderConfig = CONFIG, *, seed: int = 0, **options: Any) -> Any:
        torch.manual_seed(seed)
        chosen = {
            "lora_attn_modules": ["q_proj", "k_proj", "v_proj", "output_proj"],
            "apply_lora_to_mlp": True,
            "apply_lora_to_output": not config.tied_embeddings,
            "lora_rank": 4,
            "lora_alpha": 8,
        }
        model = build_lora_decoder(config, **(chosen | options)).eval()
        with torch.no_grad():
            for parameter in model.parameters():
                noise = 0.05 if parameter.requires_grad else 0.2
                parameter.add_(torch.randn_like(parameter), alpha=noise)
        return model

    return build


@pytest.fixture
def hf_llama(oracle_file: Any, quiet: Any) -> Callable[..., Any]:
    """Function (folder, **options) -> transformers' model with random weights, saved into the folder.

    Options: ``tied``, ``scaling``, ``dtype``, ``max_shard_size``, and whatever ``LlamaConfig`` takes.
    """
    oracle_file("transformers", "__init__.py")

    def save(
        folder: Path,
        *,
        tied: bool = False,
        scaling: RopeScaling | None = SCALING,
        dtype: torch.dtype = torch.float32,
        max_shard_size: str = "5GB",
        **more: Any,
    ) -> Any:
        rope: dict[str, Any] = {"rope_type": "default", "rope_theta": CONFIG.rope_base}
        if scaling is not None:
            rope |= {
                "rope_type": "llama3",
                "factor": scaling.scale_factor,
                "low_freq_factor": scaling.low_freq_factor,
                "high_freq_factor": scaling.high_freq_factor,
                "original_max_position_embeddings": scaling.old_context_len,
            }
        with quiet():
            from transformers import LlamaConfig, LlamaForCausalLM

            sizes = {
                "vocab_size": CONFIG.vocab_size,
                "hidden_size": CONFIG.embed_dim,
                "intermediate_size": CONFIG.intermediate_dim,
                "num_hidden_layers": CONFIG.num_layers,
                "num_attention_heads": CONFIG.num_heads,
                "num_key_value_heads": CONFIG.num_kv_heads,
                "head_dim": CONFIG.head_dim,
                "max_position_embeddings": CONFIG.max_seq_len,
                "rms_norm_eps": CONFIG.norm_eps,
                "tie_word_embeddings": tied,
                "rope_parameters": rope,
                "eos_token_id": [7, 8],
            }
            torch.manual_seed(5)
            oracle: Any = LlamaForCausalLM(LlamaConfig(**(sizes | more))).eval()
            for parameter in oracle.parameters():
                torch.nn.init.normal_(parameter, mean=float(parameter.dim() == 1), std=0.2)
            oracle = oracle.to(dtype)
            oracle.save_pretrained(folder, max_shard_size=max_shard_size)
        return oracle

    return save


@pytest.fixture
def hf_load(quiet: Any) -> Callable[[Path], Any]:
    """Function (folder) -> what transformers' AutoModelForCausalLM loads from it."""

    def load(folder: Path) -> Any:
        with quiet():
            from transformers import AutoModelForCausalLM

            loader: Any = AutoModelForCausalLM
            model, info = loader.from_pretrained(folder, output_loading_info=True)
        assert not any(info[kind] for kind in ("missing_keys", "unexpected_keys", "mismatched_keys"))
        return model.eval()

    return load


@pytest.fixture
def same_logits() -> Callable[..., None]:
    """Function (ours, theirs) -> None; fails where logits differ by more than 1e-5 of the largest."""

    def compare(ours: TransformerDecoder, theirs: Any) -> None:
        tokens = torch.randint(0, CONFIG.vocab_size, (2, 150), generator=torch.Generator().manual_seed(1))
        with torch.no_grad():
            logits, expected = ours(tokens), theirs(input_ids=tokens).logits
        assert float((logits - expected).norm() / expected.norm()) < 1e-5
        torch.testing.assert_close(logits, expected, atol=float(1e-5 * expected.abs().max()), rtol=1e-5)

    return compare


@pytest.fixture
def folder(tmp_path: Path, fresh: Callable[..., Any]) -> Path:
    """A checkpoint in Hugging Face's layout, in one file."""
    save_hf_weights(fresh(), tmp_path / "base")
    return tmp_path / "base"


@pytest.fixture
def shards(tmp_path: Path, fresh: Callable[..., Any]) -> Path:
    """The same in several files."""
    save_hf_weights(fresh(), tmp_path / "shards", max_shard_bytes=30_000)
    return tmp_path / "shards"


@pytest.fixture
def refuses() -> Callable[..., CheckpointError]:
    """Function (model, folder, message, files) -> the refusal to load that; the model is as it was."""

    def check(model: Any, folder: Path, message: str, files: list[str] | None = None) -> CheckpointError:
        before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
        with pytest.raises(CheckpointError, match=message) as caught:
            load_hf_weights(model, folder, files)
        assert all(torch.equal(tensor, before[name]) for name, tensor in model.state_dict().items())
        return caught.value

    return check
