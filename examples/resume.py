"""Kill a training half way, resume it from its checkpoint, and see that nothing was lost.

    python -m rushlight examples/resume.py [--short]

Three trainings of one network, each in a process of its own: the first runs through; the second dies in the middle of an
epoch, as on a machine that is taken away; the third resumes from the last checkpoint that the second left, and must take the
very steps that the first took from there. For that a checkpoint holds more than the weights:

* the optimizer (AdamW's running means of the gradients) and the scheduler (where on its curve the learning rate is);
* the state of the random numbers, of which dropout draws;
* the state of the generator that shuffles the data, as it was when the epoch began, so that the same order is drawn again;
  and how many batches of that order are done, so that they are passed over.

A checkpoint is written beside the old one and then takes its place: a death in the middle of writing leaves the old one
whole. The network learns on which of three spirals a point of the plane lies. Prints the losses of the first training beside
those of the other two, which are equal to the last bit, and ends with an error if they are not.
"""

import argparse
import math
import os
import pathlib
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from typing import Any

import torch
import torch.nn as nn
from torch.utils.data import DataLoader, TensorDataset
from tqdm import tqdm


def spirals(count: int) -> TensorDataset:
    """Points on three spirals, with some noise, and the number of the spiral of each."""
    generator = torch.Generator().manual_seed(1)
    label = torch.randint(3, (count,), generator=generator)
    radius = torch.rand(count, generator=generator).sqrt()
    angle = 4.0 * radius + label * (2.0 * math.pi / 3.0)
    angle += 0.15 * torch.randn(count, generator=generator)
    return TensorDataset(torch.stack([radius * angle.cos(), radius * angle.sin()], dim=1), label)


class Training:
    """All that changes from step to step, to be saved and loaded as a whole."""

    def __init__(self, args: argparse.Namespace) -> None:
        torch.manual_seed(0)
        self.shuffling = torch.Generator().manual_seed(2)
        self.loader = DataLoader(
            spirals(args.points), batch_size=32, shuffle=True, generator=self.shuffling
        )
        self.model = nn.Sequential(
            nn.Linear(2, 64),
            nn.BatchNorm1d(64),
            nn.ReLU(),
            nn.Dropout(0.1),
            nn.Linear(64, 64),
            nn.ReLU(),
            nn.Dropout(0.1),
            nn.Linear(64, 3),
        )
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=1e-2)
        self.scheduler = torch.optim.lr_scheduler.OneCycleLR(
            self.optimizer, max_lr=1e-2, epochs=args.epochs, steps_per_epoch=len(self.loader)
        )
        self.epoch = self.batches_done = 0
        self.epoch_start = self.shuffling.get_state()

    def state_dict(self) -> dict[str, Any]:
        return {
            "model": self.model.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "scheduler": self.scheduler.state_dict(),
            "random": torch.get_rng_state(),
            "epoch": self.epoch,
            "batches_done": self.batches_done,
            "epoch_start": self.epoch_start,
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.model.load_state_dict(state["model"])
        self.optimizer.load_state_dict(state["optimizer"])
        self.scheduler.load_state_dict(state["scheduler"])
        torch.set_rng_state(state["random"])
        self.epoch, self.batches_done = state["epoch"], state["batches_done"]
        self.epoch_start = state["epoch_start"]
        self.shuffling.set_state(self.epoch_start)

    def epochs(self, last: int) -> Iterator[tuple[int, float]]:
        """Trains to the end of the last epoch; yields the number of each step, from 1, and its loss."""
        while self.epoch < last:
            for i, (points, labels) in enumerate(self.loader):
                if i < self.batches_done:
                    continue
                self.optimizer.zero_grad()
                loss = nn.functional.cross_entropy(self.model(points), labels)
                loss.backward()
                self.optimizer.step()
                self.scheduler.step()
                self.batches_done += 1
                yield self.epoch * len(self.loader) + self.batches_done, loss.item()
            self.epoch, self.batches_done = self.epoch + 1, 0
            self.epoch_start = self.shuffling.get_state()


def save(state: dict[str, Any], path: pathlib.Path) -> None:
    new = path.with_suffix(".new")
    torch.save(state, new)
    os.replace(new, path)  # at no moment is there no whole checkpoint


def train(args: argparse.Namespace) -> None:
    """One training, from the checkpoint if there is one; every step is a line in the log."""
    training = Training(args)
    checkpoint, log = args.folder / "checkpoint.pt", args.folder / "log.txt"
    if checkpoint.exists():
        training.load_state_dict(torch.load(checkpoint))
    steps = tqdm(
        training.epochs(args.epochs),
        total=args.epochs * len(training.loader),
        initial=training.epoch * len(training.loader) + training.batches_done,
        desc=args.folder.name,
    )
    with log.open("a", buffering=1) as file:
        for step, loss in steps:
            file.write(f"{step} {loss!r}\n")  # `repr` of a float keeps all its bits
            if step % 50 == 0:
                save(training.state_dict(), checkpoint)
            if step == args.die_at:
                os._exit(9)  # at once: nothing is closed, no `finally` runs


def losses(folder: pathlib.Path) -> dict[int, float]:
    """The loss of every step. A step that was done again after a resume stands twice: the last counts."""
    lines = (folder / "log.txt").read_text().splitlines()
    return {int(step): float(loss) for step, loss in map(str.split, lines)}


def main() -> None:
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("--short", action="store_true")
    parser.add_argument("--points", type=int)
    parser.add_argument("--epochs", type=int)
    # the program starts itself with these
    parser.add_argument("--folder", type=pathlib.Path, help=argparse.SUPPRESS)
    parser.add_argument("--die-at", type=int, help=argparse.SUPPRESS)
    args = parser.parse_args()
    args.points = args.points or (640 if args.short else 6400)
    args.epochs = args.epochs or (8 if args.short else 20)
    if args.folder:
        train(args)
        return

    def start(folder: pathlib.Path, *more: str) -> int:
        """This program once more, with the interpreter and the arguments that it was started with."""
        folder.mkdir(exist_ok=True)
        command = [sys.executable, *sys.orig_argv[1:], "--folder", str(folder), *more]
        return subprocess.run(command, check=False).returncode

    steps = args.epochs * math.ceil(args.points / 32)
    death = steps // 2 + 7
    with tempfile.TemporaryDirectory() as temporary:
        whole, broken = pathlib.Path(temporary, "whole"), pathlib.Path(temporary, "broken")
        assert start(whole) == 0
        assert start(broken, "--die-at", str(death)) == 9
        assert max(losses(broken)) == death
        print(f"killed after step {death} of {steps}")
        assert start(broken) == 0
        through, resumed = losses(whole), losses(broken)

    for step in range(20, steps + 1, steps // 8):
        print(f"step {step:5d}  loss {through[step]:.4f}  of the resumed {resumed[step]:.4f}")
    different = [step for step in through if through[step] != resumed.get(step)]
    if different:
        sys.exit(f"the losses differ at {len(different)} steps, first at step {different[0]}")
    print(f"all {steps} losses are equal to the last bit")


if __name__ == "__main__":
    main()
