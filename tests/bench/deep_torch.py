# SPDX-License-Identifier: Apache-2.0
"""The model of the benchmark `deep` in PyTorch: 26 fields x 10, 400-400-400 with PReLU, minibatches of 4096, Adam (lazy for embeddings).

    deep_torch.py THREADS ROWS [MINIBATCH [DEVICE]]

prints the seconds, and those of the processor, of training alone: start, making of rows and the first minibatch left out"""
import sys
import time

import torch

FIELDS, WIDTH, KEYS = 26, 10, 20000
threads, rows = int(sys.argv[1]), int(sys.argv[2])
MINIBATCH = int(sys.argv[3]) if len(sys.argv) > 3 else 4096
device = torch.device(sys.argv[4] if len(sys.argv) > 4 else "cpu")
torch.set_num_threads(threads)
torch.manual_seed(0)
tables = torch.nn.ModuleList(torch.nn.Embedding(KEYS, WIDTH, sparse=True) for _ in range(FIELDS))
layers, size = [], FIELDS * WIDTH
for h in (400, 400, 400):
    layers += [torch.nn.Linear(size, h), torch.nn.PReLU(h)]
    size = h
net = torch.nn.Sequential(*layers, torch.nn.Linear(size, 1)).to(device)
tables.to(device)
dense, sparse = torch.optim.Adam(net.parameters()), torch.optim.SparseAdam(list(tables.parameters()))
loss = torch.nn.BCEWithLogitsLoss()
x = (torch.rand(rows + MINIBATCH, FIELDS) ** 3 * KEYS).long()  # few keys come often
y = (torch.rand(rows + MINIBATCH) < 0.25).float()


def learn(at):
    i, label = x[at : at + MINIBATCH].to(device), y[at : at + MINIBATCH].to(device)
    logit = net(torch.cat([t(i[:, f]) for f, t in enumerate(tables)], 1)).flatten()
    dense.zero_grad()
    sparse.zero_grad()
    loss(logit, label).backward()
    dense.step()
    sparse.step()


learn(0)
if device.type == "cuda":
    torch.cuda.synchronize()
start, cpu = time.perf_counter(), time.process_time()
for at in range(MINIBATCH, rows + MINIBATCH, MINIBATCH):
    learn(at)
if device.type == "cuda":
    torch.cuda.synchronize()
print(time.perf_counter() - start, time.process_time() - cpu)
