"""Calls that must fail, with PyTorch's type of exception."""

from __future__ import annotations

import re
import warnings

from .libraries import REF, Built, Missing, thaw
from .observations import Mismatch

UNFINISHED = (NotImplementedError, AttributeError, NameError, ImportError)  # what a gap raises


def error_check(prepare, cand, declared, regex):
    """`prepare(lib)` builds the inputs and returns the call that should fail.

    None if torch, given inputs rebuilt by this harness, does not fail as its database says.
    """
    actual = raised(prepare(REF), declared)
    if not isinstance(actual, declared) or not re.search(regex, str(actual)):
        return None

    def check():
        e = raised(prepare(cand), declared)
        if e is None:
            raise Mismatch(
                "error", f"no exception; torch raises {type(actual).__name__}: {str(actual)[:100]}"
            )
        if isinstance(e, Missing):
            raise e
        gap = any(isinstance(e, t) and not isinstance(actual, t) for t in UNFINISHED)
        same = isinstance(e, declared) and declared is not Exception
        if gap or not same and type(actual).__name__ not in [c.__name__ for c in type(e).__mro__]:
            raise Mismatch(
                "error", f"{type(e).__name__} ({str(e)[:80]}) instead of {type(actual).__name__}"
            )
        return {"message": bool(re.search(regex, str(e)))} if regex else {}

    return check


def refusal_check(cand, ref_fn, cand_fn, frozen):
    """torch's in-place variant rejects what the function accepts (dtype or shape of the result)."""

    def prepare(lib):
        fn = ref_fn if lib is REF else cand_fn
        if fn is None:
            raise Missing("in-place variant")
        args, kwargs = thaw(frozen, lib, Built(), grad=False)
        return lambda: fn(*args, **kwargs)

    actual = raised(prepare(REF), Exception)
    return error_check(prepare, cand, RuntimeError, "") if type(actual) is RuntimeError else None


def raised(call, declared):
    """The exception a call raises; a warning counts where the database declares a warning."""
    try:
        with warnings.catch_warnings():
            if issubclass(declared, Warning):
                warnings.simplefilter("error", declared)
            call()
    except Exception as e:
        return e
    return None
