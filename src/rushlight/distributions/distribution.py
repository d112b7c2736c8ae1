"""`Distribution`: what all distributions have, and the arithmetic that they share."""

from __future__ import annotations

import warnings
from typing import Any

import rushlight as torch
from rushlight.distributions import constraints
from rushlight.distributions.utils import lazy_property

__all__ = ["Distribution"]

Size = torch.Size

_SINGLE = Size()


class Distribution:
    """A distribution over events of shape `event_shape`, one for each place of `batch_shape`.

    Subclasses name their parameters in `arg_constraints`, which are checked (ValueError) unless
    `validate_args=False`; samples have shape sample_shape + batch_shape + event_shape.
    """

    has_rsample = False
    has_enumerate_support = False
    _validate_args = __debug__

    def __init__(
        self,
        batch_shape: Any = _SINGLE,
        event_shape: Any = _SINGLE,
        validate_args: bool | None = None,
    ) -> None:
        self._batch_shape, self._event_shape = batch_shape, event_shape  # as they are given
        if validate_args is not None:
            self._validate_args = validate_args
        if self._validate_args:
            self._check_parameters()

    def _check_parameters(self) -> None:
        """ValueError where a parameter breaks its constraint."""
        try:
            declared = self.arg_constraints
        except NotImplementedError:
            declared = {}
            warnings.warn(
                f"{type(self)} does not define `arg_constraints`. Please set `arg_constraints = {{}}` "
                "or initialize the distribution with `validate_args=False` to turn off validation.",
                stacklevel=4,
            )
        for name, constraint in declared.items():
            if constraints.is_dependent(constraint):
                continue
            # computed from another parameter (probs from logits): nothing to check
            if name not in self.__dict__ and isinstance(
                getattr(type(self), name, None), lazy_property
            ):
                continue
            value = getattr(self, name)
            valid = constraint.check(value)
            if not bool(valid.all()):
                raise ValueError(
                    f"Expected parameter {name} ({type(value).__name__} of shape {tuple(value.shape)}) of "
                    f"distribution {self!r} to satisfy the constraint {constraint!r}, but found invalid "
                    f"values:\n{value}"
                )

    @staticmethod
    def set_default_validate_args(value: bool) -> None:
        """Say whether distributions check their arguments from now on."""
        if value not in (True, False):
            raise ValueError(f"set_default_validate_args expects True or False, got {value!r}")
        Distribution._validate_args = value

    @property
    def batch_shape(self) -> Any:
        """The shape of the batch of distributions."""
        return self._batch_shape

    @property
    def event_shape(self) -> Any:
        """The shape of one sample of one of them."""
        return self._event_shape

    @property
    def mean(self) -> Any:
        """The mean."""
        raise NotImplementedError

    @property
    def mode(self) -> Any:
        """The most probable value."""
        raise NotImplementedError(f"{type(self)} does not implement mode")

    @property
    def variance(self) -> Any:
        """The variance."""
        raise NotImplementedError

    @property
    def stddev(self) -> Any:
        """The standard deviation."""
        return self.variance.sqrt()

    def sample(self, sample_shape: Any = ()) -> Any:
        """Draw a sample, without gradient."""
        with torch.no_grad():
            return self.rsample(sample_shape)

    def rsample(self, sample_shape: Any = ()) -> Any:
        """Draw a sample as a function of the parameters and of noise, so that gradients flow to the parameters."""
        raise NotImplementedError

    def sample_n(self, n: int) -> Any:
        """Draw `n` samples: the older form of `sample((n,))`."""
        warnings.warn(
            "sample_n(n) will be deprecated. Use .sample((n,)) instead.", UserWarning, stacklevel=2
        )
        return self.sample((n,))

    def log_prob(self, value: Any) -> Any:
        """Return the logarithm of the density, or of the probability, at `value`."""
        raise NotImplementedError

    def cdf(self, value: Any) -> Any:
        """Return the probability that a sample is not above `value`."""
        raise NotImplementedError

    def icdf(self, value: Any) -> Any:
        """Return the inverse of `cdf`."""
        raise NotImplementedError

    def enumerate_support(self, expand: bool = True) -> Any:
        """Return all values, along a new first dimension."""
        raise NotImplementedError

    def _for_batch(self, values: Any, expand: bool) -> Any:
        """Put the values along a new first dimension; if `expand`, repeat them for each distribution of the batch."""
        values = values.reshape((-1,) + (1,) * len(self._batch_shape))
        return values.expand((-1,) + self._batch_shape) if expand else values

    def entropy(self) -> Any:
        """Return the entropy, in nats."""
        raise NotImplementedError

    def perplexity(self) -> Any:
        """Return exp(entropy)."""
        return torch.exp(self.entropy())

    @property
    def arg_constraints(self) -> Any:
        """The constraint of each parameter, by name."""
        raise NotImplementedError

    @property
    def support(self) -> Any:
        """The constraint on values."""
        raise NotImplementedError

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        """Return the same distributions with their parameters expanded to `batch_shape`.

        A class names in `_parameters` the tensors and distributions that are expanded, and in `_kept`
        what is taken over as it is; those of its base classes come with them.
        """
        classes = [cls for cls in type(self).__mro__ if "_parameters" in cls.__dict__]
        if not classes:
            raise NotImplementedError
        new = self._get_checked_instance(classes[0], _instance)
        own, batch_shape = self.__dict__, Size(batch_shape)
        batch = len(self._batch_shape)
        for cls in classes:
            for name in cls._parameters:
                if name in own:  # of probs and logits only what is known
                    inner = isinstance(own[name], Distribution)
                    shape = batch_shape if inner else batch_shape + own[name].shape[batch:]
                    new.__dict__[name] = own[name].expand(shape)
            new.__dict__.update({name: own[name] for name in cls.__dict__.get("_kept", ())})
        self._expand_parts(new, batch_shape)
        Distribution.__init__(new, batch_shape, self._event_shape, validate_args=False)
        new._validate_args = self._validate_args
        return new

    def _expand_parts(self, new: Any, batch_shape: Any) -> None:
        """Give `new` what is expanded in another way than parameters; it has these, and no shape yet."""

    def _get_checked_instance(self, cls: type, _instance: Any = None) -> Any:
        if _instance is None and type(self).__init__ != cls.__init__:  # type: ignore[misc]
            raise NotImplementedError(
                f"Subclass {type(self).__name__} of {cls.__name__} that defines a custom __init__ "
                "method must also define a custom .expand() method."
            )
        return self.__new__(type(self)) if _instance is None else _instance

    def _extended_shape(self, sample_shape: Any = ()) -> Any:
        return Size(Size(sample_shape) + self._batch_shape + self._event_shape)

    def _check_sample(self, value: Any) -> None:
        """Raise ValueError for a value outside of the support, if this distribution validates."""
        if self._validate_args:
            self._validate_sample(value)

    def _validate_sample(self, value: Any) -> None:
        """ValueError where a value has a wrong shape or lies outside of the support."""
        if not isinstance(value, torch.Tensor):
            raise ValueError("The value argument to log_prob must be a Tensor")
        event_dims = len(self._event_shape)
        if value.shape[value.dim() - event_dims :] != self._event_shape:
            raise ValueError(
                "The right-most size of value must match event_shape: "
                f"{value.shape} vs {self._event_shape}."
            )
        expected = self._batch_shape + self._event_shape
        for i, j in zip(reversed(value.shape), reversed(expected), strict=False):
            if i != 1 and j != 1 and i != j:
                raise ValueError(
                    "Value is not broadcastable with batch_shape+event_shape: "
                    f"{value.shape} vs {Size(expected)}."
                )
        try:
            support = self.support
        except NotImplementedError:
            warnings.warn(
                f"{type(self)} does not define `support` to enable sample validation. Please "
                "initialize the distribution with `validate_args=False` to turn off validation.",
                stacklevel=3,
            )
            return
        if not bool(support.check(value).all()):
            raise ValueError(
                f"Expected value argument ({type(value).__name__} of shape {tuple(value.shape)}) to be within"
                f" the support ({support!r}) of the distribution {self!r}, but found invalid values:\n{value}"
            )

    def __repr__(self) -> str:
        names = [k for k in self.arg_constraints if k in self.__dict__]
        args = [
            f"{p}: {v if v.numel() == 1 else v.size()}" for p in names for v in [self.__dict__[p]]
        ]
        return f"{type(self).__name__}({', '.join(args)})"
