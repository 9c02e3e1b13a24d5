"""Text from a model, one token at a time."""

from collections.abc import Collection, Sequence

import torch

from torchpipe.errors import ConfigError, DataError
from torchpipe.modules import TransformerDecoder
from torchpipe.modules.kv_cache import own_kv_caches

_PLAIN_LOGITS = {"skip_output_layer": False, "num_output_chunks": 0, "output_hidden_states": ()}
"""A decoder's attributes under which it returns one tensor of logits."""


def generate(
    model: TransformerDecoder,
    prompt_tokens: Sequence[int],
    *,
    max_new_tokens: int,
    stop_token_ids: Collection[int] = (),
    temperature: float = 0.0,
    seed: int | None = None,
) -> list[int]:
    """The ids that follow the prompt, without the prompt; a stop token, when one comes, is the last of them.

    The prompt is read once, then every step reads one token, with key/value caches of its own. The model runs in eval
    mode without gradients, and is left as it was found: caches that it has are neither read nor written.

    Args:
        model: returns logits, or can (``skip_output_layer``, ``num_output_chunks`` and ``output_hidden_states`` are
            set aside meanwhile).
        prompt_tokens: at least one id.
        max_new_tokens: the most ids to add; fewer when a stop token comes or the context of ``max_seq_len`` is full.
        stop_token_ids: ids that end the reply.
        temperature: 0 takes the likeliest token; above 0, logits are divided by it and a token is drawn.
        seed: makes the draws repeatable; None draws from torch's global generator.

    Raises:
        DataError: the prompt is empty, leaves no room in the model's context, or has an id that the model lacks.
        ConfigError: ``temperature`` or ``max_new_tokens`` is negative.
    """
    if not temperature >= 0:  # NaN too
        raise ConfigError(f"temperature is {temperature}. Give 0 for the likeliest token, or a positive number.")
    if not 0 < len(prompt_tokens) < model.max_seq_len:
        raise DataError(
            f"The prompt has {len(prompt_tokens)} tokens, and the model's max_seq_len is {model.max_seq_len}. "
            f"Give between 1 and {model.max_seq_len - 1} tokens."
        )
    if max_new_tokens < 0:
        raise ConfigError(f"max_new_tokens is {max_new_tokens}. Give 0 or more.")
    num_ids = getattr(model.tok_embeddings, "num_embeddings", None)
    if num_ids is not None and (unknown := [one for one in prompt_tokens if not 0 <= one < num_ids]):
        raise DataError(
            f"The prompt has the token id {unknown[0]}, and the model knows the ids 0 to {num_ids - 1}. Use the "
            "tokenizer that the model was trained with."
        )
    weight = next(model.parameters())
    device = weight.device
    generator = None if seed is None else torch.Generator(device).manual_seed(seed)
    was_training = [(module, module.training) for module in model.modules()]
    asked_for = {name: getattr(model, name) for name in _PLAIN_LOGITS}
    tokens = list(prompt_tokens)
    last = min(len(tokens) + max_new_tokens, model.max_seq_len)
    model.eval()
    try:
        for name, value in _PLAIN_LOGITS.items():
            setattr(model, name, value)
        with (
            torch.no_grad(),
            own_kv_caches(model, device=device, batch_size=1, dtype=weight.dtype, decoder_max_seq_len=last),
        ):
            unread = tokens
            while len(tokens) < last:
                logits = model(torch.tensor([unread], device=device))[0, -1].float()
                unread = [_next_token(logits, temperature, generator)]
                tokens += unread
                if tokens[-1] in stop_token_ids:
                    break
    finally:
        for name, value in asked_for.items():
            setattr(model, name, value)
        for module, training in was_training:
            module.training = training
    return tokens[len(prompt_tokens) :]


def _next_token(logits: torch.Tensor, temperature: float, generator: torch.Generator | None) -> int:
    """An id chosen by logits [v]."""
    if temperature == 0:
        return int(logits.argmax())
    weights = torch.softmax(logits / temperature, dim=-1)
    return int(torch.multinomial(weights, num_samples=1, generator=generator))
