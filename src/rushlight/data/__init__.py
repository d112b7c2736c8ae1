"""Small real data sets that ship with the package, as NumPy arrays (see README.md in this folder for sources and licences).

What PyTorch calls `torch.utils.data` (Dataset, DataLoader...) is `rushlight.utils.data`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np

__all__ = ["digits"]


def digits() -> tuple[np.ndarray, np.ndarray]:
    """The UCI handwritten digits: images uint8 `[1797, 8, 8]` of values 0..16, labels int64 `[1797]` of values 0..9.

    The images are in the file's order, which is not shuffled but mixes the classes well. Both arrays are fresh
    copies. Source: E. Alpaydin and C. Kaynak, UCI Machine Learning Repository, CC BY 4.0.

    >>> from rushlight.data import digits
    >>> images, labels = digits()
    >>> images.shape, labels[:10].tolist()
    ((1797, 8, 8), [0, 1, 2, 3, 4, 5, 6, 7, 8, 9])
    """
    import os

    import numpy as np

    with np.load(os.path.join(os.path.dirname(__file__), "digits.npz"), allow_pickle=False) as file:
        return file["images"], file["labels"].astype(np.int64)
