"""The models of the examples as files of ONNX. Started by test_onnx.py with `torch` standing for Rushlight."""

from __future__ import annotations

import importlib.util
import pathlib
import sys
from argparse import Namespace

import torch
from torch import nn
from torch.export import Dim

from test_onnx import Function, agree

EXAMPLES = pathlib.Path(__file__).parents[1] / "examples"


def run(model, args, other=None, shapes=None):
    agree(model, *args, other=other, shapes=shapes)


def images(channels, size):
    """Two batches of images, and that their number is dynamic."""
    x, other = (torch.randn(n, channels, size, size) for n in (2, 5))
    return (x,), (other,), ({0: "n"},)


def words(count):
    """Two batches of sentences with their lengths; the number of both is dynamic."""
    return (
        (torch.randint(count, (2, 7)), torch.tensor([7, 4])),
        (torch.randint(count, (3, 5)), torch.tensor([2, 5, 3])),
        ({0: "n", 1: "t"}, {0: "n"}),
    )


def autograd_functions(m):
    layers = m.OneBitLinear(64, 16, bias=False), nn.BatchNorm1d(16), nn.GELU()
    run(nn.Sequential(nn.Flatten(), *layers, m.OneBitLinear(16, 10)), *images(1, 8))


def char_rnn(m):
    run(m.Classifier(5, 16), *words(20))
    batch = [(torch.randint(20, (n, t)), torch.randint(5, (n,))) for n, t in ((2, 7), (3, 5))]
    run(m.Generator(5, 16), *batch, ({0: "n", 1: "t"}, {0: "n"}))


def cifar_resnet(m):
    run(m.CifarResNet(), *images(3, 32))


def dcgan(m):
    run(m.generator(6, 4, 8), *images(6, 1))
    run(m.discriminator(4, 8), *images(1, 8))


def digits(m):
    run(m.Net(), *images(1, 8))


def fashion_mnist(m):
    run(m.Net(), *images(1, 28))


def gcn(m):
    run(m.GCN(5, 4, 3), (torch.randn(6, 5), torch.eye(6)))


def gpt(m):
    config = m.Config(
        vocabulary="abcdefghijk", context=16, width=16, layers=2, heads=4, dropout=0.1
    )
    x, other = torch.randint(11, (2, 7)), torch.randint(11, (3, 16))
    run(m.GPT(config), (x,), (other,), {"letters": {0: "n", 1: "t"}})


def resume(m):
    model = m.Training(Namespace(points=64, epochs=1)).model
    run(model, (torch.randn(4, 2),), (torch.randn(7, 2),), ({0: "n"},))


def seq2seq(m):
    model = m.Translator(20, 22, 8, 0.1)
    run(model.encoder, *words(20))
    step = [
        (torch.randint(22, (n,)), torch.randn(n, 8), torch.randn(n, t, 16), torch.rand(n, t) < 0.9)
        for n, t in ((2, 6), (3, 4))
    ]
    run(model.decoder, *step, ({0: "n"}, {0: "n"}, {0: "n", 1: "t"}, {0: "n", 1: "t"}))


def unet(m):
    height, width = Dim("height", min=2), Dim("width", min=2)
    sides = ({0: "n", 2: 4 * height, 3: 4 * width},)
    for up in ("transpose", "shuffle"):
        x, other = torch.randn(2, 1, 8, 12), torch.randn(3, 1, 16, 24)
        run(m.UNet(4, up=up), (x,), (other,), sides)


def vae(m):
    model = m.VAE(64, 16, 3)
    run(Function(model.encode), *images(1, 8))
    run(model.decoder, (torch.randn(2, 3),), (torch.randn(5, 3),), ({0: "n"},))
    x = torch.rand(4, 1, 8, 8)  # the whole draws noise: what comes before it agrees
    logits, *moments = torch.onnx.export(model, (x,))(x)
    torch.testing.assert_close(moments, list(model.encode(x)), rtol=1e-5, atol=1e-5)
    assert logits.shape == x.shape


for path in sorted(EXAMPLES.glob("*.py")):
    spec = importlib.util.spec_from_file_location(path.stem, path)
    sys.modules[path.stem] = module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    torch.manual_seed(0)
    with torch.no_grad():
        globals()[path.stem](module)
    print(path.stem)
