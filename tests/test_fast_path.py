"""PyTorch's inner functions of attention, which libraries call: they give what the modules give."""

import pytest

import rushlight as torch
from rushlight import nn

torch.manual_seed(0)
LAYER = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True).eval()
ATTENTION = LAYER.self_attn
WEIGHTS = (
    ATTENTION.in_proj_weight, ATTENTION.in_proj_bias, ATTENTION.out_proj.weight,
    ATTENTION.out_proj.bias,
)  # fmt: skip
X = torch.randn(2, 3, 8)
LAST = torch.tensor([[False, False, True], [False, False, False]])


def attend(x, **options):
    return torch._native_multi_head_attention(x, x, x, 8, 2, *WEIGHTS, **options)


def same(got, expected):
    torch.testing.assert_close(got, expected)


@torch.no_grad()
@pytest.mark.parametrize("average", [True, False])
def test_attention_is_that_of_the_module(average):
    same(
        attend(X, average_attn_weights=average),
        ATTENTION(X, X, X, average_attn_weights=average),
    )
    result, weights = attend(X, need_weights=False)
    same(result, ATTENTION(X, X, X, need_weights=False)[0])
    assert weights is None


@torch.no_grad()
def test_masks_of_attention():
    hidden = ATTENTION(X, X, X, key_padding_mask=LAST)
    same(attend(X, mask=LAST, mask_type=1), hidden)
    each = LAST[:, None, None].expand(2, 2, 3, 3)
    same(attend(X, mask=each, mask_type=2), hidden)
    above = torch.ones(3, 3, dtype=torch.bool).triu(1)
    same(attend(X, mask=above, mask_type=0), ATTENTION(X, X, X, attn_mask=above))
    with pytest.raises(RuntimeError, match="Mask Type should be defined"):
        attend(X, mask=LAST)
    with pytest.raises(RuntimeError, match="Mask Type should be 0"):
        attend(X, mask=LAST, mask_type=3)


@torch.no_grad()
def test_nested_tensors_in_attention():
    nested = torch.nested.nested_tensor([X[0, :2], X[1]])
    result, _ = attend(nested)
    hidden = attend(X, mask=LAST, mask_type=1)[0]
    assert result.is_nested
    for part, expected in zip(result.unbind(), (hidden[0, :2], hidden[1]), strict=True):
        same(part, expected)


def test_errors_of_attention():
    with pytest.raises(RuntimeError, match="expected 3-D `query`, got 2-D tensor"):
        attend(X[0])
    with pytest.raises(RuntimeError, match="divide evenly"):
        torch._native_multi_head_attention(X, X, X, 8, 3, *WEIGHTS)
    with pytest.raises(RuntimeError, match="didn't match last dim of query 8"):
        torch._native_multi_head_attention(X, X, X, 9, 3, *WEIGHTS)


@torch.no_grad()
def test_a_projection_cut_into_heads():
    q, k, v = torch._transform_bias_rescale_qkv(X @ WEIGHTS[0].t(), WEIGHTS[1], 2)
    each = nn.functional.linear(X, *WEIGHTS[:2]).chunk(3, -1)
    expected = [t.reshape(2, 3, 2, 4).transpose(1, 2) for t in each]
    same([q * 2, k, v], expected)


@torch.no_grad()
@pytest.mark.parametrize("norm_first", [False, True])
def test_a_layer_is_that_of_the_module(norm_first):
    norms = (LAYER.norm1.weight, LAYER.norm1.bias, LAYER.norm2.weight, LAYER.norm2.bias)
    two = (LAYER.linear1.weight, LAYER.linear1.bias, LAYER.linear2.weight, LAYER.linear2.bias)

    def forward(x, *mask):
        return torch._transformer_encoder_layer_fwd(
            x, 8, 2, *WEIGHTS, False, norm_first, 1e-5, *norms, *two, *mask
        )

    LAYER.norm_first = norm_first
    same(forward(X), LAYER(X))
    hidden = forward(X, LAST, 1)
    same(hidden, LAYER(X, src_key_padding_mask=LAST))
    nested = forward(torch.nested.nested_tensor([X[0, :2], X[1]])).unbind()
    same(list(nested), [hidden[0, :2], hidden[1]])
