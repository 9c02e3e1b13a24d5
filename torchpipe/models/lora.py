"""Decoders with low-rank adapters: from a config to a model, and from a model to plain weights."""

from collections.abc import Iterable, Iterator, Sequence

import torch
from torch import nn

from torchpipe.errors import ConfigError
from torchpipe.models.build import build_decoder
from torchpipe.models.config import DecoderConfig
from torchpipe.modules import TransformerDecoder
from torchpipe.modules.peft import LoRAConfig, LoRALinear, add_lora, get_adapter_params
from torchpipe.modules.peft.config import refuse_quantized
from torchpipe.modules.peft.state_dicts import LORA_A
from torchpipe.modules.peft.surgery import TIED_OUTPUT


def build_lora_decoder(
    config: DecoderConfig,
    lora_attn_modules: Sequence[str],
    apply_lora_to_mlp: bool = False,
    apply_lora_to_output: bool = False,
    lora_rank: int = 8,
    lora_alpha: float = 16,
    lora_dropout: float = 0.0,
    use_dora: bool = False,
    quantize_base: bool = False,
) -> TransformerDecoder:
    """A decoder with fresh weights that are frozen, and fresh adapters that are trained.

    Args:
        config: the decoder's sizes.
        lora_attn_modules: the projections of every attention that have adapters, of q_proj, k_proj, v_proj,
            output_proj.
        apply_lora_to_mlp: whether the matrices of every feed-forward network have adapters.
        apply_lora_to_output: whether the output projection has one; not with tied embeddings.
        lora_rank: rank of the adapters.
        lora_alpha: the adapters' output is multiplied by ``lora_alpha / lora_rank``.
        lora_dropout: probability of dropping a feature of an adapter's input in training.
        use_dora: whether each row's length is learned apart, see :class:`~torchpipe.modules.peft.DoRALinear`.
        quantize_base: refused when True.

    Raises:
        ConfigError: an unknown projection, a number out of its range, a tied output projection that was to have an
            adapter, or a quantised base.
    """
    refuse_quantized(quantize_base)
    if isinstance(lora_attn_modules, str):
        raise ConfigError(f"lora_attn_modules is {lora_attn_modules!r}. Give a list, as [{lora_attn_modules}].")
    if not isinstance(lora_attn_modules, Iterable):
        raise ConfigError(f"lora_attn_modules is {lora_attn_modules!r}. Give a list, as [q_proj, v_proj].")
    lora = LoRAConfig(
        attn_modules=tuple(lora_attn_modules),
        mlp=apply_lora_to_mlp,
        output=apply_lora_to_output,
        rank=lora_rank,
        alpha=lora_alpha,
        dropout=lora_dropout,
        use_dora=use_dora,
    )
    if lora.output and config.tied_embeddings:
        raise ConfigError(TIED_OUTPUT)  # before a large model is built
    model = build_decoder(config)
    add_lora(model, lora)
    return model


def merge_lora(model: TransformerDecoder) -> None:
    """Merges every adapter into its base weight, in place: the model is a plain decoder, with all parameters frozen.

    The outputs stay the same up to rounding. One weight at a time is held twice.

    Raises:
        ConfigError: the model has no adapters.
    """
    _check_adapted(model)
    for path, module in list(model.named_modules()):
        if isinstance(module, LoRALinear):
            with torch.device("meta"):
                linear = nn.Linear(module.in_dim, module.out_dim, bias=module.bias is not None)
            linear.weight = nn.Parameter(module.merged_weight(), requires_grad=False)
            if module.bias is not None:
                linear.bias = nn.Parameter(module.bias, requires_grad=False)
            model.set_submodule(path, linear.train(module.training))
    model.lora = None


def merged_state_dict(model: TransformerDecoder) -> dict[str, torch.Tensor]:
    """The state dict of the plain decoder that equals ``model``, which stays as it is.

    Merged weights are new tensors, the others are the model's own.

    Raises:
        ConfigError: the model has no adapters.
    """
    return dict(merged_tensors(model))


def merged_tensors(model: TransformerDecoder) -> Iterator[tuple[str, torch.Tensor]]:
    """Name and tensor of each entry of :func:`merged_state_dict`, merged only when it is asked for.

    A writer that takes one at a time never holds a second copy of the model.

    Raises:
        ConfigError: the model has no adapters.
    """
    _check_adapted(model)
    return _merged_tensors(model)


def _merged_tensors(model: TransformerDecoder) -> Iterator[tuple[str, torch.Tensor]]:
    # Each module by the name that its adapter has in the state dict, from which a wrapper, as of activation
    # checkpointing, takes its own part; and not by its weight, which several modules may share.
    state = model.state_dict(keep_vars=True)
    adapters = {id(parameter) for parameter in get_adapter_params(model).values()}
    of_adapter = {id(module.lora_a.weight): module for module in model.modules() if isinstance(module, LoRALinear)}
    adapted = {
        f"{name.removesuffix(LORA_A)}.weight": of_adapter[id(tensor)]
        for name, tensor in state.items()
        if id(tensor) in of_adapter
    }
    for name, tensor in state.items():
        if id(tensor) not in adapters:
            yield name, adapted[name].merged_weight() if name in adapted else tensor.detach()


def _check_adapted(model: TransformerDecoder) -> None:
    if model.lora is None:
        raise ConfigError("The model has no LoRA adapters, so there is nothing to merge. Use it as it is.")
