"""Settings of every test: one thread per process, and the same examples in every run.

`HYPOTHESIS_PROFILE=explore pytest ...` looks for new examples instead.
"""

import os

# Several test processes share the machine; must be set before NumPy is imported.
for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(variable, "1")

import pytest
from hypothesis import settings

collect_ignore = ["distributed_scripts", "onnx_programs.py"]  # import torch; started by tests

settings.register_profile("repeatable", derandomize=True, deadline=None)
settings.register_profile("explore", deadline=None, max_examples=1000)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "repeatable"))


@pytest.fixture(autouse=True)
def seeded():
    """The same random numbers in every test, whatever ran before it in the same process."""
    import rushlight

    rushlight.manual_seed(0)
