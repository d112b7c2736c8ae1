"""Checksums, downloads and archives of data sets."""

from __future__ import annotations

import os
from typing import Any

__all__ = [
    "calculate_md5", "check_integrity", "check_md5", "download_and_extract_archive", "download_url",
    "extract_archive",
]  # fmt: skip


def calculate_md5(fpath: str | os.PathLike, chunk_size: int = 1024 * 1024) -> str:
    """The MD5 of a file in hexadecimal digits."""
    import hashlib

    digest = hashlib.md5(usedforsecurity=False)
    with open(fpath, "rb") as file:
        while chunk := file.read(chunk_size):
            digest.update(chunk)
    return digest.hexdigest()


def check_md5(fpath: str | os.PathLike, md5: str, **kwargs: Any) -> bool:
    """True if the file has this MD5 checksum."""
    return md5 == calculate_md5(fpath, **kwargs)


def check_integrity(fpath: str | os.PathLike, md5: str | None = None) -> bool:
    """True if the file exists and has the MD5 checksum `md5`, if given."""
    return os.path.isfile(fpath) and (md5 is None or check_md5(fpath, md5))


def download_url(
    url: str,
    root: str | os.PathLike,
    filename: str | None = None,
    md5: str | None = None,
    max_redirect_hops: int = 3,
) -> None:
    """Fetch `url` into `root/filename`, unless it is there already.

    RuntimeError when the network or the server fails, or what came does not have the MD5; then no file is left.
    """
    import tempfile
    import urllib.error
    import urllib.request

    root = os.path.expanduser(root)
    os.makedirs(root, exist_ok=True)
    name = filename or os.path.basename(url)
    target = os.path.join(root, name)
    if check_integrity(target, md5):
        return
    handle, partial = tempfile.mkstemp(dir=root, prefix=name + ".")
    try:
        with os.fdopen(handle, "wb") as file:
            request = urllib.request.Request(url, headers={"User-Agent": "rushlight"})
            with urllib.request.urlopen(request, timeout=60) as answer:
                while chunk := answer.read(1 << 20):
                    file.write(chunk)
        if md5 is not None and not check_md5(partial, md5):
            raise RuntimeError(
                f"File not found or corrupted. {url} came with the MD5 {calculate_md5(partial)}, "
                f"expected {md5}"
            )
        os.replace(partial, target)
    except OSError as error:  # URLError and timeouts are OSErrors
        raise RuntimeError(
            f"[download_url] could not fetch {url}: {getattr(error, 'reason', error)}. Without a network, "
            f"put the file at {target} by hand"
        ) from error
    finally:
        if os.path.exists(partial):
            os.unlink(partial)


def extract_archive(
    from_path: str | os.PathLike,
    to_path: str | os.PathLike | None = None,
    remove_finished: bool = False,
) -> str:
    """Unpack a .tar(.gz, .bz2, .xz), .zip or .gz file, beside it by default; members may not leave `to_path`."""
    import gzip
    import shutil
    import tarfile
    import zipfile

    path = os.fspath(from_path)
    to = os.fspath(to_path) if to_path is not None else os.path.dirname(path)
    if path.endswith((".tar", ".tar.gz", ".tgz", ".tar.bz2", ".tar.xz")):
        with tarfile.open(path) as tar:
            tar.extractall(to, filter="data")
    elif path.endswith(".zip"):
        with zipfile.ZipFile(path) as archive:
            archive.extractall(to)
    elif path.endswith(".gz"):
        to = os.path.join(to, os.path.basename(path).removesuffix(".gz"))
        with gzip.open(path) as packed, open(to, "wb") as file:
            shutil.copyfileobj(packed, file)
    else:
        raise RuntimeError(f"Unknown compression or archive type: '{os.path.basename(path)}'")
    if remove_finished:
        os.remove(path)
    return to


def download_and_extract_archive(
    url: str,
    download_root: str | os.PathLike,
    extract_root: str | os.PathLike | None = None,
    filename: str | None = None,
    md5: str | None = None,
    remove_finished: bool = False,
) -> None:
    """`download_url`, then `extract_archive` into `extract_root` (by default where it was downloaded)."""
    download_root = os.path.expanduser(download_root)
    name = filename or os.path.basename(url)
    download_url(url, download_root, name, md5)
    extract_archive(
        os.path.join(download_root, name), extract_root or download_root, remove_finished
    )
