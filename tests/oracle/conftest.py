"""Tests in this folder compare with PyTorch and are marked `oracle`; without PyTorch they are not collected."""

import importlib.util
import pathlib

import pytest

HERE = pathlib.Path(__file__).parent

# no tests and no doctests: test_conformance.py and test_programs_oracle.py run them
collect_ignore = ["conformance", "programs"]
if importlib.util.find_spec("torch") is None:
    collect_ignore_glob = ["test_*.py"]


def pytest_collection_modifyitems(items):
    for item in items:
        if HERE in item.path.parents:
            item.add_marker(pytest.mark.oracle)


def pytest_terminal_summary(terminalreporter):
    """The tables of test_conformance.py, from whichever process ran it."""
    for reports in terminalreporter.stats.values():
        for report in reports:
            for name, text in getattr(report, "user_properties", ()):
                if name == "conformance" and report.when == "call":
                    terminalreporter.section("against PyTorch's own databases")
                    terminalreporter.write_line(text)
