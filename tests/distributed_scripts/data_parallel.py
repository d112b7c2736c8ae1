"""A training as tutorials show it: one process for each rank, started by spawn or by a launcher; every path of both."""

import argparse
import os
import tempfile

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch import nn, optim
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler


class Toy(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(10, 10)
        self.relu = nn.ReLU()
        self.second = nn.Linear(10, 5)

    def forward(self, x):
        return self.second(self.relu(self.first(x)))


def setup(rank, world_size, port):
    os.environ["MASTER_ADDR"] = "localhost"
    os.environ["MASTER_PORT"] = str(port)
    dist.init_process_group("gloo", rank=rank, world_size=world_size)


def basic(rank, world_size, port):
    setup(rank, world_size, port)
    train(rank)
    checkpoint(rank)
    dist.destroy_process_group()


def train(rank):
    model = DDP(Toy())
    loss_fn = nn.MSELoss()
    optimizer = optim.SGD(model.parameters(), lr=0.001)
    generator = torch.Generator().manual_seed(0)
    data = TensorDataset(
        torch.randn(40, 10, generator=generator), torch.randn(40, 5, generator=generator)
    )
    sampler = DistributedSampler(data)
    loader = DataLoader(data, batch_size=5, sampler=sampler)
    for epoch in range(2):
        sampler.set_epoch(epoch)
        for x, y in loader:
            optimizer.zero_grad()
            loss_fn(model(x), y).backward()
            optimizer.step()
    rows = [torch.empty_like(model.module.first.weight) for _ in range(dist.get_world_size())]
    dist.all_gather(rows, model.module.first.weight.detach())
    assert all(torch.equal(row, rows[0]) for row in rows)
    print(f"trained {rank}", flush=True)


def checkpoint(rank):
    model = DDP(Toy())
    path = os.path.join(tempfile.gettempdir(), f"toy_{os.environ['MASTER_PORT']}.pt")
    if rank == 0:
        torch.save(model.state_dict(), path)
    dist.barrier()
    model.load_state_dict(torch.load(path, map_location="cpu", weights_only=True))
    dist.barrier()
    if rank == 0:
        os.remove(path)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--spawn", type=int, default=0)
    parser.add_argument("--port", type=int, default=29500)
    arguments = parser.parse_args()
    if arguments.spawn:
        mp.spawn(basic, args=(arguments.spawn, arguments.port), nprocs=arguments.spawn, join=True)
        return
    dist.init_process_group("gloo")
    train(dist.get_rank())
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
