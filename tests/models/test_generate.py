import pytest
import torch

from torchpipe.errors import ConfigError, DataError
from torchpipe.models.generate import generate
from torchpipe.models.tiny import tiny_llama3
from torchpipe.modules import TransformerDecoder


def build(max_seq_len: int = 16) -> TransformerDecoder:
    torch.manual_seed(0)
    return tiny_llama3(30, num_layers=1, embed_dim=32, intermediate_dim=48, max_seq_len=max_seq_len)


def test_greedy_tokens_are_each_the_likeliest_after_those_before():
    model = build()
    tokens = [3, 4]
    reply = generate(model, tokens, max_new_tokens=5)
    assert len(reply) == 5
    for token in reply:
        assert token == int(model(torch.tensor([tokens]))[0, -1].argmax())
        tokens = [*tokens, token]


@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_caches_change_no_token(temperature: float):
    model = build(max_seq_len=64)
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.3)
    generator = torch.Generator().manual_seed(7)
    tokens = [3, 4, 9]
    for _ in range(40):  # reads everything again for each token
        logits = model(torch.tensor([tokens]))[0, -1]
        weights = torch.softmax(logits / (temperature or 1.0), dim=-1)
        drawn = torch.multinomial(weights, 1, generator=generator) if temperature else logits.argmax()
        tokens.append(int(drawn))
    assert generate(model, [3, 4, 9], max_new_tokens=40, temperature=temperature, seed=7) == tokens[3:]


def test_caches_that_the_model_has_are_not_touched():
    model = build().eval()
    expected = generate(model, [3, 4], max_new_tokens=5)
    assert not model.caches_are_setup()
    model.setup_caches(1, torch.float32, decoder_max_seq_len=8)
    tokens = torch.tensor([[5, 6, 7]])
    with torch.no_grad():
        model(tokens[:, :2])
        assert generate(model, [3, 4], max_new_tokens=5) == expected
        after = model(tokens[:, 2:])
        model.reset_caches()
        torch.testing.assert_close(model(tokens)[:, 2:], after)


def test_the_prompt_is_neither_returned_nor_changed():
    prompt = [3, 4]
    assert len(generate(build(), prompt, max_new_tokens=1)) == 1
    assert prompt == [3, 4]


def test_a_stop_token_ends_the_reply_and_is_its_last_token():
    model = build()
    whole = generate(model, [3, 4], max_new_tokens=8, temperature=2.0, seed=0)
    stop = whole[3]
    reply = generate(model, [3, 4], max_new_tokens=8, temperature=2.0, seed=0, stop_token_ids=[stop])
    assert reply == whole[: whole.index(stop) + 1]


def test_a_full_context_ends_the_reply():
    assert len(generate(build(max_seq_len=6), [3, 4], max_new_tokens=100)) == 4


def test_draws_repeat_with_a_seed_and_follow_the_temperature():
    model = build()

    def draw(temperature: float, seed: int) -> list[int]:
        return generate(model, [3], max_new_tokens=12, temperature=temperature, seed=seed)

    assert draw(1.0, 0) == draw(1.0, 0)
    assert draw(1.0, 0) != draw(1.0, 1)
    assert draw(1e-4, 0) == draw(0.0, 1)  # nearly cold: the likeliest token
    torch.manual_seed(5)
    first = generate(model, [3], max_new_tokens=12, temperature=1.0)
    torch.manual_seed(5)
    assert generate(model, [3], max_new_tokens=12, temperature=1.0) == first


def test_the_model_is_left_as_it_was_found():
    model = build().train()
    model.layers[0].eval()  # a frozen part
    model.skip_output_layer = True
    generate(model, [3], max_new_tokens=2)
    assert model.skip_output_layer
    assert model.training
    assert not model.layers[0].training
    assert all(parameter.grad is None for parameter in model.parameters())


def test_what_else_the_model_is_asked_to_return_is_set_aside():
    plain, model = build(), build()
    model.set_num_output_chunks(3)
    model.output_hidden_states = [0]
    assert generate(model, [3, 4], max_new_tokens=5) == generate(plain, [3, 4], max_new_tokens=5)
    assert (model.num_output_chunks, model.output_hidden_states) == (3, [0])


def test_prompts_and_temperatures_that_make_no_sense_are_refused():
    with pytest.raises(DataError, match=r"The prompt has 0 tokens.*Give between 1 and 15 tokens"):
        generate(build(), [], max_new_tokens=1)
    with pytest.raises(DataError, match="The prompt has 16 tokens, and the model's max_seq_len is 16"):
        generate(build(), [1] * 16, max_new_tokens=1)
    with pytest.raises(ConfigError, match=r"temperature is -1\.0"):
        generate(build(), [1], max_new_tokens=1, temperature=-1.0)
    with pytest.raises(ConfigError, match="temperature is nan"):
        generate(build(), [1], max_new_tokens=1, temperature=float("nan"))
    with pytest.raises(ConfigError, match="max_new_tokens is -1. Give 0 or more"):
        generate(build(), [1], max_new_tokens=-1)
    for unknown in (-1, 10_000):
        with pytest.raises(DataError, match=f"The prompt has the token id {unknown}, and the model knows the ids 0 to"):
            generate(build(), [1, unknown], max_new_tokens=1)
