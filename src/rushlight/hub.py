"""`torch.hub`: downloads of trained weights, and models in repositories.

Files are kept in `get_dir()`: $TORCH_HOME/hub, by default ~/.cache/torch/hub, which PyTorch shares.
"""

from __future__ import annotations

import os
import re
from types import ModuleType
from typing import Any
from urllib.parse import urlparse

__all__ = [
    "download_url_to_file", "get_dir", "help", "list", "load", "load_state_dict_from_url", "set_dir",
]  # fmt: skip

HASH_REGEX = re.compile(r"-([a-f0-9]*)\.")  # resnet18-bf5a0074.pth: the start of its SHA-256
READ_DATA_CHUNK = 1 << 20
_dir: str | None = None


def _get_torch_home() -> str:
    cache = os.getenv("XDG_CACHE_HOME", "~/.cache")
    return os.path.expanduser(os.getenv("TORCH_HOME", os.path.join(cache, "torch")))


def get_dir() -> str:
    """The directory where downloads are kept.

    >>> import os
    >>> os.path.basename(get_dir())
    'hub'
    """
    return _dir if _dir is not None else os.path.join(_get_torch_home(), "hub")


def set_dir(d: str | os.PathLike) -> None:
    """Keep downloads in `d` from now on."""
    global _dir
    _dir = os.path.expanduser(d)


def download_url_to_file(
    url: str, dst: str, hash_prefix: str | None = None, progress: bool = True
) -> None:
    """Download `url` into the file `dst`, which is created when the download is complete.

    `progress`: show a progress bar if tqdm is installed. RuntimeError if the SHA-256 of the content does not begin
    with `hash_prefix` or the content is incomplete; OSError if there is no network or no such file. After an
    error there is no file.
    """
    import hashlib
    import tempfile
    import urllib.error
    import urllib.request

    dst = os.path.expanduser(dst)
    handle, partial = tempfile.mkstemp(dir=os.path.dirname(dst) or ".", suffix=".partial")
    digest = hashlib.sha256()
    try:
        with os.fdopen(handle, "wb") as file:
            request = urllib.request.Request(url, headers={"User-Agent": "rushlight"})
            with urllib.request.urlopen(request, timeout=60) as answer:
                announced = int(answer.headers.get("Content-Length") or -1)
                with _bar(announced, progress) as bar:
                    while chunk := answer.read(READ_DATA_CHUNK):
                        file.write(chunk)
                        digest.update(chunk)
                        bar.update(len(chunk))
                received = file.tell()
            if 0 <= announced != received:
                raise RuntimeError(f"{url} should have {announced} bytes, {received} were received")
        found = digest.hexdigest()
        if hash_prefix is not None and not found.startswith(hash_prefix):
            raise RuntimeError(
                f'invalid hash value (expected "{hash_prefix}", got "{found}") of {url}'
            )
        os.replace(partial, dst)
    except urllib.error.HTTPError as error:
        raise OSError(f"{url} cannot be fetched: HTTP {error.code} {error.reason}") from error
    except urllib.error.URLError as error:
        raise OSError(
            f"{url} cannot be fetched: {error.reason}. Without a network, put the file at {dst} by other means"
        ) from error
    finally:
        if os.path.exists(partial):
            os.unlink(partial)


class _NoBar:
    """The progress bar without tqdm: none."""

    def __enter__(self) -> _NoBar:
        return self

    def __exit__(self, *error: object) -> None:
        pass

    def update(self, n: int) -> None:
        pass


def _bar(total: int, progress: bool) -> Any:
    try:
        from tqdm.auto import tqdm  # a widget in notebooks that have them
    except ImportError:
        return _NoBar()
    return tqdm(
        total=total if total >= 0 else None, disable=not progress, unit="B", unit_scale=True,
        unit_divisor=1024,
    )  # fmt: skip


def load_state_dict_from_url(
    url: str, model_dir: str | None = None, map_location: Any = None, progress: bool = True,
    check_hash: bool = False, file_name: str | None = None, weights_only: bool = False,
) -> dict[str, Any]:  # fmt: skip
    """The checkpoint at `url`, downloaded once into `model_dir` (`get_dir()/checkpoints`).

    `check_hash`: compare the SHA-256 with its first digits at the end of the file name.
    """
    import rushlight as torch

    folder = model_dir if model_dir is not None else os.path.join(get_dir(), "checkpoints")
    os.makedirs(folder, exist_ok=True)
    name = file_name or os.path.basename(urlparse(url).path)
    path = os.path.join(folder, name)
    if not os.path.exists(path):
        import sys

        print(f'Downloading: "{url}" to {path}', file=sys.stderr)
        found = HASH_REGEX.search(name) if check_hash else None
        download_url_to_file(url, path, found[1] if found else None, progress)
    return torch.load(path, map_location=map_location, weights_only=weights_only)


def list(
    github: str, force_reload: bool = False, skip_validation: bool = False,
    trust_repo: Any = None, verbose: bool = True, *, source: str = "github",
) -> list[str]:  # fmt: skip
    """The names of the models in a repository's hubconf.py."""
    hubconf = _hubconf(github, source, force_reload, trust_repo)
    return [n for n, it in vars(hubconf).items() if callable(it) and not n.startswith("_")]


def help(
    github: str, model: str, force_reload: bool = False, skip_validation: bool = False,
    trust_repo: Any = None, *, source: str = "github",
) -> str | None:  # fmt: skip
    """The docstring of a model in a repository."""
    return _entry_point(_hubconf(github, source, force_reload, trust_repo), model).__doc__


def load(
    repo_or_dir: str, model: str, *args: Any, source: str = "github", trust_repo: Any = None,
    force_reload: bool = False, verbose: bool = True, skip_validation: bool = False, **kwargs: Any,
) -> Any:  # fmt: skip
    """`model(*args, **kwargs)` of the hubconf.py of a directory (`source="local"`) or of "owner/name[:ref]".

    A repository is downloaded as a zip file and its code runs in this process: only with
    `trust_repo=True` or if the user answers yes to the question.
    """
    return _entry_point(_hubconf(repo_or_dir, source, force_reload, trust_repo), model)(
        *args, **kwargs
    )


def _entry_point(module: ModuleType, model: str) -> Any:
    found = getattr(module, model, None)
    if not callable(found):
        raise RuntimeError(f"Cannot find callable {model} in hubconf")
    return found


def _hubconf(repo: str, source: str, force_reload: bool, trust_repo: Any) -> ModuleType:
    """The module hubconf.py of a repository; it can import the files next to it."""
    import importlib.util
    import sys

    if source not in ("github", "local"):
        raise ValueError(f'Unknown source: "{source}". Allowed values: "github" | "local".')
    folder = repo if source == "local" else _downloaded(repo, force_reload, trust_repo)
    path = os.path.join(folder, "hubconf.py")
    if not os.path.isfile(path):
        raise FileNotFoundError(
            f"[torch.hub] {folder} has no hubconf.py, which says what it offers"
        )
    spec = importlib.util.spec_from_file_location("hubconf", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.path.insert(0, folder)
    try:
        spec.loader.exec_module(module)
    finally:
        sys.path.remove(folder)
    for package in getattr(module, "dependencies", ()):
        if importlib.util.find_spec(package) is None:
            raise RuntimeError(f"Missing dependencies: {package}")
    return module


def _downloaded(repo: str, force_reload: bool, trust_repo: Any) -> str:
    """The directory of a repository "owner/name[:ref]", downloaded if it is not there."""
    import shutil
    import tempfile
    import zipfile

    repository, _, ref = repo.partition(":")
    owner, _, name = repository.partition("/")
    if not owner or not name:
        raise ValueError(f'[torch.hub] expected "owner/name[:ref]", got {repo!r}')
    ref = ref or "HEAD"
    target = os.path.join(get_dir(), f"{owner}_{name}_{ref.replace('/', '_')}")
    if os.path.isdir(target) and not force_reload:
        return target
    if trust_repo is not True:
        answer = input(f"The code of {repo} is going to run here. Do you trust it (y/N)? ")
        if answer.strip().lower() not in ("y", "yes"):
            raise RuntimeError("Untrusted repository.")
    os.makedirs(get_dir(), exist_ok=True)
    with tempfile.TemporaryDirectory(dir=get_dir()) as temporary:
        packed = os.path.join(temporary, "repository.zip")
        try:
            download_url_to_file(f"https://github.com/{owner}/{name}/zipball/{ref}", packed)
        except OSError as error:
            raise OSError(
                f"[torch.hub] {repo} is not kept in {target} and cannot be fetched: {error}. A copy of the repository "
                'loads by torch.hub.load(directory, model, source="local")'
            ) from error
        with zipfile.ZipFile(packed) as archive:
            archive.extractall(temporary)
            top = archive.namelist()[0].partition("/")[0]
        if os.path.isdir(target):
            shutil.rmtree(target)
        os.replace(os.path.join(temporary, top), target)
    return target
