# SPDX-License-Identifier: Apache-2.0
"""The model of the benchmark `deep` in PyTorch: 26 fields x 10, 400-400-400 with PReLU, minibatches of 4096, Adam (lazy for embeddings).

    deep_torch.py THREADS ROWS     prints the seconds, and those of the processor, of training alone: start and making of rows left out"""
import sys
import time

import torch

FIELDS, WIDTH, MINIBATCH, KEYS = 26, 10, 4096, 20000
threads, rows = int(sys.argv[1]), int(sys.argv[2])
torch.set_num_threads(threads)
torch.manual_seed(0)
tables = torch.nn.ModuleList(torch.nn.Embedding(KEYS, WIDTH, sparse=True) for _ in range(FIELDS))
layers, size = [], FIELDS * WIDTH
for h in (400, 400, 400):
    layers += [torch.nn.Linear(size, h), torch.nn.PReLU(h)]
    size = h
net = torch.nn.Sequential(*layers, torch.nn.Linear(size, 1))
dense, sparse = torch.optim.Adam(net.parameters()), torch.optim.SparseAdam(list(tables.parameters()))
loss = torch.nn.BCEWithLogitsLoss()
x = (torch.rand(rows, FIELDS) ** 3 * KEYS).long()  # few keys come often
y = (torch.rand(rows) < 0.25).float()
start, cpu = time.perf_counter(), time.process_time()
for at in range(0, rows, MINIBATCH):
    i = x[at : at + MINIBATCH]
    logit = net(torch.cat([t(i[:, f]) for f, t in enumerate(tables)], 1)).flatten()
    dense.zero_grad()
    sparse.zero_grad()
    loss(logit, y[at : at + MINIBATCH]).backward()
    dense.step()
    sparse.step()
print(time.perf_counter() - start, time.process_time() - cpu)
