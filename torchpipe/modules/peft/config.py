"""Which of a decoder's matrices have adapters, and of what size."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, get_args

from torchpipe._suggest import did_you_mean, listed
from torchpipe.errors import ConfigError

LORA_ATTN_MODULES = Literal["q_proj", "k_proj", "v_proj", "output_proj"]
"""The projections of an attention that can have adapters."""

MLP_MODULES = ("w1", "w2", "w3")
"""The matrices of a feed-forward network: gate, down and up."""


@dataclass(frozen=True, kw_only=True)
class LoRAConfig:
    """The adapters of one decoder; :func:`~torchpipe.modules.peft.add_lora` puts them in.

    Attributes:
        attn_modules: the projections of every attention that have adapters, of q_proj, k_proj, v_proj, output_proj.
        mlp: whether the matrices of every feed-forward network have adapters.
        output: whether the output projection has one.
        rank: rows of ``lora_a`` and columns of ``lora_b``, 1 or more.
        alpha: the adapters' output is multiplied by ``alpha / rank``.
        dropout: probability of dropping a feature of an adapter's input in training, below 1.
        use_dora: whether each row's length is learned apart, see :class:`~torchpipe.modules.peft.DoRALinear`.

    Raises:
        ConfigError: an unknown projection, no matrix at all, or a number out of its range.

    >>> LoRAConfig(attn_modules=("q_proj", "v_proj"), rank=8, alpha=16).scaling
    2.0
    """

    attn_modules: tuple[str, ...]
    mlp: bool = False
    output: bool = False
    rank: int = 8
    alpha: float = 16.0
    dropout: float = 0.0
    use_dora: bool = False

    def __post_init__(self) -> None:
        known = get_args(LORA_ATTN_MODULES)
        for name in self.attn_modules:
            if name not in known:
                raise ConfigError(
                    f"lora_attn_modules has {name!r}, no projection of an attention.{did_you_mean(name, known)} "
                    f"Choose from {listed(known)}; apply_lora_to_mlp and apply_lora_to_output add the other matrices."
                )
        if not (self.attn_modules or self.mlp or self.output):
            raise ConfigError(
                "No matrix would have an adapter: lora_attn_modules is empty, and apply_lora_to_mlp and "
                "apply_lora_to_output are False. Name one, or build the model without lora_."
            )
        check_adapter(self.rank, self.alpha, self.dropout)

    @property
    def scaling(self) -> float:
        """What the adapters' output is multiplied by, ``alpha / rank``."""
        return self.alpha / self.rank


def get_lora_module_names(
    lora_attn_modules: Sequence[str], apply_lora_to_mlp: bool, apply_lora_to_output: bool
) -> list[str]:
    """Names of the modules with adapters, each as its parent calls it; a new list.

    >>> get_lora_module_names(["q_proj"], True, False)
    ['q_proj', 'w1', 'w2', 'w3']
    """
    return [
        *lora_attn_modules,
        *(MLP_MODULES if apply_lora_to_mlp else ()),
        *(["output"] if apply_lora_to_output else []),
    ]


def check_adapter(rank: int, alpha: float, dropout: float) -> None:
    """Raises a ConfigError for a rank, alpha or dropout that no adapter can have."""
    if not isinstance(rank, int) or isinstance(rank, bool) or rank < 1:
        raise ConfigError(f"The rank of a LoRA adapter is {rank!r}. Give an integer of 1 or more, as lora_rank: 8.")
    if isinstance(alpha, bool) or not isinstance(alpha, int | float) or not 0 < alpha < math.inf:
        raise ConfigError(f"The alpha of a LoRA adapter is {alpha!r}. Give a number above 0, as lora_alpha: 16.")
    if isinstance(dropout, bool) or not isinstance(dropout, int | float) or not 0 <= dropout < 1:
        raise ConfigError(f"The dropout of a LoRA adapter is {dropout!r}. Give a number from 0 to below 1.")


def refuse_quantized(quantize_base: bool) -> None:
    """Raises a ConfigError where base weights are to be quantised, which nothing here does."""
    if quantize_base:
        raise ConfigError(
            "quantize_base is True, and torchpipe keeps base weights as they are, not in 4 bits. Leave it out; "
            "dtype: bf16 halves their memory."
        )
