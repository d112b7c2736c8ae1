"""Transforms of functions."""

import torch
from torch.func import (
    functional_call,
    grad,
    grad_and_value,
    hessian,
    jacfwd,
    jacrev,
    jvp,
    stack_module_state,
    vjp,
    vmap,
)

x = torch.tensor([1.0, 2.0, 3.0])
print(grad(lambda x: x.sin().sum())(x), grad(grad(lambda x: x**3))(torch.tensor(2.0)))
out, fn = vjp(lambda x: x * x, x)
print(out, fn(torch.ones(3)))
out, fn = vjp(lambda x, y: (x * y, x + y), x, x)
print(out, fn((torch.ones(3), torch.ones(3))))
print(jvp(torch.sin, (x,), (torch.ones(3),)))
print(jacrev(lambda x: x**2)(x), jacfwd(lambda x: x**2)(x), hessian(lambda x: (x**3).sum())(x))
print(jacrev(lambda x, y: (x * y).sum(), argnums=(0, 1))(x, x))
print(jacrev(lambda x: {"a": x, "b": x.sum()})(x))
print(
    vmap(torch.dot)(torch.ones(5, 3), torch.ones(5, 3)),
    vmap(lambda a, b: a + b, in_dims=(0, None))(torch.eye(2), torch.ones(2)),
)
print(vmap(lambda a: (a, a * 2), out_dims=(0, 1))(torch.arange(6.0).view(2, 3)))
print(vmap(grad(lambda x: (x**2).sum()))(torch.arange(4.0).view(2, 2)))
m = torch.nn.Linear(2, 1)
m.weight.data.fill_(1)
m.bias.data.fill_(0)
p = dict(m.named_parameters())


def loss(p, x, y):
    return ((functional_call(m, p, (x,)) - y) ** 2).mean()


g = grad(loss)(p, torch.ones(4, 2), torch.zeros(4, 1))
print({k: v.detach() for k, v in g.items()})
g = vmap(grad(loss), in_dims=(None, 0, 0))(p, torch.ones(4, 2), torch.zeros(4, 1))
print({k: (v.shape, v.requires_grad) for k, v in g.items()})
print(grad_and_value(lambda x: (x.sum(), x * 2), has_aux=True)(x))
w = torch.ones(3, requires_grad=True)
print(grad(lambda x: (x * w * x).sum())(x).requires_grad, grad(lambda x: (x * x).sum())(w))
with torch.no_grad():
    print(grad(lambda x: (x * w * x).sum())(x))
ps, bs = stack_module_state([torch.nn.Linear(2, 1) for _ in range(3)])
print({k: (v.shape, v.is_leaf, v.requires_grad) for k, v in ps.items()})
for f in [
    lambda: grad(lambda x: x)(x),
    lambda: grad(lambda x: x.sum(), argnums=2)(x),
    lambda: vmap(torch.dot)(torch.ones(2, 3), torch.ones(3, 3)),
]:
    try:
        f()
        print("none")
    except Exception as e:
        print(type(e).__name__)
from torch.utils._pytree import tree_map

print(tree_map(lambda x: x + 1, {"a": [1, (2, 3)]}))
torch.compiler.is_compiling()
f = lambda x: x


@torch.jit.script_if_tracing
def h(x):
    return x * 2


@torch.jit.script
def h2(x: torch.Tensor):
    return x * 2


print(h(x), h2(x), torch.jit.trace(torch.nn.ReLU(), (x,))(x))
