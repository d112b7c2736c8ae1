"""A whole run: the work list dealt out to processes, and what each of them found."""

from __future__ import annotations

import os
import pickle
import sys
import tempfile
import traceback
from pathlib import Path

from .counting import summarise
from .workers import supervise


def run(args, tasks):
    """Check `tasks` in `args.jobs` processes: ({section: {name: summary}}, notes)."""
    hands = [tasks[k :: args.jobs] for k in range(args.jobs)]
    with tempfile.TemporaryDirectory() as folder:
        parts = [Path(folder, str(k)) for k in range(args.jobs)]
        children = [deal(args, hand, part) for hand, part in zip(hands, parts)]
        for child in children:
            if os.waitpid(child, 0)[1]:
                sys.exit("a process of the harness failed, see above")
        found = [pickle.loads(part.read_bytes()) for part in parts]
    entries = {"ops": {}, "modules": {}, "optimizers": {}, "schedulers": {}}
    notes = {"crashes": {}, "harness_errors": {}}
    for part, more in found:
        for section, name, summary in part:
            entries[section][name] = summary
        for key, of in notes.items():
            of.update(more[key])
    return entries, notes


def deal(args, tasks, part):
    """A process that checks `tasks` and leaves what it found in the file `part`."""
    sys.stdout.flush()
    if child := os.fork():
        return child
    status = 1
    try:
        part.write_bytes(pickle.dumps(check(args, tasks)))
        status = 0
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        os._exit(status)


def check(args, tasks):
    found = []

    def progress(index, present, planned, results):
        section, name, category, _ = tasks[index]
        summary = {"category": category, **summarise(present, planned, results)}
        found.append((section, name, summary))
        if args.verbose:
            for label, texts in summary["failures"].items():
                for text in texts:
                    print(f"{section}/{name} | {label} | {text}", flush=True)

    return found, supervise(args, tasks, progress)
