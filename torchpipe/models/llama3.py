"""Llama 3: model sizes and the tokenizer."""

from collections.abc import Sequence
from functools import partial
from typing import ClassVar, Literal

from torchpipe._not_yet import refusing
from torchpipe.data.train_on import TrainOnLike
from torchpipe.models.build import build_decoder
from torchpipe.models.config import DecoderConfig
from torchpipe.models.llama import llama, lora_llama
from torchpipe.models.lora import build_lora_decoder
from torchpipe.modules import TransformerDecoder
from torchpipe.tokenizers import (
    LLAMA3,
    ChatFormat,
    FamilyTokenizer,
    MaskPolicy,
    PromptTemplateLike,
    control_id,
    read_special_tokens,
)

# https://huggingface.co/meta-llama/Meta-Llama-3-8B/blob/main/config.json
LLAMA3_8B = DecoderConfig(
    vocab_size=128_256,
    num_layers=32,
    num_heads=32,
    num_kv_heads=8,
    embed_dim=4096,
    intermediate_dim=14_336,
    max_seq_len=8192,
    rope_base=500_000.0,
    norm_eps=1e-5,
)

# https://huggingface.co/meta-llama/Meta-Llama-3-70B/blob/main/config.json
LLAMA3_70B = DecoderConfig(
    vocab_size=128_256,
    num_layers=80,
    num_heads=64,
    num_kv_heads=8,
    embed_dim=8192,
    intermediate_dim=28_672,
    max_seq_len=8192,
    rope_base=500_000.0,
    norm_eps=1e-5,
)


def lora_llama3_of(
    config: DecoderConfig,
    lora_attn_modules: Sequence[str],
    apply_lora_to_mlp: bool = False,
    apply_lora_to_output: bool = False,
    lora_rank: int = 8,
    lora_alpha: float = 16,
    lora_dropout: float = 0.0,
    quantize_base: bool = False,
    use_dora: bool = False,
) -> TransformerDecoder:
    """As :func:`~torchpipe.models.lora.build_lora_decoder`, with the last two arguments in torchtune's order."""
    return build_lora_decoder(
        config,
        lora_attn_modules,
        apply_lora_to_mlp,
        apply_lora_to_output,
        lora_rank,
        lora_alpha,
        lora_dropout,
        use_dora,
        quantize_base,
    )


llama3 = partial(llama, scale_factor=None)
"""Builds a Llama 3 of any size; see :func:`~torchpipe.models.llama.llama`."""

lora_llama3 = partial(lora_llama, scale_factor=None)
"""Builds a Llama 3 of any size with adapters; see :func:`~torchpipe.models.llama.lora_llama`."""

llama3_8b = partial(build_decoder, LLAMA3_8B)
"""Builds Llama 3 8B with fresh weights."""

llama3_70b = partial(build_decoder, LLAMA3_70B)
"""Builds Llama 3 70B with fresh weights."""

lora_llama3_8b = partial(lora_llama3_of, LLAMA3_8B)
"""Builds Llama 3 8B with adapters; see :func:`~torchpipe.models.lora.build_lora_decoder`."""

lora_llama3_70b = partial(lora_llama3_of, LLAMA3_70B)
"""Builds Llama 3 70B with adapters; see :func:`~torchpipe.models.lora.build_lora_decoder`."""


class Llama3Tokenizer(FamilyTokenizer):
    """The tokenizer of Llama 3, 3.1, 3.2 and 3.3.

    Args:
        path: the published ``tokenizer.model`` (tiktoken ranks) or a ``tokenizer.json``.
        special_tokens: ids of the control tokens by text; None takes those of ``path``, or numbers them from the end of
            the ranks as Llama 3 does.
        max_seq_len, prompt_template, truncation_type, mask_policy, train_on: see
            :class:`~torchpipe.tokenizers.ChatFormatTokenizer`.

    Raises:
        SourceError: the file is missing.
        TokenizerError: the file is not of this family.
    """

    chat_format_row: ClassVar[ChatFormat] = LLAMA3

    start_header_id = control_id("<|start_header_id|>")
    end_header_id = control_id("<|end_header_id|>")
    eot_id = control_id("<|eot_id|>")
    eom_id = control_id("<|eom_id|>")
    python_tag = control_id("<|python_tag|>")
    image_id = control_id("<|image|>")
    step_id = control_id("<|step_id|>")


def llama3_tokenizer(
    path: str,
    special_tokens_path: str | None = None,
    max_seq_len: int | None = None,
    prompt_template: PromptTemplateLike = None,
    truncation_type: Literal["left", "right"] = "right",
    *,
    mask_policy: MaskPolicy = "message",
    train_on: TrainOnLike = None,
) -> Llama3Tokenizer:
    """The tokenizer of Llama 3, 3.1, 3.2 and 3.3; see :class:`Llama3Tokenizer`.

    Args:
        path: the published ``tokenizer.model`` (tiktoken ranks) or a ``tokenizer.json``.
        special_tokens_path: a ``tokenizer.json`` whose added tokens give the control tokens' ids; None takes those of
            ``path``, or numbers them from the end of the ranks as Llama 3 does.
        max_seq_len: the most tokens a sample may have; None: no limit.
        prompt_template: a dotted name to call, a table of role to (before, after), or a template.
        truncation_type: the side that is cut.
        mask_policy: ``"message"``: every token of a trained message is trained, header included; ``"sampled"``: only
            what the model itself would write.
        train_on: which parts of a trained message count; None: all.

    Raises:
        SourceError: a file is missing.
        TokenizerError: a file is not of this family.
    """
    special_tokens = read_special_tokens(special_tokens_path)
    return Llama3Tokenizer(
        path, special_tokens, max_seq_len, prompt_template, truncation_type, mask_policy=mask_policy, train_on=train_on
    )


__getattr__ = refusing(__name__)
