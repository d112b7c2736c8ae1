"""Tests in this folder compare with PyTorch and are marked `oracle`; without PyTorch they are not collected."""

import importlib.util
import pathlib

import pytest

HERE = pathlib.Path(__file__).parent

if importlib.util.find_spec("torch") is None:
    collect_ignore_glob = ["test_*.py"]


def pytest_collection_modifyitems(items):
    for item in items:
        if HERE in item.path.parents:
            item.add_marker(pytest.mark.oracle)
