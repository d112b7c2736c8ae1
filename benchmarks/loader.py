"""One pass over a DataLoader: Rushlight against PyTorch, in one process, in alternating rounds.

    python benchmarks/loader.py [--rounds 9] [--only PNG] [--cpu]

Tensors in memory, samples of a data set written in Python, and PNG files, without workers and with two. With
workers a pass begins anew in each call where the name says so, else the workers stay. Needs PyTorch and Pillow
beside Rushlight.

What is compared: the same data set class, run with either library. Of a PNG file's time without workers about four
fifths are Pillow's decoding, which is the same on both sides; so that ratio can hardly leave the neighbourhood of 1.
In the case "PNG files, transforms" a program written with torchvision's `ToTensor` and `Normalize` runs: on our side
they are `rushlight.vision`'s, on PyTorch's side torchvision's where it is installed, else the same steps written in
PyTorch's operations (the table says which).

`--cpu`: processor time instead of the clock on the wall, for a machine that has other work. It counts this process
only, so the cases with workers are left out.
"""

from __future__ import annotations

import argparse
import pathlib
import tempfile
import time
from functools import partial

import alternation


def tensors(torch, folder):
    """10,000 rows of 20 numbers and a label, in batches of 64: a TensorDataset."""
    data = torch.utils.data
    return data.TensorDataset(torch.rand(10_000, 20), torch.arange(10_000)), 64


def images(torch, folder):
    """3,200 images of 3 x 32 x 32 that are slices of a tensor, with a label, in batches of 64."""

    class Images(torch.utils.data.Dataset):
        def __init__(self):
            self.pixels = torch.rand(3200, 3, 32, 32)

        def __len__(self):
            return 3200

        def __getitem__(self, i):
            return self.pixels[i], i % 10

    return Images(), 64


def pictures(torch, folder):
    """256 PNG files of 64 x 64 pixels, decoded by Pillow, in batches of 32."""
    import numpy as np
    from PIL import Image

    class Pictures(torch.utils.data.Dataset):
        def __len__(self):
            return 256

        def __getitem__(self, i):
            with Image.open(folder / f"{i}.png") as image:
                pixels = np.asarray(image)
            return torch.from_numpy(pixels.copy()).permute(2, 0, 1).float() / 255, i % 10

    return Pictures(), 32


def through_transforms(torch, folder):
    """The same files, decoded by Pillow, through ToTensor and Normalize, in batches of 32."""
    from PIL import Image

    change = transforms(torch)

    class Pictures(torch.utils.data.Dataset):
        def __len__(self):
            return 256

        def __getitem__(self, i):
            with Image.open(folder / f"{i}.png") as image:
                return change(image.convert("RGB")), i % 10

    return Pictures(), 32


def transforms(torch):
    """ToTensor and Normalize, as a program that was written with torchvision gets them."""
    mean, std = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
    if torch.__name__ == "rushlight":
        from rushlight.vision import transforms as T
    elif has_torchvision():
        from torchvision import transforms as T
    else:
        return written_out(torch, mean, std)
    return T.Compose([T.ToTensor(), T.Normalize(mean, std)])


def has_torchvision():
    try:
        import torchvision.transforms  # noqa: F401
    except Exception:  # also one that was built for another PyTorch
        return False
    return True


def written_out(torch, mean, std):
    """The steps of the two transforms in operations on tensors."""
    import numpy as np

    def change(image):
        pixels = torch.from_numpy(np.array(image)).permute(2, 0, 1).contiguous()
        pixels = pixels.to(torch.float32).div(255)
        middle, deviation = (torch.as_tensor(v).view(-1, 1, 1) for v in (mean, std))
        return pixels.sub_(middle).div_(deviation)

    return change


def draw(folder):
    """The PNG files: noise over a gradient."""
    import numpy as np
    from PIL import Image

    random = np.random.default_rng(0)
    for i in range(256):
        slope = np.linspace(0, 200, 64)[:, None, None]
        noise = random.integers(0, 55, (64, 64, 3))
        Image.fromarray((slope + noise).astype(np.uint8)).save(folder / f"{i}.png")


CASES = [  # name, data set, workers, whether they stay
    ("tensors in memory", tensors, 0, False),
    ("images in memory", images, 0, False),
    ("PNG files", pictures, 0, False),
    ("PNG files, transforms", through_transforms, 0, False),
    ("tensors in memory, 2 workers", tensors, 2, True),
    ("images in memory, 2 workers", images, 2, True),
    ("PNG files, 2 workers", pictures, 2, True),
    ("PNG files, transforms, 2 workers", through_transforms, 2, True),
    ("images in memory, 2 workers, started anew", images, 2, False),
]
TARGET = 1.0


def a_pass(torch, make, folder, workers, stay):
    data, size = make(torch, folder)
    loader = torch.utils.data.DataLoader(
        data, size, num_workers=workers, persistent_workers=workers > 0 and stay
    )

    def run():
        for _ in loader:
            pass

    return run


def processor_time(ours, theirs, rounds):
    """As `alternation.alternate`, by the time that the processor worked for this process."""
    sides = [partial(alternation.seconds, call, 3, time.process_time) for call in (ours, theirs)]
    for side in sides:
        side()  # warming up
    return alternation.in_turn(*sides, rounds)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--only", default="", help="cases whose name contains this")
    parser.add_argument("--cpu", action="store_true", help="processor time; no workers")
    args = parser.parse_args()
    alternation.limit_threads(1)

    import torch
    import torch.utils.data

    import rushlight
    import rushlight.utils.data

    torch.set_num_threads(1)
    print(alternation.machine())
    print(f"PyTorch  {torch.__version__}, {torch.get_num_threads()} threads")
    print(f"Transforms beside ours: {'torchvision' if has_torchvision() else 'written out'}")
    if args.cpu:
        print("Processor time of this process")
    print(f"\n{alternation.HEADER}")
    missed = []
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        draw(folder)
        for name, make, workers, stay in CASES:
            if args.only in name and not (args.cpu and workers):
                ours, theirs = (
                    a_pass(lib, make, folder, workers, stay) for lib in (rushlight, torch)
                )
                if args.cpu:
                    measured = processor_time(ours, theirs, args.rounds)
                else:
                    measured = alternation.alternate(ours, theirs, args.rounds, stretch=0.2)
                print(alternation.row(name, measured, TARGET), flush=True)
                if measured.ratio > TARGET:
                    missed.append(name)
    if missed:
        raise SystemExit(f"above the target: {'; '.join(missed)}")


if __name__ == "__main__":
    main()
