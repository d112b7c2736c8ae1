"""The steps of `compile_cases.py` in JAX: `jax.jit` of a whole step, whose state is donated."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

State = Any
rng = np.random.default_rng(0)


def normal(*shape: int, scale: float = 1.0) -> Any:
    return jnp.asarray(rng.standard_normal(shape) * scale, jnp.float32)


def linear(a: int, b: int) -> dict[str, Any]:
    return {"w": normal(a, b, scale=a**-0.5), "b": jnp.zeros(b)}


def conv(a: int, b: int, k: int, bias: bool = True) -> dict[str, Any]:
    made = {"w": normal(b, a, k, k, scale=(a * k * k) ** -0.5)}
    return made | {"b": jnp.zeros(b)} if bias else made


def norm(n: int) -> dict[str, Any]:
    return {"w": jnp.ones(n), "b": jnp.zeros(n)}


def apply(p: Any, x: Any) -> Any:
    return x @ p["w"] + p["b"]


def convolve(p: Any, x: Any, stride: int = 1, padding: int = 0) -> Any:
    y = lax.conv_general_dilated(x, p["w"], (stride, stride), [(padding, padding)] * 2)
    return y + p["b"][:, None, None] if "b" in p else y


def layer_norm(p: Any, x: Any) -> Any:
    mean = x.mean(-1, keepdims=True)
    variance = ((x - mean) ** 2).mean(-1, keepdims=True)
    return (x - mean) * lax.rsqrt(variance + 1e-5) * p["w"] + p["b"]


def batch_norm(p: Any, running: Any, x: Any) -> tuple[Any, Any]:
    """The normalised batch, and the running mean and variance."""
    mean, variance = x.mean((0, 2, 3)), x.var((0, 2, 3))
    n = x.size // x.shape[1]
    scale = (p["w"] * lax.rsqrt(variance + 1e-5))[:, None, None]
    y = (x - mean[:, None, None]) * scale + p["b"][:, None, None]
    known = (0.9 * running[0] + 0.1 * mean, 0.9 * running[1] + 0.1 * variance * (n / (n - 1)))
    return y, known


def pool(x: Any) -> Any:
    return lax.reduce_window(x, -jnp.inf, lax.max, (1, 1, 2, 2), (1, 1, 2, 2), "VALID")


def dropout(key: Any, x: Any, p: float) -> Any:
    return jnp.where(jax.random.bernoulli(key, 1 - p, x.shape), x / (1 - p), 0)


def cross_entropy(x: Any, y: Any) -> Any:
    return -jnp.take_along_axis(jax.nn.log_softmax(x), y[..., None], -1).mean()


def adam(parameters: Any, decay: float = 0.0) -> tuple[Any, Callable]:
    """The state of Adam, and the function that makes a step."""
    zeros = jax.tree.map(jnp.zeros_like, parameters)

    def step(p: Any, g: Any, state: Any) -> tuple[Any, Any]:
        m, v, t = state
        t = t + 1
        m = jax.tree.map(lambda m, g: 0.9 * m + 0.1 * g, m, g)
        v = jax.tree.map(lambda v, g: 0.999 * v + 0.001 * g * g, v, g)
        a, b = 1 - 0.9**t, 1 - 0.999**t

        def new(p: Any, m: Any, v: Any) -> Any:
            return p * (1 - 1e-3 * decay) - 1e-3 * (m / a) / (jnp.sqrt(v / b) + 1e-8)

        return jax.tree.map(new, p, m, v), (m, v, t)

    return (zeros, jax.tree.map(jnp.copy, zeros), jnp.float32(0)), step


def trained(
    parameters: Any, loss: Callable, *data: Any, optimizer: Any = None, extra: Any = None
) -> Callable:
    """A training step. `loss(parameters, extra, key, *data)` gives the loss and what becomes of `extra`."""
    state, update = optimizer or adam(parameters)

    def step(p: Any, state: Any, extra: Any, key: Any, *data: Any) -> tuple:
        key, now = jax.random.split(key)
        (value, extra), g = jax.value_and_grad(loss, has_aux=True)(p, extra, now, *data)
        p, state = update(p, g, state)
        return value, p, state, extra, key

    compiled = jax.jit(step, donate_argnums=(0, 1, 2, 3))
    held = [parameters, state, extra, jax.random.key(0)]

    def run() -> Any:
        value, *held[:] = compiled(*held, *data)
        return value.block_until_ready()

    return run


def classifying(
    parameters: Any, model: Callable, *shape: int, count: int = 10, **more: Any
) -> Callable:
    x, y = normal(*shape), jnp.asarray(rng.integers(0, count, more.pop("targets", shape[0])))

    def loss(p: Any, extra: Any, key: Any, x: Any, y: Any) -> tuple[Any, Any]:
        out, extra = model(p, extra, key, x)
        return cross_entropy(out, y), extra

    return trained(parameters, loss, x, y, **more)


def mlp() -> Callable:
    p = [linear(64, 128), linear(128, 128), linear(128, 10)]

    def model(p: Any, extra: Any, key: Any, x: Any) -> Any:
        x = jax.nn.relu(apply(p[0], x))
        return apply(p[2], jax.nn.relu(apply(p[1], x))), extra

    return classifying(p, model, 64, 64)


def cnn() -> Callable:
    p = [conv(1, 32, 3), conv(32, 64, 3), linear(9216, 128), linear(128, 10)]

    def model(p: Any, extra: Any, key: Any, x: Any) -> Any:
        x = jax.nn.relu(convolve(p[0], x))
        x = pool(jax.nn.relu(convolve(p[1], x)))
        a, b = jax.random.split(key)
        x = dropout(a, x, 0.25).reshape(x.shape[0], -1)
        return apply(p[3], dropout(b, jax.nn.relu(apply(p[2], x)), 0.5)), extra

    return classifying(p, model, 32, 1, 28, 28)


def resnet18() -> tuple[Any, Any, list]:
    p, running, shapes = [conv(3, 64, 3, False), norm(64)], [(jnp.zeros(64), jnp.ones(64))], []
    for a, b, stride in ((64, 64, 1), (64, 128, 2), (128, 256, 2), (256, 512, 2)):
        for first, s in ((a, stride), (b, 1)):
            p += [conv(first, b, 3, False), norm(b), conv(b, b, 3, False), norm(b)]
            skip = s != 1 or first != b
            p += [conv(first, b, 1, False), norm(b)] if skip else []
            running += [(jnp.zeros(b), jnp.ones(b)) for _ in range(3 if skip else 2)]
            shapes.append((s, skip))
    return [*p, linear(512, 10)], running, shapes


def resnet() -> Callable:
    p, running, shapes = resnet18()

    def model(p: Any, running: Any, key: Any, x: Any) -> Any:
        left, known, after = iter(p), iter(running), []

        def normal(x: Any) -> Any:
            y, now = batch_norm(next(left), next(known), x)
            after.append(now)
            return y

        x = jax.nn.relu(normal(convolve(next(left), x, 1, 1)))
        for stride, skip in shapes:
            y = jax.nn.relu(normal(convolve(next(left), x, stride, 1)))
            y = normal(convolve(next(left), y, 1, 1))
            x = jax.nn.relu(y + (normal(convolve(next(left), x, stride)) if skip else x))
        return apply(next(left), x.mean((2, 3))), after

    zeros = jax.tree.map(jnp.zeros_like, p)

    def sgd(p: Any, g: Any, buffers: Any) -> tuple[Any, Any]:
        buffers = jax.tree.map(lambda b, g: 0.9 * b + g, buffers, g)
        return jax.tree.map(lambda p, b: p - 0.01 * b, p, buffers), buffers

    return classifying(p, model, 8, 3, 32, 32, optimizer=(zeros, sgd), extra=running)


def attention(q: Any, k: Any, v: Any, causal: bool) -> Any:
    scores = q @ k.swapaxes(-1, -2) / q.shape[-1] ** 0.5
    if causal:
        n = q.shape[-2]
        scores = jnp.where(jnp.tril(jnp.ones((n, n), bool)), scores, -jnp.inf)
    return jax.nn.softmax(scores) @ v


def block_of(wide: int) -> dict[str, Any]:
    made = {"first": norm(wide), "second": norm(wide), "qkv": linear(wide, 3 * wide)}
    return made | {
        "out": linear(wide, wide),
        "a": linear(wide, 4 * wide),
        "b": linear(4 * wide, wide),
    }


def block(p: Any, x: Any, known: Any = None) -> Any:
    b, n, c = x.shape
    parts = jnp.split(apply(p["qkv"], layer_norm(p["first"], x)), 3, 2)
    q, k, v = (t.reshape(b, n, 4, c // 4).swapaxes(1, 2) for t in parts)
    if known is not None:
        k, v = jnp.concatenate([known[0], k], 2), jnp.concatenate([known[1], v], 2)
    y = attention(q, k, v, known is None)
    x = x + apply(p["out"], y.swapaxes(1, 2).reshape(b, n, c))
    hidden = jax.nn.gelu(apply(p["a"], layer_norm(p["second"], x)), approximate=False)
    return x + apply(p["b"], hidden)


def gpt() -> Callable:
    p = {
        "words": normal(100, 64),
        "blocks": [block_of(64), block_of(64)],
        "norm": norm(64),
        "head": linear(64, 100),
    }
    x, y = (jnp.asarray(rng.integers(0, 100, (8, 64))) for _ in range(2))

    def loss(p: Any, extra: Any, key: Any, x: Any, y: Any) -> tuple[Any, Any]:
        h = p["words"][x]
        for q in p["blocks"]:
            h = block(q, h)
        return cross_entropy(apply(p["head"], layer_norm(p["norm"], h)), y), extra

    return trained(p, loss, x, y, optimizer=adam(p, 0.01))


def vae() -> Callable:
    p = [linear(784, 400), linear(400, 20), linear(400, 20), linear(20, 400), linear(400, 784)]
    x = jnp.asarray(rng.random((64, 784)), jnp.float32)

    def loss(p: Any, extra: Any, key: Any, x: Any) -> tuple[Any, Any]:
        h = jax.nn.relu(apply(p[0], x))
        mu, log_var = apply(p[1], h), apply(p[2], h)
        z = mu + jax.random.normal(key, mu.shape) * jnp.exp(0.5 * log_var)
        y = jax.nn.sigmoid(apply(p[4], jax.nn.relu(apply(p[3], z))))
        found = -(x * jnp.maximum(jnp.log(y), -100) + (1 - x) * jnp.maximum(jnp.log1p(-y), -100))
        return found.sum() - 0.5 * (1 + log_var - mu**2 - jnp.exp(log_var)).sum(), extra

    return trained(p, loss, x)


def mixer() -> Callable:
    def layer() -> dict[str, Any]:
        return {
            "first": norm(128), "second": norm(128), "a": linear(64, 64), "b": linear(64, 64),
            "c": linear(128, 256), "d": linear(256, 128),
        }  # fmt: skip

    p = {
        "patches": conv(3, 128, 4),
        "layers": [layer() for _ in range(4)],
        "norm": norm(128),
        "head": linear(128, 10),
    }

    def model(p: Any, extra: Any, key: Any, x: Any) -> Any:
        x = convolve(p["patches"], x, 4).reshape(x.shape[0], 128, 64).swapaxes(1, 2)
        for q in p["layers"]:
            h = apply(q["a"], layer_norm(q["first"], x).swapaxes(1, 2))
            x = x + apply(q["b"], jax.nn.gelu(h, approximate=False)).swapaxes(1, 2)
            h = apply(q["c"], layer_norm(q["second"], x))
            x = x + apply(q["d"], jax.nn.gelu(h, approximate=False))
        return apply(p["head"], layer_norm(p["norm"], x).mean(1)), extra

    return classifying(p, model, 8, 3, 32, 32, optimizer=adam(p, 0.01))


def pinn() -> Callable:
    p = [linear(1, 32), linear(32, 32), linear(32, 1)]
    x = jnp.linspace(0, 1, 200).reshape(-1, 1)

    def net(p: Any, t: Any) -> Any:
        h = jnp.tanh(apply(p[0], t))
        return apply(p[2], jnp.tanh(apply(p[1], h)))

    def loss(p: Any, extra: Any, key: Any, x: Any) -> tuple[Any, Any]:
        first = jax.grad(lambda t: net(p, t).sum())
        second = jax.grad(lambda t: first(t).sum())(x)
        u = net(p, x)
        return ((second + u) ** 2).mean() + (u[0] ** 2).mean(), extra

    return trained(p, loss, x)


def gru() -> Callable:
    p = {"x": linear(32, 192), "h": linear(64, 192), "head": linear(64, 10)}

    def model(p: Any, extra: Any, key: Any, x: Any) -> Any:
        def cell(h: Any, x: Any) -> tuple[Any, None]:
            a, b = jnp.split(apply(p["x"], x), 3, -1), jnp.split(apply(p["h"], h), 3, -1)
            r, z = jax.nn.sigmoid(a[0] + b[0]), jax.nn.sigmoid(a[1] + b[1])
            n = jnp.tanh(a[2] + r * b[2])
            return (1 - z) * n + z * h, None

        h, _ = lax.scan(cell, jnp.zeros((x.shape[1], 64)), x)
        return apply(p["head"], h), extra

    return classifying(p, model, 20, 16, 32, targets=16)


def unet() -> Callable:
    sizes = ((3, 16), (16, 32), (32, 64), (64, 32), (32, 16))
    p: dict[str, Any] = {
        "blocks": [[conv(a, b, 3), norm(b), conv(b, b, 3), norm(b)] for a, b in sizes],
        "up": [{"w": normal(64, 32, 2, 2, scale=0.06), "b": jnp.zeros(32)},
               {"w": normal(32, 16, 2, 2, scale=0.09), "b": jnp.zeros(16)}],
        "head": conv(16, 2, 1),
    }  # fmt: skip
    running = [(jnp.zeros(b), jnp.ones(b)) for _, b in sizes for _ in range(2)]

    def model(p: Any, running: Any, key: Any, x: Any) -> Any:
        known, after = iter(running), []

        def pair(q: Any, x: Any) -> Any:
            for c, n in ((q[0], q[1]), (q[2], q[3])):
                x, now = batch_norm(n, next(known), convolve(c, x, 1, 1))
                after.append(now)
                x = jax.nn.relu(x)
            return x

        def up(q: Any, x: Any) -> Any:
            b, _, h, w = x.shape
            y = jnp.einsum("bchw,cdij->bdhiwj", x, q["w"]).reshape(b, -1, 2 * h, 2 * w)
            return y + q["b"][:, None, None]

        a = pair(p["blocks"][0], x)
        b = pair(p["blocks"][1], pool(a))
        c = pair(p["blocks"][2], pool(b))
        b = pair(p["blocks"][3], jnp.concatenate([up(p["up"][0], c), b], 1))
        b = pair(p["blocks"][4], jnp.concatenate([up(p["up"][1], b), a], 1))
        return convolve(p["head"], b).transpose(0, 2, 3, 1), after

    return classifying(p, model, 4, 3, 32, 32, count=2, extra=running, targets=(4, 32, 32))


def inferred(f: Callable, *given: Any) -> Callable:
    compiled = jax.jit(f)
    return lambda: compiled(*given).block_until_ready()


def image() -> Callable:
    p, running, shapes = resnet18()

    def model(p: Any, running: Any, x: Any) -> Any:
        left, known = iter(p), iter(running)

        def normal(x: Any) -> Any:
            q, (mean, variance) = next(left), next(known)
            scale = q["w"] * lax.rsqrt(variance + 1e-5)
            return x * scale[:, None, None] + (q["b"] - mean * scale)[:, None, None]

        x = jax.nn.relu(normal(convolve(next(left), x, 1, 1)))
        for stride, skip in shapes:
            y = jax.nn.relu(normal(convolve(next(left), x, stride, 1)))
            y = normal(convolve(next(left), y, 1, 1))
            x = jax.nn.relu(y + (normal(convolve(next(left), x, stride)) if skip else x))
        return apply(next(left), x.mean((2, 3)))

    return inferred(model, p, running, normal(1, 3, 32, 32))


def token() -> Callable:
    p = {
        "words": normal(100, 128),
        "blocks": [block_of(128) for _ in range(4)],
        "norm": norm(128),
        "head": linear(128, 100),
    }
    known = [(normal(1, 4, 64, 32), normal(1, 4, 64, 32)) for _ in range(4)]

    def model(p: Any, known: Any, last: Any) -> Any:
        x = p["words"][last]
        for q, pair in zip(p["blocks"], known, strict=True):
            x = block(q, x, pair)
        return apply(p["head"], layer_norm(p["norm"], x))

    return inferred(model, p, known, jnp.zeros((1, 1), jnp.int32))


def step_of(case: str) -> Callable:
    """The step of a case."""
    return globals()[case]()
