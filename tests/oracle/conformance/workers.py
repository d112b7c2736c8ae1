"""Runs the checks in a forked process that is replaced when the candidate crashes or hangs it.

A crash, exit, hang or strange exception costs the candidate the check at hand (and those of the same
variant and kind in that entry), never the run.
"""

from __future__ import annotations

import importlib
import os
import pickle
import select
import signal
import struct
import sys
import time
import traceback
import types
import warnings

import torch

from .entries import settings
from .libraries import Lib, Missing, record_constructors
from .planning import plan

PLAN_LIMIT = 300  # seconds PyTorch itself may take for one entry


class TimeUp(BaseException):
    pass


def on_alarm(*_):
    raise TimeUp


def safe(e):
    try:
        return f"{type(e).__name__}: {e}"[:400]
    except BaseException:
        return "an exception that cannot be printed"


def worker(args, tasks, start, skip, bad, send):
    """Check tasks[start:]; of the first, `skip` checks are done and the kinds in `bad` are hopeless."""
    warnings.simplefilter("ignore")  # both sides speak; what they say is checked where it counts
    torch.set_num_threads(1)
    record_constructors()
    signal.signal(signal.SIGALRM, on_alarm)
    try:
        cand = Lib(importlib.import_module(args.candidate))
    except BaseException:
        send(("no candidate", traceback.format_exc()))
        return
    sampled, full = (settings(f, args.strict, args.samples) for f in (args.full, True))
    for index in range(start, len(tasks)):
        section, name, _, info = tasks[index]
        send(("start", index))
        cfg = full if f"{section}/{name}" in args.in_full else sampled
        made, trouble = timed_plan(section, info, cfg, cand)
        if trouble:  # keep the denominators: plan again as if all of it were missing
            send(("harness error", index, trouble))
            made, _ = timed_plan(section, info, cfg, Lib(types.ModuleType("empty")))
            if made is None:
                continue
        present, todo = made
        send(("plan", present, [(c.group, c.kind) for c in todo]))
        execute(todo, args, skip, bad, send)
        send(("done",))
        skip, bad = 0, {}
    send(("end",))


def timed_plan(*args):
    """Run torch on everything; ((present, checks), None) or (None, what went wrong)."""
    try:
        signal.setitimer(signal.ITIMER_REAL, PLAN_LIMIT)
        made = plan(*args)
        signal.setitimer(signal.ITIMER_REAL, 0)
        return made, None
    except BaseException as e:
        signal.setitimer(signal.ITIMER_REAL, 0)
        return None, safe(e) + "\n" + traceback.format_exc()[-1500:]


def family(group, kind):
    """Checks that share a fate: after one hangs or crashes the rest are not tried."""
    return group.split("/")[0], kind


def execute(todo, args, skip, bad, send):
    """Send (outcome, text, marks) for each check: pass, fail, missing, timeout or crash."""
    end = time.monotonic() + args.op_timeout
    for check in todo[skip:]:
        key, left = family(check.group, check.kind), min(args.check_timeout, end - time.monotonic())
        if left <= 0:
            outcome = ("timeout", f"entry took over {args.op_timeout:g} s", {})
        else:
            outcome = bad.get(key) or guarded(check, left)
        if outcome[0] == "timeout":
            bad[key] = outcome
        send(("result", outcome))


def guarded(check, seconds):
    try:
        signal.setitimer(signal.ITIMER_REAL, seconds, 2)  # again every 2 s, in case it is swallowed
        try:
            outcome = ("pass", "", check.run() or {})
        except Missing as e:
            outcome = ("missing", safe(e), {})
        except TimeUp:
            raise
        except BaseException as e:
            outcome = ("fail", safe(e), {})
        signal.setitimer(signal.ITIMER_REAL, 0)
    except TimeUp:
        signal.setitimer(signal.ITIMER_REAL, 0)
        outcome = ("timeout", f"no answer within {seconds:.0f} s", {})
    return outcome


# -- the supervisor -----------------------------------------------------------
def supervise(args, tasks, progress):
    """Run every task in forked workers, replacing those that die; progress(index, ...) per task."""
    crashes, harness_errors = {}, {}
    start, results, bad = 0, [], {}
    while start < len(tasks):
        fd, pid = spawn(args, tasks, start, len(results), bad)
        current, planned, why, kind = start, None, "", ""
        for message in messages(fd, pid, args):
            kind = message[0]
            if kind == "start":
                if message[1] != current:
                    results, bad = [], {}
                current, planned = message[1], None
            elif kind == "plan":
                planned = message[1:]
            elif kind == "result":
                results.append(message[1])
            elif kind == "done":
                progress(current, *planned, results)
            elif kind == "harness error":
                harness_errors[tasks[message[1]][1]] = message[2]
            elif kind == "no candidate":
                os.waitpid(pid, 0)
                sys.exit(f"cannot import the candidate {args.candidate!r}:\n{message[1]}")
            elif kind == "killed":
                why = "hung"
        os.close(fd)
        status = os.waitpid(pid, 0)[1]
        if kind == "end":
            break
        why = why or cause_of_death(status)
        name = tasks[current][1]
        if planned and len(results) < len(planned[1]) and len(bad) < 10:
            # go on after the fatal check
            crashes.setdefault(name, []).append(why)
            results.append(("crash", why, {}))
            bad[family(*planned[1][len(results) - 1])] = results[-1]
            start = current
            continue
        if planned:
            rest = len(planned[1]) - len(results)
            progress(current, *planned, results + [("crash", why, {})] * rest)
        else:
            harness_errors.setdefault(name, f"worker ended while planning: {why}")
        start, results, bad = current + 1, [], {}
    return {"crashes": crashes, "harness_errors": harness_errors}


def cause_of_death(status):
    if os.WIFSIGNALED(status):
        return f"signal {signal.Signals(os.WTERMSIG(status)).name}"
    return f"exit status {os.waitstatus_to_exitcode(status)}"


def spawn(args, tasks, *where):
    r, w = os.pipe()
    sys.stdout.flush()
    pid = os.fork()
    if pid:
        os.close(w)
        return r, pid
    status = 1
    try:
        os.close(r)
        out, quiet = os.fdopen(w, "wb"), os.open(os.devnull, os.O_WRONLY)
        os.dup2(quiet, 1)  # whatever the candidate prints
        if not args.verbose:
            os.dup2(quiet, 2)

        def send(message):
            data = pickle.dumps(message)
            out.write(struct.pack("<Q", len(data)) + data)
            out.flush()

        worker(args, tasks, *where, send)
        status = 0
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(status)


def messages(fd, pid, args):
    """Messages of a worker; kills it when it hangs beyond reach of its own alarm."""
    buffer, limit, size = bytearray(), PLAN_LIMIT + 30, None
    while True:
        if not select.select([fd], [], [], limit)[0]:
            os.kill(pid, signal.SIGKILL)
            yield ("killed",)
            return
        chunk = os.read(fd, 1 << 20)
        if not chunk:
            return
        buffer += chunk
        while len(buffer) >= 8 and len(buffer) >= 8 + (size := struct.unpack("<Q", buffer[:8])[0]):
            message = pickle.loads(buffer[8 : 8 + size])
            del buffer[: 8 + size]
            limit = args.check_timeout + 10 if message[0] in ("plan", "result") else PLAN_LIMIT + 30
            yield message
