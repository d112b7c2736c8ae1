"""The base of image data sets."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from rushlight.utils.data import Dataset

__all__ = ["SplitDataset", "StandardTransform", "VisionDataset"]


class StandardTransform:
    """A transform of the image and one of the target, as one function of both."""

    def __init__(
        self, transform: Callable | None = None, target_transform: Callable | None = None
    ) -> None:
        self.transform = transform
        self.target_transform = target_transform

    def __call__(self, input: Any, target: Any) -> tuple[Any, Any]:
        if self.transform is not None:
            input = self.transform(input)
        if self.target_transform is not None:
            target = self.target_transform(target)
        return input, target

    def __repr__(self) -> str:
        lines = [type(self).__name__]
        heads = ("Transform: ", self.transform), ("Target transform: ", self.target_transform)
        for head, transform in heads:
            if transform is not None:
                first, *rest = repr(transform).splitlines()
                lines += [head + first, *(" " * len(head) + line for line in rest)]
        return "\n".join(lines)


class VisionDataset(Dataset):
    """The base: a root folder and transforms; `transforms` takes image and target, and excludes the other two."""

    def __init__(
        self,
        root: str | os.PathLike | None = None,
        transforms: Callable | None = None,
        transform: Callable | None = None,
        target_transform: Callable | None = None,
    ) -> None:
        self.root: Any = os.path.expanduser(root) if isinstance(root, str) else root
        separate = transform is not None or target_transform is not None
        if transforms is not None and separate:
            raise ValueError(
                "Only transforms or transform/target_transform can be passed as argument"
            )
        self.transform = transform
        self.target_transform = target_transform
        self.transforms = StandardTransform(transform, target_transform) if separate else transforms

    def __getitem__(self, index: int) -> Any:
        raise NotImplementedError

    def __len__(self) -> int:
        raise NotImplementedError

    def __repr__(self) -> str:
        lines = [f"Number of datapoints: {len(self)}"]
        if self.root is not None:
            lines.append(f"Root location: {self.root}")
        lines += self.extra_repr().splitlines()
        if self.transforms is not None:
            lines.append(repr(self.transforms))
        indented = [" " * 4 + line for line in lines]
        return "\n".join([f"Dataset {type(self).__name__}", *indented])

    def extra_repr(self) -> str:
        """Lines that a subclass adds to its repr."""
        return ""

    def _transformed(self, image: Any, target: Any) -> tuple[Any, Any]:
        return StandardTransform(self.transform, self.target_transform)(image, target)


class SplitDataset(VisionDataset):
    """The base of data sets with pictures to train and to test, all in memory as `data` and `targets`."""

    data: Any

    def __init__(
        self,
        root: str | os.PathLike,
        train: bool = True,
        transform: Callable | None = None,
        target_transform: Callable | None = None,
        download: bool = False,
    ) -> None:
        super().__init__(root, transform=transform, target_transform=target_transform)
        self.train = train
        if download:
            self.download()
        self._load()

    def _load(self) -> None:
        raise NotImplementedError

    def download(self) -> None:
        """Fetch the files that are missing."""
        raise NotImplementedError

    def __len__(self) -> int:
        return len(self.data)

    def extra_repr(self) -> str:
        """The name of the split, for `repr`."""
        return f"Split: {'Train' if self.train else 'Test'}"
