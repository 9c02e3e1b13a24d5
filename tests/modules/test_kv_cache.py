import copy

import pytest
import torch
from torch import nn

from torchpipe.data.packing.masks import varlen_mask
from torchpipe.errors import ConfigError, DataError
from torchpipe.models.tiny import tiny_llama3
from torchpipe.modules import (
    KVCache,
    MultiHeadAttention,
    RotaryPositionalEmbeddings,
    TransformerDecoder,
    delete_kv_caches,
    disable_kv_cache,
    local_kv_cache,
)
from torchpipe.modules.peft import LoRAConfig, add_lora


def build(max_seq_len: int = 24, **options) -> TransformerDecoder:
    torch.manual_seed(0)
    model = tiny_llama3(50, num_layers=2, embed_dim=32, intermediate_dim=48, max_seq_len=max_seq_len, **options)
    for parameter in model.parameters():  # larger than fresh weights, so that attention matters
        nn.init.normal_(parameter, std=0.3)
    return model.eval()


def random_tokens(num_rows: int = 2, num_tokens: int = 12) -> torch.Tensor:
    return torch.randint(0, 50, (num_rows, num_tokens), generator=torch.Generator().manual_seed(1))


def in_parts(model: TransformerDecoder, tokens: torch.Tensor, lens: list[int], **options) -> torch.Tensor:
    return torch.cat([model(part, **options) for part in tokens.split(lens, dim=1)], dim=1)


@pytest.mark.parametrize("lens", [[1] * 12, [12], [5, 1, 1, 5], [4, 8], [1, 11]])
@torch.no_grad()
def test_reading_in_any_parts_gives_the_logits_of_reading_at_once(lens: list[int]):
    model, tokens = build(), random_tokens()
    whole = model(tokens)
    model.setup_caches(2, torch.float32)
    torch.testing.assert_close(in_parts(model, tokens, lens), whole, atol=1e-5, rtol=1e-5)


@torch.no_grad()
def test_adapters_are_read_with_caches_too():
    model, tokens = build(), random_tokens()
    add_lora(model, LoRAConfig(attn_modules=("q_proj", "k_proj", "v_proj", "output_proj"), mlp=True, rank=2))
    for name, parameter in model.named_parameters():
        if "lora_b" in name:
            nn.init.normal_(parameter, std=0.3)
    whole = model(tokens)
    assert not torch.allclose(whole, build()(tokens), atol=0.1)
    with local_kv_cache(model, batch_size=2, device="cpu", dtype=torch.float32):
        torch.testing.assert_close(in_parts(model, tokens, [6, 1, 5]), whole, atol=1e-5, rtol=1e-5)


@torch.no_grad()
def test_masks_of_what_is_cached_and_of_the_whole_cache_say_the_same():
    model, tokens = build(), random_tokens()
    whole = model(tokens)
    model.setup_caches(2, torch.float32, decoder_max_seq_len=20)
    causal = torch.ones(20, 20, dtype=torch.bool).tril()
    for width in (None, 20):
        model.reset_caches()
        for start, stop in ((0, 5), (5, 6), (6, 12)):
            mask = causal[start:stop, : stop if width is None else width].expand(2, -1, -1)
            positions = torch.arange(start, stop).expand(2, -1)
            logits = model(tokens[:, start:stop], mask=mask, input_pos=positions)
            torch.testing.assert_close(logits, whole[:, start:stop], atol=1e-5, rtol=1e-5)


@torch.no_grad()
def test_rows_padded_on_the_left_decode_as_each_alone():
    model, tokens = build(), random_tokens(1, 8)
    alone = model(tokens[:, :5])[:, -1]
    padded = torch.cat([torch.zeros(1, 3, dtype=torch.int64), tokens[:, :5]], dim=1)
    mask = torch.ones(1, 8, 8, dtype=torch.bool).tril()
    mask[:, 3:, :3] = False
    positions = torch.tensor([[0, 0, 0, 0, 1, 2, 3, 4]])
    with local_kv_cache(model, batch_size=1, device="cpu", dtype=torch.float32, decoder_max_seq_len=10):
        model(padded[:, :7], mask=mask[:, :7, :7], input_pos=positions[:, :7])
        logits = model(padded[:, 7:], mask=mask[:, 7:], input_pos=positions[:, 7:])[:, -1]
    torch.testing.assert_close(logits, alone, atol=1e-5, rtol=1e-5)


@torch.no_grad()
def test_fewer_rows_than_the_cache_has_are_read_too():
    model, tokens = build(), random_tokens()
    model.setup_caches(5, torch.float32)
    torch.testing.assert_close(in_parts(model, tokens, [7, 5]), build()(tokens), atol=1e-5, rtol=1e-5)


@torch.no_grad()
def test_a_cache_of_another_type_is_only_less_exact():
    model, tokens = build(), random_tokens()
    model.setup_caches(2, torch.bfloat16)
    logits = in_parts(model, tokens, [7, 5])
    assert logits.dtype == torch.float32
    torch.testing.assert_close(logits, build()(tokens), atol=0.3, rtol=0.1)


@torch.no_grad()
def test_after_a_reset_a_new_text_begins():
    model, tokens = build(), random_tokens()
    model.setup_caches(2, torch.float32)
    first = in_parts(model, tokens, [7, 5])
    model.reset_caches()
    assert torch.equal(in_parts(model, tokens, [7, 5]), first)


@torch.no_grad()
def test_caches_come_and_go_with_a_block():
    model, tokens = build(), random_tokens()
    names = set(model.state_dict())
    whole = model(tokens)
    with local_kv_cache(model, batch_size=2, device="cpu", dtype=torch.float32):
        assert model.caches_are_setup()
        assert model.caches_are_enabled()
        assert set(model.state_dict()) == names
        model(tokens[:, :7])
        with disable_kv_cache(model):
            assert model.caches_are_setup()
            assert not model.caches_are_enabled()
            assert torch.equal(model(tokens), whole)
        torch.testing.assert_close(model(tokens[:, 7:]), whole[:, 7:], atol=1e-5, rtol=1e-5)
    assert not model.caches_are_setup()
    assert not model.caches_are_enabled()
    assert torch.equal(model(tokens), whole)
    model.setup_caches(2, torch.float32)
    delete_kv_caches(model)
    assert not model.caches_are_setup()


@torch.no_grad()
def test_setting_up_again_keeps_caches_of_the_same_sizes_and_refuses_others():
    model, tokens = build(), random_tokens()
    model.setup_caches(2, torch.float32)
    model(tokens[:, :7])
    model.setup_caches(2, torch.float32)
    torch.testing.assert_close(model(tokens[:, 7:]), build()(tokens)[:, 7:], atol=1e-5, rtol=1e-5)
    with pytest.raises(ConfigError, match=r"cache for 2 rows of 24 tokens in torch.float32, and one for 3 rows of 24"):
        model.setup_caches(3, torch.float32)


@torch.no_grad()
def test_an_attention_takes_a_cache_of_the_users_own():
    torch.manual_seed(0)
    projections = [nn.Linear(24, size) for size in (24, 12, 12, 24)]
    names = ("q_proj", "k_proj", "v_proj", "output_proj")
    sizes = {"embed_dim": 24, "num_heads": 4, "num_kv_heads": 2, "head_dim": 6}
    options = {**sizes, **dict(zip(names, projections, strict=True)), "pos_embeddings": RotaryPositionalEmbeddings(6)}
    plain = MultiHeadAttention(**options)  # pyright: ignore[reportArgumentType]
    cache = KVCache(2, 9, 2, 6, torch.float32)
    cached = MultiHeadAttention(**options, kv_cache=cache).eval()  # pyright: ignore[reportArgumentType]
    x = torch.randn(2, 9, 24)
    parts = torch.cat([cached(x[:, :4]), cached(x[:, 4:5]), cached(x[:, 5:])], dim=1)
    assert cache.size == 9
    torch.testing.assert_close(parts, plain(x), atol=1e-5, rtol=1e-5)


@torch.no_grad()
def test_caches_are_copied_and_moved_with_the_model():
    model, tokens = build(), random_tokens()
    model.setup_caches(2, torch.float32)
    model(tokens[:, :7])
    other = copy.deepcopy(model)
    assert torch.equal(other(tokens[:, 7:]), model(tokens[:, 7:]))
    with torch.device("meta"):
        on_meta = tiny_llama3(50, num_layers=1)
    on_meta.setup_caches(1, torch.float32)
    assert all(buffer.is_meta for name, buffer in on_meta.named_buffers() if "kv_cache" in name)


@torch.no_grad()
def test_what_does_not_fit_a_cache_is_refused_before_anything_is_written():
    model, tokens = build(), random_tokens()
    with pytest.raises(ConfigError, match=r"no key/value caches to reset. Call setup_caches\(\) first"):
        model.reset_caches()
    with pytest.raises(ConfigError, match="no key/value caches to delete"):
        delete_kv_caches(model)
    with pytest.raises(ConfigError, match="has no key/value caches. Call"), disable_kv_cache(model):
        pass
    model.setup_caches(2, torch.float32, decoder_max_seq_len=10)
    with pytest.raises(DataError, match="room for 10 tokens and holds 0: 12 more do not fit"):
        model(tokens)
    with pytest.raises(DataError, match=r"batch has 3 rows, and the key/value cache was set up for 2"):
        model(random_tokens(3, 4))
    with pytest.raises(DataError, match=r"mask is torch.bool \[2, 4, 5\]. Give torch.bool \[2, 4, 4\]"):
        model(tokens[:, :4], mask=torch.ones(2, 4, 5, dtype=torch.bool))
    with pytest.raises(DataError, match=r"mask is a PackedMask.*disable_kv_cache\(model\)"):
        model(tokens[:, :4], mask=varlen_mask([torch.tensor([4]), torch.tensor([4])]))
    with pytest.raises(ConfigError, match=r"is in training mode. Call model.eval\(\)"):
        model.train()(tokens[:, :4])
    assert all(layer.attn.kv_cache.size == 0 for layer in model.layers)  # pyright: ignore
    with (
        pytest.raises(ConfigError, match="has key/value caches already"),
        local_kv_cache(model, batch_size=1, device="cpu", dtype=torch.float32),
    ):
        pass


@torch.no_grad()
def test_a_cache_longer_than_the_rotary_embeddings_names_the_position():
    model, tokens = build(max_seq_len=8), random_tokens()
    model.setup_caches(2, torch.float32, decoder_max_seq_len=12)
    model(tokens[:, :8])
    with pytest.raises(DataError, match="Position 8 is beyond the rotary embeddings, which know positions below 8"):
        model(tokens[:, 8:9])


def test_caches_that_cannot_be_are_refused():
    model = build()
    with pytest.raises(ConfigError, match="batch_size 0, max_seq_len 24"):
        model.setup_caches(0, torch.float32)
    with pytest.raises(ConfigError, match="encoder_max_seq_len was given, and this decoder has no layers that attend"):
        model.setup_caches(1, torch.float32, encoder_max_seq_len=3)
    model.layers[1] = nn.Identity()
    with pytest.raises(ConfigError, match=r"Layer 1 is of type Identity, which has no setup_caches\(\)"):
        model.setup_caches(1, torch.float32)
    assert not model.caches_are_setup()
    with (
        pytest.raises(ConfigError, match=r"Linear has no setup_caches\(\). Give a TransformerDecoder"),
        local_kv_cache(nn.Linear(1, 1), batch_size=1, device="cpu", dtype=torch.float32),
    ):
        pass


@torch.no_grad()
def test_rows_that_missed_tokens_are_refused_and_not_read_with_gaps():
    model, tokens = build(), random_tokens(num_rows=3)
    model.setup_caches(3, torch.float32)
    whole = model(tokens)
    model.reset_caches()
    model(tokens[:, :4])
    model(tokens[:2, 4:6])
    with pytest.raises(DataError, match="has 3 rows, and the key/value cache holds all tokens so far of 2 of them"):
        model(tokens[:, 6:])
    rest = model(tokens[:2, 6:])
    torch.testing.assert_close(rest, whole[:2, 6:], atol=1e-5, rtol=1e-5)
    model.reset_caches()
    torch.testing.assert_close(model(tokens), whole, atol=1e-5, rtol=1e-5)
