"""The import hook: `import torch` is Rushlight, in programs run by `python -m rushlight` and after install_as_torch()."""

from __future__ import annotations

import sys

import pytest

import rushlight
from processes import printed_as_torch


def test_modules_are_the_same_objects(tmp_path):
    out = printed_as_torch(
        tmp_path,
        """
        import sys
        import torch, torch.nn as nn, torch.nn.functional as F
        from torch.utils.data import DataLoader
        from torch.utils.data.dataloader import DataLoader as Again
        from torch.optim.lr_scheduler import StepLR
        from torch.nn.modules.conv import Conv2d
        from torch.autograd.function import Function
        import functorch
        from functorch.experimental import chunk_vmap
        from torch._functorch.eager_transforms import jvp
        import torch._functorch.vmap
        import rushlight

        assert functorch is rushlight.compat.functorch and jvp is torch.func.jvp
        assert torch.func.vmap is torch.vmap
        assert torch is rushlight and nn is rushlight.nn and F is rushlight.nn.functional
        assert DataLoader is Again and Conv2d is nn.Conv2d and Function is torch.autograd.Function
        assert rushlight.__spec__.name == "rushlight" and nn.__spec__.name == "rushlight.nn"
        print(__name__, sys.argv[1:], torch.ones(2))
        """,
        "--epochs", "3",
    )  # fmt: skip
    assert out == "__main__ ['--epochs', '3'] tensor([1., 1.])\n"


def test_absent_names_say_so(tmp_path):
    out = printed_as_torch(
        tmp_path,
        """
        import torch
        assert not hasattr(torch, "no_such_name") and hasattr(torch, "Tensor")
        for statement in (
            "import torch.no_such_module", "from torch import no_such_name", "import torch.methods",
            "from torch.nn import no_such", "import torch.tensor", "torch.no_such_name",
        ):
            try:
                exec(statement)
            except (ImportError, AttributeError) as error:
                print(type(error).__name__, "docs/coverage.md" in str(error))
            else:
                print("no error:", statement)
        """,
    )
    assert out.splitlines() == [
        "ModuleNotFoundError True",
        "ImportError False",  # Python's own words
        "ModuleNotFoundError True",
        "ImportError False",
        "ModuleNotFoundError True",
        "AttributeError True",
    ]


def test_dictionaries_of_packages_have_all_names(tmp_path):
    out = printed_as_torch(
        tmp_path,
        """
        import pickle
        import torch
        for name, thing in torch.optim.__dict__.items():
            if isinstance(thing, type) and issubclass(thing, torch.optim.Optimizer):
                print(name, end=" ")
        assert vars(torch.nn)["Linear"] is torch.nn.Linear
        assert pickle.loads(pickle.dumps(torch.optim)) is torch.optim
        """,
    )
    assert {"Adam", "AdamW", "SGD", "LBFGS"} < set(out.split())


def test_a_module_named_as_its_function_does_not_hide_it(tmp_path):
    out = printed_as_torch(
        tmp_path,
        """
        import torch.autograd.gradcheck
        from torch.autograd.gradcheck import gradcheck
        print(callable(torch.autograd.gradcheck), gradcheck is torch.autograd.gradcheck)
        """,
    )
    assert out == "True True\n"


def test_a_program_s_own_backward_stays(tmp_path):
    """A library that counts or traces backward passes replaces the method before the first of them."""
    code = """
        import torch
        before = torch.Tensor.backward

        def backward(self, *args, **kwargs):
            print("mine")
            return before(self, *args, **kwargs)

        torch.Tensor.backward = backward
        x = torch.ones(2, requires_grad=True)
        for _ in range(2):
            (x * x).sum().backward()
        torch.autograd.grad((x * x).sum(), x)
        print(x.grad.tolist(), torch.Tensor.backward is backward)
    """
    assert printed_as_torch(tmp_path, code) == "mine\nmine\n[4.0, 4.0] True\n"


def test_processes_get_the_door_too(tmp_path):
    out = printed_as_torch(
        tmp_path,
        """
        import multiprocessing
        import torch

        def work(i):
            return float(torch.ones(3).sum() * i), torch.__name__

        if __name__ == "__main__":
            with multiprocessing.get_context("spawn").Pool(1) as pool:
                print(pool.map(work, [1, 2]))
        """,
    )
    assert out == "[(3.0, 'rushlight'), (6.0, 'rushlight')]\n"


def test_classes_of_the_program_can_be_saved(tmp_path):
    out = printed_as_torch(
        tmp_path,
        """
        import io, pickle, torch

        class Net(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.linear = torch.nn.Linear(2, 2)

        file = io.BytesIO()
        torch.save(Net(), file)
        file.seek(0)
        print(type(torch.load(file, weights_only=False)) is Net, type(pickle.loads(pickle.dumps(Net()))) is Net)
        """,
    )
    assert out == "True True\n"


def test_classes_say_that_they_are_of_pytorchs_modules(tmp_path):
    out = printed_as_torch(
        tmp_path,
        """
        import importlib, pickle, sys, typing
        import torch
        from torch import nn
        from rushlight.serialization.pytorch_modules import MODULES

        class Net(nn.Module):
            weight: torch.Tensor

        layer = nn.Linear(1, 1)
        print(type(layer), layer.__module__.startswith("torch.nn"), type(torch.optim.Adam(layer.parameters())))
        print(type(torch.optim.lr_scheduler.StepLR(torch.optim.SGD(layer.parameters(), 0.1), 1)), torch.Generator)
        print(torch.utils.data.TensorDataset, torch.distributions.Normal, torch.device, torch.float32.__class__)
        print(typing.get_type_hints(Net)["weight"], sys.modules["torch.nn.modules.linear"].__file__ == nn.Linear.forward.__code__.co_filename)
        print(b"rushlight" in pickle.dumps([layer, torch.ones(2), torch.relu, torch.float32, torch.Size([1]), torch.device("cpu")]))

        for rows in MODULES.values():
            for module, names in rows.items():
                for name in names.split():
                    found = getattr(importlib.import_module(module), name)
                    assert found.__module__ == module and found.__qualname__ == name, (module, name)
        """,
    )
    assert out == (
        "<class 'torch.nn.modules.linear.Linear'> True <class 'torch.optim.adam.Adam'>\n"
        "<class 'torch.optim.lr_scheduler.StepLR'> <class 'torch._C.Generator'>\n"
        "<class 'torch.utils.data.dataset.TensorDataset'> <class 'torch.distributions.normal.Normal'> "
        "<class 'torch.device'> <class 'torch.dtype'>\n"
        "<class 'torch.Tensor'> True\n"
        "False\n"
    )


def test_the_standard_librarys_queues_share_memory(tmp_path):
    out = printed_as_torch(
        tmp_path,
        """
        import multiprocessing, os
        import torch

        def double(given, done):
            x = given.get()
            x *= 2
            done.send(1)

        if __name__ == "__main__":
            context = multiprocessing.get_context("spawn")
            given, (end, done) = context.Queue(), context.Pipe()
            x = torch.ones(2)
            given.put(x)
            worker = context.Process(target=double, args=(given, done))
            worker.start()
            print(end.recv(), x, os.path.isabs(__file__))
            worker.join()
        """,
    )
    assert out == "1 tensor([2., 2.]) True\n"


def test_errors_of_the_program_are_its_own(tmp_path):
    assert "ZeroDivisionError" in printed_as_torch(tmp_path, "import torch\n1 / 0\n", status=1)
    assert printed_as_torch(tmp_path, "import sys\nsys.exit(3)\n", status=3) == ""


def test_pytorch_must_not_be_loaded_already(monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", sys)
    elsewhere = [f for f in sys.meta_path if not type(f).__module__.startswith("rushlight.")]
    monkeypatch.setattr(sys, "meta_path", elsewhere)
    with pytest.raises(RuntimeError, match="imported already"):
        rushlight.install_as_torch()


def test_names_of_pickles(tmp_path):
    out = printed_as_torch(
        tmp_path,
        """
        from torch._utils import _rebuild_tensor_v2
        import torch.serialization, torch.version
        print(callable(_rebuild_tensor_v2), torch.version.__version__ == torch.__version__)
        """,
    )
    assert out == "True True\n"


def test_files_of_the_loader_exist_once(tmp_path):
    """They are found in PyTorch's folder too, and workers still know who they are."""
    out = printed_as_torch(
        tmp_path,
        """
        import torch
        from torch.utils.data._utils.worker import get_worker_info
        from torch.utils.data._utils.fetch import make_fetcher
        import torch.utils.data._utils.collate as collate
        from torch.utils.data import DataLoader, _utils, default_collate

        class Asked(torch.utils.data.Dataset):
            def __len__(self):
                return 2

            def __getitem__(self, i):
                return torch.utils.data.get_worker_info().num_workers + get_worker_info().num_workers

        print(collate is _utils.collate, collate.default_collate is default_collate)
        print(torch.cat(list(DataLoader(Asked(), num_workers=2))).tolist())
        """,
    )
    assert out == "True True\n[4, 4]\n"


def test_metadata_of_the_installed_package(tmp_path):
    """Programs ask `importlib.metadata` which PyTorch is installed."""
    out = printed_as_torch(
        tmp_path,
        """
        import importlib.metadata as metadata
        import torch, torchvision
        print(metadata.version("torch") == torch.__version__, metadata.version("torchvision") == torchvision.__version__)
        print(metadata.distribution("torch").metadata["Name"], metadata.requires("torch"), metadata.version("numpy") > "")
        try:
            metadata.version("no-such-package")
        except metadata.PackageNotFoundError:
            print("none")
        """,
    )
    assert out == "True True\ntorch None True\nnone\n"


def test_sizes_by_keyword():
    """Libraries write them: `x.reshape(shape=(...))`."""
    x = rushlight.arange(12.0).view(size=(2, 6))
    assert x.shape == (2, 6) and x.reshape(shape=(3, 4)).tolist() == x.reshape(3, 4).tolist()
    assert x.sum_to_size(size=(1, 6)).tolist() == x.sum(0, keepdim=True).tolist()
    assert x[:1, :1].reshape(shape=()).item() == 0 and x[0, 0].view(size=(1, 1)).shape == (1, 1)
