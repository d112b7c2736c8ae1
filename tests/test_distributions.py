"""Distributions by themselves: moments of samples, normalisation, closed forms, shapes."""

from __future__ import annotations

import math
import sys

import numpy as np
import pytest

import rushlight
from rushlight import distributions as D
from rushlight import tensor as T

CONTINUOUS = {
    "Beta": (D.Beta(2.0, 3.0), 0.0, 1.0),
    "Cauchy": (D.Cauchy(0.5, 0.01), -60.0, 60.0),
    "Chi2": (D.Chi2(4.0), 0.0, 80.0),
    "ContinuousBernoulli": (D.ContinuousBernoulli(0.3), 0.0, 1.0),
    "Exponential": (D.Exponential(1.5), 0.0, 30.0),
    "FisherSnedecor": (D.FisherSnedecor(4.0, 9.0), 1e-6, 400.0),
    "Gamma": (D.Gamma(2.5, 1.5), 0.0, 40.0),
    "GeneralizedPareto": (D.GeneralizedPareto(0.0, 1.0, -0.2), 0.0, 5.0 - 1e-5),
    "Gumbel": (D.Gumbel(0.3, 0.8), -8.0, 40.0),
    "HalfNormal": (D.HalfNormal(1.2), 0.0, 12.0),
    "InverseGamma": (D.InverseGamma(6.0, 3.0), 1e-3, 60.0),
    "Kumaraswamy": (D.Kumaraswamy(2.0, 3.0), 1e-6, 1.0 - 1e-6),
    "Laplace": (D.Laplace(0.3, 0.8), -25.0, 25.0),
    "LogNormal": (D.LogNormal(0.1, 0.5), 1e-6, 60.0),
    "Normal": (D.Normal(0.3, 1.3), -15.0, 15.0),
    "StudentT": (D.StudentT(9.0, 0.5, 0.7), -60.0, 60.0),
    "Uniform": (D.Uniform(-1.0, 2.0), -1.0, 2.0 - 1e-6),
    "VonMises": (D.VonMises(0.2, 2.0), -math.pi, math.pi),
    "Weibull": (D.Weibull(1.2, 1.8), 1e-6, 20.0),
}
DISCRETE = {
    "Bernoulli": D.Bernoulli(0.3),
    "Binomial": D.Binomial(7, T(0.4)),
    "Geometric": D.Geometric(0.4),
    "NegativeBinomial": D.NegativeBinomial(3.5, T(0.4)),
    "Poisson": D.Poisson(2.5),
}


def integral(f, low, high, n=400_001):
    x = rushlight.linspace(low, high, n, dtype=rushlight.float64)
    y = f(x).double()
    y = rushlight.where(y.isfinite(), y, 0.0)
    return float(rushlight.trapezoid(y, x))


@pytest.mark.parametrize("name", CONTINUOUS)
def test_densities_integrate_to_one_and_to_the_moments(name):
    d, low, high = CONTINUOUS[name]

    def density(x):
        return d.log_prob(x).exp()

    assert integral(density, low, high) == pytest.approx(1, abs=1e-3)
    if name in ("Cauchy", "VonMises"):
        return
    mean = integral(lambda x: density(x) * x, low, high)
    assert mean == pytest.approx(d.mean.item(), abs=3e-3)
    spread = integral(lambda x: density(x) * (x - mean) ** 2, low, high)
    assert spread == pytest.approx(d.variance.item(), rel=2e-2)
    if name != "FisherSnedecor":
        entropy = integral(lambda x: -density(x) * d.log_prob(x), low, high)
        assert entropy == pytest.approx(d.entropy().item(), abs=3e-3)


@pytest.mark.parametrize("name", CONTINUOUS)
def test_samples_have_the_moments(name):
    d = CONTINUOUS[name][0]
    if name in ("Cauchy", "VonMises"):
        return
    rushlight.manual_seed(0)
    x = d.sample((20_000,))
    error = d.stddev.item() / math.sqrt(20_000)
    assert x.mean().item() == pytest.approx(d.mean.item(), abs=5 * error)
    assert d.support.check(x).all()


@pytest.mark.parametrize("name", CONTINUOUS)
def test_cdf_and_icdf_are_inverse(name):
    d = CONTINUOUS[name][0]
    p = T([0.1, 0.4, 0.9])
    try:
        x = d.icdf(p)
    except NotImplementedError:
        return
    np.testing.assert_allclose(d.cdf(x).numpy(), p.numpy(), rtol=1e-4)


@pytest.mark.parametrize("name", DISCRETE)
def test_probabilities_sum_to_one_and_to_the_moments(name):
    d = DISCRETE[name]
    if d.has_enumerate_support:
        x = d.enumerate_support()
    else:
        x = rushlight.arange(100.0)
    p = d.log_prob(x).exp()
    assert p.sum().item() == pytest.approx(1, abs=1e-4)
    assert (p * x).sum().item() == pytest.approx(d.mean.item(), rel=1e-3)
    assert (p * (x - d.mean) ** 2).sum().item() == pytest.approx(d.variance.item(), rel=1e-3)
    rushlight.manual_seed(0)
    drawn = d.sample((20_000,))
    assert drawn.mean().item() == pytest.approx(d.mean.item(), abs=0.1)


def test_kumaraswamy_mode():
    d, x = D.Kumaraswamy(2.0, 3.0), rushlight.linspace(0.01, 0.99, 9801)
    assert d.mode.item() == pytest.approx(x[d.log_prob(x).argmax()].item(), abs=1e-3)


def test_divergence_is_the_mean_log_ratio():
    pairs = [
        (D.Normal(0.2, 1.1), D.Laplace(0.0, 1.0), -15.0, 15.0),
        (D.Gamma(2.0, 1.0), D.Gumbel(1.0, 2.0), 1e-6, 60.0),
        (D.Uniform(0.1, 0.8), D.Beta(2.0, 3.0), 0.1 + 1e-6, 0.8 - 1e-6),
        (D.Beta(2.0, 3.0), D.Normal(0.0, 1.0), 1e-6, 1 - 1e-6),
    ]
    for p, q, low, high in pairs:

        def integrand(x, p=p, q=q):
            return p.log_prob(x).exp() * (p.log_prob(x) - q.log_prob(x))

        expected = integral(integrand, low, high)
        assert D.kl_divergence(p, q).item() == pytest.approx(expected, abs=2e-3)


def test_multivariate_normals_agree():
    factor, diagonal = T([[1.0], [0.5]]), T([0.3, 0.7])
    covariance = factor @ factor.T + diagonal.diag()
    x = T([0.4, -0.2])
    low = D.LowRankMultivariateNormal(rushlight.zeros(2), factor, diagonal)
    full = D.MultivariateNormal(rushlight.zeros(2), covariance)
    inverse = D.MultivariateNormal(rushlight.zeros(2), precision_matrix=covariance.inverse())
    for other in (full, inverse):
        assert low.log_prob(x).item() == pytest.approx(other.log_prob(x).item(), rel=1e-4)
        assert low.entropy().item() == pytest.approx(other.entropy().item(), rel=1e-4)
        assert D.kl_divergence(low, other).item() == pytest.approx(0, abs=1e-5)
        assert D.kl_divergence(other, low).item() == pytest.approx(0, abs=1e-5)


def test_wishart_and_lkj():
    rushlight.manual_seed(0)
    w = D.Wishart(T(5.0), rushlight.eye(2)).sample((4000,))
    np.testing.assert_allclose(w.mean(0).numpy(), 5 * np.eye(2), atol=0.3)
    factors = D.LKJCholesky(3, 1.5).sample((100,))
    np.testing.assert_allclose(
        (factors @ factors.mT).diagonal(dim1=1, dim2=2).numpy(), 1, atol=1e-5
    )


def test_transform_cache_and_inverse():
    t = D.TanhTransform(cache_size=1)
    x = T([50.0])
    assert t.inv(t(x)) is x
    assert t.inv.inv is t
    for name in ("positive", "unit_interval", "simplex", "corr_cholesky"):
        constraint = getattr(D.constraints, name)
        transform = D.biject_to(constraint)
        x = rushlight.randn(4, 3)
        y = transform(x)
        assert constraint.check(y).all()
        np.testing.assert_allclose(transform.inv(y).numpy(), x.numpy(), rtol=1e-3, atol=1e-4)


def test_gradients_reach_parameters():
    for make in (lambda a: D.Gamma(a, 1.0), lambda a: D.Beta(a, 2.0), lambda a: D.StudentT(a)):
        a = T(3.0, requires_grad=True)
        rushlight.manual_seed(0)
        make(a).rsample((200,)).mean().backward()
        assert a.grad.isfinite().all()


def test_invalid_parameters_and_values():
    with pytest.raises(ValueError, match="GreaterThan"):
        D.Normal(0.0, -1.0)
    D.Normal(0.0, -1.0, validate_args=False)
    with pytest.raises(ValueError, match="within the support"):
        D.Exponential(1.0).log_prob(T(-1.0))
    with pytest.raises(NotImplementedError):
        D.kl_divergence(D.Normal(0.0, 1.0), D.Cauchy(0.0, 1.0))


@pytest.mark.parametrize("name", ["Wishart", "Gamma"])
def test_the_general_entropy_of_exponential_families_is_their_own(name):
    dist = {
        "Wishart": lambda: D.Wishart(T([3.0, 4.0]), T([[2.0, 0.1], [0.1, 1.0]])),
        "Gamma": lambda: D.Gamma(T([1.5, 2.0]), T([1.0, 3.0])),
    }[name]()
    rushlight.testing.assert_close(D.ExponentialFamily.entropy(dist), dist.entropy())


def test_wishart_of_whole_degrees_of_freedom():
    assert D.Wishart(T(2), rushlight.eye(1)).sample().shape == (1, 1)


def test_a_subclass_may_keep_settings_in_its_parts():
    """Pyro's Independent asks its base for `_validate_args`: `expand` sets it last."""

    class Asking(D.Independent):
        @property
        def _validate_args(self):
            return self.base_dist._validate_args

        @_validate_args.setter
        def _validate_args(self, value):
            self.base_dist._validate_args = value

    wide = Asking(D.Normal(rushlight.zeros(3), 1.0), 1).expand((2,))
    assert wide.batch_shape == (2,) and wide.base_dist.batch_shape == (2, 3)


def test_each_public_name_is_that_of_the_file_it_is_read_from():
    """The package reads its files at the first use: every class of a file that is public there is public here, too."""
    assert set(D.transforms.__all__) <= set(D.__all__)
    for name in D.__all__:
        found = getattr(D, name)
        if isinstance(found, type):
            assert found.__name__ == name and getattr(sys.modules[found.__module__], name) is found


@pytest.mark.parametrize("batch, event", [((2,), (3,)), ([2], [3]), ((), ((1,), (2,)))])
def test_the_shapes_of_a_distribution_are_what_it_is_given(batch, event):
    """Flows over several tensors give a tuple of shapes."""

    class Own(D.Distribution):
        arg_constraints = {}

    own = Own(batch, event)
    assert own.batch_shape is batch and own.event_shape is event
    if isinstance(event, tuple) and all(isinstance(n, int) for n in event):
        assert own._extended_shape((4,)) == rushlight.Size([4, 2, 3])
    else:
        with pytest.raises(TypeError):
            own._extended_shape((4,))
    assert type(Own().batch_shape) is type(Own().event_shape) is rushlight.Size


def test_dir_shows_pytorch_names_alone():
    shown = dir(D)
    assert {"Normal", "normal", "kl_divergence", "constraints"} <= {*shown}
    assert not {"lazy", "annotations", "kl_mixed", "TYPE_CHECKING"} & {*shown}
