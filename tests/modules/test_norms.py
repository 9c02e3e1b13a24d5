import torch

from torchpipe.modules import RMSNorm


def test_vectors_are_divided_by_their_root_mean_square_and_scaled():
    norm = RMSNorm(4, eps=1e-5)
    with torch.no_grad():
        norm.scale.copy_(torch.tensor([1.0, 2.0, 3.0, 4.0]))
    x = torch.tensor([[3.0, -3.0, 3.0, -3.0]])
    torch.testing.assert_close(norm(x), torch.tensor([[1.0, -2.0, 3.0, -4.0]]))


def test_a_vector_of_zeros_stays_finite():
    assert torch.equal(RMSNorm(4)(torch.zeros(2, 4)), torch.zeros(2, 4))


def test_statistics_of_low_precision_inputs_are_float32():
    x = (torch.randn(8, 512, generator=torch.Generator().manual_seed(0)) * 100).bfloat16()
    normed = RMSNorm(512, eps=1e-5).bfloat16()(x).detach()
    wide = x.double()
    expected = wide / (wide.square().mean(-1, keepdim=True) + 1e-5).sqrt()
    assert normed.dtype == torch.bfloat16
    assert float((normed.double() - expected).abs().max() / expected.abs().max()) < 2**-8


def test_the_parameter_is_named_scale():
    assert list(RMSNorm(4).state_dict()) == ["scale"]
