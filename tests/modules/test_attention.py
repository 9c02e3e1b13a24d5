import pytest
import torch
from torch import nn

from torchpipe.data.packing.masks import PackedMask, dense_block_causal_mask, ids_mask, varlen_mask
from torchpipe.errors import ConfigError, DataError
from torchpipe.modules import MultiHeadAttention, RMSNorm, RotaryPositionalEmbeddings

EMBED_DIM, NUM_HEADS, HEAD_DIM = 24, 4, 6


def build(num_kv_heads: int = 2, **options) -> MultiHeadAttention:
    torch.manual_seed(0)
    return MultiHeadAttention(
        embed_dim=EMBED_DIM,
        num_heads=NUM_HEADS,
        num_kv_heads=num_kv_heads,
        head_dim=HEAD_DIM,
        q_proj=nn.Linear(EMBED_DIM, NUM_HEADS * HEAD_DIM, bias=False),
        k_proj=nn.Linear(EMBED_DIM, num_kv_heads * HEAD_DIM, bias=False),
        v_proj=nn.Linear(EMBED_DIM, num_kv_heads * HEAD_DIM, bias=False),
        output_proj=nn.Linear(NUM_HEADS * HEAD_DIM, EMBED_DIM, bias=False),
        **options,
    )


def weight_of(projection: nn.Module) -> torch.Tensor:
    assert isinstance(projection, nn.Linear)
    return projection.weight.detach()


def reference(attention: MultiHeadAttention, x: torch.Tensor, allowed: torch.Tensor) -> torch.Tensor:
    """Attention written out head by head in float64, each query head with its own copy of its key/value head."""
    group = attention.num_heads // attention.num_kv_heads
    x = x.double()
    q, k, v = (
        (x @ weight_of(projection).double().T).unflatten(-1, (-1, HEAD_DIM))
        for projection in (attention.q_proj, attention.k_proj, attention.v_proj)
    )
    heads = []
    for head in range(attention.num_heads):
        scores = q[:, :, head] @ k[:, :, head // group].transpose(1, 2) / HEAD_DIM**0.5
        weights = scores.masked_fill(~allowed, -torch.inf).softmax(-1)
        heads.append(weights @ v[:, :, head // group])
    return torch.cat(heads, -1) @ weight_of(attention.output_proj).double().T


@pytest.mark.parametrize("num_kv_heads", [1, 2, 4])
@pytest.mark.parametrize("mask_kind", ["none", "dense", "varlen", "ids"])
def test_grouped_heads_equal_attention_with_repeated_heads(num_kv_heads: int, mask_kind: str):
    attention = build(num_kv_heads)
    x = torch.randn(2, 7, EMBED_DIM)
    seq_lens = (
        [torch.tensor([7]), torch.tensor([7])] if mask_kind == "none" else [torch.tensor([3, 4]), torch.tensor([7])]
    )
    dense = dense_block_causal_mask(seq_lens)
    mask = {"none": None, "dense": dense, "varlen": varlen_mask(seq_lens), "ids": ids_mask(seq_lens)}[mask_kind]
    torch.testing.assert_close(attention(x, mask=mask).double(), reference(attention, x, dense), atol=1e-5, rtol=1e-5)


def test_a_varlen_mask_gives_the_gradients_of_the_dense_mask():
    seq_lens = [torch.tensor([3, 1, 4]), torch.tensor([8])]
    attention = build(pos_embeddings=RotaryPositionalEmbeddings(HEAD_DIM, 16))
    x = torch.randn(2, 8, EMBED_DIM)
    input_pos = torch.tensor([[0, 1, 2, 0, 0, 1, 2, 3], list(range(8))])
    grads = []
    for mask in (dense_block_causal_mask(seq_lens), varlen_mask(seq_lens)):
        attention.zero_grad()
        leaf = x.clone().requires_grad_()
        attention(leaf, mask=mask, input_pos=input_pos).square().sum().backward()
        grads.append([leaf.grad, *(parameter.grad.clone() for parameter in attention.parameters())])  # pyright: ignore
    torch.testing.assert_close(grads[1], grads[0], atol=1e-5, rtol=1e-5)


def test_causal_attention_ignores_the_future_to_the_bit():
    attention = build()
    x = torch.randn(1, 9, EMBED_DIM)
    changed = x.clone()
    changed[:, 5:] += 1.0
    assert torch.equal(attention(x)[:, :5], attention(changed)[:, :5])


def test_attention_that_is_not_causal_sees_the_whole_row():
    attention = build(is_causal=False)
    x = torch.randn(1, 5, EMBED_DIM)
    everything = torch.ones(1, 5, 5, dtype=torch.bool)
    torch.testing.assert_close(attention(x).double(), reference(attention, x, everything), atol=1e-5, rtol=1e-5)


def test_a_second_sequence_gives_the_keys_and_values():
    attention = build(is_causal=False)
    x, y = torch.randn(1, 3, EMBED_DIM), torch.randn(1, 5, EMBED_DIM)
    whole = attention(torch.cat([x, y], 1), torch.cat([y, y], 1))  # every key twice changes no softmax average
    torch.testing.assert_close(attention(x, y), whole[:, :3], atol=1e-5, rtol=1e-5)


def test_head_norms_make_the_scale_of_queries_and_keys_irrelevant():
    attention = build(q_norm=RMSNorm(HEAD_DIM, eps=1e-12), k_norm=RMSNorm(HEAD_DIM, eps=1e-12))
    x = torch.randn(1, 6, EMBED_DIM)
    before = attention(x)
    with torch.no_grad():
        weight_of(attention.q_proj).mul_(10)
        weight_of(attention.k_proj).mul_(0.1)
    torch.testing.assert_close(attention(x), before, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("mask", [None, varlen_mask([torch.tensor([4, 4])])])
def test_dropout_acts_in_training_only(mask: PackedMask | None):
    attention = build(attn_dropout=0.5)
    x = torch.randn(1, 8, EMBED_DIM)
    assert not torch.equal(attention(x, mask=mask), attention(x, mask=mask))
    attention.eval()
    assert torch.equal(attention(x, mask=mask), attention(x, mask=mask))


@pytest.mark.parametrize("packed", [False, True])
def test_dropout_takes_the_stated_share_of_weights_and_scales_the_others_up(packed: bool):
    # With one key a token, a head's output is its value, dropped or divided by what is kept.
    attention = build(4, attn_dropout=0.25)
    attention.output_proj = nn.Identity()
    x = torch.randn(4000, 1, EMBED_DIM)
    mask = varlen_mask([torch.tensor([1])] * 4000) if packed else None
    dropped = attention(x, mask=mask).view(4000, NUM_HEADS, HEAD_DIM)
    attention.eval()
    kept = attention(x, mask=mask).view(4000, NUM_HEADS, HEAD_DIM)
    is_zero = (dropped == 0).all(-1)
    torch.testing.assert_close(dropped[~is_zero], kept[~is_zero] / 0.75)
    assert float(is_zero.float().mean()) == pytest.approx(0.25, abs=0.02)  # 16,000 draws: five standard deviations


def test_projections_are_only_called():
    class Doubled(nn.Module):
        """Without a weight, as a quantised layer may be."""

        def __init__(self, inner: nn.Module) -> None:
            super().__init__()
            self.inner = inner

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.inner(x) * 2

    attention, x = build(), torch.randn(2, 5, EMBED_DIM)
    before = attention(x)
    attention.v_proj, attention.output_proj = Doubled(attention.v_proj), Doubled(attention.output_proj)
    torch.testing.assert_close(attention(x), 4 * before)
    attention.setup_cache(2, torch.float32, 5)
    torch.testing.assert_close(attention.eval()(x), 4 * before)


def test_sizes_that_do_not_fit_are_refused():
    with pytest.raises(ConfigError, match=r"num_kv_heads is 3.*must divide num_heads"):
        build(3)
    with pytest.raises(ConfigError, match=r"attn_dropout is 1\.5"):
        build(attn_dropout=1.5)
    with pytest.raises(ConfigError, match="Give both or neither"):
        build(q_norm=RMSNorm(HEAD_DIM))


def test_masks_of_other_batches_are_refused():
    attention = build()
    x = torch.randn(2, 4, EMBED_DIM)
    with pytest.raises(DataError, match=r"mask is torch.float32 \[2, 4, 4\]. Give torch.bool \[2, 4, 4\]"):
        attention(x, mask=torch.zeros(2, 4, 4))
    with pytest.raises(DataError, match=r"mask is torch.bool \[2, 5, 5\]"):
        attention(x, mask=torch.ones(2, 5, 5, dtype=torch.bool))
    with pytest.raises(DataError, match=r"documents have 5 tokens, the queries are \[2, 4\]"):
        attention(x, mask=varlen_mask([torch.tensor([5])]))
