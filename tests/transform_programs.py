"""Programs with function transforms as users of PyTorch write them.

Each takes the library and returns (values that both libraries compute alike, pairs of values that agree).
"""

from __future__ import annotations

import copy
from functools import partial


class Net:
    """The layers of a small image classifier, for either library."""

    def __new__(cls, torch):
        nn, F = torch.nn, torch.nn.functional

        class Classifier(nn.Module):
            def __init__(self):
                super().__init__()
                self.conv1, self.conv2 = nn.Conv2d(1, 4, 3, 1), nn.Conv2d(4, 8, 3, 1)
                self.fc1, self.fc2 = nn.Linear(8 * 4 * 4, 16), nn.Linear(16, 10)

            def forward(self, x):
                x = F.relu(self.conv1(x))
                x = F.max_pool2d(F.relu(self.conv2(x)), 2)
                x = F.relu(self.fc1(torch.flatten(x, 1)))
                return F.log_softmax(self.fc2(x), dim=1)

        return Classifier()


def state(module):
    parameters = {name: p.detach() for name, p in module.named_parameters()}
    return parameters, {name: b.detach() for name, b in module.named_buffers()}


def per_sample_gradients(torch):
    """The gradient of each image of a batch: by a loop, by `vmap` over `grad`, and in chunks."""
    torch.manual_seed(0)
    model, F = Net(torch), torch.nn.functional
    data, targets = torch.randn(6, 1, 12, 12), torch.randint(10, (6,))
    by_loop = [
        torch.autograd.grad(F.nll_loss(model(x[None]), t[None]), list(model.parameters()))
        for x, t in zip(data, targets)
    ]
    by_loop = [torch.stack(rows) for rows in zip(*by_loop)]
    parameters, buffers = state(model)

    def loss_of_one(parameters, buffers, sample, target):
        scores = torch.func.functional_call(model, (parameters, buffers), (sample.unsqueeze(0),))
        return F.nll_loss(scores, target.unsqueeze(0))

    of_one = torch.func.grad(loss_of_one)
    each = torch.vmap(of_one, in_dims=(None, None, 0, 0))(parameters, buffers, data, targets)
    chunks = torch.vmap(of_one, (None, None, 0, 0), chunk_size=4)(
        parameters, buffers, data, targets
    )
    norms = torch.stack([g.flatten(1).norm(dim=1) for g in each.values()]).norm(dim=0)
    return [norms], [*zip(each.values(), by_loop), *zip(chunks.values(), by_loop)]


def jacobians_and_hessians(torch):
    """Jacobians by rows and by columns, Hessians by all four ways, of one sample and of a batch."""
    func, F = torch.func, torch.nn.functional
    torch.manual_seed(0)
    weight, bias, x = torch.randn(5, 5), torch.randn(5), torch.randn(5)

    def predict(weight, bias, x):
        return F.linear(x, weight, bias).tanh()

    tracked = x.clone().requires_grad_()
    y = predict(weight, bias, tracked)
    rows = torch.stack(
        [torch.autograd.grad(y, tracked, v, retain_graph=True)[0] for v in torch.eye(5)]
    )
    value, pull = func.vjp(partial(predict, weight, bias), x)
    (pulled,) = torch.vmap(pull)(torch.eye(5))
    jacobian = func.jacrev(predict, argnums=2)(weight, bias, x)
    of_weight, of_bias = func.jacrev(predict, argnums=(0, 1))(weight, bias, x)
    hessians = [
        outer(inner(predict, argnums=2), argnums=2)(weight, bias, x)
        for outer in (func.jacrev, func.jacfwd)
        for inner in (func.jacrev, func.jacfwd)
    ]
    batch = torch.randn(7, 5)
    each = torch.vmap(func.jacrev(predict, argnums=2), in_dims=(None, None, 0))(weight, bias, batch)
    summed = func.jacrev(lambda *a: predict(*a).sum(0), argnums=2)(weight, bias, batch).movedim(
        1, 0
    )

    def product(f, at, v):
        return func.jvp(func.grad(f), (at,), (v,))[1]

    def cubes(x):
        return x.pow(3).sum()

    v = torch.randn(5)
    pairs = [
        (value, y.detach()), (pulled, rows), (jacobian, rows),
        (func.jacfwd(predict, argnums=2)(weight, bias, x), rows), (each, summed),
        (func.hessian(predict, argnums=2)(weight, bias, x), hessians[0]),
        (of_bias, torch.diag_embed(1 - value**2)), (product(cubes, x, v), 6 * x * v),
    ]  # fmt: skip
    return [jacobian, of_weight, hessians[0], each], pairs + [(h, hessians[0]) for h in hessians]


def ensembles(torch):
    """Several models at once: on one batch each, and all on one; the base model has no memory."""
    nn, func = torch.nn, torch.func
    torch.manual_seed(0)
    models = [
        nn.Sequential(nn.Flatten(), nn.Linear(12, 8), nn.ReLU(), nn.BatchNorm1d(8), nn.Linear(8, 3))
        for _ in range(4)
    ]
    for model in models:
        model.eval()
    data = torch.randn(4, 5, 3, 4)
    parameters, buffers = func.stack_module_state(models)
    base = copy.deepcopy(models[0]).to("meta")

    def call(parameters, buffers, x):
        return func.functional_call(base, (parameters, buffers), (x,))

    apart = torch.vmap(call)(parameters, buffers, data)
    together = torch.vmap(call, in_dims=(0, 0, None))(parameters, buffers, data[0])
    loss = lambda p, b, x: call(p, b, x).square().mean()  # noqa: E731
    gradients = torch.vmap(func.grad(loss))(
        {k: p.detach() for k, p in parameters.items()}, buffers, data
    )
    apart.square().mean((1, 2)).sum().backward()
    pairs = [(apart[k], model(x)) for k, (model, x) in enumerate(zip(models, data))]
    pairs += [(together[k], model(data[0])) for k, model in enumerate(models)]
    pairs += [(gradients[k], p.grad) for k, p in parameters.items()]
    return [apart.detach(), together.detach()], pairs


def tangent_kernels(torch):
    """The kernel J(x1) J(x2)ᵀ of a network: by Jacobians that are contracted, and without making any."""
    nn, func = torch.nn, torch.func
    torch.manual_seed(0)
    net = nn.Sequential(
        nn.Conv2d(2, 4, 3), nn.ReLU(), nn.Conv2d(4, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(16, 5)
    )
    first, second = torch.randn(3, 2, 6, 6), torch.randn(2, 2, 6, 6)
    parameters, _ = state(net)

    def one(parameters, x):
        return func.functional_call(net, parameters, (x.unsqueeze(0),)).squeeze(0)

    def contracted(kind):
        jacobian = torch.vmap(func.jacrev(one), (None, 0))
        left, right = (
            [j.flatten(2) for j in jacobian(parameters, x).values()] for x in (first, second)
        )
        form = {"full": "Naf,Mbf->NMab", "trace": "Naf,Maf->NM", "diagonal": "Naf,Maf->NMa"}[kind]
        return torch.stack([torch.einsum(form, a, b) for a, b in zip(left, right)]).sum(0)

    def by_products(x1, x2):
        of_first, of_second = partial(one, x=x1), partial(one, x=x2)
        output, pull = func.vjp(of_second, parameters)

        def slice_of(v):
            return func.jvp(of_first, (parameters,), pull(v))[1]

        return torch.vmap(slice_of)(torch.eye(output.numel())).transpose(0, 1)

    full = contracted("full")
    implicit = torch.vmap(torch.vmap(by_products, (None, 0)), (0, None))(first, second)
    diagonal = torch.einsum("NMaa->NMa", full)
    pairs = [
        (implicit, full),
        (contracted("diagonal"), diagonal),
        (contracted("trace"), diagonal.sum(-1)),
    ]
    return [full], pairs


def forward_mode(torch):
    """Tangents: of duals, of a module's parameters, of a function that has its own rule, and by `jvp`."""
    fwAD, nn, func = torch.autograd.forward_ad, torch.nn, torch.func
    torch.manual_seed(0)
    x, t = torch.randn(10, 10), torch.randn(10, 10)

    def f(x, y):
        return x**2 + y**2

    with fwAD.dual_level():
        dual = fwAD.make_dual(x, t)
        assert fwAD.unpack_dual(dual).tangent is t
        tangent = fwAD.unpack_dual(f(dual, x)).tangent
        assert fwAD.unpack_dual(f(x, x)).tangent is None
    assert fwAD.unpack_dual(f(dual, x)).tangent is None
    model, data = nn.Linear(5, 5), torch.randn(16, 5)
    tangents = {name: torch.rand_like(p) for name, p in model.named_parameters()}
    parameters, _ = state(model)
    with fwAD.dual_level():
        for name, p in parameters.items():
            delattr(model, name)
            setattr(model, name, fwAD.make_dual(p, tangents[name]))
        moved = fwAD.unpack_dual(model(data)).tangent
    linear = data @ tangents["weight"].t() + tangents["bias"]

    class Scaled(torch.autograd.Function):
        @staticmethod
        def forward(ctx, a):
            result = torch.exp(a) * 3
            ctx.result = result
            ctx.save_for_forward(a)
            return result

        @staticmethod
        def jvp(ctx, tangent):
            return ctx.result * tangent

    with fwAD.dual_level():
        own = fwAD.unpack_dual(Scaled.apply(fwAD.make_dual(x.double(), t.double()))).tangent
    cubes = lambda x: (x**3).sum()  # noqa: E731
    once = func.jvp(cubes, (x,), (t,))[1]
    twice = func.jvp(lambda x: func.jvp(cubes, (x,), (t,))[1], (x,), (t,))[1]
    pairs = [
        (tangent, 2 * x * t), (moved, linear), (own, 3 * x.double().exp() * t.double()),
        (once, (3 * x**2 * t).sum()), (twice, (6 * x * t**2).sum()),
    ]  # fmt: skip
    return [tangent, moved, own, once, twice], pairs


def physics_informed_network(torch):
    """A network that solves u'' = -sin(x), u(0) = u(pi) = 0: second derivatives in its loss, by either way."""
    nn, func = torch.nn, torch.func
    points = torch.linspace(0, torch.pi, 24, dtype=torch.float64)[:, None]
    edges = points[[0, -1]]

    def network():
        torch.manual_seed(0)
        return nn.Sequential(
            nn.Linear(1, 16), nn.Tanh(), nn.Linear(16, 16), nn.Tanh(), nn.Linear(16, 1)
        ).double()

    def curved_by_graph(net):
        x = points.clone().requires_grad_()
        (first,) = torch.autograd.grad(net(x).sum(), x, create_graph=True)
        return torch.autograd.grad(first.sum(), x, create_graph=True)[0]

    def curved_by_hessian(net):
        second = func.jacfwd(
            func.jacrev(lambda x: func.functional_call(net, dict(net.named_parameters()), (x,)))
        )
        return torch.vmap(second)(points).reshape(-1, 1)

    def trained(curved, steps):
        net, losses = network(), []
        optimizer = torch.optim.Adam(net.parameters(), lr=0.02)
        for _ in range(steps):
            optimizer.zero_grad()
            residual = curved(net) + torch.sin(points)
            loss = residual.square().mean() + net(edges).square().mean()
            loss.backward()
            optimizer.step()
            losses.append(loss.detach())
        return net, torch.stack(losses)

    net, losses = trained(curved_by_graph, 300)
    _, others = trained(curved_by_hessian, 10)
    error = (net(points) - torch.sin(points)).abs().max().detach()
    small = error < 0.02
    return [losses[:10]], [(losses[:10], others), (small, torch.ones_like(small))]


PROGRAMS = [
    per_sample_gradients, jacobians_and_hessians, ensembles, tangent_kernels, forward_mode,
    physics_informed_network,
]  # fmt: skip
