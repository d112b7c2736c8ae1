"""`torch.__config__`: what this installation is made of, as text."""

from __future__ import annotations

__all__ = ["parallel_info", "show"]


def show() -> str:
    """The libraries that compute here. Programs look for words in it: `"USE_MKL=ON" in show()`.

    >>> "USE_CUDA=OFF" in show()
    True
    """
    import platform

    import numpy as np

    from rushlight.version import __version__, release

    built = getattr(np.__config__, "CONFIG", {})
    blas = built.get("Build Dependencies", {}).get("blas", {})
    return (
        "Rushlight built with:\n"
        f"  - Python {platform.python_version()}\n"
        f"  - NumPy {np.__version__}, BLAS {blas.get('name', 'unknown')} {blas.get('version', '')}\n"
        f"  - Build settings: RUSHLIGHT_VERSION={release}, TORCH_VERSION={__version__}, USE_CUDA=OFF, "
        "USE_MKL=OFF, USE_MKLDNN=OFF, USE_MPI=OFF, USE_NCCL=OFF, USE_OPENMP=OFF, \n"
    )


def parallel_info() -> str:
    """The numbers of threads.

    >>> print(parallel_info().splitlines()[0])
    Rushlight/Parallel:
    """
    import os

    import rushlight as torch

    return (
        "Rushlight/Parallel:\n"
        f"\tget_num_threads() : {torch.get_num_threads()}\n"
        f"\tget_num_interop_threads() : {torch.get_num_interop_threads()}\n"
        f"hardware concurrency : {os.cpu_count()}\n"
    )
