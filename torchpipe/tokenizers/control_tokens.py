"""Control tokens and split expressions of the model families. They are formats: byte-exact, with their source.

Ids of control tokens follow the ordinary vocabulary of the published file, in the order of these tables.
"""

# https://github.com/meta-llama/llama-models, models/llama3/tokenizer.py (Llama 3 Community Licence) and the model
# card's "Special Tokens used with Llama 3". Offsets follow the 128,000 ranks of the published file; <|image|> came
# with Llama 3.2 as id 128256.
LLAMA3_CONTROL_TOKENS: tuple[str, ...] = (
    "<|begin_of_text|>",
    "<|end_of_text|>",
    "<|reserved_special_token_0|>",
    "<|reserved_special_token_1|>",
    "<|finetune_right_pad_id|>",
    "<|step_id|>",
    "<|start_header_id|>",
    "<|end_header_id|>",
    "<|eom_id|>",
    "<|eot_id|>",
    "<|python_tag|>",
    *(f"<|reserved_special_token_{i}|>" for i in range(2, 247)),
    "<|image|>",
)

LLAMA3_PATTERN = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*"
    r"|\s*[\r\n]+|\s+(?!\S)|\s+"
)

# https://github.com/meta-llama/llama-models, models/llama4/tokenizer.py (Llama 4 Community Licence): ids 200000 to
# 202047.
LLAMA4_CONTROL_TOKENS: tuple[str, ...] = (
    "<|begin_of_text|>",
    "<|end_of_text|>",
    "<|fim_prefix|>",
    "<|fim_middle|>",
    "<|fim_suffix|>",
    "<|header_start|>",
    "<|header_end|>",
    "<|eom|>",
    "<|eot|>",
    "<|step|>",
    *(f"<|text_post_train_reserved_special_token_{i}|>" for i in range(6)),
    "<|python_start|>",
    "<|python_end|>",
    "<|finetune_right_pad|>",
    *(f"<|text_post_train_reserved_special_token_{i}|>" for i in range(8, 69)),
    "<|image_start|>",
    "<|image_end|>",
    *(f"<|vision_reserved_special_token_{i}|>" for i in range(2)),
    "<|tile_x_separator|>",
    "<|tile_y_separator|>",
    *(f"<|vision_reserved_special_token_{i}|>" for i in range(2, 6)),
    "<|image|>",
    "<|vision_reserved_special_token_6|>",
    "<|patch|>",
    *(f"<|vision_reserved_special_token_{i}|>" for i in range(7, 1048)),
    *(f"<|reasoning_reserved_special_token_{i}|>" for i in range(8)),
    "<|reasoning_thinking_start|>",
    "<|reasoning_thinking_end|>",
    *(f"<|reserved_special_token_{i}|>" for i in range(904)),
)

# The same file; also OpenAI's o200k_base (https://github.com/openai/tiktoken, MIT).
LLAMA4_PATTERN = (
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
    r"|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
    r"|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)

# https://huggingface.co/Qwen/Qwen2-7B-Instruct/blob/main/tokenizer_config.json (Apache-2.0): ids from 151643 on.
QWEN2_CONTROL_TOKENS: tuple[str, ...] = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")

# https://huggingface.co/Qwen/Qwen2.5-7B-Instruct/blob/main/tokenizer_config.json (Apache-2.0)
QWEN2_5_CONTROL_TOKENS: tuple[str, ...] = (
    *QWEN2_CONTROL_TOKENS,
    "<|object_ref_start|>",
    "<|object_ref_end|>",
    "<|box_start|>",
    "<|box_end|>",
    "<|quad_start|>",
    "<|quad_end|>",
    "<|vision_start|>",
    "<|vision_end|>",
    "<|vision_pad|>",
    "<|image_pad|>",
    "<|video_pad|>",
    "<tool_call>",
    "</tool_call>",
    "<|fim_prefix|>",
    "<|fim_middle|>",
    "<|fim_suffix|>",
    "<|fim_pad|>",
    "<|repo_name|>",
    "<|file_sep|>",
)

# https://huggingface.co/Qwen/Qwen3-8B/blob/main/tokenizer_config.json (Apache-2.0)
QWEN3_CONTROL_TOKENS: tuple[str, ...] = (
    *QWEN2_5_CONTROL_TOKENS,
    "<tool_response>",
    "</tool_response>",
    "<think>",
    "</think>",
)

# https://huggingface.co/Qwen/Qwen2-7B/blob/main/tokenizer.json (Apache-2.0), with the normalization NFC.
QWEN_PATTERN = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*"
    r"|\s*[\r\n]+|\s+(?!\S)|\s+"
)

# https://huggingface.co/google/gemma-3-1b-it/blob/main/tokenizer_config.json (Gemma Terms of Use). They are pieces of
# the published file, which lets the library find them in text.
GEMMA_CONTROL_PIECES: tuple[str, ...] = (
    "<start_of_turn>",
    "<end_of_turn>",
    "<start_of_image>",
    "<end_of_image>",
    "<image_soft_token>",
)

# https://huggingface.co/microsoft/Phi-3-mini-4k-instruct/blob/main/tokenizer_config.json (MIT): ids 32000 to 32010.
PHI3_CONTROL_TOKENS: tuple[str, ...] = (
    "<|endoftext|>",
    "<|assistant|>",
    "<|placeholder1|>",
    "<|placeholder2|>",
    "<|placeholder3|>",
    "<|placeholder4|>",
    "<|system|>",
    "<|end|>",
    "<|placeholder5|>",
    "<|placeholder6|>",
    "<|user|>",
)

# https://huggingface.co/microsoft/phi-4/blob/main/tokenizer_config.json (MIT): ids 100256 to 100351. Its split
# expression is that of cl100k_base, which Llama 3 took over.
PHI4_CONTROL_TOKENS: tuple[str, ...] = (
    "<|dummy_0|>",
    "<|endoftext|>",
    "<|fim_prefix|>",
    "<|fim_middle|>",
    "<|fim_suffix|>",
    *(f"<|dummy_{i}|>" for i in range(1, 4)),
    "<|im_start|>",
    "<|im_end|>",
    "<|im_sep|>",
    *(f"<|dummy_{i}|>" for i in range(4, 13)),
    "<|endofprompt|>",
    *(f"<|dummy_{i}|>" for i in range(13, 88)),
)
PHI4_PATTERN = LLAMA3_PATTERN

# https://github.com/mistralai/mistral-common, tokens/tokenizers/tekken.py (Apache-2.0): ids 0 to 19 of files up to
# version 7 that list none.
TEKKEN_CONTROL_TOKENS: tuple[str, ...] = (
    "<unk>",
    "<s>",
    "</s>",
    "[INST]",
    "[/INST]",
    "[AVAILABLE_TOOLS]",
    "[/AVAILABLE_TOOLS]",
    "[TOOL_RESULTS]",
    "[/TOOL_RESULTS]",
    "[TOOL_CALLS]",
    "[IMG]",
    "<pad>",
    "[IMG_BREAK]",
    "[IMG_END]",
    "[PREFIX]",
    "[MIDDLE]",
    "[SUFFIX]",
    "[SYSTEM_PROMPT]",
    "[/SYSTEM_PROMPT]",
    "[TOOL_CONTENT]",
)

# https://github.com/openai/harmony (Apache-2.0): ids 199998 to 201087 of the encoding o200k_harmony.
_GPT_OSS_NAMED = {
    199_998: "<|startoftext|>",
    199_999: "<|endoftext|>",
    200_002: "<|return|>",
    200_003: "<|constrain|>",
    200_005: "<|channel|>",
    200_006: "<|start|>",
    200_007: "<|end|>",
    200_008: "<|message|>",
    200_012: "<|call|>",
    200_018: "<|endofprompt|>",
}
GPT_OSS_CONTROL_TOKENS: tuple[str, ...] = tuple(
    _GPT_OSS_NAMED.get(token_id, f"<|reserved_{token_id}|>") for token_id in range(199_998, 201_088)
)
GPT_OSS_PATTERN = LLAMA4_PATTERN
