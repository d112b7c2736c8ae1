"""Messages, collectives, groups and a training by hand, as introductions to torch.distributed show them."""

import os
import sys
from math import ceil

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
import torch.nn.functional as F
from torch import nn


def blocking(rank, size):
    tensor = torch.zeros(1)
    if rank == 0:
        tensor += 1
        dist.send(tensor=tensor, dst=1)
    elif rank == 1:
        dist.recv(tensor=tensor, src=0)
        assert tensor[0] == 1


def not_blocking(rank, size):
    tensor = torch.zeros(1)
    request = None
    if rank == 0:
        tensor += 1
        request = dist.isend(tensor=tensor, dst=1)
    elif rank == 1:
        request = dist.irecv(tensor=tensor, src=0)
    if request is not None:
        request.wait()
        assert tensor[0] == 1


def groups(rank, size):
    group = dist.new_group([0, 1])
    tensor = torch.ones(1)
    if rank < 2:
        dist.all_reduce(tensor, op=dist.ReduceOp.SUM, group=group)
        assert tensor[0] == 2


def ring(send, recv):
    """An all-reduce by messages to the right neighbour."""
    rank, size = dist.get_rank(), dist.get_world_size()
    accumulated = send.clone()
    left, right = (rank - 1 + size) % size, (rank + 1) % size
    buffers = [send.clone(), send.clone()]
    for i in range(size - 1):
        request = dist.isend(buffers[i % 2], right)
        dist.recv(buffers[(i + 1) % 2], left)
        accumulated[:] += buffers[(i + 1) % 2][:]
        request.wait()
    recv[:] = accumulated[:]


class Partition:
    def __init__(self, data, index):
        self.data, self.index = data, index

    def __len__(self):
        return len(self.index)

    def __getitem__(self, i):
        return self.data[self.index[i]]


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(1, 4, kernel_size=5)
        self.drop = nn.Dropout2d()
        self.fc = nn.Linear(4 * 12 * 12, 10)

    def forward(self, x):
        x = F.relu(F.max_pool2d(self.drop(self.conv(x)), 2))
        return F.log_softmax(self.fc(x.view(-1, 4 * 12 * 12)), dim=1)


def training(rank, size):
    torch.manual_seed(1234)
    data = [(torch.randn(1, 28, 28), i % 10) for i in range(64)]
    mine = Partition(data, torch.randperm(64)[rank::size].tolist())
    loader = torch.utils.data.DataLoader(mine, batch_size=32 // size, shuffle=True)
    model = Net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.5)
    batches = ceil(len(mine) / (32 // size))
    for epoch in range(2):
        total = 0.0
        for x, target in loader:
            optimizer.zero_grad()
            loss = F.nll_loss(model(x), target)
            total += loss.item()
            loss.backward()
            for param in model.parameters():
                dist.all_reduce(param.grad.data, op=dist.ReduceOp.SUM)
                param.grad.data /= float(size)
            optimizer.step()
        print(f"rank {dist.get_rank()} epoch {epoch} loss {total / batches:.4f}", flush=True)


def run(rank, size):
    blocking(rank, size)
    not_blocking(rank, size)
    groups(rank, size)
    result = torch.zeros(7)
    ring(torch.full((7,), float(rank)), result)
    assert result.tolist() == [sum(range(size))] * 7
    training(rank, size)


def start(rank, size, fn, port, backend="gloo"):
    os.environ["MASTER_ADDR"] = "127.0.0.1"
    os.environ["MASTER_PORT"] = port
    dist.init_process_group(backend, rank=rank, world_size=size)
    fn(rank, size)


if __name__ == "__main__":
    size, port = int(sys.argv[1]), sys.argv[2]
    processes = []
    mp.set_start_method("spawn")
    for rank in range(size):
        p = mp.Process(target=start, args=(rank, size, run, port))
        p.start()
        processes.append(p)
    for p in processes:
        p.join()
    assert all(p.exitcode == 0 for p in processes)
