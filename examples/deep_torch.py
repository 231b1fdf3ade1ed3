#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The model of `ctr-train mlp` in PyTorch with the same settings and first values of the same distributions, for the table of deep.md.

    deep_torch.py TRAIN.jsonl TEST.jsonl SEED EMBEDDING HIDDEN,HIDDEN MINIBATCH PASSES L2      prints the AUC of TEST

A line is a row as ctr-export -f jsonl writes it: clicked, and columns of keys or lists of keys."""
import json
import math
import sys

import torch

torch.set_num_threads(1)


def load(path, columns, places):
    label, lists = [], {c: [] for c in columns}
    with open(path) as f:
        for line in f:
            row = json.loads(line)
            label.append(float(row["clicked"]))
            for c in columns:
                keys = row[c] if isinstance(row[c], list) else [row[c]]
                lists[c].append([places[c].setdefault(k, len(places[c])) for k in keys])
    return torch.tensor(label), lists


def bags(lists, rows):
    chosen = [lists[i] for i in rows]
    start = [0]
    for k in chosen:
        start.append(start[-1] + len(k))
    return torch.tensor([k for one in chosen for k in one]), torch.tensor(start[:-1])


def auc(score, label):
    order = sorted(zip(score, label))
    below, pairs, i = 0.0, 0.0, 0
    while i < len(order):
        j, p, n = i, 0, 0
        while j < len(order) and order[j][0] == order[i][0]:
            p, n, j = p + order[j][1], n + 1 - order[j][1], j + 1
        pairs, below, i = pairs + p * (below + n / 2), below + n, j
    return pairs / (below * (len(order) - below))


def regularise(weight, count, l2):
    """l2 / n_j v_j for each key of the minibatch: DIN, eq. 7."""
    index = weight.grad._indices()[0]
    count.index_add_(0, index, torch.ones(len(index)))
    g = weight.grad.coalesce()
    i = g.indices()[0]
    weight.grad = torch.sparse_coo_tensor(g.indices(), g.values() + l2 / count[i, None] * weight.data[i], g.shape)


def main(train, test, seed, width, hidden, minibatch, passes, l2):
    torch.manual_seed(seed)
    with open(train) as f:
        columns = sorted(c for c in json.loads(f.readline()) if c not in ("clicked", "p_true"))
    places = {c: {} for c in columns}
    y, x = load(train, columns, places)
    known = {c: len(places[c]) for c in columns}
    ty, tx = load(test, columns, places)
    tables = torch.nn.ModuleList(torch.nn.EmbeddingBag(len(places[c]), width, mode="sum", sparse=True) for c in columns)
    for c, t in zip(columns, tables):
        torch.nn.init.uniform_(t.weight, -0.01, 0.01)
        t.weight.data[known[c] :] = 0  # a key that training did not see adds nothing
    layers, size = [], width * len(columns)
    for h in hidden + [1]:
        linear = torch.nn.Linear(size, h)
        limit = math.sqrt(6 / (size + h))
        torch.nn.init.uniform_(linear.weight, -limit, limit)
        torch.nn.init.zeros_(linear.bias)
        layers += [linear, torch.nn.PReLU(h)]
        size = h
    net = torch.nn.Sequential(*layers[:-1])
    dense, sparse = torch.optim.Adam(net.parameters()), torch.optim.SparseAdam(list(tables.parameters()))
    loss = torch.nn.BCEWithLogitsLoss()
    forward = lambda x, rows: net(torch.cat([t(*bags(x[c], rows)) for c, t in zip(columns, tables)], 1)).flatten()
    counts = [torch.zeros(len(t.weight)) for t in tables]
    for _ in range(passes):
        for at in range(0, len(y), minibatch):
            rows = range(at, min(at + minibatch, len(y)))
            dense.zero_grad()
            sparse.zero_grad()
            loss(forward(x, rows), y[rows.start : rows.stop]).backward()
            for t, n in zip(tables, counts):
                regularise(t.weight, n, l2)
            dense.step()
            sparse.step()
    with torch.no_grad():
        score = forward(tx, range(len(ty))).tolist()
    print("%.5f" % auc(score, ty.tolist()))


if __name__ == "__main__":
    a = sys.argv[1:]
    main(a[0], a[1], int(a[2]), int(a[3]), [int(h) for h in a[4].split(",")], int(a[5]), int(a[6]), float(a[7]))
