"""Bad input: PyTorch's exception type, and PyTorch's key words in the message.

Each line is an expression that PyTorch refuses, and words of its message that programs match on.
"""

from __future__ import annotations

import warnings

import pytest

import rushlight

torch = pytest.importorskip("torch")

CASES = """
torch.ones(2, 3) + torch.ones(4)                          | size of tensor a (3) must match the size of tensor b (4)
torch.ones(2, 3) @ torch.ones(4, 5)                       | mat1 and mat2 shapes cannot be multiplied (2x3 and 4x5)
torch.ones(6).view(2.0, 3)                                | view()
torch.ones(6).view()                                      | view() received an invalid combination of arguments - got ()
torch.ones(6).view((3.0, 2))                              | view()
torch.ones(6).reshape()                                   | reshape() missing 1 required positional arguments: "shape"
torch.ones(6).reshape(2.0)                                | reshape(): argument 'shape' (position 1) must be tuple of ints, not float
torch.ones(6).reshape(2.0, 3)                             | reshape()
torch.ones(6).reshape(3, 2.0)                             | reshape(): argument 'shape' failed to unpack the object at pos 2
torch.ones(6).reshape((3, 2.0))                           | reshape(): argument 'shape'
torch.ones(2, 3).t().reshape(2.0)                         | reshape(): argument 'shape'
torch.reshape(torch.ones(6), (3, 2.0))                    | reshape(): argument 'shape'
torch.ones(2).to(torch.float32, torch.float64)            | to() received an invalid combination of arguments - got (
torch.ones(2).to(torch.float32, dtype=torch.float64)      | to() received an invalid combination of arguments - got (
torch.ones(2).to(torch.float32, "cpu")                    | to() received an invalid combination of arguments - got (
torch.ones(2).to(torch.ones(2), torch.float64)            | to() received an invalid combination of arguments - got (
torch.ones(2).to("cpu", "cpu")                            | to() received an invalid combination of arguments - got (
torch.ones(2, 3).sum(axis=0, dim=0)                       | sum() got an unexpected keyword argument 'axis'
torch.ones(2, 3).cumsum(0, axis=0)                        | cumsum() got an unexpected keyword argument 'axis'
torch.softmax(torch.ones(2, 3), dim=0, axis=0)            | softmax() got an unexpected keyword argument 'axis'
torch.ones(2, 3).sum(0, keepdim=True, keepdims=True)      | sum() got an unexpected keyword argument 'keepdims'
torch.ones(6).expand(2, 6.0)                              | expand(): argument 'size'
torch.ones(2, 3).permute(1, 0.0)                          | permute(): argument 'dims'
torch.ones(2, 3).repeat(2, 1.0)                           | repeat(): argument 'repeats'
torch.ones(2, 3).transpose(0.0, 1)                        | must be int, not float
torch.ones(2, 3).unsqueeze(1.0)                           | must be int, not float
torch.ones(2, 3).select(0, 1.0)                           | must be int, not float
torch.ones(2, 3).index_select(0.0, torch.tensor([0]))     | must be int, not float
torch.ones(2, 3).topk(1.5)                                | must be int, not float
torch.ones(2, 3).softmax(1.0)                             | must be int, not float
torch.ones(2, 3).roll(1.5)                                |
torch.cat([torch.ones(2), torch.ones(2)], 0.0)            | must be int, not float
torch.ones(2, 3).expand_as(3)                             | expand_as(): argument 'other' (position 1) must be Tensor, not int
torch.ones(2, 3).view_as(3)                               | view_as(): argument 'other' (position 1) must be Tensor, not int
torch.ones(2, 3).reshape_as([3])                          | reshape_as(): argument 'other' (position 1) must be Tensor, not list
torch.ones(2, 3).is_set_to(3)                             | is_set_to(): argument 'tensor' (position 1) must be Tensor, not int
torch.ones(2, 3).set_(3)                                  | set_() received an invalid combination of arguments - got (int)
torch.ones(2, 3).contiguous(torch.channels_last)          | contiguous() takes
torch.ones(2, 3).view(5)                                  | shape '[5]' is invalid for input of size 6
torch.ones(2, 3).t().view(6)                              | view size is not compatible with input tensor's size and stride
torch.ones(2, 3).reshape(-1, -1)                          | only one dimension can be inferred
torch.ones(2, 3).sum(2)                                   | Dimension out of range (expected to be in range of [-2, 1], but got 2)
torch.ones(2, 3)[2]                                       | index 2 is out of bounds for dimension 0 with size 2
torch.ones(2, 3)[0, 0, 0]                                 | too many indices for tensor of dimension 2
torch.ones(2, 3)[::-1]                                    | step must be greater than zero
torch.ones(2, 3)[torch.tensor([5])]                       | out of bounds
torch.ones(2, 3)[torch.ones(3, dtype=torch.bool)]         | mask
torch.ones(3)[1.5]                                        |
torch.tensor([[1, 2], [3]])                               | expected sequence of length 2 at dim 1 (got 1)
torch.tensor("abc")                                       |
torch.tensor([1, 2], requires_grad=True)                  | floating point
torch.ones(2, dtype=torch.int64).requires_grad_()         | floating point
torch.ones(3, requires_grad=True).backward()              | only for scalar outputs
torch.ones(3).sum().backward()                            | does not require grad
torch.ones(3, requires_grad=True).sum().backward(torch.ones(2)) | Mismatch in shape
torch.ones(3, requires_grad=True).numpy()                 | requires grad
torch.ones(3, requires_grad=True).add_(1)                 | leaf Variable that requires grad
torch.ones(3, requires_grad=True)[0].add_(1)              | view of a leaf Variable
(torch.ones(3, requires_grad=True) * 1).requires_grad_(False) | leaf
torch.ones(3).item()                                      | cannot be converted to Scalar
bool(torch.ones(3))                                       | Boolean value of Tensor with more than one value is ambiguous
bool(torch.ones(0))                                       | ambiguous
len(torch.tensor(1))                                      | len() of a 0-d tensor
iter(torch.tensor(1))                                     | iteration over a 0-d tensor
int(torch.ones(2))                                        |
torch.ones(2, dtype=torch.int64).add_(0.5)                | can't be cast to the desired output type Long
torch.ones(2).add_(torch.ones(3, 2))                      | doesn't match the broadcast shape
torch.ones(1).expand(3).add_(1)                           | single memory location
torch.ones(2, 3).expand(2, 4)                             | must match the existing size
torch.ones(2).expand(-1, -1, 2)                           |
torch.cat([torch.ones(2, 3), torch.ones(2, 4)])           | Sizes of tensors must match except in dimension 0
torch.cat([])                                             | non-empty
torch.stack([torch.ones(2), torch.ones(3)])               | stack expects each tensor to be equal size
torch.ones(2, 3).permute(0, 0)                            |
torch.ones(2, 3).transpose(0, 5)                          | Dimension out of range
torch.ones(2, 3).squeeze(7)                               | Dimension out of range
torch.ones(4).split(-1)                                   |
torch.ones(4).chunk(0)                                    | chunk
torch.zeros(-1)                                           | negative
torch.arange(1, 5, -1)                                    | inconsistent with step sign
torch.arange(0, 1, 0)                                     | step must be nonzero
torch.linspace(0, 1, -1)                                  | non-negative
torch.eye(-1)                                             |
torch.randint(5, 2, (1,))                                 |
torch.randperm(-1)                                        |
torch.ones(2).max(3)                                      | Dimension out of range
torch.ones(0).max()                                       | Expected reduction dim
torch.ones(2, dtype=torch.int64).mean()                   | could not infer output dtype
torch.ones(2, dtype=torch.bool) - torch.ones(2, dtype=torch.bool) | Subtraction, the `-` operator, with two bool tensors
-torch.ones(2, dtype=torch.bool)                          | Negation, the `-` operator, on a bool tensor
torch.tensor([2]) ** -1                                   | Integers to negative integer powers are not allowed
torch.ones(2) + "a"                                       |
torch.add(torch.ones(2), "a")                             | must be Tensor
torch.add(torch.ones(2))                                  |
torch.ones(2).sum(foo=1)                                  | foo
torch.device("nope")                                      | nope
torch.ones(2, device="cuda")                              | not compiled with CUDA
torch.ones(2).to("cuda")                                  | not compiled with CUDA
torch.ones(2, dtype=3)                                    | dtype
torch.ones(2).gather(0, torch.tensor([5]))                | out of bounds
torch.ones(2).index_select(0, torch.tensor([2]))          | out of range
torch.zeros(3).scatter_(0, torch.tensor([4]), 1.0)        | out of bounds
torch.ones(2, 2).inverse().view(torch.int64, 3)           |
torch.zeros(2, 2).inverse()                               | singular
torch.ones(2, 3).inverse()                                | square
torch.nn.functional.conv2d(torch.ones(1, 3, 4, 4), torch.ones(6, 1, 3, 3)) | expected input[1, 3, 4, 4] to have 1 channels
torch.nn.functional.linear(torch.ones(2, 3), torch.ones(4, 5)) | cannot be multiplied
torch.nn.functional.cross_entropy(torch.ones(2, 3), torch.tensor([0, 5])) | out of bounds
torch.nn.functional.cross_entropy(torch.ones(2, 3), torch.tensor([0, 1, 2])) | batch_size
torch.nn.Linear(2, 3)(torch.ones(4, 5))                   | cannot be multiplied
torch.nn.Linear(2, 3).load_state_dict({})                 | Missing key(s) in state_dict
torch.autograd.grad(torch.ones(1), torch.ones(1))         |
torch.optim.SGD([], lr=0.1)                               | empty parameter list
torch.optim.SGD([torch.ones(1)], lr=-1)                   | Invalid learning rate
torch.promote_types(torch.float32, 1)                     |
torch.finfo(torch.int32)                                  |
torch.set_default_dtype(torch.int32)                      | floating-point types are supported as the default type
torch.ones(2).double().dot(torch.ones(2))                 | same dtype
torch.ones(2, 2).dot(torch.ones(2))                       | 1D tensors expected
torch.ones(2, 3).bmm(torch.ones(2, 3))                    | must be a 3D tensor
torch.einsum("ij,jk", torch.ones(2, 3), torch.ones(4, 5)) |
torch.ones(2).unflatten(0, (3,))                          |
torch.ones(2).as_strided((5,), (1,))                      | out of bounds
"""

LINES = [line for line in CASES.strip().splitlines() if line.strip()]


def raised(library, expression: str) -> BaseException | None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            eval(expression, {"torch": library})
        except BaseException as e:  # noqa: BLE001 - compared below
            return e
    return None


@pytest.mark.parametrize("line", LINES, ids=lambda line: line.split("|")[0].strip()[:60])
def test_refused_as_pytorch_refuses(line):
    expression, _, words = (part.strip() for part in line.partition("|"))
    theirs, ours = raised(torch, expression), raised(rushlight, expression)
    assert theirs is not None, "the case is wrong: PyTorch does not refuse it"
    assert ours is not None, f"not refused; PyTorch: {type(theirs).__name__}: {theirs}"
    names = [t.__name__ for t in type(ours).__mro__]
    assert type(theirs).__name__ in names, f"{ours!r} instead of {theirs!r}"
    assert words in str(ours), f"{ours}\nlacks {words!r}; PyTorch: {theirs}"
    if words:
        assert words in str(theirs), f"the case is wrong, PyTorch says: {theirs}"
