"""`torch.export`: a module as a graph for inputs like given ones, without Python and without writes.

>>> import rushlight as torch
>>> class Net(torch.nn.Module):
...     def forward(self, x):
...         return torch.relu(x) + x.shape[0]
>>> program = torch.export.export(Net(), (torch.ones(2, 3),), dynamic_shapes={"x": {0: torch.export.Dim("n")}})
>>> program.module()(torch.ones(4, 3))[0]
tensor([5., 5., 5.])
"""

from __future__ import annotations

from rushlight.export.dynamic_shapes import Dim, dims
from rushlight.export.errors import ExportError
from rushlight.export.exported_program import ExportedProgram
from rushlight.export.graph_signature import ExportGraphSignature
from rushlight.export.serialization import load, save
from rushlight.export.shapes_collection import ShapesCollection
from rushlight.export.tracing import export
from rushlight.export.unflatten import UnflattenedModule, unflatten
from rushlight.utils._pytree import register_dataclass

__all__ = [
    "Dim",
    "ExportError",
    "ExportGraphSignature",
    "ExportedProgram",
    "ShapesCollection",
    "UnflattenedModule",
    "dims",
    "export",
    "load",
    "register_dataclass",
    "save",
    "unflatten",
]
