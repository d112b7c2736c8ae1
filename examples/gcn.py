"""A graph convolutional network tells the field of scientific papers (Kipf and Welling 2017, "Semi-Supervised
Classification with Graph Convolutional Networks").

    python -m rushlight examples/gcn.py --short                # a small random graph with communities: seconds
    python -m rushlight examples/gcn.py --root data            # the citation graph Cora
    python -m rushlight examples/gcn.py --root data --no-graph # what the words tell without the citations
    python examples/gcn.py --root data                         # the same program under PyTorch

Reads `ROOT/cora/cora.tgz`, the archive that LINQS publishes: 2,708 papers as bags of 1,433 words, each in one of seven
classes, and 5,429 citations. Only 20 papers of each class show their label in training; 500 others watch the training and
1,000 are the test, drawn from `--seed`. A layer mixes what a paper and its neighbours say: H' = A H W, where A is the
adjacency matrix with self-loops, D^-1/2 (A + I) D^-1/2. It is sparse: 13,264 of its 7.3 million numbers are not zero, and
`torch.sparse.mm` multiplies only those. Seeds 0 to 4 reach a test accuracy of 79.0 % on average (75.5 to 81.9; the paper
reports 80.1 for random splits, with early stopping); without the graph the same network has 54 %.
"""

import argparse
import pathlib
import tarfile
import tempfile

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn
from tqdm import trange


def normalised_adjacency(edges: torch.Tensor, nodes: int) -> torch.Tensor:
    """D^-1/2 (A + I) D^-1/2 of an undirected graph as a sparse matrix `[nodes, nodes]`, from `edges` `[2, E]`."""
    loops = torch.arange(nodes).expand(2, nodes)
    indices = torch.cat([edges, edges.flip(0), loops], dim=1)
    ones, size = torch.ones(indices.shape[1]), (nodes, nodes)
    # coalesce() sorts the entries and adds up those of the same place: two papers that cite each other have one edge.
    indices = (
        torch.sparse_coo_tensor(indices, ones, size, check_invariants=True).coalesce().indices()
    )
    row, column = indices
    scale = torch.bincount(row).rsqrt()
    values = scale[row] * scale[column]
    return torch.sparse_coo_tensor(indices, values, size, is_coalesced=True, check_invariants=True)


class GraphConvolution(nn.Module):
    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(inputs, outputs))
        self.bias = nn.Parameter(torch.zeros(outputs))
        nn.init.xavier_uniform_(self.weight)

    def forward(self, x: torch.Tensor, adjacency: torch.Tensor) -> torch.Tensor:
        return torch.sparse.mm(adjacency, x @ self.weight) + self.bias


class GCN(nn.Module):
    def __init__(self, inputs: int, hidden: int, classes: int, dropout: float = 0.5) -> None:
        super().__init__()
        self.first = GraphConvolution(inputs, hidden)
        self.second = GraphConvolution(hidden, classes)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: torch.Tensor, adjacency: torch.Tensor) -> torch.Tensor:
        x = F.relu(self.first(self.dropout(x), adjacency))
        return self.second(self.dropout(x), adjacency)


def load_cora(root: pathlib.Path) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """(words `[2708, 1433]`, labels `[2708]`, edges `[2, 5429]`)."""
    with tempfile.TemporaryDirectory() as folder:
        with tarfile.open(root / "cora" / "cora.tgz") as archive:
            archive.extractall(folder, filter="data")
        content, cites = (
            pathlib.Path(folder, "cora", f"cora.{part}").read_text("ascii")
            for part in ("content", "cites")
        )
    names, *counts, fields = np.array([line.split("\t") for line in content.splitlines()]).T
    words = torch.from_numpy(np.array(counts, dtype=np.float32).T.copy())
    labels = torch.from_numpy(np.unique(fields, return_inverse=True)[1])
    number = {name: i for i, name in enumerate(names)}
    edges = torch.tensor([number[name] for name in cites.split()]).view(-1, 2).T
    return words, labels, edges


def random_communities(
    nodes: int = 400, classes: int = 4, words: int = 60
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """A graph of the same form: papers use the words of their field a little more, and mostly cite papers of it."""
    labels = torch.arange(nodes) % classes
    of_the_field = torch.arange(words) % classes == labels[:, None]
    bags = torch.rand(nodes, words) < torch.where(of_the_field, 0.12, 0.08)
    cites = torch.rand(nodes, nodes) < torch.where(labels == labels[:, None], 0.04, 0.002)
    return bags.float(), labels, cites.triu(1).nonzero().T


def split(
    labels: torch.Tensor, of_each_class: int, validation: int, test: int
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Indices of nodes: `of_each_class` of every class for training, then those of the two other parts."""
    order = torch.randperm(len(labels))
    rank = F.one_hot(labels[order]).cumsum(0).gather(1, labels[order, None]).squeeze(1)
    train, rest = order[rank <= of_each_class], order[rank > of_each_class]
    return train, rest[:validation], rest[validation : validation + test]


@torch.no_grad()
def evaluate(
    model: nn.Module,
    x: torch.Tensor,
    adjacency: torch.Tensor,
    labels: torch.Tensor,
    part: torch.Tensor,
) -> tuple[float, float]:
    """(loss, accuracy) of the nodes `part`."""
    model.eval()
    scores = model(x, adjacency)[part]
    accuracy = (scores.argmax(1) == labels[part]).float().mean().item()
    return F.cross_entropy(scores, labels[part]).item(), accuracy


def main() -> None:
    parser = argparse.ArgumentParser(description="Graph convolutions on Cora")
    parser.add_argument("--root", type=pathlib.Path, default=pathlib.Path("data"))
    parser.add_argument("--short", action="store_true", help="a small random graph")
    parser.add_argument("--no-graph", action="store_true", help="no edges but the self-loops")
    parser.add_argument("--double", action="store_true", help="compute in float64")
    parser.add_argument("--epochs", type=int, default=200)
    parser.add_argument("--hidden", type=int, default=16)
    parser.add_argument("--lr", type=float, default=0.01)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()

    torch.manual_seed(args.seed)
    if args.double:
        torch.set_default_dtype(torch.float64)
    x, labels, edges = random_communities() if args.short else load_cora(args.root)
    # What share of its words each word has, so that long papers are not louder than short ones.
    x = F.normalize(x.to(torch.get_default_dtype()), p=1, dim=1)
    if args.no_graph:
        edges = edges[:, :0]
    adjacency = normalised_adjacency(edges, len(labels))
    train, validation, test = split(labels, *((10, 100, 200) if args.short else (20, 500, 1000)))
    model = GCN(x.shape[1], args.hidden, int(labels.max()) + 1)
    optimizer = torch.optim.Adam(
        [
            {"params": model.first.parameters(), "weight_decay": 5e-4},
            {"params": model.second.parameters()},
        ],
        lr=args.lr,
    )
    entries = adjacency.values().numel()
    print(f"{len(labels):,} nodes, {x.shape[1]:,} features, {entries:,} entries in the matrix")

    for epoch in trange(1, args.epochs + 1, leave=False):
        model.train()
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x, adjacency)[train], labels[train])
        loss.backward()
        optimizer.step()
        if epoch % 20 == 0 or epoch == 1:
            seen, accuracy = evaluate(model, x, adjacency, labels, validation)
            print(
                f"epoch {epoch:3d}  training loss {loss.item():.4f}  "
                f"validation loss {seen:.4f}  accuracy {accuracy:.2%}"
            )
    print(f"test accuracy {evaluate(model, x, adjacency, labels, test)[1]:.2%}")


if __name__ == "__main__":
    main()
