"""`rushlight.viz`: pictures of graphs and modules as SVG, which notebooks show, and a table of a model.

>>> import rushlight as torch
>>> from rushlight import viz
>>> model = torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.ReLU())
>>> viz.summary(model, (2, 4)).parameters
15
>>> viz.module(model, (2, 4)).svg[:4]
'<svg'

`autograd(loss)` draws the graph that backward will walk, `graph(traced)` one of `torch.fx` or `torch.export`,
`module(model, input)` the calls of a model, `memory(blocks, steps)` a plan of memory. `timeline(profile)` a profile, as an HTML page.
`picture.save("a.svg")` writes a file. The first two need the extra
`viz`, whose library places the boxes.
"""

from __future__ import annotations

from rushlight.viz.autograd_graph import autograd
from rushlight.viz.fx_graph import graph
from rushlight.viz.memory_plan import memory
from rushlight.viz.module_tree import module
from rushlight.viz.svg import Picture
from rushlight.viz.table import Summary, summary
from rushlight.viz.timeline import Page, timeline

__all__ = [
    "Page",
    "Picture",
    "Summary",
    "autograd",
    "graph",
    "memory",
    "module",
    "summary",
    "timeline",
]
