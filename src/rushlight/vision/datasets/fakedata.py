"""Random pictures, for trying a program without data."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import rushlight as torch
from rushlight.vision.datasets.vision import VisionDataset

__all__ = ["FakeData"]


class FakeData(VisionDataset):
    """`size` PIL images of noise with random classes; item i is always the same one.

    >>> image, target = FakeData(size=2, image_size=(3, 8, 8))[0]
    >>> image.size, 0 <= target < 10
    ((8, 8), True)
    """

    def __init__(
        self,
        size: int = 1000,
        image_size: tuple[int, int, int] = (3, 224, 224),
        num_classes: int = 10,
        transform: Callable | None = None,
        target_transform: Callable | None = None,
        random_offset: int = 0,
    ) -> None:
        super().__init__(transform=transform, target_transform=target_transform)
        self.size = size
        self.num_classes = num_classes
        self.image_size = image_size
        self.random_offset = random_offset

    def __getitem__(self, index: int) -> tuple[Any, Any]:
        """The picture and its class, transformed; IndexError past the end. Leaves the random state as it was."""
        if index >= len(self):
            raise IndexError(f"{type(self).__name__} index out of range: {index} of {len(self)}")
        from rushlight.vision.transforms.functional import to_pil_image

        state = torch.get_rng_state()
        torch.manual_seed(index + self.random_offset)
        image = torch.randn(*self.image_size)
        target = int(torch.randint(0, self.num_classes, size=(1,), dtype=torch.long)[0])
        torch.set_rng_state(state)
        return self._transformed(to_pil_image(image), target)

    def __len__(self) -> int:
        return self.size
