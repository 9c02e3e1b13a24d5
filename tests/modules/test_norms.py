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


def test_values_and_gradients_are_torchs_and_no_normalised_vector_is_kept():
    generator = torch.Generator().manual_seed(0)
    x, scale, grad = (torch.randn(*shape, generator=generator) for shape in ((2, 5, 48), (48,), (2, 5, 48)))
    norm = RMSNorm(48, eps=1e-5)
    norm.scale.data.copy_(scale)
    found, expected = x.clone().requires_grad_(), x.clone().requires_grad_()
    kept: list[int] = []
    with torch.autograd.graph.saved_tensors_hooks(lambda one: [kept.append(one.numel()), one][1], lambda one: one):
        normed = norm(found)
    assert kept.count(x.numel()) == 1  # the input, which the layer keeps anyway
    theirs = torch.nn.functional.rms_norm(expected, (48,), norm.scale, 1e-5)
    assert torch.equal(normed, theirs)
    for ours, other in zip(
        torch.autograd.grad(normed, (found, norm.scale), grad),
        torch.autograd.grad(theirs, (expected, norm.scale), grad),
        strict=True,
    ):
        torch.testing.assert_close(ours, other, atol=1e-6, rtol=1e-5)


def test_gradients_are_right_where_the_scale_is_frozen():
    norm = RMSNorm(8)
    norm.scale.requires_grad_(False)
    x = torch.randn(3, 8, requires_grad=True)
    norm(x).square().sum().backward()
    assert x.grad is not None
    # A norm's output does not change with the input's length, so the gradient has no part along the input.
    torch.testing.assert_close((x.grad * x.detach()).sum(-1), torch.zeros(3), atol=1e-4, rtol=0)
    assert norm.scale.grad is None
