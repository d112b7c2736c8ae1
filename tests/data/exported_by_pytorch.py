"""How `exported_by_pytorch.pt2` was written, by PyTorch 2.13: a program with a size that varies, a buffer that is written
to, a constant, keyword arguments, a branch, and results in a dictionary. The lines of the source that nodes come from are
left out, since they name folders."""

import io
import json
import pathlib
import zipfile


def exported():
    """The program, exported by PyTorch."""
    import torch

    class Program(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = torch.nn.Linear(2, 3)
            self.register_buffer("calls", torch.zeros(()))
            self.constant = torch.ones(3)

        def forward(self, x, *, more):
            self.calls.add_(1)
            first, rest = self.linear(x).split(2, 1)
            best, _ = more["y"].max(0)
            tall = x.reshape(x.shape[0] * 2, -1)
            chosen = torch.cond(best.sum() > 0, lambda t: t.sin(), lambda t: t.cos(), (best,))
            return {"first": first * 2 + self.constant[:2], "others": (rest, tall, chosen)}

    torch.manual_seed(0)
    x, y = torch.randn(3, 2), torch.ones(5, 2)
    sizes = {"x": {0: torch.export.Dim("n", min=2, max=64)}, "more": {"y": None}}
    program = torch.export.export(Program(), (x,), {"more": {"y": y}}, dynamic_shapes=sizes)
    written = io.BytesIO()
    torch.export.save(program, written)
    return written


def without_lines(graph):
    """Empty what nodes say about where they come from, also those of branches."""
    for node in graph["nodes"]:
        node["metadata"] = {}
        for each in node["inputs"]:
            if "as_graph" in each["arg"]:
                without_lines(each["arg"]["as_graph"]["graph"])


if __name__ == "__main__":
    to = pathlib.Path(__file__).with_suffix(".pt2")
    with zipfile.ZipFile(exported()) as old, zipfile.ZipFile(to, "w") as new:
        for name in old.namelist():
            data = old.read(name)
            if name.endswith("models/model.json"):
                content = json.loads(data)
                without_lines(content["graph_module"]["graph"])
                data = json.dumps(content).encode()
            new.writestr(zipfile.ZipInfo(name), data)
