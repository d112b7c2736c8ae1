"""Calls that leave no tensors to the garbage collector: their memory is free as soon as the last name is gone."""

import gc
import io

import numpy as np
import pytest

import rushlight as torch
from rushlight.func import functional_call, grad, hessian, jacfwd, jacrev, vjp, vmap
from rushlight.utils import _pytree as pytree

X = torch.randn(5, 8)
Y = torch.tensor([0, 1, 2, 3, 0])
MODEL = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.Tanh(), torch.nn.Linear(16, 4))
PARAMETERS = {k: p.detach() for k, p in MODEL.named_parameters()}


def loss(parameters, x, y):
    return torch.nn.functional.cross_entropy(functional_call(MODEL, parameters, (x,)), y)


def plain(x):
    return functional_call(MODEL, PARAMETERS, (x,))


def step(optimizer):
    model = torch.nn.Linear(8, 4)
    run = optimizer(model.parameters(), lr=0.1)

    def closure():
        run.zero_grad()
        result = torch.nn.functional.cross_entropy(model(X), Y)
        result.backward()
        return result

    return lambda: run.step(closure)


def twice():
    z = torch.randn(4, requires_grad=True)
    (g,) = torch.autograd.grad((z**3).sum(), z, create_graph=True)
    g.sum().backward()


def saved():
    file = io.BytesIO()
    torch.save(MODEL.state_dict(), file)
    file.seek(0)
    torch.load(file)


def checkpointed():
    x = X.clone().requires_grad_()
    torch.utils.checkpoint.checkpoint(MODEL, x, use_reentrant=False).sum().backward()


def compiled():
    model = torch.nn.Linear(8, 4)
    run = torch.compile(lambda x: model(x).relu().sum())
    run(X)
    return lambda: run(X)


CALLS = {
    "tree_map": lambda: pytree.tree_map(torch.neg, {"a": [X, (Y,)]}),
    "tree_map_with_path": lambda: pytree.tree_map_with_path(lambda _, t: -t, {"a": [X]}),
    "backward": lambda: loss(dict(MODEL.named_parameters()), X, Y).backward(),
    "double backward": twice,
    "in place on a view": lambda: X.clone().requires_grad_().mul(1)[0].mul_(2).sum().backward(),
    "grad": lambda: grad(loss)(PARAMETERS, X, Y),
    "per-sample gradients": lambda: vmap(
        grad(lambda p, x, y: loss(p, x[None], y[None])), (None, 0, 0)
    )(PARAMETERS, X, Y),
    "jacrev": lambda: jacrev(plain)(X[0]),
    "jacfwd": lambda: jacfwd(plain)(X[0]),
    "hessian": lambda: hessian(lambda x: plain(x).sum())(X[0]),
    "vjp": lambda: vjp(plain, X)[1](torch.ones(5, 4)),
    "functional.jacobian": lambda: torch.autograd.functional.jacobian(plain, X[0]),
    "checkpoint": checkpointed,
    "state_dict": lambda: MODEL.load_state_dict(MODEL.state_dict()),
    "save": saved,
    "SGD": step(torch.optim.SGD),
    "Adam": step(torch.optim.Adam),
    "LBFGS": step(torch.optim.LBFGS),
    "compiled": compiled(),
}


def tensors_left(call):
    """The numbers of tensors and of arrays that only the garbage collector frees after a call."""
    call()  # what is made once
    gc.disable()
    gc.freeze()  # so that only what is made from here on is looked at
    gc.set_debug(gc.DEBUG_SAVEALL)
    try:
        call()
        gc.collect()
        left = [*gc.garbage, *(v for o in gc.garbage for v in gc.get_referents(o))]
    finally:
        gc.set_debug(0)
        gc.garbage.clear()
        gc.unfreeze()
        gc.enable()
    kinds = torch.Tensor, np.ndarray
    return tuple(len({id(v) for v in left if isinstance(v, kind)}) for kind in kinds)


def test_what_is_left_is_seen():
    def cycle():
        held = [X + 1]
        held.append(held)

    assert tensors_left(cycle) == (1, 1)  # the tensor, and its array


@pytest.mark.parametrize("name", CALLS)
def test_no_tensor_waits_for_the_garbage_collector(name):
    assert tensors_left(CALLS[name]) == (0, 0)
