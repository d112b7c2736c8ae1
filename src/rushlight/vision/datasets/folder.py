"""Data sets of files in one folder per class: root/dog/xxx.png, root/cat/yyy.png."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from rushlight.vision.datasets.vision import VisionDataset
from rushlight.vision.pillow import pillow

__all__ = [
    "IMG_EXTENSIONS", "DatasetFolder", "ImageFolder", "default_loader", "find_classes",
    "has_file_allowed_extension", "is_image_file", "make_dataset", "pil_loader",
]  # fmt: skip

IMG_EXTENSIONS = (
    ".jpg", ".jpeg", ".png", ".ppm", ".bmp", ".pgm", ".tif", ".tiff", ".webp",
)  # fmt: skip


def has_file_allowed_extension(filename: str, extensions: str | tuple[str, ...]) -> bool:
    """True if the name ends in one of the extensions; case is ignored."""
    return filename.lower().endswith(
        extensions if isinstance(extensions, str) else tuple(extensions)
    )


def is_image_file(filename: str) -> bool:
    """True if the name has an image's extension.

    >>> is_image_file("a.PNG"), is_image_file("a.txt")
    (True, False)
    """
    return has_file_allowed_extension(filename, IMG_EXTENSIONS)


def find_classes(directory: Any) -> tuple[list[str], dict[str, int]]:
    """The folders inside `directory`, sorted, and their numbers; FileNotFoundError if there are none."""
    classes = sorted(entry.name for entry in os.scandir(directory) if entry.is_dir())
    if not classes:
        raise FileNotFoundError(f"Couldn't find any class folder in {directory}.")
    return classes, {name: i for i, name in enumerate(classes)}


def make_dataset(
    directory: str | os.PathLike,
    class_to_idx: dict[str, int] | None = None,
    extensions: str | tuple[str, ...] | None = None,
    is_valid_file: Callable[[str], bool] | None = None,
    allow_empty: bool = False,
) -> list[tuple[str, int]]:
    """(path, class number) of every valid file, by class and then by path.

    Exactly one of `extensions` and `is_valid_file` decides which files are valid.
    """
    directory = os.path.expanduser(directory)
    if class_to_idx is None:
        _, class_to_idx = find_classes(directory)
    elif not class_to_idx:
        raise ValueError("'class_to_index' must have at least one entry to collect any samples.")
    if (extensions is None) == (is_valid_file is None):
        raise ValueError(
            "Both extensions and is_valid_file cannot be None or not None at the same time"
        )
    valid = is_valid_file or (lambda path: has_file_allowed_extension(path, extensions or ()))
    found: list[tuple[str, int]] = []
    empty = []
    for name in sorted(class_to_idx):
        before = len(found)
        for folder, _, files in sorted(os.walk(os.path.join(directory, name), followlinks=True)):
            paths = (os.path.join(folder, file) for file in sorted(files))
            found += [(path, class_to_idx[name]) for path in paths if valid(path)]
        if len(found) == before:
            empty.append(name)
    if empty and not allow_empty:
        message = f"Found no valid file for the classes {', '.join(empty)}. "
        if extensions is not None:
            listed = extensions if isinstance(extensions, str) else ", ".join(extensions)
            message += f"Supported extensions are: {listed}"
        raise FileNotFoundError(message)
    return found


class DatasetFolder(VisionDataset):
    """Samples read by `loader(path)`, of the class that the folder's name says.

    Attributes: `classes`, `class_to_idx`, `samples` (path and class number) and `targets`.
    """

    def __init__(
        self,
        root: str | os.PathLike,
        loader: Callable[[str], Any],
        extensions: tuple[str, ...] | None = None,
        transform: Callable | None = None,
        target_transform: Callable | None = None,
        is_valid_file: Callable[[str], bool] | None = None,
        allow_empty: bool = False,
    ) -> None:
        super().__init__(root, transform=transform, target_transform=target_transform)
        self.classes, self.class_to_idx = self.find_classes(self.root)
        self.samples = self.make_dataset(
            self.root, self.class_to_idx, extensions, is_valid_file, allow_empty
        )
        self.loader = loader
        self.extensions = extensions
        self.targets = [target for _, target in self.samples]

    # Programs override these two to choose classes and files.
    make_dataset = staticmethod(make_dataset)

    def find_classes(self, directory: str | os.PathLike) -> tuple[list[str], dict[str, int]]:
        """Call the function `find_classes`; a subclass may override it."""
        return find_classes(directory)

    def __getitem__(self, index: int) -> tuple[Any, Any]:
        """The sample and its class, transformed."""
        path, target = self.samples[index]
        return self._transformed(self.loader(path), target)

    def __len__(self) -> int:
        return len(self.samples)


def pil_loader(path: str | os.PathLike) -> Any:
    """The image of a file, in RGB."""
    image = pillow("pil_loader")
    with open(path, "rb") as file:
        return image.open(file).convert("RGB")


default_loader = pil_loader


class ImageFolder(DatasetFolder):
    """Images (PIL, RGB) in one folder per class."""

    def __init__(
        self,
        root: str | os.PathLike,
        transform: Callable | None = None,
        target_transform: Callable | None = None,
        loader: Callable[[str], Any] = default_loader,
        is_valid_file: Callable[[str], bool] | None = None,
        allow_empty: bool = False,
    ) -> None:
        super().__init__(
            root, loader, IMG_EXTENSIONS if is_valid_file is None else None, transform,
            target_transform, is_valid_file, allow_empty,
        )  # fmt: skip
        self.imgs = self.samples
