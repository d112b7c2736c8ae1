"""Every distribution, transform and divergence against PyTorch's: samples of a seed, values, gradients, errors."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import rushlight  # noqa: E402

BOTH = (rushlight, torch)

# name -> (parameters as a function of (library, tensor maker), the values at which to compare)
UNIT, POSITIVE, REAL = [0.1, 0.35, 0.8], [0.2, 1.1, 3.5], [-1.5, 0.2, 2.5]
CASES = {
    "Bernoulli": (lambda t, T: {"probs": T([0.2, 0.5, 0.9])}, [0.0, 1.0, 1.0]),
    "Bernoulli logits": (lambda t, T: {"logits": T([-1.0, 0.5, 2.0])}, [0.0, 1.0, 1.0]),
    "Beta": (
        lambda t, T: {"concentration1": T([0.5, 2.0, 3.0]), "concentration0": T([1.5, 0.7, 4.0])},
        UNIT,
    ),
    "Binomial": (lambda t, T: {"total_count": 5, "probs": T([0.2, 0.5, 0.9])}, [0.0, 3.0, 5.0]),
    "Categorical": (lambda t, T: {"probs": T([[0.2, 0.5, 0.3], [1.0, 1.0, 2.0]])}, [0, 2]),
    "Categorical logits": (lambda t, T: {"logits": T([[0.2, 0.5, 0.3], [1.0, 1.0, 2.0]])}, [0, 2]),
    "Cauchy": (lambda t, T: {"loc": T(REAL), "scale": T(POSITIVE)}, REAL),
    "Chi2": (lambda t, T: {"df": T([1.0, 3.0, 5.5])}, POSITIVE),
    "ContinuousBernoulli": (lambda t, T: {"probs": T([0.2, 0.5, 0.9])}, UNIT),
    "Dirichlet": (
        lambda t, T: {"concentration": T([[0.5, 2.0, 3.0], [1.5, 1.0, 4.0]])},
        [0.2, 0.5, 0.3],
    ),
    "Exponential": (lambda t, T: {"rate": T(POSITIVE)}, POSITIVE),
    "FisherSnedecor": (
        lambda t, T: {"df1": T([1.0, 3.0, 5.5]), "df2": T([3.0, 5.0, 2.0])},
        POSITIVE,
    ),
    "Gamma": (lambda t, T: {"concentration": T(POSITIVE), "rate": T([1.5, 0.7, 4.0])}, POSITIVE),
    "GeneralizedPareto": (
        lambda t, T: {
            "loc": T([0.0, 0.1, 0.2]),
            "scale": T(POSITIVE),
            "concentration": T([0.1, 0.0, 0.7]),
        },
        [0.3, 1.1, 2.5],
    ),
    "Geometric": (lambda t, T: {"probs": T([0.2, 0.5, 0.9])}, [0.0, 3.0, 5.0]),
    "Gumbel": (lambda t, T: {"loc": T(REAL), "scale": T(POSITIVE)}, REAL),
    "HalfCauchy": (lambda t, T: {"scale": T(POSITIVE)}, POSITIVE),
    "HalfNormal": (lambda t, T: {"scale": T(POSITIVE)}, POSITIVE),
    "InverseGamma": (
        lambda t, T: {"concentration": T(POSITIVE), "rate": T([1.5, 0.7, 4.0])},
        POSITIVE,
    ),
    "Kumaraswamy": (
        lambda t, T: {"concentration1": T([0.5, 2.0, 3.0]), "concentration0": T([1.5, 1.7, 4.0])},
        UNIT,
    ),
    "LKJCholesky": (lambda t, T: {"dim": 3, "concentration": T([0.5, 2.0])}, None),
    "Laplace": (lambda t, T: {"loc": T(REAL), "scale": T(POSITIVE)}, REAL),
    "LogNormal": (lambda t, T: {"loc": T(REAL), "scale": T(POSITIVE)}, POSITIVE),
    "LogisticNormal": (
        lambda t, T: {"loc": T([0.1, 0.5]), "scale": T([1.0, 0.5])},
        [0.2, 0.5, 0.3],
    ),
    "LowRankMultivariateNormal": (
        lambda t, T: {
            "loc": T(REAL),
            "cov_factor": T([[1.0], [0.5], [-1.0]]),
            "cov_diag": T(POSITIVE),
        },
        REAL,
    ),
    "Multinomial": (lambda t, T: {"total_count": 6, "probs": T([0.2, 0.5, 0.3])}, [1.0, 3.0, 2.0]),
    "MultivariateNormal": (
        lambda t, T: {
            "loc": T(REAL),
            "scale_tril": T([[1.0, 0, 0], [0.5, 2, 0], [-1.0, 0.3, 0.7]]),
        },
        REAL,
    ),
    "MultivariateNormal covariance": (
        lambda t, T: {"loc": T([0.0, 1.0]), "covariance_matrix": T([[2.0, 0.5], [0.5, 1.0]])},
        [0.3, 0.4],
    ),
    "MultivariateNormal precision": (
        lambda t, T: {"loc": T([0.0, 1.0]), "precision_matrix": T([[2.0, 0.5], [0.5, 1.0]])},
        [0.3, 0.4],
    ),
    "NegativeBinomial": (
        lambda t, T: {"total_count": 5, "probs": T([0.2, 0.5, 0.9])},
        [0.0, 3.0, 5.0],
    ),
    "Normal": (lambda t, T: {"loc": T(REAL), "scale": T(POSITIVE)}, REAL),
    "OneHotCategorical": (lambda t, T: {"probs": T([0.2, 0.5, 0.3])}, [0.0, 1.0, 0.0]),
    "OneHotCategoricalStraightThrough": (
        lambda t, T: {"probs": T([0.2, 0.5, 0.3])},
        [0.0, 1.0, 0.0],
    ),
    "Pareto": (lambda t, T: {"scale": T([0.1, 0.5, 1.0]), "alpha": T(POSITIVE)}, POSITIVE),
    "Poisson": (lambda t, T: {"rate": T(POSITIVE)}, [0.0, 3.0, 5.0]),
    "RelaxedBernoulli": (lambda t, T: {"temperature": T(0.7), "probs": T([0.2, 0.5, 0.9])}, UNIT),
    "RelaxedOneHotCategorical": (
        lambda t, T: {"temperature": T(0.7), "probs": T([0.2, 0.5, 0.3])},
        [0.2, 0.5, 0.3],
    ),
    "StudentT": (
        lambda t, T: {"df": T([1.0, 3.0, 1.5]), "loc": T(REAL), "scale": T(POSITIVE)},
        REAL,
    ),
    "Uniform": (
        lambda t, T: {"low": T([-2.0, 0.0, 1.0]), "high": T([0.0, 1.0, 4.0])},
        [-1.5, 0.2, 2.5],
    ),
    "VonMises": (lambda t, T: {"loc": T(REAL), "concentration": T(POSITIVE)}, REAL),
    "Weibull": (lambda t, T: {"scale": T(POSITIVE), "concentration": T([1.5, 0.7, 4.0])}, POSITIVE),
    "Wishart": (
        lambda t, T: {"df": T(6.0), "covariance_matrix": T([[2.0, 0.5], [0.5, 1.0]])},
        None,
    ),
}


def made(library, case, grad=False):
    """The distribution of a case and its tensor parameters."""
    leaves = []

    def tensor(values):
        t = library.tensor(values, requires_grad=grad)
        leaves.append(t)
        return t

    parameters = CASES[case][0](library, tensor)
    return getattr(library.distributions, case.split()[0])(**parameters), leaves


def outcome(f):
    """What a call gives: numbers, or the exception's type and text."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return f()
        except Exception as e:
            return type(e).__name__, str(e)


def same(ours, theirs, rtol=2e-5, atol=2e-6, text=True):
    if isinstance(theirs, tuple):
        assert isinstance(ours, tuple), f"PyTorch raises {theirs}, we give {ours}"
        assert ours[0] == theirs[0]
        if text:
            assert ours[1] == theirs[1]
        return
    assert not isinstance(ours, tuple), ours
    assert tuple(ours.shape) == tuple(theirs.shape)
    assert str(ours.dtype) == str(theirs.dtype)
    np.testing.assert_allclose(
        ours.detach().numpy(), theirs.detach().numpy(), rtol=rtol, atol=atol, equal_nan=True
    )


@pytest.mark.parametrize("case", CASES)
def test_samples_of_a_seed(case):
    results = []
    for library in BOTH:
        library.manual_seed(3)
        d, _ = made(library, case)
        results.append([outcome(lambda d=d: d.sample()), outcome(lambda d=d: d.sample((40,)))])
    # the last entries of LKJ's rows are roots of 1 - (about 1)
    atol = 5e-4 if case == "LKJCholesky" else 1e-5
    for ours, theirs in zip(*results, strict=True):
        same(ours, theirs, rtol=1e-4, atol=atol)


@pytest.mark.parametrize("case", [c for c in CASES if c != "Wishart"])  # PyTorch's raises
def test_rsample_and_its_gradient(case):
    results = []
    for library in BOTH:
        library.manual_seed(4)
        d, leaves = made(library, case, grad=True)

        def run(d=d, leaves=leaves, library=library):
            x = d.rsample((7,))
            weights = library.arange(1.0, x.numel() + 1).reshape(x.shape).cos()
            (x * weights).sum().backward()
            return x, [leaf.grad for leaf in leaves]

        results.append(outcome(run))
    if isinstance(results[1][0], str):
        assert results[0][0] == results[1][0]
        return
    assert not isinstance(results[0][0], str), results[0]
    same(results[0][0], results[1][0], rtol=1e-4, atol=1e-5)
    for ours, theirs in zip(results[0][1], results[1][1], strict=True):
        assert (ours is None) == (theirs is None)
        if theirs is not None:
            same(ours, theirs, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("name", ["mean", "mode", "variance", "stddev"])
@pytest.mark.parametrize("case", CASES)
def test_moments(case, name):
    if (case, name) == ("Kumaraswamy", "mode"):
        pytest.skip("PyTorch's is nan; ours is checked in tests/test_distributions.py")
    ours, theirs = (outcome(lambda t=t: getattr(made(t, case)[0], name)) for t in BOTH)
    same(ours, theirs, text=False)


@pytest.mark.parametrize("case", CASES)
def test_entropy_support_and_shapes(case):
    ours, theirs = (made(t, case)[0] for t in BOTH)
    same(outcome(ours.entropy), outcome(theirs.entropy), text=False)
    same(outcome(ours.perplexity), outcome(theirs.perplexity), rtol=1e-4, text=False)
    same(outcome(ours.enumerate_support), outcome(theirs.enumerate_support), text=False)
    assert repr(ours) == repr(theirs)
    assert repr(ours.support) == repr(theirs.support)
    assert ours.support.event_dim == theirs.support.event_dim
    assert ours.support.is_discrete == theirs.support.is_discrete
    assert ours.has_rsample == theirs.has_rsample
    assert ours.has_enumerate_support == theirs.has_enumerate_support
    assert {k: repr(v) for k, v in ours.arg_constraints.items()} == {
        k: repr(v) for k, v in theirs.arg_constraints.items()
    }
    wide, wider = (d.expand((4, *d.batch_shape)) for d in (ours, theirs))
    assert tuple(wide.batch_shape) == tuple(wider.batch_shape)
    assert tuple(wide.event_shape) == tuple(wider.event_shape)
    same(outcome(lambda: wide.mean), outcome(lambda: wider.mean), text=False)
    rushlight.manual_seed(5)
    torch.manual_seed(5)
    same(outcome(wide.sample), outcome(wider.sample), rtol=1e-4, atol=1e-5)


def values_of(case):
    at = CASES[case][1]
    if at is None:
        torch.manual_seed(1)
        return outcome(made(torch, case)[0].sample).numpy()
    return np.array(at, dtype=np.float32 if isinstance(at[0], float) else np.int64)


@pytest.mark.parametrize("method", ["log_prob", "cdf", "icdf"])
@pytest.mark.parametrize("case", CASES)
def test_densities_and_their_gradients(case, method):
    results = []
    values = values_of(case)
    if method == "icdf":
        values = np.array(UNIT[: values.shape[-1]], dtype=np.float32)
    for library in BOTH:
        d, leaves = made(library, case, grad=True)

        def run(d=d, leaves=leaves, library=library):
            out = getattr(d, method)(library.tensor(values))
            grads = []
            if out.requires_grad:
                out.sum().backward()
                grads = [leaf.grad for leaf in leaves]
            return out, grads

        results.append(outcome(run))
    if isinstance(results[1][0], str):
        assert isinstance(results[0][0], str), results[0]
        return
    assert not isinstance(results[0][0], str), results[0]
    same(results[0][0], results[1][0], rtol=5e-5, atol=1e-5)
    assert len(results[0][1]) == len(results[1][1])
    for ours, theirs in zip(results[0][1], results[1][1], strict=True):
        assert (ours is None) == (theirs is None)
        if theirs is not None:
            same(ours, theirs, rtol=1e-3, atol=1e-4)


PAIRS = sorted(
    (p.__name__, q.__name__)
    for p, q in torch.distributions.kl._KL_REGISTRY
    if p.__name__ not in ("ExponentialFamily", "TransformedDistribution", "Independent")
)


def test_all_pairs_are_registered():
    from rushlight.distributions import kl, kl_mixed, kl_same  # noqa: F401

    def names(registry):
        return {(p.__name__, q.__name__) for p, q in registry}

    assert names(kl._KL_REGISTRY) == names(torch.distributions.kl._KL_REGISTRY)


@pytest.mark.parametrize(("p", "q"), PAIRS)
def test_divergences(p, q):
    results = []
    for library in BOTH:
        (a, leaves), (b, more) = made(library, p, grad=True), made(library, q, grad=True)

        def run(a=a, b=b, leaves=leaves, more=more, library=library):
            kl = library.distributions.kl_divergence(a, b)
            grads = []
            if kl.requires_grad:
                kl[kl.isfinite()].sum().backward()
                grads = [leaf.grad for leaf in leaves + more]
            return kl, grads

        results.append(outcome(run))
    if isinstance(results[1][0], str):
        assert results[0] == results[1]
        return
    assert not isinstance(results[0][0], str), results[0]
    if {p, q} == {"ContinuousBernoulli", "Uniform"}:
        # PyTorch's is infinite where the two supports are the same; the divergence is finite there
        covered = results[1][0].isinf().numpy()
        assert results[0][0].detach().numpy()[1] == pytest.approx(0, abs=1e-4)
        assert covered.all()
        return
    same(results[0][0], results[1][0], rtol=2e-4, atol=1e-5)
    for ours, theirs in zip(results[0][1], results[1][1], strict=True):
        if ours is not None and theirs is not None:
            same(ours, theirs, rtol=2e-3, atol=2e-4)


TRANSFORMS = {
    "exp": lambda D, T: D.ExpTransform(),
    "abs": lambda D, T: D.AbsTransform(),
    "power": lambda D, T: D.ComposeTransform([D.ExpTransform(), D.PowerTransform(T(1.7))]),
    "sigmoid": lambda D, T: D.SigmoidTransform(),
    "tanh": lambda D, T: D.TanhTransform(),
    "softplus": lambda D, T: D.SoftplusTransform(),
    "softmax": lambda D, T: D.SoftmaxTransform(),
    "affine": lambda D, T: D.AffineTransform(1.0, T([2.0, -1.0, 0.5])),
    "affine event": lambda D, T: D.AffineTransform(0.5, -3.0, event_dim=1),
    "sticks": lambda D, T: D.StickBreakingTransform(),
    "corr": lambda D, T: D.CorrCholeskyTransform(),
    "reshape": lambda D, T: D.ReshapeTransform((3,), (3, 1)),
    "independent": lambda D, T: D.IndependentTransform(D.ExpTransform(), 1),
    "cdf": lambda D, T: D.CumulativeDistributionTransform(D.Normal(0.0, 1.0)),
    "cat": lambda D, T: D.CatTransform(
        [D.ExpTransform(), D.TanhTransform()], dim=-1, lengths=[1, 2]
    ),
    "stack": lambda D, T: D.StackTransform(
        [D.ExpTransform(), D.TanhTransform(), D.SigmoidTransform()], -1
    ),
    "compose": lambda D, T: D.ComposeTransform([D.TanhTransform(), D.StickBreakingTransform()]),
    "inverse": lambda D, T: D.ComposeTransform([D.SigmoidTransform(), D.ExpTransform().inv]),
}


@pytest.mark.parametrize("name", TRANSFORMS)
def test_transforms(name):
    x = np.random.default_rng(0).normal(size=(4, 3)).astype(np.float32)
    results = []
    for library in BOTH:
        t = TRANSFORMS[name](library.distributions, library.tensor)
        y = t(library.tensor(x))
        results.append(
            [
                outcome(f)
                for f in (
                    lambda y=y: y,
                    lambda t=t, y=y: t.inv(y),
                    lambda t=t, y=y, lib=library: t.log_abs_det_jacobian(lib.tensor(x), y),
                )
            ]
            + [repr(t), repr(t.inv), t.bijective, t.forward_shape((4, 3)), t.domain.event_dim]
        )
    ours, theirs = results
    for a, b in zip(ours[:3], theirs[:3], strict=True):
        same(a, b, rtol=1e-4, atol=1e-5)
    assert ours[3:6] == theirs[3:6]
    assert tuple(ours[6]) == tuple(theirs[6])
    assert ours[7] == theirs[7]


ERRORS = [
    lambda t, D: D.Normal(0.0, -1.0),
    lambda t, D: D.Normal(t.tensor([0.0, 1.0]), t.tensor([-1.0, 1.0])),
    lambda t, D: D.Normal(0.0, 1.0).log_prob(t.tensor(float("nan"))),
    lambda t, D: D.Normal(0.0, 1.0).log_prob(3.0),
    lambda t, D: D.Normal(t.zeros(2), 1.0).log_prob(t.zeros(3)),
    lambda t, D: D.MultivariateNormal(t.zeros(2), t.eye(2)).log_prob(t.zeros(3)),
    lambda t, D: D.MultivariateNormal(t.zeros(2), -t.eye(2)),
    lambda t, D: D.MultivariateNormal(t.tensor(0.0), t.eye(2)),
    lambda t, D: D.MultivariateNormal(t.zeros(2)),
    lambda t, D: D.MultivariateNormal(t.zeros(2), scale_tril=t.tensor(1.0)),
    lambda t, D: D.Categorical(t.tensor([-1.0, 2.0])),
    lambda t, D: D.Categorical(t.tensor(1.0)),
    lambda t, D: D.Categorical(),
    lambda t, D: D.Categorical(t.tensor([1.0, 2.0])).log_prob(t.tensor(5)),
    lambda t, D: D.Bernoulli(2.0),
    lambda t, D: D.Bernoulli(0.2).log_prob(t.tensor(0.5)),
    lambda t, D: D.Geometric(t.tensor([0.0, 0.5])),
    lambda t, D: D.Uniform(1.0, 0.0),
    lambda t, D: D.Uniform(0.0, 1.0).log_prob(t.tensor(2.0)),
    lambda t, D: D.Multinomial(t.tensor([2]), t.tensor([0.5, 0.5])),
    lambda t, D: D.Multinomial(2, t.tensor([0.5, 0.5])).log_prob(t.tensor([1.0, 2.0])),
    lambda t, D: D.Binomial(t.tensor([2.0, 3.0]), t.tensor([0.5, 0.5])).enumerate_support(),
    lambda t, D: D.Dirichlet(t.tensor(1.0)),
    lambda t, D: D.LKJCholesky(1),
    lambda t, D: D.Wishart(t.tensor(1.0), t.eye(3)),
    lambda t, D: D.Wishart(t.tensor(4.0)),
    lambda t, D: D.LowRankMultivariateNormal(t.zeros(2), t.ones(3, 1), t.ones(2)),
    lambda t, D: D.LowRankMultivariateNormal(t.zeros(2), t.ones(2, 1), t.ones(3)),
    lambda t, D: D.Independent(D.Normal(0.0, 1.0), 1),
    lambda t, D: D.MixtureSameFamily(D.Normal(0.0, 1.0), D.Normal(0.0, 1.0)),
    lambda t, D: D.MixtureSameFamily(D.Categorical(t.ones(3)), D.Normal(t.zeros(2), 1.0)),
    lambda t, D: D.MixtureSameFamily(D.Categorical(t.ones(2, 3)), D.Normal(t.zeros(5, 3), 1.0)),
    lambda t, D: D.TransformedDistribution(D.Normal(0.0, 1.0), 3),
    lambda t, D: D.TransformedDistribution(D.Normal(0.0, 1.0), D.StickBreakingTransform()),
    lambda t, D: D.kl_divergence(D.Normal(0.0, 1.0), D.Cauchy(0.0, 1.0)),
    lambda t, D: D.Normal("a", 1),
    lambda t, D: D.biject_to(D.constraints.positive_definite),
    lambda t, D: D.biject_to.register(3, lambda c: 0),
    lambda t, D: D.ExpTransform(cache_size=2),
    lambda t, D: D.ReshapeTransform((2,), (3,)),
    lambda t, D: D.ReshapeTransform((6,), (3, 2)).forward_shape((5,)),
    lambda t, D: D.CorrCholeskyTransform().forward_shape((4,)),
    lambda t, D: D.constraints.dependent.check(1),
    lambda t, D: D.constraints.independent(D.constraints.real, 1).check(t.tensor(0.0)),
]


@pytest.mark.parametrize("number", range(len(ERRORS)))
def test_errors(number):
    ours, theirs = (outcome(lambda t=t: ERRORS[number](t, t.distributions)) for t in BOTH)
    assert isinstance(theirs, tuple)
    assert isinstance(ours, tuple)
    assert ours[0] == theirs[0]
    if number == 35:  # ours also says which types it saw
        assert ours[1].startswith(theirs[1])
    else:
        assert ours[1] == theirs[1]


def test_mixture_and_transformed():
    results = []
    for t in BOTH:
        D = t.distributions
        t.manual_seed(0)
        mixture = D.MixtureSameFamily(
            D.Categorical(t.tensor([0.2, 0.8])),
            D.Normal(t.tensor([-1.0, 2.0]), t.tensor([1.0, 0.5])),
        )
        vectors = D.MixtureSameFamily(
            D.Categorical(t.ones(3)),
            D.Independent(D.Normal(t.arange(6.0).reshape(3, 2), t.ones(3, 2)), 1),
        )
        at = t.tensor([0.1, 0.7])
        flow = D.TransformedDistribution(
            D.Normal(t.zeros(2), t.ones(2)), [D.AffineTransform(1.0, 2.0), D.SigmoidTransform()]
        )
        results.append(
            [
                *(mixture.sample((20,)), mixture.mean, mixture.variance, mixture.cdf(at)),
                *(mixture.log_prob(at), vectors.sample((5,)), vectors.mean, vectors.variance),
                *(vectors.log_prob(at), flow.sample((5,)), flow.log_prob(at), flow.cdf(at)),
                *(flow.icdf(at), D.kl_divergence(flow, flow)),
            ]
        )
        assert repr(mixture).startswith("MixtureSameFamily(\n  Categorical(")
    for ours, theirs in zip(*results, strict=True):
        same(ours, theirs, rtol=1e-4, atol=1e-5)
