"""Filling a model from tensors that are stored under the names of a layout."""

import warnings
from collections.abc import Sequence
from pathlib import Path

import torch
from safetensors import SafetensorError

from torchpipe.errors import CheckpointError
from torchpipe.models.hf_files import StoredTensors, refuse_no_floats, unreadable
from torchpipe.models.hf_names import EMBEDDING, OUTPUT, Layout, name_in, pairs_from_halves, row_of
from torchpipe.models.weights import check_tensors, refuse_meta, shapes_of
from torchpipe.modules import TransformerDecoder
from torchpipe.modules.peft import initialize_dora_magnitude
from torchpipe.modules.peft.state_dicts import ADAPTER_ENDINGS

_FREQUENCIES = ("rotary_emb.inv_freq", "rope.freqs")
"""The rotary embeddings' frequencies, which old checkpoints hold; here they follow from the config."""


def fill_from_layout(
    model: TransformerDecoder, stored: StoredTensors, layout: Layout, path: Path, *, tied: bool = False
) -> None:
    """Copies stored tensors into the base of ``model``, one at a time, and sets DoRA's magnitudes for it.

    All names and shapes are compared first, so that a checkpoint that does not fit changes nothing.

    Args:
        model: a decoder of Llama's kind, with adapters or without.
        stored: under the layout's names.
        layout: whose names, and whose order of the rows of queries and keys.
        path: where they come from, for the messages.
        tied: whether the stored embedding is the output projection of a model that has one of its own.

    Raises:
        CheckpointError: another vocabulary; tensors missing, extra, of another shape or quantized; an output projection
            of its own for a model that has none; or a file that was damaged.

    Warns:
        UserWarning: a tensor holds NaN or infinity. It is loaded as it is.
    """
    state = base_state(model)
    refuse_meta(state)
    shapes = {name: shape for name, shape in stored.shapes.items() if not name.endswith(_FREQUENCIES)}
    names = {ours: name_in(layout, ours) or ours for ours in state}
    embedding, output = getattr(EMBEDDING, layout), getattr(OUTPUT, layout)
    _check_vocabulary(model, shapes.get(embedding), path)
    own_output = OUTPUT.ours in state
    if own_output and tied and output not in shapes:
        names[OUTPUT.ours] = embedding
    stored_twice = not own_output and shapes.pop(output, None) is not None
    check_tensors({names[ours]: shape for ours, shape in shapes_of(state).items()}, shapes, path)
    refuse_no_floats({name: kind for name, kind in stored.no_floats.items() if name in shapes}, path)
    try:
        if stored_twice and not torch.equal(stored.read(output), stored.read(embedding)):
            raise CheckpointError(
                f"{path} has an output projection of its own ({output} differs from {embedding}), and the model's is "
                "its embedding. Build the model with tie_word_embeddings=False."
            )
        not_finite = [
            names[ours]
            for ours, tensor in state.items()
            if not _copy(tensor, stored.read(names[ours]), model.head_dim if _in_halves(layout, ours) else None)
        ]
    except (OSError, SafetensorError) as error:
        raise unreadable(path, error) from error
    initialize_dora_magnitude(model)
    if not_finite:
        tensors = "1 tensor, " if len(not_finite) == 1 else f"{len(not_finite)} tensors, such as "
        warnings.warn(
            f"{path} holds NaN or infinity in {tensors}{not_finite[0]}. All was loaded as it is, and the loss will "
            "hardly be a number.",
            stacklevel=3,
        )


def num_ids(model: TransformerDecoder) -> int:
    """Rows of the model's token embedding."""
    return model.get_parameter("tok_embeddings.weight").shape[0]


def base_state(model: TransformerDecoder) -> dict[str, torch.Tensor]:
    """The state dict without the adapters: the names of the plain model."""
    return {name: tensor for name, tensor in model.state_dict().items() if not name.endswith(ADAPTER_ENDINGS)}


def _copy(tensor: torch.Tensor, stored: torch.Tensor, halves_of: int | None) -> bool:
    """Whether all values that were copied are finite; ``halves_of`` is the size of heads whose halves are apart."""
    with torch.no_grad():
        tensor.copy_(stored if halves_of is None else pairs_from_halves(stored, halves_of))
    return not stored.numel() or all(bool(extreme.isfinite()) for extreme in stored.aminmax())


def _in_halves(layout: Layout, ours: str) -> bool:
    row = row_of(ours)
    return layout == "hf" and row is not None and row.paired_rows


def _check_vocabulary(model: TransformerDecoder, stored: Sequence[int] | None, path: Path) -> None:
    rows = num_ids(model)
    if stored and stored[0] != rows:
        raise CheckpointError(
            f"{path} has a vocabulary of {stored[0]} ids and the model has one of {rows}. Build the model with "
            f"vocab_size={stored[0]}. For new special tokens load it so, then resize it to the tokenizer's ids with "
            "torchpipe.models.resize_token_embeddings."
        )
