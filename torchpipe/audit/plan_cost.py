"""What a config's model makes documents cost, without building its weights."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch

from torchpipe._dotpath import resolve
from torchpipe.data.packing import LLAMA3_8B_COST, CostModel
from torchpipe.errors import TorchpipeError
from torchpipe.models.config import DecoderConfig
from torchpipe.modules import FeedForward, TransformerDecoder, TransformerSelfAttentionLayer

_OWN_MODELS = "torchpipe.models."


@dataclass(frozen=True, kw_only=True)
class StatedCost:
    """A cost, and whose it is.

    Attributes:
        model: the cost of a document.
        of: whose coefficients these are.
        why_not_own: why they are not those of the config's model; None where they are.
    """

    model: CostModel
    of: str
    why_not_own: str | None = None

    @property
    def told(self) -> str:
        """Whose coefficients these are, and why."""
        return self.of if self.why_not_own is None else f"{self.of}, since {self.why_not_own}"


def cost_of_config(cfg: Mapping[Any, Any]) -> StatedCost:
    """The cost with the sizes of the config's model, where they can be told without weights; else Llama 3 8B's.

    A model of torchpipe's own is built on torch's meta device, which holds shapes and no numbers. A component of
    somebody else's is not called: it may load a checkpoint.
    """
    section = cfg.get("model")
    if not isinstance(section, Mapping) or not isinstance(section.get("_component_"), str):
        return _llama3_8b("the config has no model section")
    name = section["_component_"]
    try:
        component = resolve(name, caller_globals={})
        builder = getattr(component, "func", component)  # of a partial
        if not str(getattr(builder, "__module__", "")).startswith(_OWN_MODELS):
            return _llama3_8b(f"{name} is not one of torchpipe's models, and was not built")
        from torchpipe.config import instantiate

        with torch.device("meta"):
            model = instantiate(section, caller_globals={})
    except TorchpipeError as error:
        return _llama3_8b(f"the config's model can't be built: {error}")
    sizes = _sizes_of(model)
    if sizes is None:
        return _llama3_8b(f"{name} is no decoder with layers of one kind")
    return StatedCost(model=CostModel.of_decoder(sizes), of=name)


def _llama3_8b(why: str) -> StatedCost:
    return StatedCost(model=LLAMA3_8B_COST, of="Llama 3 8B", why_not_own=why)


def _sizes_of(model: Any) -> DecoderConfig | None:
    """The sizes of a decoder with equal layers; None of any other model."""
    if not isinstance(model, TransformerDecoder) or not len(model.layers):
        return None
    embeddings: Any = model.tok_embeddings
    if not all(type(layer) is TransformerSelfAttentionLayer for layer in model.layers):
        return None
    first: Any = model.layers[0]
    attn, mlp = first.attn, first.mlp
    if type(mlp) is not FeedForward or mlp.w3 is None:
        return None
    width: Any = mlp.w1
    return DecoderConfig(
        vocab_size=embeddings.num_embeddings,
        num_layers=len(model.layers),
        num_heads=attn.num_heads,
        num_kv_heads=attn.num_kv_heads,
        embed_dim=attn.embed_dim,
        intermediate_dim=width.weight.shape[0],  # with adapters too
        head_dim=attn.head_dim,
        max_seq_len=model.max_seq_len,
        rope_base=1.0,  # costs nothing
    )
