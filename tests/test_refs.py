"""`torch._refs` and `torch._prims_common`: names of PyTorch's reference implementations that programs import."""

import importlib

import pytest

import rushlight as torch
from rushlight._refs import NAMES
from rushlight._subclasses.fake_tensor import FakeTensor, FakeTensorMode, MetadataMismatchError
from rushlight.compat import older_vmap, prims_common, variable_functions


@pytest.mark.parametrize("module", NAMES)
def test_every_name_of_a_module_is_there(module):
    found = importlib.import_module(f"rushlight.{module}")
    assert [n for n in found.__all__ if not callable(getattr(found, n))] == []
    with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
        found.nothing


def test_a_reference_is_the_public_operator():
    refs = torch._refs
    assert refs.add is torch.add
    assert refs.view is torch.Tensor.view
    assert refs.nn.functional.relu is torch.nn.functional.relu
    assert refs.linalg.svd is torch.linalg.svd
    assert refs._conversions.bfloat16(torch.ones(2)).dtype is torch.bfloat16
    assert refs.rpow(torch.tensor([2.0]), 3).item() == 9
    assert refs.trunc_divide(torch.tensor([-7]), 2).item() == -3
    assert refs.T(torch.ones(2, 3)).shape == (3, 2)


def test_the_reference_of_prod_takes_several_dimensions():
    x = torch.arange(1.0, 7).reshape(2, 3)
    assert torch._refs.prod(x, (0, 1)).item() == 720
    assert torch._refs.prod(x, [-1], keepdim=True).tolist() == [[6.0], [120.0]]
    assert torch._refs.prod(x, []).item() == 720
    with pytest.raises(RuntimeError, match="appears multiple times"):
        torch._refs.prod(x, (0, 0))


def test_the_dtypes_of_an_elementwise_operator():
    kinds = prims_common.ELEMENTWISE_TYPE_PROMOTION_KIND

    def of(kind, *args):
        return prims_common.elementwise_dtypes(*args, type_promotion_kind=kind)

    half, ints = torch.ones(2, dtype=torch.float16), torch.ones(2, dtype=torch.int8)
    assert of(kinds.DEFAULT, half, 1) == (torch.float32, torch.float16)
    assert of(kinds.NO_OPMATH, half, None) == (torch.float16, torch.float16)
    assert of(kinds.INT_TO_FLOAT, ints) == (torch.float32, torch.float32)
    assert of(kinds.ALWAYS_BOOL, ints, 2.0) == (torch.float32, torch.bool)
    assert of(kinds.COMPLEX_TO_FLOAT, half.float(), 1j) == (torch.complex64, torch.float32)
    assert of(kinds.BOOL_TO_LONG, ints > 0) == (torch.int64, torch.int64)
    with pytest.raises(ValueError, match="Unexpected type"):
        of(kinds.DEFAULT, "a")


def test_questions_about_dtypes_shapes_and_strides():
    common = prims_common
    assert common.is_integer_dtype(torch.uint8) and not common.is_integer_dtype(torch.bool)
    assert (
        common.dtype_to_type(torch.bfloat16) is float and common.type_to_dtype(int) is torch.int64
    )
    assert common.make_contiguous_strides_for((2, 3, 4)) == (12, 4, 1)
    assert common.make_contiguous_strides_for((2, 3, 4), row_major=False) == (12, 1, 3)
    assert common.canonicalize_dims(3, (-1, 0)) == (2, 0)
    image = torch.ones(2, 3, 4, 5).to(memory_format=torch.channels_last)
    assert common.suggest_memory_format(image) is torch.channels_last
    assert common.suggest_memory_format(image.contiguous()) is torch.contiguous_format


def test_tensors_that_should_be_alike():
    same, a = prims_common.compare_tensor_meta, torch.ones(2, 3)
    same(a, torch.zeros(3, 2).t())
    for other in (torch.ones(3, 2), a.double(), a.to("meta")):
        with pytest.raises(MetadataMismatchError, match="are not equal"):
            same(a, other)
    with pytest.raises(MetadataMismatchError, match="Stride mismatch"):
        same(a, torch.ones(3, 2).t(), check_strides=True)
    same(a[:1], torch.ones(3, 1).t(), check_strides=True)


def test_a_fake_tensor_of_a_tensor():
    fake = FakeTensor.from_tensor(torch.ones(2, 3), FakeTensorMode())
    assert isinstance(fake, FakeTensor) and fake.shape == (2, 3)


def test_a_fake_tensor_of_a_view_has_its_whole_memory():
    fake = FakeTensorMode().from_tensor(torch.arange(20.0)[5:15])
    assert fake.storage_offset() == 5 and fake.untyped_storage().nbytes() == 80
    assert fake.as_strided((2, 2), (1, 2), 16).shape == (2, 2)


def test_operators_under_inner_names():
    torch.set_warn_always(True)
    try:
        with pytest.warns(UserWarning, match="Use aminmax instead"):
            assert [t.item() for t in torch._aminmax(torch.tensor([3, 1]))] == [1, 3]
    finally:
        torch.set_warn_always(False)
    values, inverse = torch._unique(torch.tensor([3, 1, 1]))
    assert values.tolist() == [1, 3] and inverse.shape == (0,)
    assert torch._unique(torch.tensor([3, 1, 1]), return_inverse=True)[1].tolist() == [1, 0, 0]
    x = torch.zeros(1, 2, 2, 2)
    hidden = torch.tensor([[False, True]])
    assert torch._masked_softmax(x, hidden, 3, 1).flatten().tolist() == [1.0, 0.0] * 4
    above = torch.tensor([[False, True], [False, False]])
    assert torch._masked_softmax(x, above, mask_type=0)[0, 0].tolist() == [[1, 0], [0.5, 0.5]]
    with pytest.raises(RuntimeError, match="boolean"):
        torch._masked_softmax(x, x)
    with pytest.raises(RuntimeError, match="mask_type 2"):
        torch._masked_softmax(x, above, 3, 2)


def test_shapes_and_parts_that_fit():
    assert torch._C._infer_size(torch.Size([2, 1]), torch.Size([3])) == (2, 3)
    with pytest.raises(RuntimeError):
        torch._C._infer_size(torch.Size([2]), torch.Size([3]))
    check, values = torch._validate_sparse_coo_tensor_args, torch.ones(2)
    assert check(torch.tensor([[0, 5]]), values, (6,)) is None
    with pytest.raises(RuntimeError, match="size is 3 but found index 5"):
        check(torch.tensor([[0, 5]]), values, (3,))
    with pytest.raises(RuntimeError, match="uncoalesced"):
        check(torch.tensor([[0, 0]]), values, (3,), True)


def test_the_older_vmap():
    with pytest.warns(FutureWarning, match="torch.vmap"):
        mapped = older_vmap.vmap(torch.sin)
    assert mapped(torch.zeros(3)).shape == (3,)
    some = older_vmap._vmap(lambda x: (x, None, x + 1), allow_none_pass_through=True)
    assert [r if r is None else r.tolist() for r in some(torch.zeros(2))] == [[0, 0], None, [1, 1]]


def test_variable_functions():
    assert variable_functions.lstm is torch.lstm
    with pytest.raises(AttributeError, match="torch._VF"):
        variable_functions.Tensor
    with pytest.raises(AttributeError, match="torch._VF"):
        variable_functions.nothing
