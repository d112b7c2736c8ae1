"""What compiled functions call and import: functions that remember results, subclasses, modules."""

import collections
import dataclasses
import functools
import gc
import inspect
import sys
import weakref

import pytest

import rushlight as torch
from rushlight import nn
from rushlight.compiler.compiled import Compiled
from rushlight.utils.checkpoint import checkpoint


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


class Renaming:
    names = {"old": "new"}

    def __getattribute__(self, name):
        if name != "names" and name in super().__getattribute__("names"):
            name = super().__getattribute__("names")[name]
        return super().__getattribute__(name)


class Refusing:
    def __getattribute__(self, name):
        if name == "hidden":
            raise AttributeError(name)
        return object.__getattribute__(self, name)

    def __getattr__(self, name):
        if name == "hidden":
            return self.shown * 10
        raise AttributeError(name)


def test_attributes_by_a_getattribute_of_the_users():
    renaming, refusing = Renaming(), Refusing()
    renaming.new, renaming.k, refusing.shown, refusing.hidden = 2.0, 3.0, 1.0, 99.0
    f = torch.compile(lambda x: x * renaming.old + renaming.k, fullgraph=True)
    g = torch.compile(lambda x: x * refusing.hidden + hasattr(refusing, "absent"), fullgraph=True)
    x = torch.ones(2)
    assert f(x).tolist() == [5.0, 5.0] and g(x).tolist() == [10.0, 10.0]
    renaming.new, refusing.shown = 5.0, 2.0
    assert f(x).tolist() == [8.0, 8.0] and g(x).tolist() == [20.0, 20.0]
    renaming.k, refusing.absent = 1.0, 0
    assert f(x).tolist() == [6.0, 6.0] and g(x).tolist() == [21.0, 21.0]
    renaming.other = 7.0
    try:
        Renaming.names = {"old": "other", "k": "new"}
        assert f(x).tolist() == [12.0, 12.0]
    finally:
        Renaming.names = {"old": "new"}
    assert f(x).tolist() == [6.0, 6.0]


def test_the_dictionary_of_an_object():
    o = Recipe(3.0)
    f = torch.compile(
        lambda x: x * o.__dict__["k"] + o.__dict__.get("more", 1) + ("q" in o.__dict__),
        fullgraph=True,
    )
    x = torch.ones(2)
    assert f(x).tolist() == [4.0, 4.0]
    o.k = 4.0
    assert f(x).tolist() == [5.0, 5.0]
    o.more = 2
    assert f(x).tolist() == [6.0, 6.0]
    o.q = None
    assert f(x).tolist() == [7.0, 7.0]

    def counted(x):
        seen = o.__dict__["k"]
        o.k = o.k + 1
        return x * (o.__dict__["k"] - seen) * o.k

    def written(x):
        o.__dict__["k"] = o.k * 2
        return x * o.k

    for function in (counted, written):
        o.k = 4.0
        wanted = [(function(x).tolist(), o.k) for _ in range(5)]
        o.k = 4.0
        made = torch.compile(function)
        assert [(made(x).tolist(), o.k) for _ in range(5)] == wanted


class Outcome(collections.OrderedDict):
    """A dictionary whose items are attributes, too."""

    def __init__(self, **given):
        super().__init__()
        for k, v in given.items():
            self[k] = v

    def __setitem__(self, k, v):
        super().__setitem__(k, v)
        super().__setattr__(k, v)

    def __getitem__(self, k):
        return [*self.values()][k] if isinstance(k, int) else super().__getitem__(k)


def test_dictionaries_of_a_class_of_the_users():
    @functools.partial(torch.compile, fullgraph=True)
    def f(x):
        found = Outcome(loss=x.sum(), twice=x * 2)
        found["more"] = found.twice + found["twice"]
        return found.loss + found[1] + found.more, len(found), "more" in found, [*found.keys()]

    for k in (1.0, 2.0):
        r, n, there, names = f(torch.full((2,), k))
        assert r.tolist() == [8 * k, 8 * k] and (n, there) == (3, True)
        assert names == ["loss", "twice", "more"]


class Filling(dict):
    scale = 1.0

    def __missing__(self, k):
        self[k] = k * self.scale
        return self[k]


def test_missing_items_of_a_class_of_the_users():
    @functools.partial(torch.compile, fullgraph=True)
    def f(x):
        found = Filling()
        found[1] = 5.0
        return x * found[2] + found[1] + len(found)

    x = torch.ones(2)
    assert f(x).tolist() == [9.0, 9.0]
    try:
        Filling.scale = 3.0
        assert f(x).tolist() == [13.0, 13.0]
    finally:
        Filling.scale = 1.0
    assert f(x).tolist() == [9.0, 9.0]


def test_results_of_a_class_of_dictionaries():
    layer = nn.Linear(2, 2)

    @functools.partial(torch.compile, fullgraph=True)
    def f(x):
        y = layer(x)
        return Outcome(loss=y.square().sum(), y=y)

    for k in (1.0, 2.0, 3.0):
        x = torch.full((3, 2), k)
        found = f(x)
        assert type(found) is Outcome and [*found] == ["loss", "y"]
        assert found["loss"] is found.loss and found[1] is found.y
        layer.weight.grad = None
        found.loss.backward()
        wanted = 2 * layer(x).T @ x
        assert torch.allclose(layer.weight.grad, wanted, rtol=1e-5)


class Sliced(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(3, 3) for _ in range(4))
        self.used = 2

    def forward(self, x, wanted):
        for layer in self.layers[: self.used]:
            x = layer(x)
        if "wanted" in inspect.signature(self.forward).parameters:
            return nn.CrossEntropyLoss(label_smoothing=0.1)(x, wanted)
        return x


def test_signatures_that_are_asked_for_in_other_ways():
    f = torch.compile(lambda x: x * len(inspect.signature(obj=Sliced.forward).parameters))
    g = torch.compile(lambda x: x * len(inspect.signature(Recipe).parameters))
    x = torch.ones(2)
    assert f(x).tolist() == [3.0, 3.0] and g(x).tolist() == [1.0, 1.0]


def test_modules_that_a_function_makes():
    torch.manual_seed(0)
    m = Sliced()
    f = torch.compile(m, fullgraph=True)
    x, wanted = torch.randn(5, 3), torch.tensor([0, 1, 2, 1, 0])
    for m.used in (2, 3, 2):
        assert torch.equal(f(x, wanted), m(x, wanted))

    def weighted(x):
        return nn.Linear(3, 3)(x)

    with pytest.raises(torch._dynamo.exc.Unsupported, match="a Linear is made"):
        torch.compile(weighted, fullgraph=True)(x)


@pytest.mark.parametrize("shape", [(32,), (5, 7)])
def test_an_update_of_many_parameters_of_one_shape(shape):
    def trained(wrap):
        torch.manual_seed(0)
        parameters = [nn.Parameter(torch.randn(shape)) for _ in range(40)]
        optimizer = torch.optim.AdamW(parameters, lr=0.1)

        def step():
            optimizer.zero_grad()
            # Gradients in another order of memory: loops over them have two dimensions.
            loss = sum(
                (p.mT.contiguous() ** 2).sum() if p.ndim > 1 else (p**2).sum() for p in parameters
            )
            loss.backward()
            torch.nn.utils.clip_grad_norm_(parameters, 1.0)
            optimizer.step()
            return loss

        step = wrap(step)
        losses = [step().item() for _ in range(4)]
        return losses, torch.stack([p.detach() for p in parameters])

    (wanted, parameters), (losses, found) = trained(lambda f: f), trained(torch.compile)
    assert losses == pytest.approx(wanted, rel=1e-6)
    assert torch.allclose(found, parameters, rtol=1e-5, atol=1e-7)


class Batch:
    def __init__(self, x, n=1):
        self.x, self.n, self.log = x, n, []

    def scaled(self):
        return self.x * self.n


@dataclasses.dataclass
class Fields:
    x: object
    n: int = 1


@pytest.mark.parametrize(
    "make",
    [
        lambda x: Batch(x, 2),
        lambda x: Fields(x, 3),
        lambda x: Fields(Fields(x, 2), 3),
        lambda x: collections.UserDict(x=x, n=2),
        lambda x: collections.UserList([x, 2]),
        lambda x: collections.ChainMap({"x": x}, {"n": 2}),
    ],
)
def test_objects_that_each_call_gets_anew(make):
    def f(o):
        if hasattr(o, "keys"):
            return o["x"] * o["n"] + len(o)
        if hasattr(o, "append"):
            return o[0] * o[1] + len(o)
        o.n += 1
        return (o.x if isinstance(o.x, torch.Tensor) else o.x.x) * o.n

    g = Compiled(f)
    for k in range(12):
        x = torch.arange(3.0) * k
        assert torch.equal(g(make(x)), f(make(x)))
    assert len(g.programs) <= 3
    before = make(torch.ones(5))
    assert torch.equal(g(before), f(make(torch.ones(5)))) and getattr(before, "n", 1) in (1, 3, 4)


SHARED = {"dictionary": {"a": 1}, "list": [1], "object": Batch(torch.ones(2))}


def of_dictionaries(d, e):
    d["a"] += 1
    return SHARED["dictionary"]["a"] + 10 * e["a"]


def of_lists(d, e):
    d.append(2)
    return len(SHARED["list"]) + 10 * len(e)


def of_elements(d, e):
    d[0] = 5
    return SHARED["list"][0] + 10 * e[0]


def of_objects(d, e):
    d.n += 1
    return SHARED["object"].n + 10 * e.n


def of_spaces(d, e):
    vars(d)["n"] = 9
    return SHARED["object"].scaled().sum().item() + 10 * e.scaled().sum().item()


@pytest.mark.parametrize(
    "kind, f",
    [
        ("dictionary", of_dictionaries),
        ("list", of_lists),
        ("list", of_elements),
        ("object", of_objects),
        ("object", of_spaces),
    ],
)
def test_what_is_changed_may_be_another_object_that_is_read(kind, f, monkeypatch):
    """An argument that is changed, and an object that the function finds elsewhere, are one in some calls."""
    new = {
        "dictionary": lambda: {"a": 1},
        "list": lambda: [1],
        "object": lambda: Batch(torch.ones(2)),
    }[kind]

    def results(g):
        monkeypatch.setitem(SHARED, kind, new())
        found = []
        for which in (0, 0, 0, 1, 0, 2, 1, 3, 0, 2):
            d, e = new(), new()
            if which == 1:
                d = SHARED[kind]
            elif which:
                e = d if which == 2 else SHARED[kind]
            found.append(g(d, e))
        return found

    g = Compiled(f)
    assert results(g) == results(f)
    assert g.programs or f is of_spaces


@pytest.mark.parametrize("dtype", [torch.float32, torch.complex64, torch.int32, torch.uint8])
@pytest.mark.parametrize("shape", [(), (2,)])
def test_a_number_that_changes_does_not_change_a_dtype(dtype, shape):
    def f(w, s):
        return w - s, s * w, w.clone().add_(int(s)), torch.stack([w, w]) * int(s)

    compiled = torch.compile(f)
    for s in (1.25, 0.5, 0.3, 3, 7, 2, 300):
        w = torch.ones(shape, dtype=dtype)
        for a, b in zip(f(w, s), compiled(w, s), strict=True):
            assert a.dtype is b.dtype and torch.equal(a, b)
    assert compiled.programs


def test_a_number_that_is_set_on_a_tensor_is_a_plain_one():
    steps, x = torch.tensor(3), torch.ones(2)

    def f(x):
        x.note = int(steps)
        return x * 2

    torch.compile(f)(x)
    assert type(x.note) is int


class Counted(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.calls = 0
        self.norm = torch.nn.BatchNorm1d(4)

    def forward(self, x):
        self.calls += 1
        return self.norm(x).tanh()


def test_a_checkpoint_of_what_changes_is_called_again_in_backward():
    def f(model, x):
        return checkpoint(model, x * 2, use_reentrant=False).sum() * 3

    found = []
    for wrap in (lambda g: g, torch.compile):
        model, g = Counted(), wrap(f)
        for k in range(4):
            x = torch.arange(8.0).reshape(2, 4).add(k).requires_grad_()
            g(model, x).backward()
            found.append((model.calls, model.norm.running_mean.tolist(), x.grad.tolist()))
    assert found[:4] == found[4:] and found[-1][0] == 8


def test_a_checkpoint_whose_result_is_written_to():
    """Backward computes again what was saved."""

    def f(x):
        y = checkpoint(torch.sigmoid, x * 2, use_reentrant=False)
        y.mul_(2)
        return y

    compiled, found = torch.compile(f), []
    for g in (f, compiled, compiled, compiled):
        x = torch.ones(3, requires_grad=True)
        g(x).sum().backward()
        found.append(x.grad.tolist())
    assert found[1:] == found[:1] * 3


def test_a_checkpoint_becomes_a_part_of_a_program():
    model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Tanh(), torch.nn.Dropout())
    compiled = torch.compile(
        lambda x: checkpoint(model, x * 2, use_reentrant=False), fullgraph=True
    )
    for _ in range(3):
        x = torch.ones(2, 4, requires_grad=True)
        torch.manual_seed(0)
        compiled(x).sum().backward()
        given, x.grad = x.grad, None
        torch.manual_seed(0)
        model(x * 2).sum().backward()
        assert torch.equal(given, x.grad)


ended = []


def walk(x):
    try:
        for k in range(3):
            yield x * (k + 1)
    finally:
        ended.append("end")


def waits(x):
    it = walk(x)
    y = next(it)
    ended.append("body")
    return y


def waits_at_a_split(x):
    it = walk(x)
    y = next(it)
    sys.getrefcount(ended)
    ended.append("body")
    return y * 2


def waits_in_another(x):
    return waits(x) + waits(x)


@pytest.mark.parametrize("f", [waits, waits_at_a_split, waits_in_another])
def test_a_generator_that_waits_ends_with_its_function(f):
    """It ended in the middle of the capture of a backward pass, or not at all."""
    compiled, found = torch.compile(f), []
    for g in (f, compiled, compiled, compiled):
        ended.clear()
        x = torch.ones(2, requires_grad=True)
        y = g(x)
        ended.append("behind")
        y.sum().backward()
        found.append((*ended, *x.grad.tolist()))
    assert found[1:] == found[:1] * 3


def raises(x):
    it = walk(x)
    next(it)
    raise ValueError(1)


def raises_in_a_handler(x):
    it = walk(x)
    next(it)
    try:
        raise KeyError
    except KeyError as e:
        raise ValueError from e


def raises_in_another(x):
    it = walk(x)
    next(it)
    raises(x)


def raises_behind_a_split(x):
    it = walk(x)
    next(it)
    sys.getrefcount(ended)
    raise ValueError(1)


def raises_behind_a_call_that_is_not_split(x):
    it = walk(torch.func.grad(lambda y: y.sum())(x))
    next(it)
    raises(x)


@pytest.mark.parametrize(
    "f",
    [
        raises,
        raises_in_a_handler,
        raises_in_another,
        raises_behind_a_split,
        raises_behind_a_call_that_is_not_split,
    ],
)
def test_what_a_function_that_raises_held_is_gone_with_the_exception(f):
    """Cycles of tracebacks kept it until Python collected them."""
    compiled, found = torch.compile(f), []
    gc.collect()
    gc.disable()
    try:
        for g in (f, compiled, compiled):
            ended.clear()
            x = torch.ones(2)
            array = weakref.ref(x._array)
            try:
                g(x)
            except ValueError:
                ended.append("raised")
            del x
            found.append((*ended, array() is None))
    finally:
        gc.enable()
    assert found[1:] == found[:1] * 2 and found[0][-1]


def scaled(x, *, by=0.5):
    return x * by


@pytest.mark.parametrize("split", [False, True])
def test_a_default_of_a_keyword_is_read_in_each_call(split):
    def f(x, k):
        if split:
            sys.getrefcount(x)
        y = scaled(x, by=2.0) + scaled(x)
        scaled.__kwdefaults__["by"] = k if k > 2 else float(x.sum())
        return y

    found = []
    for g in (f, torch.compile(f)):
        scaled.__kwdefaults__["by"] = 0.5
        found.append([g(torch.ones(2) * k, k).tolist() for k in (1, 2, 3, 4, 3)])
        found[-1].append(scaled.__kwdefaults__["by"])
    scaled.__kwdefaults__["by"] = 0.5
    assert found[0] == found[1]


@pytest.mark.parametrize(
    "read",
    [
        torch.Tensor._is_view,
        torch.Tensor.storage_offset,
        torch.Tensor.is_contiguous,
        lambda x: x._base is None,
        lambda x: x[1:].storage_offset(),
        lambda x: (x * 2)[1:].storage_offset() + (x * 2)._is_view() + (x * 2).t()._is_view(),
        lambda x: x.untyped_storage().nbytes(),
        lambda x: x._version,
    ],
)
def test_what_a_function_reads_of_memory_is_read_in_each_call(read):
    base = torch.ones(3, 4)
    written = torch.ones(2, 4).add_(1)
    given = [
        torch.ones(2, 4),
        base[1:],
        base[:2],
        written,
        torch.ones(8).as_strided((2, 4), (4, 1)),
    ]

    def decides(x):
        return x + 1 if read(x) else x * 2

    for f in (lambda x: (read(x), x + 1)[0], decides):
        compiled = torch.compile(f)
        for x in given + given:
            assert str(compiled(x)) == str(f(x))


def test_a_class_that_gets_a_property_refuses_the_attribute_that_a_program_sets():
    class Base:
        pass

    class Kept(Base):
        pass

    o = Kept()

    def f(x):
        o.seen = 3
        return x * 2

    compiled = torch.compile(f)
    for _ in range(2):
        compiled(torch.ones(2))
    Base.seen = property(lambda self: 1)
    with pytest.raises(AttributeError):
        compiled(torch.ones(2))


def test_a_mask_of_no_dimensions_takes_no_tensor_of_another_dtype():
    def f(x, v):
        x[x < 1] = v

    for g in (f, torch.compile(f)):
        x = torch.zeros((), dtype=torch.float64)
        with pytest.raises(RuntimeError, match="source and destination dtypes match"):
            g(x, torch.tensor(0.5))
        g(x, 0.5)
        g(torch.zeros(3, dtype=torch.float64), torch.tensor(0.5))
        assert x.item() == 0.5
