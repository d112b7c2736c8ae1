"""Source that the package writes: its code objects on disk, its lines in tracebacks."""

from __future__ import annotations

import builtins
import traceback

import pytest

from rushlight._codegen import cache, python_source

TEXT = "def twice(x):\n    return 2 * x\n"


@pytest.fixture
def folder(tmp_path, monkeypatch):
    cache.sources()
    monkeypatch.setenv("RUSHLIGHT_CACHE_DIR", str(tmp_path / "cache"))
    cache._checked.cache_clear()
    yield tmp_path / "cache"
    cache._checked.cache_clear()


@pytest.fixture
def parsed(monkeypatch):
    """The names of the files that Python's parser has read."""
    files = []
    parse = builtins.compile
    monkeypatch.setattr(
        python_source, "compile", lambda t, f, k: files.append(f) or parse(t, f, k), raising=False
    )
    return files


def call(text, file="<a file>"):
    space = {}
    python_source.run(text, file, space)
    return space["twice"](21)


def test_source_is_parsed_once(folder, parsed):
    assert call(TEXT) == call(TEXT) == 42
    assert parsed == ["<a file>"]
    assert call(TEXT.replace("2", "3")) == 63  # another text
    assert call(TEXT, "<another file>") == 42  # its code names the other file
    assert parsed == ["<a file>", "<a file>", "<another file>"]


def test_an_entry_that_does_not_check_is_parsed_again(folder, parsed):
    call(TEXT)
    (path,) = folder.iterdir()
    path.write_bytes(path.read_bytes()[:-3] + b"xyz")
    assert call(TEXT) == 42 and len(parsed) == 2
    assert call(TEXT) == 42 and len(parsed) == 2


def test_without_a_directory_it_is_parsed_each_time(monkeypatch, parsed):
    monkeypatch.setenv("RUSHLIGHT_CACHE_DIR", "")
    assert call(TEXT) == call(TEXT) == 42
    assert len(parsed) == 2


def test_tracebacks_show_its_lines(folder):
    for _ in range(2):  # parsed, and from the disk
        space = {}
        python_source.run("def fails():\n    return 1 / 0\n", "<fails>", space)
        with pytest.raises(ZeroDivisionError) as caught:
            space["fails"]()
        assert 'File "<fails>", line 2, in fails\n    return 1 / 0' in "".join(
            traceback.format_exception(caught.value)
        )
