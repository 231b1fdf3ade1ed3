# SPDX-License-Identifier: Apache-2.0
"""The model of the benchmark `din` in PyTorch: 5 single fields and 30 behaviours of item and category, embeddings of 16, attention 80-40-1 and
layers 200-80-1 with Dice, minibatches of 4096, Adam. Every row has all 30 behaviours, so that nothing is padded.

    din_torch.py THREADS ROWS [HOW [MINIBATCH [DEVICE]]]

HOW is one of
    eager     a table a field, sparse gradients, SparseAdam (lazy, as ctr-train's)
    compile   the same, the network through torch.compile
    dense     one table for all fields, dense gradients, fused Adam, look-ups and network through torch.compile

prints the seconds, and those of the processor, of training alone: start, making of rows, compiling and the first minibatches left out"""
import sys
import time

import torch

WIDTH, LENGTH, KEYS = 16, 30, {"item": 50000, "cat": 500, "a": 1000, "b": 100, "user": 5000}
threads, rows = int(sys.argv[1]), int(sys.argv[2])
mode = sys.argv[3] if len(sys.argv) > 3 else "eager"
MINIBATCH = int(sys.argv[4]) if len(sys.argv) > 4 else 4096
device = torch.device(sys.argv[5] if len(sys.argv) > 5 else "cpu")
torch.set_num_threads(threads)
torch.manual_seed(0)


class Dice(torch.nn.Module):
    def __init__(self, n):
        super().__init__()
        self.norm = torch.nn.BatchNorm1d(n, eps=1e-8, affine=False)
        self.alpha = torch.nn.Parameter(torch.zeros(n))

    def forward(self, z):
        p = torch.sigmoid(self.norm(z))
        return z * (self.alpha + p * (1 - self.alpha))


def stack(size, hidden):
    layers = []
    for h in hidden:
        layers += [torch.nn.Linear(size, h), Dice(h)]
        size = h
    return torch.nn.Sequential(*layers, torch.nn.Linear(size, 1))


if mode == "dense":
    start_of, at = {}, 0
    for k, n in KEYS.items():
        start_of[k] = at
        at += n
    tables = torch.nn.Embedding(at, WIDTH).to(device)
else:
    start_of = dict.fromkeys(KEYS, 0)
    tables = torch.nn.ModuleDict({k: torch.nn.Embedding(n, WIDTH, sparse=True) for k, n in KEYS.items()}).to(device)
unit, top = stack(8 * WIDTH, (80, 40)).to(device), stack(7 * WIDTH, (200, 80)).to(device)
layers = [*unit.parameters(), *top.parameters()]
if mode == "dense":
    optimizers = (torch.optim.Adam([*layers, *tables.parameters()], fused=True),)
else:
    optimizers = torch.optim.Adam(layers), torch.optim.SparseAdam(list(tables.parameters()))
loss = torch.nn.BCEWithLogitsLoss()
some = lambda n, *shape: (torch.rand(*shape) ** 3 * n).long()
x = {k: some(n, rows + 3 * MINIBATCH) + start_of[k] for k, n in KEYS.items()}
past = {k: some(KEYS[k], rows + 3 * MINIBATCH, LENGTH) + start_of[k] for k in ("item", "cat")}
y = (torch.rand(rows + 3 * MINIBATCH) < 0.25).float()


def network(values, k, label):
    q = torch.cat([values["item"], values["cat"]], 1)[:, None].expand_as(k)
    score = unit(torch.cat([q, k, q - k, q * k], 2).view(-1, 8 * WIDTH)).view(-1, LENGTH, 1)
    return loss(top(torch.cat([(score * k).sum(1), *values.values()], 1)).flatten(), label)


def whole(ids, past_ids, label):
    table = (lambda k: tables) if mode == "dense" else (lambda k: tables[k])
    values = {k: table(k)(i) for k, i in ids.items()}
    return network(values, torch.cat([table(c)(past_ids[c]) for c in ("item", "cat")], 2), label)


if mode == "compile":  # gradients of sparse tables cannot be compiled
    network = torch.compile(network)
elif mode == "dense":
    whole = torch.compile(whole)


def learn(at):
    part = slice(at, at + MINIBATCH)
    for o in optimizers:
        o.zero_grad()
    whole({k: i[part].to(device) for k, i in x.items()}, {k: i[part].to(device) for k, i in past.items()}, y[part].to(device)).backward()
    for o in optimizers:
        o.step()


for at in range(0, 3 * MINIBATCH, MINIBATCH):
    learn(at)
if device.type == "cuda":
    torch.cuda.synchronize()
start, cpu = time.perf_counter(), time.process_time()
for at in range(3 * MINIBATCH, rows + 3 * MINIBATCH, MINIBATCH):
    learn(at)
if device.type == "cuda":
    torch.cuda.synchronize()
print(time.perf_counter() - start, time.process_time() - cpu)
