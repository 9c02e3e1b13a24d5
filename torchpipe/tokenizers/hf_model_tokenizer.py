"""The tokenizer of a model folder as Hugging Face lays it out."""

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any, Literal

from torchpipe.data.train_on import TrainOnLike
from torchpipe.errors import SourceError, TokenizerError
from torchpipe.tokenizers.backend_files import load_backend
from torchpipe.tokenizers.chat_template import ChatTemplateTokenizer, ToolArguments
from torchpipe.tokenizers.hf_files import TOKENIZER_JSON, read_hf_files
from torchpipe.tokenizers.jinja.conversation import OnUnproved
from torchpipe.tokenizers.render import MaskPolicy
from torchpipe.tokenizers.template_files import files_arguments


class HuggingFaceModelTokenizer(ChatTemplateTokenizer):
    """The tokenizer and chat template of one model: :class:`ChatTemplateTokenizer` where all comes from one place.

    Args:
        tokenizer_json_path: the model's ``tokenizer.json``, or its folder, whose files are then all read.
        tokenizer_config_json_path: the model's ``tokenizer_config.json``: its chat template, BOS, EOS and PAD.
        generation_config_path: the model's ``generation_config.json``: where sampling stops.
        truncation_type, max_seq_len, allowed_special, template_kwargs, mask_policy, on_unproved, train_on,
            tool_arguments, max_exact_turns, append_stop: see :class:`ChatTemplateTokenizer`.

    Raises:
        SourceError: a file is not there.
        TokenizerError: a file is not of its form, or there is no chat template in any.
    """

    def __init__(
        self,
        tokenizer_json_path: str | Path,
        *,
        tokenizer_config_json_path: str | Path | None = None,
        generation_config_path: str | Path | None = None,
        truncation_type: Literal["left", "right"] = "right",
        max_seq_len: int | None = None,
        allowed_special: Collection[str] = (),
        template_kwargs: Mapping[str, Any] | None = None,
        mask_policy: MaskPolicy = "sampled",
        on_unproved: OnUnproved = "refuse",
        train_on: TrainOnLike = None,
        tool_arguments: ToolArguments = "as_given",
        max_exact_turns: int | None = None,
        append_stop: bool = False,
    ) -> None:
        path = Path(tokenizer_json_path)
        if not path.exists():
            raise SourceError(f"There is no {path}. Check the path given as tokenizer_json_path.")
        folder = path if path.is_dir() else None
        hf = read_hf_files(
            folder, tokenizer_config=tokenizer_config_json_path, generation_config=generation_config_path
        )
        template, tool_template = hf.chat_template(), hf.chat_template(tools=True)
        if template is None:
            raise TokenizerError(
                f"{folder or tokenizer_config_json_path or path} holds no chat template. Give the folder of an "
                "instruction-tuned model, its tokenizer_config_json_path, or use ChatTemplateTokenizer.from_files with "
                "a chat_template."
            )
        backend = load_backend(tokenizer_json=path if folder is None else folder / TOKENIZER_JSON)
        super().__init__(
            backend,
            template,
            tool_template=tool_template if tool_template != template else None,
            **files_arguments(hf, backend, {}, template_kwargs),
            allowed_special=allowed_special,
            truncation_type=truncation_type,
            max_seq_len=max_seq_len,
            mask_policy=mask_policy,
            on_unproved=on_unproved,
            train_on=train_on,
            tool_arguments=tool_arguments,
            max_exact_turns=max_exact_turns,
            append_stop=append_stop,
        )
