"""MNIST and the sets that came in its files: 28x28 pictures in IDX format, 60,000 to train and 10,000 to test."""

from __future__ import annotations

import os
from typing import Any

import numpy as np

from rushlight.core.tensor import Tensor, _wrap
from rushlight.vision.datasets.files import check_md5, download_and_extract_archive
from rushlight.vision.datasets.vision import SplitDataset
from rushlight.vision.pillow import pillow

__all__ = ["KMNIST", "MNIST", "FashionMNIST", "read_idx"]

_IDX = {8: ">u1", 9: ">i1", 11: ">i2", 12: ">i4", 13: ">f4", 14: ">f8"}


def read_idx(path: str | os.PathLike) -> Tensor:
    """The array in an IDX file (or `.gz` of one): two zero bytes, a type, the number of sizes, the sizes, the numbers.

    RuntimeError when the header is none or the file has more or fewer numbers than it says.
    """
    import gzip

    with gzip.open(path) if str(path).endswith(".gz") else open(path, "rb") as file:
        whole = file.read()
    if len(whole) < 4 or whole[:2] != b"\0\0" or whole[2] not in _IDX or not whole[3]:
        raise RuntimeError(f"[read_idx] {path} is no IDX file: it begins with {whole[:4]!r}")
    start = 4 + 4 * whole[3]
    if len(whole) < start:
        raise RuntimeError(f"[read_idx] {path} ends inside its header")
    shape = [int(n) for n in np.frombuffer(whole, ">u4", whole[3], 4)]
    dtype = np.dtype(_IDX[whole[2]])
    count = 1
    for n in shape:
        count *= n
    if len(whole) != start + count * dtype.itemsize:
        raise RuntimeError(
            f"[read_idx] {path} should hold {count} numbers of {dtype.itemsize} bytes for the shape {shape}, "
            f"has {len(whole) - start} bytes"
        )
    array = np.frombuffer(whole, dtype, count, start).reshape(shape)
    return _wrap(array.astype(dtype.newbyteorder("=")))


class MNIST(SplitDataset):
    """Handwritten digits (LeCun 1998). Items: (PIL image "L" 28x28, int), each through its transform.

    The files lie in `root/MNIST/raw`, unpacked or as `.gz` (whose MD5 is checked when read). `download=True` fetches
    what is missing. `data` is uint8 `[N, 28, 28]`, `targets` int64 `[N]`. RuntimeError when files are missing.
    """

    mirrors = ("https://ossci-datasets.s3.amazonaws.com/mnist/",)
    resources = (
        ("train-images-idx3-ubyte.gz", "f68b3c2dcbeaaa9fbdd348bbdeb94873"),
        ("train-labels-idx1-ubyte.gz", "d53e105ee54ea40749a09fcbcd1e9432"),
        ("t10k-images-idx3-ubyte.gz", "9fb629c4189551a2d022fa330f9573f3"),
        ("t10k-labels-idx1-ubyte.gz", "ec29112dd5afa0611ce80d1b7f02629c"),
    )
    classes = [
        f"{digit} - {name}"
        for digit, name in enumerate("zero one two three four five six seven eight nine".split())
    ]

    def _load(self) -> None:
        if not self._check_exists():
            raise RuntimeError(
                "Dataset not found. You can use download=True to download it. Expected "
                f"{', '.join(name for name, _ in self.resources)} (or unpacked) in {self.raw_folder}"
            )
        self.data, self.targets = self._load_data()

    def _load_data(self) -> tuple[Tensor, Tensor]:
        names = self.resources[:2] if self.train else self.resources[2:]
        (images, labels) = (self._read(name, md5) for name, md5 in names)
        if images.ndim != 3 or labels.ndim != 1 or len(images) != len(labels):
            raise RuntimeError(
                f"[{type(self).__name__}] images of shape {tuple(images.shape)} and labels of shape "
                f"{tuple(labels.shape)} do not belong together"
            )
        return images, labels.long()

    def _path(self, name: str) -> str | None:
        for each in (name.removesuffix(".gz"), name):
            path = os.path.join(self.raw_folder, each)
            if os.path.isfile(path):
                return path
        return None

    def _read(self, name: str, md5: str) -> Tensor:
        path = self._path(name)
        assert path is not None
        if path.endswith(".gz") and not check_md5(path, md5):
            raise RuntimeError(f"{path} is corrupted: its MD5 is not {md5}")
        return read_idx(path)

    def __getitem__(self, index: int) -> tuple[Any, Any]:
        """The picture and its class, transformed."""
        image = pillow(type(self).__name__).fromarray(self.data[index].numpy())
        return self._transformed(image, int(self.targets[index]))

    @property
    def raw_folder(self) -> str:
        """The folder of the original files: root/MNIST/raw."""
        return os.path.join(self.root, type(self).__name__, "raw")

    @property
    def processed_folder(self) -> str:
        """The folder of torchvision's former own files; nothing is written there."""
        return os.path.join(self.root, type(self).__name__, "processed")

    @property
    def class_to_idx(self) -> dict[str, int]:
        """Class number by class name."""
        return {name: i for i, name in enumerate(self.classes)}

    def _check_exists(self) -> bool:
        return all(self._path(name) for name, _ in self.resources)

    def download(self) -> None:
        """Fetch and unpack the files that are missing; RuntimeError when no mirror gives one."""
        for name, md5 in self.resources:
            if self._path(name):
                continue
            errors = []
            for mirror in self.mirrors:
                try:
                    download_and_extract_archive(mirror + name, self.raw_folder, md5=md5)
                    break
                except RuntimeError as error:
                    errors.append(str(error))
            else:
                raise RuntimeError(f"Error downloading {name}:\n" + "\n".join(errors))


class FashionMNIST(MNIST):
    """Pictures of clothes (Xiao 2017), with the same files and arguments as MNIST."""

    mirrors = ("http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/",)
    resources = (
        ("train-images-idx3-ubyte.gz", "8d4fb7e6c68d591d4c3dfef9ec88bf0d"),
        ("train-labels-idx1-ubyte.gz", "25c81989df183df01b3e8a0aad5dffbe"),
        ("t10k-images-idx3-ubyte.gz", "bef4ecab320f06d8554ea6380940ec79"),
        ("t10k-labels-idx1-ubyte.gz", "bb300cfdad3c16e7a12a480ee83cd310"),
    )
    classes = [
        "T-shirt/top", "Trouser", "Pullover", "Dress", "Coat", "Sandal", "Shirt", "Sneaker", "Bag",
        "Ankle boot",
    ]  # fmt: skip


class KMNIST(MNIST):
    """Handwritten Hiragana (Clanuwat 2018), with the same files and arguments as MNIST."""

    mirrors = ("http://codh.rois.ac.jp/kmnist/dataset/kmnist/",)
    resources = (
        ("train-images-idx3-ubyte.gz", "bdb82020997e1d708af4cf47b453dcf7"),
        ("train-labels-idx1-ubyte.gz", "e144d726b3acfaa3e44228e80efcd344"),
        ("t10k-images-idx3-ubyte.gz", "5c965bf0a639b31b8f53240b1b52f4d7"),
        ("t10k-labels-idx1-ubyte.gz", "7320c461ea6c1c855c0b718fb2a4b134"),
    )
    classes = ["o", "ki", "su", "tsu", "na", "ha", "ma", "ya", "re", "wo"]
