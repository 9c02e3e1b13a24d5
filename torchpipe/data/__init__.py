"""Rows to messages, messages to samples, samples to batches.

Pure functions, but for :func:`load_image`, which reads files and addresses.
"""

from typing import TYPE_CHECKING

from torchpipe._reexport import lazily
from torchpipe.constants import CROSS_ENTROPY_IGNORE_IDX
from torchpipe.data.conversations import validate_messages
from torchpipe.data.image_tags import format_content_with_images
from torchpipe.data.images import load_image
from torchpipe.data.labelled_transforms import LabelledToMessages
from torchpipe.data.masking import MaskingStrategy, mask_messages, resolve_masking_strategy
from torchpipe.data.message_transforms import (
    AlpacaToMessages,
    InputOutputToMessages,
    OpenAIToMessages,
    ShareGPTToMessages,
)
from torchpipe.data.messages import Message, Role
from torchpipe.data.openai_dicts import as_openai, from_openai
from torchpipe.data.pair_policy import PairPolicy
from torchpipe.data.preference_transforms import (
    ChosenRejectedToMessages,
    PromptedPairToMessages,
    StackExchangePairedToMessages,
    TranscriptPairToMessages,
)
from torchpipe.data.prompt_templates import (
    ChatMLTemplate,
    GrammarErrorCorrectionTemplate,
    PromptTemplate,
    PromptTemplateInterface,
    QuestionAnswerTemplate,
    SummarizeTemplate,
    prompt_template,
)
from torchpipe.data.prompt_transform import PromptToMessages
from torchpipe.data.sequences import next_token_labels, truncate, unshifted_labels
from torchpipe.data.tool_calls import ToolCall
from torchpipe.data.train_on import TrainOn

if TYPE_CHECKING:
    from torchpipe.data.collate.fixed_widths import FixedWidths
    from torchpipe.data.collate.images import padded_collate_tiled_images_and_mask
    from torchpipe.data.collate.kto import padded_collate_kto
    from torchpipe.data.collate.packed import padded_collate_packed
    from torchpipe.data.collate.packed_pairs import padded_collate_packed_pairs
    from torchpipe.data.collate.preference import padded_collate_dpo
    from torchpipe.data.collate.prompts import padded_collate_prompts
    from torchpipe.data.collate.text import padded_collate, padded_collate_sft
    from torchpipe.data.padding import left_pad_sequence

__all__ = [
    "CROSS_ENTROPY_IGNORE_IDX",
    "AlpacaToMessages",
    "ChatMLTemplate",
    "ChosenRejectedToMessages",
    "FixedWidths",
    "GrammarErrorCorrectionTemplate",
    "InputOutputToMessages",
    "LabelledToMessages",
    "MaskingStrategy",
    "Message",
    "OpenAIToMessages",
    "PairPolicy",
    "PromptTemplate",
    "PromptTemplateInterface",
    "PromptToMessages",
    "PromptedPairToMessages",
    "QuestionAnswerTemplate",
    "Role",
    "ShareGPTToMessages",
    "StackExchangePairedToMessages",
    "SummarizeTemplate",
    "ToolCall",
    "TrainOn",
    "TranscriptPairToMessages",
    "as_openai",
    "format_content_with_images",
    "from_openai",
    "left_pad_sequence",
    "load_image",
    "mask_messages",
    "next_token_labels",
    "padded_collate",
    "padded_collate_dpo",
    "padded_collate_kto",
    "padded_collate_packed",
    "padded_collate_packed_pairs",
    "padded_collate_prompts",
    "padded_collate_sft",
    "padded_collate_tiled_images_and_mask",
    "prompt_template",
    "resolve_masking_strategy",
    "truncate",
    "unshifted_labels",
    "validate_messages",
]

# Only those who make batches pay for loading torch: stores and plans do without.
__getattr__ = lazily(
    __name__,
    {
        "FixedWidths": "torchpipe.data.collate.fixed_widths",
        "left_pad_sequence": "torchpipe.data.padding",
        "padded_collate": "torchpipe.data.collate.text",
        "padded_collate_dpo": "torchpipe.data.collate.preference",
        "padded_collate_kto": "torchpipe.data.collate.kto",
        "padded_collate_packed": "torchpipe.data.collate.packed",
        "padded_collate_packed_pairs": "torchpipe.data.collate.packed_pairs",
        "padded_collate_prompts": "torchpipe.data.collate.prompts",
        "padded_collate_sft": "torchpipe.data.collate.text",
        "padded_collate_tiled_images_and_mask": "torchpipe.data.collate.images",
    },
)
