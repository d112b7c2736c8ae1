"""`torch.masked.MaskedTensor`: a tensor some of whose elements do not count, by a mask of the same shape.

Elementwise functions keep the mask, functions of two such tensors want equal ones, reductions leave out what is masked
and give something masked where nothing is left. Strided, COO and CSR tensors have masks of their own layout.

>>> import rushlight as torch
>>> from rushlight.masked import masked_tensor
>>> t = masked_tensor(torch.tensor([[1.0, 2.0], [3.0, 4.0]]), torch.tensor([[True, False], [False, False]]))
>>> t.sum(1)
MaskedTensor(
  [  1.0000,       --]
)
"""

from rushlight.masked.maskedtensor.core import MaskedTensor, is_masked_tensor
from rushlight.masked.maskedtensor.creation import as_masked_tensor, masked_tensor

__all__ = ["MaskedTensor", "as_masked_tensor", "is_masked_tensor", "masked_tensor"]
