"""What compiled functions call and import: functions that remember results, subclasses, modules."""

import functools
import sys

import pytest

import rushlight as torch


class Recipe:
    def __init__(self, k):
        self.k = k


class Equal(Recipe):
    def __eq__(self, other):
        return self.k == other.k

    def __hash__(self):
        return hash(self.k)


def test_functions_that_remember_results_of_objects():
    made = []

    @functools.lru_cache
    def remembered(recipe, sizes):
        made.append(recipe[0] if isinstance(recipe, tuple) else recipe)
        return [made[-1].k * n for n in sizes]

    one, two = Recipe(2), Recipe(3)
    f = torch.compile(lambda x, r: x * remembered(r, x.shape)[0], fullgraph=True)
    g = torch.compile(lambda x, r: x * remembered((r, 1), x.shape)[0], fullgraph=True)
    x = torch.ones(2)
    for h in (f, g):
        for recipe in (one, one, two, one):
            assert h(x, recipe).tolist() == [2.0 * recipe.k] * 2
        assert len(h.programs) == 2
    assert made == [one, two, one, two]
    one.k = 5  # what is remembered stays
    assert f(x, one).tolist() == [4.0, 4.0] and len(f.programs) == 2
    remembered.cache_clear()
    assert f(x, one).tolist() == [10.0, 10.0]
    with pytest.raises(torch._dynamo.exc.Unsupported, match="remembers its results"):
        f(x, Equal(4))  # compared by its number, which the function might have changed


def test_subclasses_of_a_class():
    class Base:
        pass

    class First(Base):
        number = 2

    @functools.partial(torch.compile, fullgraph=True)
    def f(x):
        found = Base.__subclasses__()
        found.reverse()
        return x * found[0].number + len(found)

    x = torch.ones(2)
    assert [f(x).tolist() for _ in range(2)] == [[3.0, 3.0]] * 2 and len(f.programs) == 1

    class Second(Base):
        number = 5

    assert f(x).tolist() == [7.0, 7.0]
    First.number = 4
    Second.number = 6
    assert f(x).tolist() == [8.0, 8.0]


def test_imports_of_modules_that_are_not_loaded(tmp_path, monkeypatch):
    package = tmp_path / "imported_by_compiled"
    package.mkdir()
    (package / "__init__.py").write_text("loaded = []\n")
    (package / "inner.py").write_text(
        "import rushlight\nfrom . import loaded\nloaded.append(1)\nnumbers = rushlight.ones(2) * 3\n"
    )
    (package / "calls.py").write_text(
        "def f(x):\n    from . import inner\n    return x + inner.numbers\n\n"
        "def g(x):\n    from . import missing\n    return x\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    from imported_by_compiled import calls, loaded

    try:
        f = torch.compile(calls.f, fullgraph=True)
        assert "imported_by_compiled.inner" not in sys.modules
        for k in range(3):
            assert f(torch.full((2,), float(k))).tolist() == [k + 3.0] * 2
        assert loaded == [1] and len(f.programs) == 1
        sys.modules["imported_by_compiled.inner"].numbers = torch.zeros(2)
        assert f(torch.ones(2)).tolist() == [1.0, 1.0]
        with pytest.raises(ImportError, match="missing"):
            torch.compile(calls.g)(torch.ones(2))
    finally:
        for name in [n for n in sys.modules if n.startswith("imported_by_compiled")]:
            del sys.modules[name]
