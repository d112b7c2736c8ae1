"""The operator database: a row for every operator and public function; `test_ops.py` makes the tests.

`ROWS` are the rows of operators, `FUNCTION_ROWS` those of plain functions. `TESTED_ELSEWHERE` says what tests
those without a row of their own.
"""

from __future__ import annotations

import importlib
import pkgutil

import opdb_creation
import opdb_elementwise
import opdb_layers
import opdb_linalg
import opdb_nn
import opdb_reduce
import opdb_shape
import opdb_spatial
import opdb_special
import rushlight.ops
from opdb_cases import CASES
from rushlight.dispatch.registry import OPS

for found in pkgutil.walk_packages(rushlight.ops.__path__, "rushlight.ops."):
    importlib.import_module(found.name)

EVERY = [
    row
    for family in [
        opdb_elementwise,
        opdb_reduce,
        opdb_shape,
        opdb_nn,
        opdb_linalg,
        opdb_special,
        opdb_spatial,
        opdb_layers,
        opdb_creation,
    ]
    for row in family.ROWS
]
for row in EVERY:
    row.cases += tuple(CASES.get(row.name, ()))
ROWS = [row for row in EVERY if row.name in OPS]
FUNCTION_ROWS = [row for row in EVERY if row.name not in OPS]

# The operators behind a function that writes in place: they carry its gradient. -> the row that tests it
BEHIND_ROWS = {
    "Tensor.bernoulli_number": "Tensor.bernoulli_",
    "Tensor.bernoulli_tensor": "Tensor.bernoulli_",
    "Tensor.cauchy": "Tensor.cauchy_",
    "Tensor.copy": "Tensor.copy_",
    "Tensor.exponential": "Tensor.exponential_",
    "Tensor.fill_diagonal": "Tensor.fill_diagonal_",
    "Tensor.fill_number": "fill_",
    "Tensor.fill_number_": "fill_",
    "Tensor.fill_tensor": "fill_",
    "Tensor.fill_tensor_": "fill_",
    "Tensor.geometric": "Tensor.geometric_",
    "Tensor.log_normal": "Tensor.log_normal_",
    "Tensor.normal": "Tensor.normal_",
    "Tensor.random_0": "Tensor.random_",
    "Tensor.random_1": "Tensor.random_",
    "Tensor.random_2": "Tensor.random_",
    "Tensor.uniform": "Tensor.uniform_",
    "Tensor.zero": "zero_",
    "Tensor.bernoulli_draw": "bernoulli",
    "Tensor.bernoulli_from": "bernoulli",
    "Tensor.binomial_draw": "binomial",
    "Tensor.normal_1": "normal",
    "Tensor.normal_2": "normal",
    "Tensor.normal_3": "normal",
    "Tensor.poisson_draw": "poisson",
}
# What needs more than a call and its value. -> file::test
ALONE = {
    "Tensor._sample_dirichlet_draw": "test_ops_alone.py::test_dirichlet_and_gamma",
    "Tensor.standard_gamma_draw": "test_ops_alone.py::test_dirichlet_and_gamma",
    "Tensor.coalesce": "test_sparse.py::test_parts",
    "Tensor.indices": "test_sparse.py::test_parts",
    "Tensor.is_coalesced": "test_sparse.py::test_parts",
    "Tensor.values": "test_sparse.py::test_parts",
    "Tensor.ccol_indices": "test_sparse.py::test_names_of_compressed_layouts",
    "Tensor.col_indices": "test_sparse.py::test_conversions",
    "Tensor.crow_indices": "test_sparse.py::test_conversions",
    "Tensor.row_indices": "test_sparse.py::test_names_of_compressed_layouts",
    "Tensor.sparse_mask": "test_sparse.py::test_gradcheck",
    "Tensor.sparse_resize_": "test_sparse.py::test_in_place",
    "Tensor.to_sparse": "test_sparse.py::test_conversions",
    "Tensor.to_sparse_coo": "test_sparse.py::test_conversions",
    "Tensor.to_sparse_csc": "test_sparse.py::test_conversions",
    "Tensor.to_sparse_csr": "test_sparse.py::test_conversions",
    "Tensor.to_sparse_bsr": "test_sparse_compressed.py::test_blocks_are_stored_where_one_of_their_elements_is_not_zero",
    "Tensor.to_sparse_bsc": "test_sparse_compressed.py::test_blocks_are_stored_where_one_of_their_elements_is_not_zero",
    **dict.fromkeys(
        (f"{part}_copy" for part in ("crow_indices", "col_indices", "ccol_indices", "row_indices")),
        "test_sparse.py::test_names_of_compressed_layouts",
    ),
    "indices_copy": "test_sparse.py::test_parts",
    "values_copy": "test_sparse.py::test_parts",
    "Tensor.sparse_resize_and_clear_": "test_sparse.py::test_in_place",
    "resize_as_sparse_": "test_sparse.py::test_in_place",
    "dsmm": "test_sparse.py::test_older_products",
    "hsmm": "test_sparse.py::test_older_products",
    "saddmm": "test_sparse.py::test_older_products",
    "hspmm": "test_sparse.py::test_older_products",
    "smm": "test_sparse.py::test_older_products",
    "sparse_compressed_tensor": "test_sparse.py::test_copies_and_files",
    "sparse_coo_tensor": "test_sparse.py::test_sizes",
    "sparse_csc_tensor": "test_sparse.py::test_conversions",
    "sparse_csr_tensor": "test_sparse.py::test_names_of_compressed_layouts",
    "sparse_bsr_tensor": "test_sparse_compressed.py::test_sizes_are_found_from_the_parts",
    "sparse_bsc_tensor": "test_sparse_compressed.py::test_sizes_are_found_from_the_parts",
    "spmm": "test_sparse.py::test_older_products",
    "sspaddmm": "test_sparse.py::test_older_products",
    "Tensor.chalf": "test_complex32.py::test_made_and_converted",
    "Tensor.to_padded_tensor": "test_nested.py::test_padding",
    "Tensor.cuda": "test_ops_alone.py::test_absent_devices",
    "Tensor.hpu": "test_ops_alone.py::test_absent_devices",
    "Tensor.ipu": "test_ops_alone.py::test_absent_devices",
    "Tensor.mtia": "test_ops_alone.py::test_absent_devices",
    "Tensor.xpu": "test_ops_alone.py::test_absent_devices",
    "Tensor.pin_memory": "test_ops_alone.py::test_absent_devices",
    **dict.fromkeys(
        (
            "internal.fake_quantize",
            "fake_quantize_per_tensor_affine",
            "fake_quantize_per_channel_affine",
        ),
        "test_ops_alone.py::test_numbers_as_if_quantised",
    ),
    "Tensor.resize": "test_ops_alone.py::test_resize",
    "Tensor.resize_": "test_ops_alone.py::test_resize",
    "Tensor.resize_as": "test_ops_alone.py::test_resize",
    "resize_as_": "test_ops_alone.py::test_resize",
    "Tensor.set_": "test_ops_alone.py::test_set",
    "Tensor.setitem": "test_ops_alone.py::test_setitem",
    "Tensor.share_memory_": "test_ops_alone.py::test_share_memory",
    "Tensor.storage_type": "test_ops_alone.py::test_names_of_types",
    "typename": "test_ops_alone.py::test_names_of_types",
    "set_default_tensor_type": "test_ops_alone.py::test_default_tensor_type",
    "utils.swap_tensors": "test_ops_alone.py::test_swap_tensors",
    "from_dlpack": "test_ops_alone.py::test_dlpack",
    "to_dlpack": "test_ops_alone.py::test_dlpack",
    "from_file": "test_ops_alone.py::test_memory_from_outside",
    "from_numpy": "test_ops_alone.py::test_memory_from_outside",
    "nn.functional.grouped_mm": "test_ops_alone.py::test_grouped_mm",
    "frombuffer": "test_ops_alone.py::test_memory_from_outside",
    "celu_": "test_inplace_activations.py::test_a_negative_slope_in_place_has_no_gradient",
    "rrelu_": "test_inplace_activations.py::test_random_slopes_in_place",
    **dict.fromkeys(
        ("eig", "lstsq", "matrix_rank", "solve", "symeig"), "test_linalg.py::test_refused"
    ),
}
TESTED_ELSEWHERE = BEHIND_ROWS | ALONE
