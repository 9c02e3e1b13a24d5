import copy
import pickle
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import nn
from torch.distributed.algorithms._checkpoint.checkpoint_wrapper import checkpoint_wrapper

from torchpipe.config import instantiate
from torchpipe.errors import ConfigError
from torchpipe.models import build_decoder
from torchpipe.models.llama import llama, lora_llama
from torchpipe.models.llama3_2 import lora_llama3_2_1b, lora_llama3_2_3b
from torchpipe.models.lora import build_lora_decoder, merge_lora, merged_state_dict, merged_tensors
from torchpipe.models.tiny import TINY_LLAMA3
from torchpipe.modules import LinearCrossEntropyLoss, Llama3ScaledRoPE, TransformerDecoder
from torchpipe.modules.peft import LoRAConfig, add_lora, get_adapter_params, initialize_adapters

SMALL = replace(
    TINY_LLAMA3, vocab_size=60, num_layers=2, num_heads=4, embed_dim=32, intermediate_dim=48, max_seq_len=32
)
ATTENTION = ["q_proj", "k_proj", "v_proj", "output_proj"]
SIZES: dict[str, Any] = {
    "vocab_size": 60,
    "num_layers": 1,
    "num_heads": 4,
    "num_kv_heads": 2,
    "embed_dim": 32,
    "max_seq_len": 32,
}


def trained(dtype: torch.dtype = torch.float32, **options: Any) -> TransformerDecoder:
    """A small decoder whose adapters do something."""
    torch.manual_seed(0)
    model = build_lora_decoder(SMALL, ATTENTION, apply_lora_to_mlp=True, lora_rank=4, **options).to(dtype)
    for name, parameter in get_adapter_params(model).items():
        if name.endswith("magnitude"):
            with torch.no_grad():
                parameter.mul_(1.0 + 0.2 * torch.rand_like(parameter))
        else:
            nn.init.normal_(parameter, std=0.1)
    return model


def tokens(rows: int = 2, length: int = 16) -> torch.Tensor:
    return torch.randint(0, SMALL.vocab_size, (rows, length), generator=torch.Generator().manual_seed(1))


def difference(values: torch.Tensor, expected: torch.Tensor) -> float:
    return ((values - expected).double().norm() / expected.double().norm()).item()


def test_fresh_adapters_leave_the_decoder_as_it_is():
    torch.manual_seed(0)
    plain = build_decoder(SMALL)
    torch.manual_seed(0)
    adapted = build_lora_decoder(SMALL, ["q_proj", "v_proj"], True)
    assert torch.equal(adapted(tokens()), plain(tokens()))
    assert adapted.config == SMALL
    assert (adapted.lora.attn_modules, adapted.lora.scaling) == (("q_proj", "v_proj"), 2.0)
    assert plain.lora is None


@pytest.mark.parametrize("use_dora", [False, True])
def test_only_adapters_have_gradients(use_dora: bool):
    model = trained(use_dora=use_dora)
    model(tokens()).logsumexp(-1).sum().backward()
    adapters = get_adapter_params(model)
    with_gradient = [name for name, parameter in model.named_parameters() if parameter.grad is not None]
    assert with_gradient == list(adapters)
    assert all(bool((parameter.grad != 0).any()) for parameter in adapters.values() if parameter.grad is not None)
    assert len(adapters) == 2 * 7 * (3 if use_dora else 2)


@pytest.mark.parametrize("use_dora", [False, True])
@pytest.mark.parametrize(("dtype", "bound"), [(torch.float32, 1e-6), (torch.bfloat16, 2e-2)])
def test_merged_weights_give_the_adapted_logits(use_dora: bool, dtype: torch.dtype, bound: float):
    model = trained(dtype, use_dora=use_dora)
    logits = model(tokens())
    state = merged_state_dict(model)
    plain = build_decoder(SMALL).to(dtype)
    plain.load_state_dict(state, strict=True)
    assert difference(plain(tokens()), logits) < bound
    merge_lora(model)
    assert model.lora is None
    assert model.state_dict().keys() == state.keys()
    assert torch.equal(model(tokens()), plain(tokens()))
    assert not any(parameter.requires_grad for parameter in model.parameters())
    unadapted = build_lora_decoder(SMALL, ATTENTION).to(dtype)
    unadapted.load_state_dict(state | unadapted.state_dict())
    assert difference(unadapted(tokens()), logits) > 10 * bound


def test_an_adapted_output_projection_is_merged_too():
    torch.manual_seed(0)
    model = build_lora_decoder(replace(SMALL, tied_embeddings=False), [], apply_lora_to_output=True, use_dora=True)
    nn.init.normal_(model.get_parameter("output.lora_b.weight"))
    logits = model(tokens())
    merge_lora(model)
    assert type(model.output) is nn.Linear
    assert difference(model(tokens()), logits) < 1e-6


def test_a_loss_that_projects_by_one_weight_refuses_an_adapted_output():
    model = build_lora_decoder(replace(SMALL, tied_embeddings=False), [], apply_lora_to_output=True)
    with pytest.raises(ConfigError, match="The loss multiplies by its weight alone"):
        LinearCrossEntropyLoss().set_model_output(model)


def test_merged_tensors_leave_the_model_as_it_is_and_share_what_they_can():
    model = trained()
    before = copy.deepcopy(model.state_dict())
    logits = model(tokens())
    state = dict(merged_tensors(model))
    assert state.keys() == build_decoder(SMALL).state_dict().keys()
    assert state["tok_embeddings.weight"].data_ptr() == model.get_parameter("tok_embeddings.weight").data_ptr()
    assert not any(tensor.requires_grad for tensor in state.values())
    assert all(torch.equal(tensor, before[name]) for name, tensor in model.state_dict().items())
    assert torch.equal(model(tokens()), logits)


@pytest.mark.parametrize("use_dora", [False, True])
def test_checkpointed_activations_change_no_gradient_and_no_name(use_dora: bool):
    model = trained(use_dora=use_dora, lora_dropout=0.3)
    wrapped = copy.deepcopy(model)
    for index, layer in enumerate(wrapped.layers):
        wrapped.layers[index] = checkpoint_wrapper(layer)
    gradients = []
    for each in (model, wrapped):
        torch.manual_seed(7)
        each(tokens()).logsumexp(-1).sum().backward()
        gradients.append([parameter.grad for parameter in get_adapter_params(each).values()])
    assert len(gradients[0]) == 2 * 7 * (3 if use_dora else 2)
    assert all(torch.equal(one, other) for one, other in zip(*gradients, strict=True))
    expected = merged_state_dict(model)
    state = merged_state_dict(wrapped)
    assert all(torch.equal(state[name], expected[name]) for name in expected)
    logits = wrapped.eval()(tokens())
    merge_lora(wrapped)
    assert wrapped.state_dict().keys() == expected.keys()
    assert difference(wrapped(tokens()), logits) < 1e-6


@pytest.mark.parametrize("use_dora", [False, True])
def test_a_model_from_the_meta_device_is_its_base_after_filling(use_dora: bool):
    plain = build_decoder(SMALL)
    with torch.device("meta"):
        model = build_lora_decoder(SMALL, ATTENTION, True, use_dora=use_dora)
    assert {parameter.device.type for parameter in model.parameters()} == {"meta"}
    model.to_empty(device="cpu")
    model.load_state_dict(plain.state_dict(), strict=False)
    initialize_adapters(model)
    assert torch.equal(model(tokens()), plain(tokens()))
    assert [name for name, p in model.named_parameters() if p.requires_grad] == list(get_adapter_params(model))


@pytest.mark.parametrize("use_dora", [False, True])
def test_copies_and_pickles_are_whole(use_dora: bool):
    model = trained(use_dora=use_dora)
    logits = model(tokens())
    for other in (copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        assert torch.equal(other(tokens()), logits)
        assert other.lora == model.lora
        assert [p.requires_grad for p in other.parameters()] == [p.requires_grad for p in model.parameters()]
        merge_lora(other)
    assert torch.equal(model(tokens()), logits)


def test_the_same_seed_builds_the_same_adapters():
    states = []
    for seed in (0, 0, 1):
        torch.manual_seed(seed)
        states.append(build_lora_decoder(SMALL, ["q_proj"]).state_dict())
    name = "layers.1.attn.q_proj.lora_a.weight"
    assert torch.equal(states[0][name], states[1][name])
    assert not torch.equal(states[0][name], states[2][name])
    assert not torch.equal(states[0][name], states[0][name.replace("1", "0")])


@pytest.mark.parametrize(
    ("builder", "options", "trainable"),
    [
        # rank * (in + out) of each matrix: q and output 2048+2048, k and v 2048+512, w1 w2 w3 2048+8192; 16 layers
        (lora_llama3_2_1b, {}, 16 * 64 * (2 * 4096 + 2 * 2560 + 3 * 10_240)),
        # the same, and a magnitude for each row of each matrix
        (
            lora_llama3_2_1b,
            {"use_dora": True},
            16 * (64 * (2 * 4096 + 2 * 2560 + 3 * 10_240) + 3 * 2048 + 2 * 512 + 2 * 8192),
        ),
        (lora_llama3_2_3b, {}, 28 * 64 * (2 * 6144 + 2 * 4096 + 3 * 11_264)),
    ],
)
def test_adapters_have_the_parameters_that_their_rank_makes(builder, options: dict, trainable: int):
    with torch.device("meta"):
        model = builder(ATTENTION, apply_lora_to_mlp=True, lora_rank=64, lora_alpha=128, **options)
    parameters = list(model.parameters())
    assert sum(p.numel() for p in parameters if p.requires_grad) == trainable
    frozen = {lora_llama3_2_1b: 1_235_814_400, lora_llama3_2_3b: 3_212_749_824}
    assert sum(p.numel() for p in parameters if not p.requires_grad) == frozen[builder]


def test_a_config_names_the_builder_and_its_adapters():
    config = {
        "_component_": "torchpipe.models.llama3_2.lora_llama3_2",
        **SIZES,
        "lora_attn_modules": ["q_proj", "v_proj"],
        "apply_lora_to_mlp": True,
        "lora_rank": 4,
        "lora_alpha": 8,
    }
    model = instantiate(config)
    assert model.lora == LoRAConfig(attn_modules=("q_proj", "v_proj"), mlp=True, rank=4, alpha=8)
    assert (model.config.rope_scaling.scale_factor, model.config.tied_embeddings) == (32.0, True)


def test_a_plain_decoder_has_nothing_to_merge():
    plain = build_decoder(SMALL)
    for merge in (merge_lora, merged_state_dict, merged_tensors):
        with pytest.raises(ConfigError, match="The model has no LoRA adapters, so there is nothing to merge"):
            merge(plain)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"lora_attn_modules": "q_proj"}, r"lora_attn_modules is 'q_proj'\. Give a list, as \[q_proj\]"),
        ({"lora_attn_modules": ["qproj"]}, r"'qproj', no projection .* Did you mean 'q_proj'\?"),
        ({"lora_attn_modules": None}, r"lora_attn_modules is None\. Give a list, as \[q_proj, v_proj\]"),
        ({"lora_attn_modules": []}, "No matrix would have an adapter"),
        ({"apply_lora_to_output": True}, "can't be adapted for one and not the other. Leave it False, or"),
        ({"quantize_base": True}, "quantize_base is True, and torchpipe keeps base weights as they are"),
        ({"lora_rank": 0}, "rank of a LoRA adapter is 0"),
        ({"lora_alpha": -1}, "alpha of a LoRA adapter is -1"),
        ({"lora_dropout": 1}, "dropout of a LoRA adapter is 1"),
    ],
)
def test_settings_that_cannot_be_are_refused_by_name(options: dict, message: str):
    settings: dict[str, Any] = {"lora_attn_modules": ["q_proj"], **options}
    with pytest.raises(ConfigError, match=message):
        build_lora_decoder(SMALL, **settings)


def test_a_llama_of_any_size_has_the_sizes_it_was_given():
    model = llama(**SIZES, attn_dropout=0.25, rope_base=1e4, intermediate_dim=48, norm_eps=1e-6, scale_factor=4.0)
    config = model.config
    assert (config.attn_dropout, config.rope_base, config.intermediate_dim, config.norm_eps) == (0.25, 1e4, 48, 1e-6)
    assert (config.rope_scaling.scale_factor, config.tied_embeddings) == (4.0, False)
    assert isinstance(model.get_submodule("layers.0.attn.pos_embeddings"), Llama3ScaledRoPE)
    assert llama(**SIZES, tie_word_embeddings=True).config.tied_embeddings
    assert llama(**SIZES).config.rope_scaling is None


def test_the_feed_forward_width_follows_from_the_embedding():
    widths = {}
    for embed_dim in (64, 96, 100, 2048, 4096):
        with torch.device("meta"):
            model = llama(**{**SIZES, "embed_dim": embed_dim, "num_heads": 2})
        widths[embed_dim] = model.config.intermediate_dim
    assert widths == {64: 256, 96: 256, 100: 512, 2048: 5632, 4096: 11_008}


def test_a_llama_of_any_size_can_have_adapters():
    options: dict[str, Any] = {
        "apply_lora_to_mlp": True,
        "lora_rank": 2,
        "lora_alpha": 3.0,
        "lora_dropout": 0.1,
        "use_dora": True,
    }
    model = lora_llama(["q_proj"], **SIZES, **options, scale_factor=8.0, attn_dropout=0.5)
    plain = llama(**SIZES, scale_factor=8.0, attn_dropout=0.5)
    assert model.config == plain.config
    lora = model.lora
    assert (lora.attn_modules, lora.mlp, lora.output) == (("q_proj",), True, False)
    assert (lora.rank, lora.alpha, lora.dropout, lora.use_dora) == (2, 3.0, 0.1, True)
    with pytest.raises(ConfigError, match="quantize_base is True"):
        lora_llama(["q_proj"], **SIZES, lora_rank=2, lora_alpha=3.0, quantize_base=True)


@pytest.mark.parametrize("use_dora", [False, True])
def test_layers_that_share_a_matrix_keep_adapters_of_their_own_when_merged(use_dora: bool):
    torch.manual_seed(0)
    model = build_decoder(SMALL)
    first, second = (model.get_submodule(f"layers.{index}.attn") for index in (0, 1))
    second.q_proj = first.q_proj
    add_lora(model, LoRAConfig(attn_modules=("q_proj",), rank=4, use_dora=use_dora))
    for parameter in get_adapter_params(model).values():
        nn.init.normal_(parameter, std=0.3)
    merged = build_decoder(SMALL)
    merged.load_state_dict(merged_state_dict(model))
    assert difference(merged(tokens()), model(tokens())) < 1e-6
    weights = [merged.get_parameter(f"layers.{index}.attn.q_proj.weight") for index in (0, 1)]
    assert not torch.equal(*weights)
