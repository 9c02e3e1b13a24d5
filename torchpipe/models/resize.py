"""New special tokens: the embedding and the output projection grow to the tokenizer's ids, together."""

import json
import warnings
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import nn

from torchpipe._suggest import listed
from torchpipe.errors import CheckpointError, ConfigError, TokenizerError
from torchpipe.models.layouts import num_ids
from torchpipe.models.weights import refuse_meta
from torchpipe.modules import TiedLinear, TransformerDecoder
from torchpipe.tokenizers import read_special_tokens

_NAMED = 5
"""How many tokens a sentence names."""


def resize_token_embeddings(
    model: TransformerDecoder, tokenizer: Any, *, checkpoint_dir: str | Path | None = None
) -> int:
    """How many rows were added to ``model``, in place, so that it knows every id of the tokenizer.

    Every new row, of the embedding and of the output projection, is the mean of the old rows: a token that was never
    trained is then as likely as an average one, and the same in every run. A tokenizer with fewer ids changes nothing;
    published embeddings often have rows to spare. Load the weights before, and build the optimizer after it.

    Args:
        model: a decoder of Llama's kind with its weights loaded.
        tokenizer: has ``vocab_size``, one past its largest id, and ``special_tokens``, ids by text.
        checkpoint_dir: the folder of the checkpoint; where it has a ``tokenizer.json`` or ``tokenizer_config.json``,
            its tokens must have the same ids in ``tokenizer``.

    Raises:
        CheckpointError: a token has another id than in the checkpoint's files; or an id that the model lacks is no
            special token's, so that the tokenizer is not this model's with new tokens.
        ConfigError: the output projection has an adapter.

    Warns:
        UserWarning: rows were added to frozen weights, so that they will not be trained; or for tokens that the
            checkpoint's tokenizer files lack.
    """
    refuse_meta(model.state_dict())
    known = {} if checkpoint_dir is None else _known_tokens(Path(checkpoint_dir))
    if checkpoint_dir is not None:
        _check_ids(tokenizer.special_tokens, known, Path(checkpoint_dir))
    rows, wanted = num_ids(model), int(tokenizer.vocab_size)
    if getattr(tokenizer, "image_id", None) == wanted - 1:
        wanted -= 1  # Llama 3's last id stands for an image: its decoders of text are published without that row
    new_ids = {token_id: text for text, token_id in tokenizer.special_tokens.items() if token_id >= rows}
    unnamed = [token_id for token_id in range(rows, wanted) if token_id not in new_ids]
    if unnamed:
        raise CheckpointError(
            f"The tokenizer has {wanted} ids and the checkpoint {rows}, and {len(unnamed)} ids between, such as "
            f"{unnamed[0]}, are no special token's. Number new special tokens from {rows} on without gaps; a tokenizer "
            "with more ordinary tokens is another model's."
        )
    if wanted <= rows:
        return 0
    set_vocab_size(model, wanted)
    if not model.get_parameter("tok_embeddings.weight").requires_grad:
        warnings.warn(
            f"The model's embedding is frozen, so the rows of the new tokens {_first(new_ids.values())} stay the "
            "mean of the others. Train the whole model to learn them.",
            stacklevel=2,
        )
    if known and (lacking := [text for text in new_ids.values() if text not in known]):
        warnings.warn(
            f"The tokenizer files in {checkpoint_dir} lack {_first(lacking)}. Add the new tokens to a copy of them "
            "before the trained weights are served with it.",
            stacklevel=2,
        )
    return wanted - rows


def set_vocab_size(model: TransformerDecoder, num_rows: int) -> None:
    """Gives the embedding and the output projection ``num_rows`` rows, in place: cut, or grown by the mean row.

    Raises:
        ConfigError: the output projection has an adapter, or is of a kind that is not known here.
    """
    if model.lora is not None and model.lora.output:
        raise ConfigError(
            "The output projection has a LoRA adapter, whose rows can't be added to. Set apply_lora_to_output to False."
        )
    embedding, output = model.tok_embeddings, model.output
    if not isinstance(embedding, nn.Embedding) or not isinstance(output, nn.Linear | TiedLinear):
        kinds = f"{type(embedding).__name__} and {type(output).__name__}"
        raise ConfigError(
            f"The model's embedding and output are {kinds}, and only nn.Embedding and nn.Linear are resized."
        )
    embedding.weight = _resized(embedding.weight, num_rows)
    embedding.num_embeddings = num_rows
    if isinstance(output, nn.Linear):  # a tied one has the embedding's weight
        output.weight = _resized(output.weight, num_rows)
        output.out_features = num_rows
    if model.config is not None:
        model.config = replace(model.config, vocab_size=num_rows)


def _first(texts: Iterable[str]) -> str:
    texts = list(texts)
    return listed(texts[:_NAMED]) + f" and {len(texts) - _NAMED} more" * (len(texts) > _NAMED)


def _resized(parameter: torch.Tensor, num_rows: int) -> nn.Parameter:
    weight = parameter.detach()
    mean = weight.mean(dim=0, keepdim=True, dtype=torch.promote_types(weight.dtype, torch.float32)).to(weight.dtype)
    grown = torch.cat([weight[:num_rows], mean.expand(max(0, num_rows - len(weight)), -1)])
    return nn.Parameter(grown, parameter.requires_grad)


def _known_tokens(folder: Path) -> dict[str, int]:
    """The added tokens that a folder's tokenizer files list, ids by text; empty where there are no such files."""
    known: dict[str, int] = {}
    if (path := folder / "tokenizer.json").is_file():
        known |= read_special_tokens(path) or {}
    if (path := folder / "tokenizer_config.json").is_file():
        try:
            decoder = json.loads(path.read_text(encoding="utf-8")).get("added_tokens_decoder") or {}
            known |= {token["content"]: int(token_id) for token_id, token in decoder.items()}
        except (OSError, ValueError, LookupError, AttributeError, TypeError, RecursionError) as error:
            raise TokenizerError(f"{path} can't be read ({type(error).__name__}: {error}). Fetch it again.") from error
    return known


def _is_spare(text: str) -> bool:
    """Whether a token is one that publishers keep for later: its id is the same token under another name elsewhere."""
    return "reserved_special_token" in text


def _check_ids(special_tokens: Mapping[str, int], known: Mapping[str, int], folder: Path) -> None:
    known = {text: token_id for text, token_id in known.items() if not _is_spare(text)}
    special_tokens = {text: token_id for text, token_id in special_tokens.items() if not _is_spare(text)}
    by_id = {token_id: text for text, token_id in known.items()}
    wrong = [
        f"{text!r} is {token_id}, and there {known[text]}"
        if text in known
        else f"{text!r} is {token_id}, which there is {by_id[token_id]!r}"
        for text, token_id in special_tokens.items()
        if known.get(text, token_id) != token_id or by_id.get(token_id, text) != text
    ]
    if wrong:
        more = f" and {len(wrong) - 5} more" if len(wrong) > 5 else ""
        raise CheckpointError(
            f"The tokenizer's ids are not those that the checkpoint in {folder} was trained with: "
            f"{'; '.join(wrong[:5])}{more}. Use its own tokenizer, and number new special tokens after its last id."
        )
