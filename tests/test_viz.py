"""Pictures of graphs and modules, and the table of a model."""

import json
import re
import sys
import xml.etree.ElementTree as ElementTree

import pytest

import rushlight as torch
from rushlight import nn, viz
from rushlight.fx.passes.shape_prop import ShapeProp

SVG = "{http://www.w3.org/2000/svg}"


class Residual(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(4, 8)
        self.second = nn.Linear(8, 4)

    def forward(self, x):
        return x + self.second(torch.relu(self.first(x)))


def texts(picture):
    """The lines of text of a picture, which must be well-formed XML."""
    return [each.text for each in ElementTree.fromstring(picture.svg).iter(f"{SVG}text")]


def arrows(picture):
    root = ElementTree.fromstring(picture.svg)
    return [each for each in root.iter(f"{SVG}path") if each.get("class") == "e"]


def rectangles(picture):
    """(left, top, right, bottom) of each box; the first rectangle is the background."""
    found = []
    for each in list(ElementTree.fromstring(picture.svg).iter(f"{SVG}rect"))[1:]:
        x, y, w, h = (float(each.get(k)) for k in ("x", "y", "width", "height"))
        found.append((x, y, x + w, y + h))
    return found


def overlapping(boxes):
    return [
        (a, b)
        for n, a in enumerate(boxes)
        for b in boxes[:n]
        if a[0] < b[2] and b[0] < a[2] and a[1] < b[3] and b[1] < a[3]
    ]


@pytest.fixture
def layout():
    return pytest.importorskip("fast_sugiyama")


def test_autograd_graph_names_nodes_parameters_and_saved_bytes(layout):
    model = Residual()
    x = torch.randn(5, 4, requires_grad=True)
    picture = viz.autograd(model(x).sum(), model)
    lines = texts(picture)
    assert {"ReluBackward0", "AddBackward0", "SumBackward0", "result", "leaf"} <= set(lines)
    assert "first.weight: 8x4 float32" in lines
    assert "saved result: 5x8, 160 B" in lines
    assert len(arrows(picture)) == 7
    assert overlapping(rectangles(picture)) == []


def test_memory_that_two_nodes_saved_counts_once(layout):
    x = torch.ones(256, requires_grad=True)
    y = x.exp()  # saves its result, which the product saves again
    assert "saved for backward: 2.0 KiB" in texts(viz.autograd((y * x).sum()))


def test_graph_whose_saved_tensors_are_gone_is_drawn(layout):
    x = torch.ones(3, requires_grad=True)
    loss = (x * x).sum()
    loss.backward()
    assert "saved for backward: 0 B" in texts(viz.autograd(loss))


def test_saved_tensors_of_functions(layout):
    class Double(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return 2 * x

        @staticmethod
        def backward(ctx, g):
            return 2 * g

    y = Double.apply(torch.ones(3, 2, requires_grad=True))
    assert "saved saved_tensors[0]: 3x2, 24 B" in texts(viz.autograd(y))


def test_leaf_is_a_graph_of_one_node(layout):
    assert "leaf" in texts(viz.autograd(torch.ones(2, requires_grad=True)))


def test_autograd_refuses_what_has_no_graph():
    with pytest.raises(ValueError, match="does not require grad"):
        viz.autograd(torch.ones(2))
    with pytest.raises(TypeError, match="expects tensors"):
        viz.autograd([1.0])


def test_graph_of_fx_shows_shapes_and_modules(layout):
    traced = torch.fx.symbolic_trace(Residual())
    ShapeProp(traced).propagate(torch.zeros(2, 4))
    picture = viz.graph(traced)
    lines = texts(picture)
    assert {"first: Linear", "second: Linear", "relu", "add", "output", "2x8 float32"} <= set(lines)
    assert len(arrows(picture)) == 6
    assert overlapping(rectangles(picture)) == []


def test_graph_of_many_parts_that_hang_together_in_no_way(layout):
    def f(x, y):
        return [x.sin() + 1, y.cos()]

    graph = torch.fx.symbolic_trace(f).graph
    graph.erase_node(next(n for n in reversed(graph.nodes) if n.op == "output"))
    picture = viz.graph(graph)
    assert len(rectangles(picture)) == 5
    assert overlapping(rectangles(picture)) == []


def test_missing_layout_library_is_named_with_its_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "fast_sugiyama", None)
    with pytest.raises(ImportError, match=r"rushlight\[viz\]"):
        viz.autograd(torch.ones(2, requires_grad=True).sum())


def test_text_is_escaped_and_long_text_cut(layout):
    picture = viz.autograd(
        (torch.ones(2, requires_grad=True) * 2).sum(), {"<&>" + 80 * "a": torch.ones(1)}
    )
    leaf = torch.ones(2, requires_grad=True)
    picture = viz.autograd(leaf * 2, {"<&>" + 80 * "a": leaf})
    assert any(line.startswith("<&>aaa") and line.endswith("…") for line in texts(picture))


def test_picture_of_a_module_has_boxes_in_boxes():
    model = nn.Sequential(Residual(), nn.ReLU())
    picture = viz.module(model, (2, 4))
    assert {"Sequential", "0: Residual", "first: Linear", "1: ReLU", "2x4"} <= set(texts(picture))
    outer, *others = rectangles(picture)
    assert all(
        outer[0] < x and outer[1] < y and r < outer[2] and b < outer[3] for x, y, r, b in others
    )
    assert picture._repr_svg_() == picture.svg


def test_picture_is_saved(tmp_path):
    picture = viz.module(nn.Linear(2, 3), (1, 2))
    picture.save(tmp_path / "a.svg")
    assert (tmp_path / "a.svg").read_text("utf-8") == picture.svg


def test_summary_counts_parameters_multiply_adds_and_memory():
    model = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU())
    model[1].weight.requires_grad_(False)
    table = viz.summary(model, (2, 3, 5, 5))
    assert (table.parameters, table.trainable) == (8 * 3 * 9 + 8 + 16, 8 * 3 * 9 + 8 + 8)
    assert table.multiply_adds == 2 * 25 * 8 * 27
    assert table.parameter_memory == 4 * table.parameters
    assert table.buffer_memory == 4 * 16 + 8
    assert table.activation_memory == 3 * 4 * 2 * 8 * 25
    assert [row[0] for row in table.rows] == [
        "Sequential", "  0: Conv2d", "  1: BatchNorm2d", "  2: ReLU"
    ]  # fmt: skip
    assert "0: Conv2d" in table._repr_html_()


def test_summary_leaves_the_model_as_it_was():
    model = nn.Sequential(nn.BatchNorm1d(3), nn.Dropout())
    model[1].eval()
    before = model[0].running_mean.clone()
    viz.summary(model, torch.randn(4, 3))
    assert [m.training for m in model.modules()] == [True, True, False]
    assert torch.equal(model[0].running_mean, before)
    assert not model._forward_hooks
    assert not model[0]._forward_pre_hooks


def test_summary_of_a_model_that_fails_leaves_no_hooks():
    model = nn.Linear(3, 4)
    with pytest.raises(RuntimeError):
        viz.summary(model, (2, 5))
    assert not model._forward_hooks
    assert model.training
    assert viz.summary(model, (2, 3)).multiply_adds == 24


def test_module_that_is_called_twice_counts_once():
    class Twice(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(3, 3)

        def forward(self, x):
            return self.layer(self.layer(x))

    table = viz.summary(Twice(), (2, 3))
    assert (table.parameters, table.multiply_adds) == (12, 36)
    assert [row[3] for row in table.rows] == ["12", "12", "(again)"]


def test_summary_of_named_arguments_and_depth():
    model = nn.MultiheadAttention(4, 2, batch_first=True)
    x = torch.zeros(1, 3, 4)
    assert len(viz.summary(model, x, x, value=x, depth=0).rows) == 1
    with pytest.raises(TypeError, match="expected a Module"):
        viz.summary(lambda x: x, x)


def test_graph_of_an_exported_program_folds_its_parameters(layout):
    program = torch.export.export(Residual(), (torch.zeros(2, 4),))
    picture = viz.graph(program)
    lines = texts(picture)
    assert {"x", "linear", "first.weight: 8x4 float32", "relu"} <= set(lines)
    assert not any(line.startswith("p_") for line in lines)
    assert program._repr_svg_() == picture.svg


def test_timeline_is_one_page_with_all_events(tmp_path):
    x = torch.randn(4, requires_grad=True)
    name = torch.profiler.record_function("a </script> name")
    with torch.profiler.profile(profile_memory=True, with_stack=True) as profile, name:
        x.exp().sum().backward()
    viz.timeline(profile).save(tmp_path / "t.html")
    text = (tmp_path / "t.html").read_text("utf-8")
    assert "http" not in text  # it loads nothing
    data = json.loads(re.search(r'type="application/json">(.*?)</script>', text, re.S)[1])
    names = [event["name"] for event in data["events"]]
    assert "a </script> name" in names
    assert len(names) == len(profile.events())
    assert max(n for _, n in data["memory"]) >= 16
    assert any("test_viz.py" in place for *_, place in data["peak"])


def test_what_notebooks_show():
    assert "[2, 3], torch.int64, cpu, 48 bytes" in torch.ones(2, 3, dtype=torch.int64)._repr_html_()
    assert "&lt;AddBackward0&gt;" in (torch.ones(1, requires_grad=True) + 1)._repr_html_()
    model = nn.Sequential(nn.Linear(4, 3), nn.Sequential(nn.ReLU(), nn.Linear(3, 2)))
    page = ElementTree.fromstring(model._repr_html_().replace(" open", ' open=""'))
    assert [s.text.split("(")[0] for s in page.iter("summary")] == ["Sequential", "1: Sequential"]
    assert page.find("summary/small").text == "23 parameters"
    with torch.profiler.profile() as profile:
        torch.ones(2).exp()
    assert profile._repr_html_().startswith("<iframe")
    assert "aten::exp" in profile.key_averages()._repr_html_()
    assert "<svg" in torch.fx.symbolic_trace(nn.Linear(4, 3)).graph._repr_svg_()
