"""Chat templates and tokenizers of the models in torchpipe.models."""

from collections.abc import Callable
from typing import Any

from torchpipe.models import gemma, llama2, mistral, phi3, phi4, qwen2, qwen2_5, qwen3
from torchpipe.models.clip import CLIPTokenizer
from torchpipe.models.llama3 import Llama3Tokenizer
from torchpipe.models.llama4 import Llama4Tokenizer
from torchpipe.models.t5 import T5Tokenizer
from torchpipe.tokenizers import LLAMA3


def cases(case: Callable[..., Any], inputs: Any) -> list[Any]:
    def family(cls: Any, of: tuple[str, str, str], control: tuple[str, ...]) -> Any:
        return inputs.of_path(cls, of, special_tokens=inputs.numbered(control), **inputs.common)

    def qwen(cls: Any) -> Any:
        special_tokens = inputs.numbered(cls.chat_format_row.control_tokens)
        made = inputs.of_path(
            cls, inputs.ranks, special_tokens=special_tokens, bos_token="<|endoftext|>", **inputs.common
        )
        made.other |= {"eos_token": "<|endoftext|>", "pad_token": "<|im_end|>"}
        made.same |= {"unk_token": "<|endoftext|>", "bpe_cache_size": 5, "errors": "replace", "merges_file": None}
        return made

    return [
        case(cls=gemma.GemmaChatTemplate),
        case(cls=llama2.Llama2ChatTemplate),
        case(cls=mistral.MistralChatTemplate),
        inputs.of_path(T5Tokenizer, inputs.spm, max_seq_len=7, truncate=False),
        inputs.of_path(CLIPTokenizer, inputs.merges, max_seq_len=7, truncate=False),
        family(Llama3Tokenizer, inputs.ranks, LLAMA3.control_tokens),
        family(Llama4Tokenizer, inputs.ranks, Llama4Tokenizer.chat_format_row.control_tokens),
        family(phi3.Phi3MiniTokenizer, inputs.spm, phi3.Phi3MiniTokenizer.chat_format_row.control_tokens),
        inputs.of_path(llama2.Llama2Tokenizer, inputs.spm, **inputs.common),
        inputs.of_path(mistral.MistralTokenizer, inputs.spm, **inputs.common),
        inputs.of_path(gemma.GemmaTokenizer, inputs.spm, **inputs.common),
        case(
            cls=phi4.Phi4Tokenizer,
            given={"vocab_path": inputs.ranks[0]},
            same={"vocab_path": inputs.ranks[1], "merges_path": None},
            other={
                "vocab_path": inputs.ranks[2],
                "special_tokens": inputs.numbered(phi4.PHI4.control_tokens),
                **inputs.common,
            },
        ),
        qwen(qwen2.Qwen2Tokenizer),
        qwen(qwen2_5.Qwen2_5Tokenizer),
        qwen(qwen3.Qwen3Tokenizer),
    ]
