"""CIFAR-10 and CIFAR-100 (Krizhevsky 2009): 32x32 colour pictures, 50,000 to train and 10,000 to test."""

from __future__ import annotations

import os
import pickle
from typing import Any

import numpy as np

from rushlight.vision.datasets.files import check_integrity, download_and_extract_archive
from rushlight.vision.datasets.vision import SplitDataset
from rushlight.vision.pillow import pillow

__all__ = ["CIFAR10", "CIFAR100"]


class _Arrays(pickle.Unpickler):
    """Reads dictionaries of lists and NumPy arrays, and refuses whatever else a pickle may name."""

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) == ("_codecs", "encode"):
            import codecs

            return codecs.encode
        if module.startswith("numpy") and name in ("_reconstruct", "ndarray", "dtype"):
            from numpy._core import multiarray

            return getattr(multiarray if name == "_reconstruct" else np, name)
        raise RuntimeError(
            f"[CIFAR] the file names {module}.{name}, which is no part of a CIFAR batch"
        )


class CIFAR10(SplitDataset):
    """Ten classes. Items: (PIL image "RGB" 32x32, int), each through its transform.

    The batches lie in `root/cifar-10-batches-py` and are checked by MD5; `download=True` fetches them. `data` is a
    NumPy array uint8 `[N, 32, 32, 3]`, `targets` a list. RuntimeError when a file is missing or differs.
    """

    base_folder = "cifar-10-batches-py"
    url = "https://www.cs.toronto.edu/~kriz/cifar-10-python.tar.gz"
    filename = "cifar-10-python.tar.gz"
    tgz_md5 = "c58f30108f718f92721af3b95e74349a"
    train_list: Any = (
        ("data_batch_1", "c99cafc152244af753f735de768cd75f"),
        ("data_batch_2", "d4bba439e000b95fd0a9bffe97cbabec"),
        ("data_batch_3", "54ebc095f3ab1f0389bbae665268c751"),
        ("data_batch_4", "634d18415352ddfa80567beed471001a"),
        ("data_batch_5", "482c414d41f54cd18b22e5b47cb7c3cb"),
    )
    test_list: Any = (("test_batch", "40351d587109b95175f43aff81a1287e"),)
    meta: Any = {
        "filename": "batches.meta",
        "key": "label_names",
        "md5": "5ff9c542aee3614f3951f8cda6e48888",
    }

    def _load(self) -> None:
        wrong = self._missing()
        if wrong:
            raise RuntimeError(
                "Dataset not found or corrupted. You can use download=True to download it. Missing, or with "
                f"another MD5: {', '.join(wrong)} in {os.path.join(self.root, self.base_folder)}"
            )
        batches = [
            self._read(name) for name, _ in (self.train_list if self.train else self.test_list)
        ]
        self.targets = [
            label
            for batch in batches
            for label in (batch["labels"] if "labels" in batch else batch["fine_labels"])
        ]
        planes = np.vstack([batch["data"] for batch in batches]).reshape(-1, 3, 32, 32)
        self.data = np.ascontiguousarray(planes.transpose(0, 2, 3, 1))
        self.classes = self._read(self.meta["filename"])[self.meta["key"]]
        self.class_to_idx = {name: i for i, name in enumerate(self.classes)}

    def _read(self, name: str) -> dict[str, Any]:
        with open(os.path.join(self.root, self.base_folder, name), "rb") as file:
            return _Arrays(file, encoding="latin1").load()

    def _missing(self) -> list[str]:
        files = [*self.train_list, *self.test_list, (self.meta["filename"], self.meta["md5"])]
        folder = os.path.join(self.root, self.base_folder)
        return [n for n, md5 in files if not check_integrity(os.path.join(folder, n), md5)]

    def __getitem__(self, index: int) -> tuple[Any, Any]:
        """The picture and its class, transformed."""
        image = pillow(type(self).__name__).fromarray(self.data[index])
        return self._transformed(image, self.targets[index])

    def download(self) -> None:
        """Fetch and unpack the archive unless all files are there."""
        if self._missing():
            download_and_extract_archive(
                self.url, self.root, filename=self.filename, md5=self.tgz_md5
            )


class CIFAR100(CIFAR10):
    """A hundred classes, with the same arguments as CIFAR10; the files lie in `root/cifar-100-python`."""

    base_folder = "cifar-100-python"
    url = "https://www.cs.toronto.edu/~kriz/cifar-100-python.tar.gz"
    filename = "cifar-100-python.tar.gz"
    tgz_md5 = "eb9058c3a382ffc7106e4002c42a8d85"
    train_list = (("train", "16019d7e3df5f24257cddd939b257f8d"),)
    test_list = (("test", "f0ef6b0ae62326f3e7ffdfab6717acfc"),)
    meta = {
        "filename": "meta",
        "key": "fine_label_names",
        "md5": "7973b15100ade9c7d40fb424638fde48",
    }
