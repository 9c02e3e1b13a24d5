"""Pairs under a model: padding has no say, splits give one gradient, and the reference is the model before training."""

import math
from functools import partial
from typing import Any

import pytest
import torch

from torchpipe.data import padded_collate_dpo
from torchpipe.datasets import preference_dataset
from torchpipe.models.llama3_2 import lora_llama3_2
from torchpipe.models.tiny import tiny_llama3, tiny_tokenizer
from torchpipe.modules import TransformerDecoder
from torchpipe.rlhf import REWARD_NAMES, AdaptersOff, KeptLogProbs, mean_rewards, pair_log_probs, pair_losses
from torchpipe.rlhf.loss import DPOLoss

CPU = torch.device("cpu")
collate = partial(padded_collate_dpo, padding_idx=0)


def tiny(seed: int = 0) -> TransformerDecoder:
    torch.manual_seed(seed)
    return tiny_llama3(num_layers=1, num_heads=2, num_kv_heads=1, embed_dim=16, intermediate_dim=32)


def tiny_lora(dropout: float = 0.0) -> TransformerDecoder:
    torch.manual_seed(0)
    model = lora_llama3_2(
        ["q_proj", "v_proj"],
        apply_lora_to_mlp=True,
        vocab_size=2304,
        num_layers=1,
        num_heads=2,
        num_kv_heads=1,
        embed_dim=16,
        intermediate_dim=32,
        max_seq_len=512,
        lora_rank=4,
        lora_alpha=8,
        lora_dropout=dropout,
    )
    for name, parameter in model.named_parameters():
        if "lora_b" in name:
            torch.nn.init.normal_(parameter, std=0.5)
    return model


@pytest.fixture(scope="module")
def pairs() -> Any:
    """Six pairs of answers of different lengths."""
    rows = [
        {
            side: [{"role": "user", "content": f"{number}?"}, {"role": "assistant", "content": word * (number + 1)}]
            for side, word in (("chosen", "yes "), ("rejected", "no, never "))
        }
        for number in range(6)
    ]
    return preference_dataset(tiny_tokenizer(max_seq_len=64), source=rows)


def gradients(model: torch.nn.Module) -> dict[str, torch.Tensor]:
    found = {name: one.grad.clone() for name, one in model.named_parameters() if one.grad is not None}
    model.zero_grad()
    return found


@pytest.mark.parametrize("numbers", [[0, 1, 2, 3, 4, 5], [4, 2]])
def test_both_answers_are_scored_as_each_would_be_alone(pairs: Any, numbers: list[int]) -> None:
    model = tiny()
    together = pair_log_probs(model, collate([pairs[number] for number in numbers]))
    for place, number in enumerate(numbers):
        alone = pair_log_probs(model, collate([pairs[number]]))
        torch.testing.assert_close(together.chosen[place], alone.chosen[0])
        torch.testing.assert_close(together.rejected[place], alone.rejected[0])
        logits: Any = model(torch.tensor([pairs[number]["chosen_input_ids"]]))
        labels = torch.tensor(pairs[number]["chosen_labels"])
        log_probs = logits.log_softmax(-1)[0, :-1].gather(1, labels[1:, None].clamp(min=0))[:, 0]
        torch.testing.assert_close(alone.chosen[0], log_probs[labels[1:] != -100].sum())


def test_a_model_that_returns_logits_will_do(pairs: Any) -> None:
    decoder = tiny()

    class Plain(torch.nn.Module):
        def forward(self, tokens: torch.Tensor) -> Any:
            return decoder(tokens)

    batch = collate([pairs[0], pairs[3]])
    torch.testing.assert_close(pair_log_probs(Plain(), batch).rejected, pair_log_probs(decoder, batch).rejected)
    assert decoder.skip_output_layer is False


@pytest.mark.parametrize("size", [1, 2, 4])
def test_splits_into_micro_batches_give_one_gradient(pairs: Any, size: int) -> None:
    """The sums over pairs, divided by the pairs of the step: padding pairs of the last one count for nothing."""
    model, loss_fn = tiny(1), DPOLoss()
    reference = KeptLogProbs.computed(tiny(0), pairs, collate_fn=collate, batch_size=4, device=CPU)
    found = []
    for width in (6, size):
        for start in range(0, 6, width):
            numbers = [number if number < 6 else -1 for number in range(start, start + width)]
            batch = collate([pairs[max(number, 0)] for number in numbers])
            (pair_losses(model, loss_fn, reference, batch, numbers).losses.sum() / 6).backward()
        found.append(gradients(model))
    for name, gradient in found[0].items():
        torch.testing.assert_close(found[1][name], gradient, rtol=1e-4, atol=1e-7)


def test_padding_pairs_change_no_number_and_no_gradient_even_with_an_unknown_reference(pairs: Any) -> None:
    model = tiny(1)
    reference = KeptLogProbs(torch.full((6, 2), float("nan")))
    reference.values[2] = -20.0
    batch = collate([pairs[2], pairs[5]])
    losses = pair_losses(model, DPOLoss(), reference, batch, [2, -1])
    assert len(losses.losses) == 1
    losses.losses.sum().backward()
    assert all(bool(gradient.isfinite().all()) for gradient in gradients(model).values())


def test_sums_are_of_every_pair(pairs: Any) -> None:
    reference = KeptLogProbs.computed(tiny(0), pairs, collate_fn=collate, batch_size=4, device=CPU)
    found = pair_losses(tiny(1), DPOLoss(), reference, collate([pairs[0], pairs[1]]), [0, 1])
    sums = dict(zip(REWARD_NAMES, found.sums().tolist(), strict=True))
    assert sums["loss"] == pytest.approx(found.losses.sum().item())
    assert sums["reward_margin"] == pytest.approx(sums["chosen_reward"] - sums["rejected_reward"], abs=1e-6)
    assert sums["reward_accuracy"] == int((found.chosen_rewards > found.rejected_rewards).sum())
    assert sums["chosen_log_prob"] == pytest.approx(found.policy.chosen.sum().item())


@pytest.mark.parametrize("size", [1, 4])
def test_mean_rewards_weigh_pairs_alike_whatever_batch_they_are_in(pairs: Any, size: int) -> None:
    model, loss_fn = tiny(1), DPOLoss()
    reference = KeptLogProbs.computed(tiny(0), pairs, collate_fn=collate, batch_size=4, device=CPU)
    whole = pair_losses(model, loss_fn, reference, collate(list(pairs)), range(6)).sums() / 6
    numbers = [list(range(start, min(start + size, 6))) for start in range(0, 6, size)]
    batches = [(collate([pairs[number] for number in some]), some) for some in numbers]
    model.train()
    found = mean_rewards(model, loss_fn, reference, batches)
    assert model.training
    assert list(found.values()) == pytest.approx(whole.tolist(), rel=1e-5)


def test_ranks_add_up_their_parts(pairs: Any) -> None:
    found = mean_rewards(
        tiny(), DPOLoss(), KeptLogProbs(torch.zeros(6, 2)), [], sum_over_ranks=lambda *values: [2.0, *[6.0] * 7]
    )
    assert set(found.values()) == {3.0}
    of_nothing = mean_rewards(tiny(), DPOLoss(), KeptLogProbs(torch.zeros(6, 2)), [])
    assert all(math.isnan(value) for value in of_nothing.values())


# The reference


def test_a_model_without_adapters_has_the_loss_log_2_at_first(pairs: Any) -> None:
    model = tiny()
    reference = KeptLogProbs.computed(model, pairs, collate_fn=collate, batch_size=4, device=CPU)
    losses = pair_losses(model, DPOLoss(), reference, collate(list(pairs)), range(6)).losses
    torch.testing.assert_close(losses, torch.full((6,), 2.0).log())


def test_kept_numbers_are_the_same_to_the_bit_whatever_else_is_needed(pairs: Any) -> None:
    compute = partial(KeptLogProbs.computed, tiny(), pairs, collate_fn=collate, batch_size=4, device=CPU)
    whole, some = compute().values, compute(needed=[5]).values
    assert torch.equal(some[4:], whole[4:])
    assert some[:4].isnan().all()
    assert not whole.isnan().any()


def test_ranks_share_the_work_and_know_all(pairs: Any) -> None:
    compute = partial(KeptLogProbs.computed, tiny(), pairs, collate_fn=collate, batch_size=2, device=CPU)
    parts: list[list[float]] = []

    def collect(*values: float) -> list[float]:
        parts.append(list(values))
        return list(values)

    for rank in range(2):
        compute(rank=rank, world_size=2, sum_over_ranks=collect)
    together = torch.tensor(parts).sum(0).view(-1, 2)
    assert torch.equal(together, compute().values)


def test_computing_moves_no_random_numbers_and_keeps_the_training_mode(pairs: Any) -> None:
    model = tiny().train()
    before = torch.get_rng_state()
    KeptLogProbs.computed(model, pairs, collate_fn=collate, batch_size=4, device=CPU)
    assert torch.equal(torch.get_rng_state(), before)
    assert model.training


@pytest.mark.parametrize("dropout", [0.0, 0.5])
def test_adapters_off_is_the_base_and_leaves_adapters_on(pairs: Any, dropout: float) -> None:
    adapted = tiny_lora(dropout).train()
    base = torch.nn.Module.state_dict(adapted)
    plain = tiny_lora()
    plain.load_state_dict({name: torch.zeros_like(v) if "lora_b" in name else v for name, v in base.items()})
    batch = collate([pairs[1], pairs[2]])
    found = AdaptersOff(adapted)(batch, [1, 2])
    torch.testing.assert_close(found.chosen, pair_log_probs(plain, batch).chosen)
    assert not found.chosen.requires_grad
    assert not torch.allclose(found.chosen, pair_log_probs(adapted.eval(), batch).chosen)
