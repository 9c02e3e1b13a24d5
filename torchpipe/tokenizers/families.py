"""The table of model families: how each writes a conversation. ``docs/chat_formats.md`` says what each is tested by."""

from dataclasses import replace

from torchpipe.tokenizers.chat_format import ChatFormat, Control, Slot
from torchpipe.tokenizers.control_tokens import (
    GEMMA_CONTROL_PIECES,
    LLAMA3_CONTROL_TOKENS,
    LLAMA3_PATTERN,
    LLAMA4_CONTROL_TOKENS,
    LLAMA4_PATTERN,
    PHI3_CONTROL_TOKENS,
    PHI4_CONTROL_TOKENS,
    PHI4_PATTERN,
    QWEN2_5_CONTROL_TOKENS,
    QWEN2_CONTROL_TOKENS,
    QWEN3_CONTROL_TOKENS,
    QWEN_PATTERN,
)
from torchpipe.tokenizers.image_tokens import llama3_image, llama4_image

# https://www.llama.com/docs/model-cards-and-prompt-formats/meta-llama-3/: a tool's answer has the header "ipython".
LLAMA3 = ChatFormat(
    name="llama3",
    pattern=LLAMA3_PATTERN,
    published_sizes=(128_000,),
    control_tokens=LLAMA3_CONTROL_TOKENS,
    document_start=(Control("<|begin_of_text|>"),),
    header=(Control("<|start_header_id|>"), Slot.ROLE, Control("<|end_header_id|>"), "\n\n"),
    call_prefix=(Control("<|python_tag|>"),),
    turn_end=(Control("<|eot_id|>"),),
    turn_end_more=(Control("<|eom_id|>"),),
    document_end=(Control("<|end_of_text|>"),),
    role_names={"tool": "ipython"},
    whitespace="strip",
    bos=Control("<|begin_of_text|>"),
    eos=Control("<|end_of_text|>"),
    pad=Control("<|finetune_right_pad_id|>"),
    stop=(Control("<|end_of_text|>"), Control("<|eot_id|>"), Control("<|eom_id|>")),
    image=llama3_image,
)

# https://www.llama.com/docs/model-cards-and-prompt-formats/llama4/
LLAMA4 = replace(
    LLAMA3,
    name="llama4",
    pattern=LLAMA4_PATTERN,
    published_sizes=(200_000,),
    control_tokens=LLAMA4_CONTROL_TOKENS,
    header=(Control("<|header_start|>"), Slot.ROLE, Control("<|header_end|>"), "\n\n"),
    call_prefix=(Control("<|python_start|>"),),
    call_suffix=(Control("<|python_end|>"),),
    turn_end=(Control("<|eot|>"),),
    turn_end_more=(Control("<|eom|>"),),
    pad=Control("<|finetune_right_pad|>"),
    stop=(Control("<|end_of_text|>"), Control("<|eot|>"), Control("<|eom|>")),
    image=llama4_image,
    oracle="none",
)

# Text between a start and an end token, one document for each answer. The [INST] of Llama 2 and Mistral is text, which
# their prompt templates write (torchpipe/models/llama2.py, mistral.py). Neither file has a token to pad with.
LLAMA2 = ChatFormat(
    name="llama2",
    files="sentencepiece",
    published_sizes=(32_000,),
    document_start=(Control("<s>"),),
    document_end=(Control("</s>"),),
    document_per_exchange=True,
    whitespace="strip_end_of_parts",
    dummy_prefix="trim_within_exchange",
    bos=Control("<s>"),
    eos=Control("</s>"),
    pad=Control("<unk>"),
    stop=(Control("</s>"),),
)

# 32,000 pieces in v0.1 and v0.2, as Llama 2 has; 768 more, which are control tokens, from v0.3 on.
MISTRAL = replace(LLAMA2, name="mistral", published_sizes=(32_000, 32_768))

_GEMMA_BOS = Control("<bos>", aliases=("<s>",))
_GEMMA_EOS = Control("<eos>", aliases=("</s>",))

GEMMA = replace(
    LLAMA2,
    name="gemma",
    published_sizes=(256_000, 262_144),  # Gemma 1 and 2; Gemma 3
    hint="This is Gemma's bare text. For the turns of its instruction-tuned models, give the tokenizer "
    "prompt_template: torchpipe.models.gemma.GemmaChatTemplate.",
    control_pieces=GEMMA_CONTROL_PIECES,
    document_start=(_GEMMA_BOS,),
    document_end=(_GEMMA_EOS,),
    bos=_GEMMA_BOS,
    eos=_GEMMA_EOS,
    pad=Control("<pad>", aliases=("<unk>",)),
    stop=(_GEMMA_EOS,),
)

# https://ai.google.dev/gemma/docs/core/prompt-structure and the chat template of
# https://huggingface.co/google/gemma-3-1b-it (Gemma Terms of Use). It has no system turn: see GemmaChatTemplate.
GEMMA_TURNS = replace(
    GEMMA,
    name="gemma_turns",
    hint="",
    header=(Control("<start_of_turn>"), Slot.ROLE, "\n"),
    turn_end=(Control("<end_of_turn>"),),
    separator=("\n",),
    separator_after_last=True,
    document_end=(),
    document_per_exchange=False,
    roles=("user", "assistant"),
    role_names={"assistant": "model"},
    whitespace="strip",
    dummy_prefix="trim",
    closes_prompt=True,
    stop=(_GEMMA_EOS, Control("<end_of_turn>")),
    oracle="template text with a stand-in vocabulary",
)

# https://huggingface.co/Qwen/Qwen2-7B-Instruct/blob/main/tokenizer_config.json (Apache-2.0), without the system turn
# that the published template adds where a conversation has none.
QWEN2 = ChatFormat(
    name="qwen2",
    pattern=QWEN_PATTERN,
    normalization="NFC",
    published_sizes=(151_643,),
    control_tokens=QWEN2_CONTROL_TOKENS,
    header=(Control("<|im_start|>"), Slot.ROLE, "\n"),
    turn_end=(Control("<|im_end|>"),),
    separator=("\n",),
    role_names={"ipython": "tool"},
    closes_prompt=True,
    eos=Control("<|im_end|>"),
    pad=Control("<|endoftext|>"),
    stop=(Control("<|im_end|>"), Control("<|endoftext|>")),
)

QWEN2_5 = replace(
    QWEN2,
    name="qwen2_5",
    control_tokens=QWEN2_5_CONTROL_TOKENS,
    call_prefix=(Control("<tool_call>"), "\n"),
    call_suffix=("\n", Control("</tool_call>")),
    role_names={"tool": "user", "ipython": "user"},
    result_prefix=("<tool_response>\n",),
    result_suffix=("\n</tool_response>",),
    result_separator=("\n",),
)

QWEN3 = replace(
    QWEN2_5,
    name="qwen3",
    control_tokens=QWEN3_CONTROL_TOKENS,
    result_prefix=(Control("<tool_response>"), "\n"),
    result_suffix=("\n", Control("</tool_response>")),
    reasoning=(Control("<think>"), Control("</think>")),
)

# https://huggingface.co/microsoft/Phi-3-mini-4k-instruct/blob/main/tokenizer_config.json (MIT)
PHI3_MINI = ChatFormat(
    name="phi3_mini",
    files="sentencepiece",
    published_sizes=(32_000,),  # it is Llama 2's vocabulary
    control_tokens=PHI3_CONTROL_TOKENS,
    document_start=(Control("<s>"),),
    header=(Slot.ROLE_CONTROL, "\n"),
    turn_end=(Control("<|end|>"),),
    separator=("\n",),
    separator_after_last=True,
    roles=("system", "user", "assistant"),
    role_names={"system": "<|system|>", "user": "<|user|>", "assistant": "<|assistant|>"},
    whitespace="strip_end_of_parts",
    dummy_prefix="trim",
    closes_prompt=True,
    bos=Control("<s>"),
    eos=Control("<|endoftext|>"),
    pad=Control("<|endoftext|>"),
    stop=(Control("<|endoftext|>"), Control("<|end|>")),
)

# What torchtune writes where it is asked to end documents: one for each answer. It opens no file of its own.
PHI3_MINI_DOCUMENTS = replace(
    PHI3_MINI,
    name="phi3_mini_documents",
    published_sizes=(),
    document_end=(Control("<|endoftext|>"),),
    document_per_exchange=True,
)

# https://huggingface.co/microsoft/phi-4/blob/main/tokenizer_config.json (MIT)
PHI4 = ChatFormat(
    name="phi4",
    pattern=PHI4_PATTERN,
    published_sizes=(100_256,),
    control_tokens=PHI4_CONTROL_TOKENS,
    header=(Control("<|im_start|>"), Slot.ROLE, Control("<|im_sep|>")),
    turn_end=(Control("<|im_end|>"),),
    whitespace="strip_end_of_parts",
    closes_prompt=True,
    bos=Control("<|endoftext|>"),
    eos=Control("<|im_end|>"),
    pad=Control("<|dummy_85|>"),
    stop=(Control("<|im_end|>"),),
)

FAMILIES: tuple[ChatFormat, ...] = (
    LLAMA2,
    LLAMA3,
    LLAMA4,
    QWEN2,
    QWEN2_5,
    QWEN3,
    MISTRAL,
    GEMMA,
    GEMMA_TURNS,
    PHI3_MINI,
    PHI3_MINI_DOCUMENTS,
    PHI4,
)
"""Every row."""
