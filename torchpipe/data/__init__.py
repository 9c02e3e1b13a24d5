"""Rows to messages, messages to samples, samples to batches: pure functions, without network or files."""

from torchpipe.constants import CROSS_ENTROPY_IGNORE_IDX
from torchpipe.data.collate.packed import padded_collate_packed
from torchpipe.data.collate.text import padded_collate, padded_collate_sft
from torchpipe.data.message_transforms import (
    AlpacaToMessages,
    InputOutputToMessages,
    OpenAIToMessages,
    ShareGPTToMessages,
)
from torchpipe.data.messages import (
    MaskingStrategy,
    Message,
    Role,
    mask_messages,
    resolve_masking_strategy,
    validate_messages,
)
from torchpipe.data.padding import left_pad_sequence
from torchpipe.data.prompt_templates import PromptTemplate, PromptTemplateInterface, prompt_template
from torchpipe.data.sequences import next_token_labels, truncate

__all__ = [
    "CROSS_ENTROPY_IGNORE_IDX",
    "AlpacaToMessages",
    "InputOutputToMessages",
    "MaskingStrategy",
    "Message",
    "OpenAIToMessages",
    "PromptTemplate",
    "PromptTemplateInterface",
    "Role",
    "ShareGPTToMessages",
    "left_pad_sequence",
    "mask_messages",
    "next_token_labels",
    "padded_collate",
    "padded_collate_packed",
    "padded_collate_sft",
    "prompt_template",
    "resolve_masking_strategy",
    "truncate",
    "validate_messages",
]
