"""Every named size has the tensors of transformers' model of the published config.json."""

import warnings
from collections import Counter
from typing import Any

import pytest
import torch

from torchpipe.models.llama3 import llama3_8b, llama3_70b
from torchpipe.models.llama3_1 import llama3_1_8b, llama3_1_70b, llama3_1_405b
from torchpipe.models.llama3_2 import llama3_2_1b, llama3_2_3b
from torchpipe.models.llama3_3 import llama3_3_70b

COMMON: dict[str, Any] = {
    "vocab_size": 128_256,
    "num_key_value_heads": 8,
    "rms_norm_eps": 1e-5,
    "tie_word_embeddings": False,
}
SIZE_8B = {"hidden_size": 4096, "intermediate_size": 14_336, "num_hidden_layers": 32, "num_attention_heads": 32}
SIZE_70B = {"hidden_size": 8192, "intermediate_size": 28_672, "num_hidden_layers": 80, "num_attention_heads": 64}
SHORT = {"max_position_embeddings": 8192, "rope_parameters": {"rope_type": "default", "rope_theta": 500_000.0}}


def scaled(factor: float) -> dict[str, Any]:
    """The rope entries of Llama 3.1 and later."""
    return {
        "max_position_embeddings": 131_072,
        "rope_parameters": {
            "rope_type": "llama3",
            "rope_theta": 500_000.0,
            "factor": factor,
            "low_freq_factor": 1.0,
            "high_freq_factor": 4.0,
            "original_max_position_embeddings": 8192,
        },
    }


# The figures of https://huggingface.co/meta-llama/<name>/blob/main/config.json
PUBLISHED: dict[str, tuple[Any, dict[str, Any]]] = {
    "Meta-Llama-3-8B": (llama3_8b, {**SIZE_8B, **SHORT}),
    "Meta-Llama-3-70B": (llama3_70b, {**SIZE_70B, **SHORT}),
    "Llama-3.1-8B": (llama3_1_8b, {**SIZE_8B, **scaled(8.0)}),
    "Llama-3.1-70B": (llama3_1_70b, {**SIZE_70B, **scaled(8.0)}),
    "Llama-3.1-405B": (
        llama3_1_405b,
        {
            "hidden_size": 16_384,
            "intermediate_size": 53_248,
            "num_hidden_layers": 126,
            "num_attention_heads": 128,
            **scaled(8.0),
        },
    ),
    "Llama-3.2-1B": (
        llama3_2_1b,
        {
            "hidden_size": 2048,
            "intermediate_size": 8192,
            "num_hidden_layers": 16,
            "num_attention_heads": 32,
            "head_dim": 64,
            "tie_word_embeddings": True,
            **scaled(32.0),
        },
    ),
    "Llama-3.2-3B": (
        llama3_2_3b,
        {
            "hidden_size": 3072,
            "intermediate_size": 8192,
            "num_hidden_layers": 28,
            "num_attention_heads": 24,
            "head_dim": 128,
            "tie_word_embeddings": True,
            **scaled(32.0),
        },
    ),
    "Llama-3.3-70B-Instruct": (llama3_3_70b, {**SIZE_70B, **scaled(8.0)}),
}


@pytest.mark.parametrize("name", PUBLISHED)
def test_a_named_size_has_the_tensors_of_the_published_config(oracle_file, name: str) -> None:
    oracle_file("transformers", "__init__.py")
    builder, figures = PUBLISHED[name]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from transformers import LlamaConfig, LlamaForCausalLM

        with torch.device("meta"):
            oracle = LlamaForCausalLM(LlamaConfig(**{**COMMON, **figures}))
    with torch.device("meta"):
        model = builder()
    shapes, expected = (Counter(tuple(one.shape) for one in each.parameters()) for each in (model, oracle))
    assert shapes == expected
    assert sum(one.numel() for one in model.parameters()) == sum(one.numel() for one in oracle.parameters())


@pytest.mark.parametrize("name", PUBLISHED)
def test_a_named_size_turns_features_as_the_published_config_says(name: str) -> None:
    builder, figures = PUBLISHED[name]
    with torch.device("meta"):
        config = builder().config
    rope = figures["rope_parameters"]
    assert (config.max_seq_len, config.rope_base) == (figures["max_position_embeddings"], rope["rope_theta"])
    assert config.norm_eps == COMMON["rms_norm_eps"]
    if rope["rope_type"] == "default":
        assert config.rope_scaling is None
    else:
        scaling = config.rope_scaling
        assert (scaling.scale_factor, scaling.old_context_len) == (rope["factor"], 8192)
        assert (scaling.low_freq_factor, scaling.high_freq_factor) == (1.0, 4.0)
