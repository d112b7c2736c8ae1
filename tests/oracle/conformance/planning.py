"""The work list, from PyTorch's databases, and the plan for one entry of it."""

from __future__ import annotations

import re

from torch.testing._internal.common_methods_invocations import op_db
from torch.testing._internal.common_modules import module_db
from torch.testing._internal.common_optimizers import optim_db

from .entries import RANDOM, UNINITIALISED, excluded
from .modules import module_checks
from .operators import op_checks, op_present
from .optimizers import optimizer_checks
from .schedulers import SCHEDULERS, scheduler_checks


def op_name(op):
    return op.name + ("." + op.variant_test_name if op.variant_test_name else "")


def op_category(op):
    first = op.name.split(".")[0]
    if op.name.startswith("nn.functional."):
        return "nn.functional"
    if first in ("linalg", "fft", "special", "signal", "masked"):
        return first
    if op.name in RANDOM:
        return "random"
    if op.name in UNINITIALISED or op.is_factory_function:
        return "creation"
    kind = type(op).__name__
    return {
        "UnaryUfuncInfo": "unary",
        "BinaryUfuncInfo": "binary",
        "ReductionOpInfo": "reduction",
    }.get(kind, "other torch.*")


def worklist(args):
    """[(section, name, category, torch's database entry)] after exclusions."""
    tasks = []
    if args.only in (None, "ops"):
        tasks += [("ops", op_name(o), op_category(o), o) for o in op_db]
    if args.only in (None, "modules"):
        tasks += [("modules", m.name, "modules", m) for m in module_db]
    if args.only in (None, "optimizers"):
        tasks += [("optimizers", o.name, "optimizers", o) for o in optim_db]
        tasks += [("schedulers", n, "lr_schedulers", n) for n in SCHEDULERS]
    left_out = {t[1]: excluded(t[1]) for t in tasks if excluded(t[1])}
    tasks = [t for t in tasks if t[1] not in left_out and re.search(args.match or "", t[1])]
    return tasks, left_out


def plan(section, info, cfg, cand):
    """Run PyTorch on everything: whether the candidate has the entry, and the checks of it."""
    if section == "ops":
        return op_present(info, cand), list(op_checks(info, cfg, cand))
    if section == "modules":
        return cand.has(info.name), list(module_checks(info, cfg, cand))
    if section == "optimizers":
        return cand.has(f"optim.{info.name}"), list(optimizer_checks(info, cfg, cand))
    return cand.has(f"optim.lr_scheduler.{info}"), list(scheduler_checks(info, cfg, cand))
