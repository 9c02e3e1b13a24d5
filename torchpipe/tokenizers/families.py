"""The table of model families. Control tokens and split expressions are formats: byte-exact, with their source."""

from torchpipe.tokenizers.chat_format import ChatFormat, Control, Slot

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

# https://www.llama.com/docs/model-cards-and-prompt-formats/meta-llama-3/: a tool's answer has the header "ipython".
LLAMA3 = ChatFormat(
    name="llama3",
    pattern=LLAMA3_PATTERN,
    control_tokens=LLAMA3_CONTROL_TOKENS,
    document_start=(Control("<|begin_of_text|>"),),
    header=(Control("<|start_header_id|>"), Slot.ROLE, Control("<|end_header_id|>"), "\n\n"),
    call_prefix=(Control("<|python_tag|>"),),
    turn_end=(Control("<|eot_id|>"),),
    turn_end_more=(Control("<|eom_id|>"),),
    document_end=(Control("<|end_of_text|>"),),
    role_names={"tool": "ipython"},
    strip_content=True,
    pad="<|finetune_right_pad_id|>",
    stop=("<|end_of_text|>", "<|eot_id|>", "<|eom_id|>"),
)
