"""`python -m rushlight.utils.collect_env`: facts about the machine and the installation for bug reports."""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["SystemEnv", "get_env_info", "get_pretty_env_info", "main"]


class SystemEnv(NamedTuple):
    """The fields of PyTorch's report that mean something here."""

    torch_version: str
    is_debug_build: str
    cuda_compiled_version: str
    os: str
    libc_version: str
    python_version: str
    python_platform: str
    is_cuda_available: str
    cpu_info: str
    blas: str
    pip_packages: str


_PACKAGES = (
    "rushlight numpy ml_dtypes llvmlite scipy safetensors pillow matplotlib tqdm tensorboard cupy torch"
).split()


def get_env_info() -> SystemEnv:
    """The facts about this environment, as strings."""
    import platform
    import sys
    from importlib import metadata

    import rushlight

    packages = []
    for name in _PACKAGES:
        try:
            packages.append(f"{name}=={metadata.version(name)}")
        except metadata.PackageNotFoundError:
            pass  # an extra that is not installed
    return SystemEnv(
        torch_version=f"{rushlight.version.__version__} (Rushlight, no PyTorch)",
        is_debug_build="False",
        cuda_compiled_version="None",
        os=platform.platform(),
        libc_version=" ".join(platform.libc_ver()) or "N/A",
        python_version=sys.version.replace("\n", " "),
        python_platform=platform.platform(),
        is_cuda_available=str(rushlight.cuda.is_available()),
        cpu_info=f"{cpu()}, {rushlight.backends.cpu.get_cpu_capability()}",
        blas=blas(),
        pip_packages="\n".join(packages),
    )


def get_pretty_env_info() -> str:
    """The report as text.

    >>> print(get_pretty_env_info().partition(":")[0])
    PyTorch version
    """
    info = get_env_info()
    lines = [
        f"PyTorch version: {info.torch_version}",
        f"Is debug build: {info.is_debug_build}",
        f"CUDA used to build PyTorch: {info.cuda_compiled_version}",
        "",
        f"OS: {info.os}",
        f"Libc version: {info.libc_version}",
        "",
        f"Python version: {info.python_version}",
        f"Is CUDA available: {info.is_cuda_available}",
        "",
        f"CPU: {info.cpu_info}",
        f"BLAS of NumPy: {info.blas}",
        "",
        "Versions of relevant libraries:",
        *(f"[pip3] {line}" for line in info.pip_packages.splitlines()),
    ]
    return "\n".join(lines)


def cpu() -> str:
    """The name of the processor."""
    import platform

    try:
        with open("/proc/cpuinfo", encoding="utf-8") as file:
            for line in file:
                if line.startswith("model name"):
                    return line.partition(":")[2].strip()
    except OSError:
        pass  # no Linux
    return platform.processor() or platform.machine()


def blas() -> str:
    """NumPy's library for matrix products, and the kernels that it chose for this CPU."""
    import numpy as np

    try:
        found = np.show_config(mode="dicts")["Build Dependencies"]["blas"]
    except (TypeError, KeyError):  # another NumPy may know less about itself
        return "unknown"
    text = f"{found.get('name', 'unknown')} {found.get('version', '')}".strip()
    kernel = _openblas_kernel()
    return f"{text}, kernels for {kernel}" if kernel else text


def _openblas_kernel() -> str | None:
    """The CPU name that NumPy's OpenBLAS reports (`get_corename`)."""
    import ctypes

    from rushlight._backends import blas

    ask = blas.function("get_corename")
    if ask is None:
        return None
    ask.restype = ctypes.c_char_p
    return ask().decode()


def main() -> None:
    """Print the report."""
    print("Collecting environment information...")
    print(get_pretty_env_info())


if __name__ == "__main__":
    main()
