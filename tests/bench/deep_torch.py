# SPDX-License-Identifier: Apache-2.0
"""The model of the benchmark `deep` in PyTorch: 26 fields x 10, 400-400-400 with PReLU, minibatches of 4096, Adam.

    deep_torch.py HOW THREADS ROWS [MINIBATCH [DEVICE]]

HOW is one of
    sparse    a table a field, sparse gradients, SparseAdam (lazy, as ctr-train's)
    dense     one table for all fields, dense gradients, fused Adam
    compiled  dense, the forward and backward pass through torch.compile

Prints the seconds, and those of the processor, of training alone: start, compiling, making of rows and the first minibatch left out."""
import sys
import time

import torch

FIELDS, WIDTH, KEYS = 26, 10, 20000
how, threads, rows = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
MINIBATCH = int(sys.argv[4]) if len(sys.argv) > 4 else 4096
device = torch.device(sys.argv[5] if len(sys.argv) > 5 else "cpu")
if how not in ("sparse", "dense", "compiled"):
    raise SystemExit(f"deep_torch.py: no way to train is called {how}")
torch.set_num_threads(threads)
torch.manual_seed(0)
if how == "sparse":
    tables = torch.nn.ModuleList(torch.nn.Embedding(KEYS, WIDTH, sparse=True) for _ in range(FIELDS))
else:
    tables = torch.nn.Embedding(FIELDS * KEYS, WIDTH)
layers, size = [], FIELDS * WIDTH
for h in (400, 400, 400):
    layers += [torch.nn.Linear(size, h), torch.nn.PReLU(h)]
    size = h
net = torch.nn.Sequential(*layers, torch.nn.Linear(size, 1)).to(device)
tables.to(device)
if how == "sparse":
    optimizers = torch.optim.Adam(net.parameters()), torch.optim.SparseAdam(list(tables.parameters()))
else:
    optimizers = (torch.optim.Adam([*net.parameters(), *tables.parameters()], fused=True),)
loss = torch.nn.BCEWithLogitsLoss()
x = (torch.rand(rows + MINIBATCH, FIELDS) ** 3 * KEYS).long()  # few keys come often
y = (torch.rand(rows + MINIBATCH) < 0.25).float()

if how != "sparse":
    x += torch.arange(FIELDS) * KEYS


def lost(i, label):
    parts = [t(i[:, f]) for f, t in enumerate(tables)] if how == "sparse" else [tables(i).flatten(1)]
    return loss(net(torch.cat(parts, 1)).flatten(), label)


if how == "compiled":
    lost = torch.compile(lost)


def learn(at):
    for o in optimizers:
        o.zero_grad()
    lost(x[at : at + MINIBATCH].to(device), y[at : at + MINIBATCH].to(device)).backward()
    for o in optimizers:
        o.step()


learn(0)
if device.type == "cuda":
    torch.cuda.synchronize()
start, cpu = time.perf_counter(), time.process_time()
for at in range(MINIBATCH, rows + MINIBATCH, MINIBATCH):
    learn(at)
if device.type == "cuda":
    torch.cuda.synchronize()
print(time.perf_counter() - start, time.process_time() - cpu)
