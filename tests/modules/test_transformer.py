from typing import Any

import pytest
import torch
from torch import nn

from torchpipe.data import padded_collate_packed
from torchpipe.data.packing.masks import dense_block_causal_mask, varlen_mask
from torchpipe.errors import ConfigError, DataError
from torchpipe.models.tiny import tiny_llama3
from torchpipe.modules import TransformerDecoder, TransformerSelfAttentionLayer

ROWS = [torch.tensor([5, 7, 4]), torch.tensor([1, 9, 6])]
INPUT_POS = torch.stack([torch.cat([torch.arange(int(length)) for length in row]) for row in ROWS])


def build() -> TransformerDecoder:
    torch.manual_seed(0)
    model = tiny_llama3(50, num_layers=2, embed_dim=32, intermediate_dim=48, max_seq_len=32)
    for parameter in model.parameters():  # larger than fresh weights, so that attention matters
        nn.init.normal_(parameter, std=0.3)
    return model


def random_tokens() -> torch.Tensor:
    return torch.randint(0, 50, (2, 16), generator=torch.Generator().manual_seed(1))


def test_packed_documents_get_the_logits_they_get_alone():
    model, tokens = build(), random_tokens()
    varlen = model(tokens, mask=varlen_mask(ROWS), input_pos=INPUT_POS)
    dense = model(tokens, mask=dense_block_causal_mask(ROWS), input_pos=INPUT_POS)
    torch.testing.assert_close(varlen, dense, atol=1e-5, rtol=1e-5)
    for row, lens in enumerate(ROWS):
        documents = zip(tokens[row].split(lens.tolist()), varlen[row].split(lens.tolist()), strict=True)
        for document, logits in documents:
            torch.testing.assert_close(model(document.unsqueeze(0))[0], logits, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize(("row", "start", "stop"), [(0, 5, 12), (1, 0, 1)])
def test_changing_one_document_leaves_the_others_logits_to_the_bit(row: int, start: int, stop: int):
    model, tokens = build(), random_tokens()
    changed = tokens.clone()
    changed[row, start:stop] = (tokens[row, start:stop] + 1) % 50
    before, after = (model(each, mask=varlen_mask(ROWS), input_pos=INPUT_POS) for each in (tokens, changed))
    same = (before == after).all(-1)
    expected = torch.ones(2, 16, dtype=torch.bool)
    expected[row, start:stop] = False
    assert torch.equal(same, expected)


def test_the_mask_a_model_asks_for_is_one_that_the_collate_function_makes():
    model = build()
    samples = [
        {"tokens": tokens, "labels": tokens, "input_pos": input_pos, "seq_lens": seq_lens}
        for tokens, input_pos, seq_lens in zip(random_tokens(), INPUT_POS, ROWS, strict=True)
    ]
    batch = padded_collate_packed(samples, mask=model.packed_mask)
    logits = model(batch["tokens"], mask=batch.get("mask"), input_pos=batch.get("input_pos"))
    assert logits.shape == (2, 16, 50)


def test_later_tokens_do_not_change_earlier_logits():
    model, tokens = build(), random_tokens()
    changed = tokens.clone()
    changed[:, 10:] = 0
    assert torch.equal(model(tokens)[:, :10], model(changed)[:, :10])


def test_skipping_the_output_layer_gives_hidden_states():
    model, tokens = build(), random_tokens()
    logits = model(tokens)
    model.skip_output_layer = True
    hidden = model(tokens)
    assert hidden.shape == (2, 16, 32)
    assert logits.shape == (2, 16, 50)
    assert torch.equal(model.output(hidden), logits)


def test_logits_have_the_models_type():
    assert build().bfloat16()(random_tokens()).dtype == torch.bfloat16


def test_a_packed_row_may_be_longer_than_the_longest_document():
    model = build()
    tokens = random_tokens().view(1, 32).repeat(1, 2)
    documents = [torch.tensor([32, 32])]
    logits = model(tokens, mask=varlen_mask(documents), input_pos=torch.arange(32).repeat(1, 2))
    assert torch.equal(logits[0, :32], logits[0, 32:])


def test_rows_beyond_max_seq_len_are_refused():
    with pytest.raises(DataError, match="rows have 33 tokens, and the model's max_seq_len is 32"):
        build()(torch.zeros(1, 33, dtype=torch.int64))


def test_a_layer_adds_attention_and_feed_forward_to_its_input():
    class Attention(nn.Module):
        def forward(self, x: torch.Tensor, y: torch.Tensor, *, mask: object, input_pos: object) -> torch.Tensor:
            assert (x is y, mask, input_pos) == (True, "mask", "input_pos")
            return x * 10

    x = torch.ones(1, 2, 3)
    plain = TransformerSelfAttentionLayer(Attention(), nn.Identity())
    normed = TransformerSelfAttentionLayer(Attention(), nn.Identity(), sa_norm=Halve(), mlp_norm=Halve())
    assert torch.equal(plain(x, mask="mask", input_pos="input_pos"), x * 22)  # 1 + 10, then twice that
    assert torch.equal(normed(x, mask="mask", input_pos="input_pos"), x * 9)  # 1 + 5, then 6 + 3


class Halve(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x / 2


def test_one_layer_is_copied_as_often_as_asked():
    layer = build().layers[0]
    parts: Any = {"tok_embeddings": nn.Embedding(50, 32), "norm": nn.Identity(), "output": nn.Identity()}
    sizes: Any = {"max_seq_len": 32, "num_heads": 8, "head_dim": 4}
    model = TransformerDecoder(**parts, **sizes, layers=layer, num_layers=3)
    weights = [parameter for parameter in model.layers.parameters() if parameter.shape == (48, 32)]
    assert len(weights) == 6
    assert len({weight.data_ptr() for weight in weights}) == 6
    assert torch.equal(weights[0], weights[2])
    with pytest.raises(ConfigError, match="layers is a single layer. Say by num_layers"):
        TransformerDecoder(**parts, **sizes, layers=layer)
    with pytest.raises(ConfigError, match="num_layers is 2, and layers is a list already"):
        TransformerDecoder(**parts, **sizes, layers=[layer, layer], num_layers=2)


def test_hidden_states_that_were_asked_for_come_before_the_logits():
    model, tokens = build(), random_tokens()
    parts: Any = {name: getattr(model, name) for name in ("tok_embeddings", "layers", "norm", "output")}
    sizes: Any = {name: getattr(model, name) for name in ("max_seq_len", "num_heads", "head_dim")}
    first, second, logits = TransformerDecoder(**parts, **sizes, output_hidden_states=[1, 0])(tokens)
    assert torch.equal(first, model.tok_embeddings(tokens))
    assert torch.equal(second, model.layers[0](first))
    assert torch.equal(logits, model(tokens))
    with pytest.raises(ConfigError, match=r"output_hidden_states names \[2\], and the layers are 0 to 1"):
        TransformerDecoder(**parts, **sizes, output_hidden_states=[2])


def test_logits_come_in_chunks_where_a_loss_takes_them_so():
    model, tokens = build(), random_tokens()
    logits = model(tokens)
    model.set_num_output_chunks(4)
    chunks = model(tokens)
    assert [list(chunk.shape) for chunk in chunks] == [[2, 4, 50]] * 4
    torch.testing.assert_close(torch.cat(chunks, 1), logits)


def test_embeddings_may_take_the_place_of_tokens():
    model, tokens = build(), random_tokens()
    embeddings = model.tok_embeddings(tokens)
    assert torch.equal(model(None, input_embeds=embeddings), model(tokens))
    with pytest.raises(ConfigError, match="either tokens or input_embeds"):
        model(tokens, input_embeds=embeddings)
    with pytest.raises(ConfigError, match="either tokens or input_embeds"):
        model(None)


@pytest.mark.parametrize("argument", ["encoder_input", "encoder_mask"])
def test_an_encoders_input_is_refused_by_name(argument: str):
    with pytest.raises(ConfigError, match=f"{argument} was given, and this decoder has no layers that attend to an"):
        build()(random_tokens(), **{argument: torch.ones(1)})


def test_what_a_layers_parts_give_can_be_scaled():
    class Half(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x / 2

    layer = build().layers[0]
    x = torch.randn(1, 5, 32)
    normed = layer.sa_norm(x)  # pyright: ignore[reportCallIssue]
    hidden = x + layer.attn(normed, normed) / 2  # pyright: ignore[reportCallIssue]
    expected = hidden + layer.mlp(layer.mlp_norm(hidden)) / 2  # pyright: ignore[reportCallIssue]
    parts: Any = {name: getattr(layer, name) for name in ("attn", "mlp", "sa_norm", "mlp_norm")}
    scaled = TransformerSelfAttentionLayer(**parts, sa_scale=Half(), mlp_scale=Half())
    torch.testing.assert_close(scaled(x), expected)


def test_a_built_decoder_knows_its_config():
    model = build()
    assert model.config is not None
    assert model.config.embed_dim == 32
    assert model.lora is None
