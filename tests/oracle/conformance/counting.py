"""From outcomes of checks to shares per category, and the table.

`present`: the function or class exists. `full`: every sample, gradient and second gradient of the
function, method and in-place forms passes in every dtype (modules, optimizers, schedulers: their
state_dict too). The other columns are shares of all checks: PyTorch decides which there are, so a
missing operator fails all of its own. Shares are rounded down: 100.0 % is all of them.
"""

from __future__ import annotations

import collections

KINDS = ("sample", "grad", "gradgrad", "error", "refusal", "state_dict", "repr")
MARKS = ("strides", "message")  # informative, no part of `full`
MAIN = ("function", "method", "inplace")  # forms an operator needs to pass in full
NEEDED = ("sample", "grad", "gradgrad", "state_dict")


def label(group, kind):
    """What a failure is listed under: `sample`, `out sample`, `inplace grad`, `error`..."""
    form = group.split("/")[0].split()[0]
    return f"{form} {kind}" if form in FORMS else kind


FORMS = {
    "method": "- methods",
    "inplace": "- in-place",
    "operator": "- Python operators",
    "ioperator": "- Python operators",
    "alias": "- aliases",
    "out": "- out=",
}
CATEGORIES = [
    *("unary", "binary", "reduction", "other torch.*", "creation", "random", "nn.functional"),
    *("linalg", "fft", "special", "signal", "masked", "all operators"),
    *dict.fromkeys(FORMS.values()),
    *("modules", "optimizers", "lr_schedulers"),
]


def summarise(present, planned, results):
    """Counts by form of the operator and kind of check, and the texts of what failed."""
    counts, failures, near, there = {}, {}, 0, set()
    for (group, kind), (outcome, text, marks) in zip(planned, results):
        form = group.split("/")[0].split()[0]
        of = counts.setdefault(form, {})
        passed = outcome == "pass"
        for key, value in [(kind, passed), *((m, marks.get(m)) for m in MARKS)]:
            if value is not None:
                count = of.setdefault(key, [0, 0])
                count[0] += bool(value)
                count[1] += 1
        if outcome != "missing":
            there.add(form)
        near += bool(marks.get("near"))
        if not passed:
            found = failures.setdefault(label(group, kind), [])
            line = f"{group}: {outcome}: {text}"
            if line not in found and len(found) < 8:
                found.append(line)
    absent = sorted(counts.keys() - there)
    return {
        "present": bool(present),
        "absent": absent,
        "counts": counts,
        "failures": failures,
        "near": near,
    }


class Row:
    """One line of the table."""

    def __init__(self):
        self.db = self.present = self.full = 0
        self.counts = {k: [0, 0] for k in (*KINDS, *MARKS)}

    def add(self, present, forms):
        """Count one entry of a database, given {kind: [passed, all]} of its forms."""
        self.db += 1
        self.present += bool(present)
        due = [of[k] for of in forms for k in NEEDED if k in of]
        self.full += bool(due) and all(passed == of for passed, of in due)
        for of in forms:
            for k, (passed, n) in of.items():
                self.counts[k][0] += passed
                self.counts[k][1] += n

    def cells(self):
        def share(k):
            passed, n = self.counts[k]
            return f"{1000 * passed // n / 10}% of {n}" if n else "-"

        return [str(self.db), str(self.present), str(self.full), *map(share, (*KINDS, *MARKS))]


def rows_of(tasks, entries):
    """{category: Row} of a run."""
    rows = collections.defaultdict(Row)
    for section, name, category, _ in tasks:
        if name not in entries[section]:
            continue
        entry = entries[section][name]
        forms, present = entry["counts"], entry["present"]
        if section != "ops":
            rows[category].add(present, forms.values())
            continue
        main = [of for form, of in forms.items() if form in (*MAIN, "errors")]
        if main:
            rows[category].add(present, main)
            rows["all operators"].add(present, main)
        for form, of in forms.items():
            if form in FORMS:
                rows[FORMS[form]].add(form not in entry["absent"], [of])
    return {k: rows[k] for k in CATEGORIES if k in rows}


def render(rows):
    head = [
        "category",
        "in db",
        "present",
        "full",
        "samples",
        "gradients",
        "2nd gradients",
        "errors",
    ]
    head += ["refusals", "state_dict", "repr", "strides", "messages"]
    lines = [head] + [[k, *row.cells()] for k, row in rows.items()]
    widths = [max(len(line[i]) for line in lines) for i in range(len(head))]
    text = [
        "  ".join(c.rjust(w) if i else c.ljust(w) for i, (c, w) in enumerate(zip(line, widths)))
        for line in lines
    ]
    return "\n".join([text[0], "-" * len(text[0]), *text[1:]])
