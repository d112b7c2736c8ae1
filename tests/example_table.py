"""The programs in examples/ with their short modes: one row each, read by test_examples.py and by the oracle tests.

A new example needs one row here and one line in examples/README.md. Its short mode runs without data files in under ten
seconds on one core. Every test runs it in a new empty folder, so that what it writes to its default `--out` stays there.
Without PyTorch it is tested that the program ends well, that its losses (the numbers after the word `loss` in what it
prints) fall, that it says what the row expects and leaves the files the row names. Where PyTorch is installed the same file
runs there too, and must print the same: every word, and every number to one unit in the last place printed, or to `units`
where the row says why. So it prints losses with four digits and no times (a line that has a time ends in ` s`: it is left
out of the comparison), and shows its progress bars on stderr, as tqdm does.
"""

from __future__ import annotations

from typing import NamedTuple


class Example(NamedTuple):
    script: str
    short: str  # the arguments of the short mode
    falls_to: float | None = (
        0.9  # the last loss over the first, at most; None: no statement (as in a GAN)
    )
    says: str = ""  # a regular expression (with re.M) that is found in what it prints
    writes: tuple[str, ...] = ()  # files it leaves
    units: int = 1  # of the last place printed, by which numbers may differ from PyTorch's


EXAMPLES = [
    Example(
        "digits.py",
        "--epochs 4",
        falls_to=0.3,
        says=r"^test accuracy 9\d\.",
        writes=("out/digits.pt", "out/digits.png"),
    ),
    Example(
        "cifar_resnet.py",
        "--fake 64 --epochs 2 --batch-size 16",
        falls_to=None,
        says=r"\A272,474 parameters\nepoch 1 loss 2\.",
        writes=("out/cifar_resnet.pt",),
    ),
    Example("vae.py", "--short", falls_to=0.8, says=r"^epoch  5  loss 3\d"),
    Example("char_rnn.py", "--short", falls_to=0.05, says="test accuracy 100.00%"),
    Example(
        "char_rnn.py",
        "--short --task generate --batch-size 16",
        falls_to=0.5,
        says=r"^Island +[A-Za-z]+, ",
    ),
    Example(
        "dcgan.py",
        "--short",
        falls_to=None,
        says=r"^epoch 3 .*D\(x\) 0\.[5-9]\d*  D\(G\(z\)\) 0\.[0-4]",
    ),
    Example(
        "gpt.py",
        "--short",
        falls_to=0.65,
        says=r"^102,464 parameters, ",
        writes=("out/gpt.pt",),
    ),
    Example("seq2seq.py", "--short", falls_to=0.1, says=r"^100.00% of the test sentences"),
    Example(
        "autograd_functions.py",
        "--short",
        falls_to=0.1,
        says=r"(?s)\Alog cosh: gradcheck True True$.*Jacobian mismatch.*^Kepler: gradcheck True True$"
        r".*r\^2 \[1.0, 1.0, 1.0, 1.0, 1.0\]$.*reversed True$.*most True$.*matrices \[2, 2\]$",
    ),
    Example(
        "resume.py", "--short", falls_to=0.6, says=r"^all 160 losses are equal to the last bit"
    ),
    Example(
        "gcn.py",
        "--short --double",
        falls_to=0.7,
        says=r"\A400 nodes, 60 features(?s:.*)^test accuracy [78]\d\.",
    ),
    Example("unet.py", "--short", falls_to=0.5, says=r"^damaged: test loss 0.0911, 10.41 dB$"),
    # Its test loss after two epochs is decided by roundings: PyTorch's own differs by up to two units between float32
    # and float64, and by one between one thread and two (weights scaled by four random factors near 1).
    Example("unet.py", "--short --task enlarge --up shuffle", falls_to=0.5, units=3),
]
