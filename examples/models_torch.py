#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The deep models of ctr-train in PyTorch, by autograd, with the shapes and options of a model that ctr-train made.

    models_torch.py steps START FEATURES PROGRESSIVE STEPS RATE [NAME]
        from the values of the model START (trained at a rate of next to nothing), the loss of each of the first STEPS minibatches before its update, beside
        that of the scores in PROGRESSIVE; prints a row of a table, which NAME begins; exit 1 where two losses differ by more than 1e-4
    models_torch.py auc START TRAIN TEST SEED|same PASSES RATE [L2]
        trains with first values of the same distributions, or from those of START, and prints the AUC of TEST

Models are the functions in the table MODELS. Streams and models are read through ctr-export and ctr-info. Lists are ragged here, too: no padding."""
import json
import math
import struct
import subprocess
import sys
import tempfile

import torch
from torch.nn import functional as F

torch.set_num_threads(1)


def tool(*args):
    return subprocess.run(args, stdout=subprocess.PIPE, check=True).stdout


def tensors(path):
    """name -> (flat values, shape)"""
    with tempfile.NamedTemporaryFile(suffix=".safetensors") as f:
        tool("ctr-export", "-q", "-f", "safetensors", "-o", f.name, path)
        with open(f.name, "rb") as g:
            data = g.read()
    n = struct.unpack("<Q", data[:8])[0]
    head, out = json.loads(data[8 : 8 + n]), {}
    for name, t in head.items():
        if name != "__metadata__":
            a, b = t["data_offsets"]
            code = {"F32": "f", "U64": "Q", "I64": "q", "I32": "i"}[t["dtype"]]
            out[name] = list(struct.unpack("<%d%s" % ((b - a) // struct.calcsize(code), code), data[8 + n + a : 8 + n + b])), t["shape"]
    return out


class Rows:
    """Inputs in the order of names: fields of keys, each with its table and the places of its keys; numbers. `histories`: [(field, its candidate or None)]."""

    def __init__(self, path, places):
        columns = sorted(json.loads(tool("ctr-info", "--json", path))["columns"], key=lambda c: c["name"].encode())
        meta = {c["name"]: c["metadata"] for c in columns}
        named = lambda role: [n for n in meta if meta[n].get("ctr.role") == role]
        self.fields, self.dense = named("feature"), named("dense")
        self.table = [meta[n].get("ctr.table", n) for n in self.fields]
        rows = [json.loads(line) for line in tool("ctr-export", "-f", "jsonl", "--flat", path).splitlines()]
        self.label = torch.tensor([float(r[named("label")[0]]) for r in rows])
        self.numbers = torch.tensor([[float(r[n] or 0) for n in self.dense] for r in rows]).reshape(len(rows), -1)
        self.keys, self.row, self.start = [], [], []
        for n, t in zip(self.fields, self.table):
            place = places.setdefault(t, {})
            lists = [r[n] if isinstance(r[n], list) else [r[n]] for r in rows]
            length = torch.tensor([len(k) for k in lists])
            self.keys.append(torch.tensor([place.setdefault(k, len(place)) for one in lists for k in one], dtype=torch.long))
            self.row.append(torch.repeat_interleave(torch.arange(len(rows)), length))
            self.start.append([0] + length.cumsum(0).tolist())
        of, group = [meta[n].get("ctr.history_of") for n in self.fields], [meta[n].get("ctr.history") for n in self.fields]
        self.histories = []
        for i in range(len(self.fields)):
            if of[i] and not any(i == k for h in self.histories for k, _ in h):
                members = [k for k in range(len(of)) if k == i or group[k] and group[k] == group[i]]
                self.histories.append([(k, self.fields.index(of[k]) if of[k] else None) for k in members])

    def entries(self, field, batch):
        """The keys of a field, and the row of the batch that each is of."""
        part = slice(self.start[field][batch.start], self.start[field][batch.stop])
        return self.keys[field][part], self.row[field][part] - batch.start


class Net:
    """Parameters by the names of ctr-train, tables of vectors; what models are made of."""

    def __init__(self, start, places, seed=None):
        meta = json.loads(tool("ctr-info", "--json", start).splitlines()[0])["metadata"]
        self.kind, self.options = meta["ctr.model"], dict(w.split("=", 1) for w in meta["ctr.model_options"].split(" ") if "=" in w)
        self.p, self.tables, self.running, self.training = {}, {}, {}, False
        stored = tensors(start)
        for name, (values, shape) in stored.items():
            kind, _, rest = name.partition(".")
            if kind == self.kind and not rest.endswith((".mean", ".var")):
                matrix = rest.endswith(("weight", "down", "numbers"))
                w = torch.tensor(values).reshape(shape if matrix else -1)
                self.p[rest] = torch.where(w.abs() < 1e-30, 0, w)  # what its rate moved: prelu has a kink at 0
        self.width = next(shape[1] for name, (_, shape) in stored.items() if name.startswith("emb.") and not name.endswith(".key"))
        generator = torch.Generator().manual_seed(0 if seed is None else seed)
        uniform = lambda shape, limit: (torch.rand(*shape, generator=generator) * 2 - 1) * limit
        for name, place in places.items():
            self.tables[name] = uniform((len(place), self.width), 0.01)
            if seed is None:
                values = torch.tensor(stored["emb." + name][0]).reshape(-1, self.width)
                for key, value in zip(stored["emb." + name + ".key"][0], values):
                    if key in place:
                        self.tables[name][place[key]] = value
        for name, w in self.p.items() if seed is not None else ():
            if name.endswith(("weight", "down")):
                w.copy_(uniform(w.shape, math.sqrt(6 / sum(w.shape))))
            else:
                w.copy_(uniform(w.shape, 0.01) if name == "numbers" else torch.full(w.shape, 0.25 if self.prelu(name) else 0.0))
        for w in [*self.p.values(), *self.tables.values()]:
            w.requires_grad_()
        if self.kind == "two-tower":
            told = tool("ctr-export", "-f", "csv", "--no-header", "--section", self.kind, "--columns", "name,side", start).decode()
            self.side = dict(line.split(",") for line in told.split() if not line.endswith(","))

    def prelu(self, name):
        return name.endswith("alpha") and self.options["activation"] == "prelu"

    def vectors(self, rows, field, batch):
        """Those of all keys of a field, and of which row each is."""
        keys, row = rows.entries(field, batch)
        return F.embedding(keys, self.tables[rows.table[field]], sparse=True), row

    def pooled(self, rows, field, batch):
        v, row = self.vectors(rows, field, batch)
        return torch.zeros(len(batch), self.width).index_add(0, row, v)

    def input(self, rows, batch, side=None):
        """The pooled fields side by side, then the numbers."""
        ours = lambda name: side is None or self.side[name] == side
        x = [self.pooled(rows, f, batch) for f, name in enumerate(rows.fields) if ours(name)]
        return torch.cat(x + [rows.numbers[batch.start : batch.stop, i : i + 1] for i, name in enumerate(rows.dense) if ours(name)], 1)

    def linear(self, x, name):
        return F.linear(x, self.p[name + "weight"], self.p.get(name + "bias"))

    def activate(self, z, name):
        if self.options["activation"] == "prelu":
            return F.prelu(z, self.p[name + "alpha"])
        mean, var = self.running.setdefault(name, (torch.zeros(z.shape[1]), torch.ones(z.shape[1])))
        p = torch.sigmoid(F.batch_norm(z, mean, var, training=self.training, eps=1e-8))
        return p * z + (1 - p) * self.p[name + "alpha"] * z

    def hidden(self, x, name):
        l = 0
        while "%s%d.alpha" % (name, l) in self.p:
            x = self.activate(self.linear(x, "%s%d." % (name, l)), "%s%d." % (name, l))
            l += 1
        return x, l

    def stack(self, x, name=""):
        x, l = self.hidden(x, name)
        return self.linear(x, "%s%d." % (name, l))


def mlp(m, rows, batch):
    return m.stack(m.input(rows, batch)).flatten()


def two_tower(m, rows, batch):
    user, ad = (m.stack(m.input(rows, batch, side), side + ".") for side in ("user", "ad"))
    return (user * ad).sum(1) + m.p["bias"]


def fm(m, rows, batch):
    """Every entry w | v; over pairs, <v_i, v_j> is half of (the sum)^2 less the sum of squares."""
    each = [m.vectors(rows, f, batch) for f in range(len(rows.fields))]
    for i in range(len(rows.dense)):
        each.append((rows.numbers[batch.start : batch.stop, i : i + 1] * m.p["numbers"][i], torch.arange(len(batch))))
    v, row = torch.cat([v for v, _ in each]), torch.cat([row for _, row in each])
    total, squares = (torch.zeros(len(batch), m.width).index_add(0, row, t) for t in (v, v * v))
    return m.p["bias"] + total[:, 0] + 0.5 * (total[:, 1:] ** 2 - squares[:, 1:]).sum(1)


def dcnv2(m, rows, batch):
    x0 = x = m.input(rows, batch)
    for l in range(sum(n.startswith("cross.") and n.endswith("weight") for n in m.p)):
        name = "cross.%d." % l
        t = F.linear(x, m.p[name + "down"]) if name + "down" in m.p else x
        x = x0 * m.linear(t, name) + x
    if "last.weight" not in m.p:
        return m.stack(x).flatten()
    return m.linear(torch.cat([x, m.hidden(x0, "")[0]], 1), "last.").flatten()


def dlrm(m, rows, batch):
    v = [m.pooled(rows, f, batch) for f in range(len(rows.fields))]
    v = ([m.hidden(rows.numbers[batch.start : batch.stop], "bottom.")[0]] if rows.dense else []) + v
    dots = torch.stack([(v[f] * v[g]).sum(1) for f in range(len(v)) for g in range(f)], 1)
    return m.stack(torch.cat(([v[0]] if rows.dense else []) + [dots], 1)).flatten()


def din(m, rows, batch):
    past = [interest(m, rows, batch, history, "attention%d." % (i + 1)) for i, history in enumerate(rows.histories)]
    read = {f for history in rows.histories for f, _ in history}
    rest = [m.pooled(rows, f, batch) for f in range(len(rows.fields)) if f not in read]
    return m.stack(torch.cat(past + rest + [rows.numbers[batch.start : batch.stop]], 1)).flatten()


def interest(m, rows, batch, history, name):
    """The items of a history, weighed beside the candidate."""
    k, row = torch.cat([m.vectors(rows, f, batch)[0] for f, _ in history], 1), rows.entries(history[0][0], batch)[1]
    if not len(k):
        return torch.zeros(len(batch), k.shape[1])
    q = torch.cat([torch.zeros(len(batch), m.width) if of is None else m.pooled(rows, of, batch) for _, of in history], 1)[row]
    s = m.stack(torch.cat([q, k, q - k, q * k], 1), name).flatten()
    if m.options["attention"] == "softmax":
        s = torch.exp(s / math.sqrt(k.shape[1]))
        s = s / torch.zeros(len(batch)).index_add(0, row, s)[row]
    return torch.zeros(len(batch), k.shape[1]).index_add(0, row, s[:, None] * k)


MODELS = {"mlp": mlp, "two-tower": two_tower, "fm": fm, "dcnv2": dcnv2, "dlrm": dlrm, "din": din}


class LazyAdam:
    """Adam on the rows that a minibatch touched. (SparseAdam adds eps before the correction of bias, which shows where gradients are small.)"""

    def __init__(self, weights, rate):
        self.weights, self.rate, self.t = weights, rate, 0
        self.m, self.v = ([torch.zeros_like(w) for w in weights] for _ in range(2))

    def step(self):
        self.t += 1
        for w, m, v in zip(self.weights, self.m, self.v):
            if w.grad is None:
                continue
            g = w.grad.coalesce()
            i, g = g.indices()[0], g.values()
            m[i], v[i] = 0.9 * m[i] + 0.1 * g, 0.999 * v[i] + 0.001 * g * g
            w.data[i] -= self.rate / (1 - 0.9**self.t) * m[i] / (torch.sqrt(v[i] / (1 - 0.999**self.t)) + 1e-8)


class Learner:
    def __init__(self, net, rate, l2=0.0):
        self.net, self.l2, self.tables = net, l2, list(net.tables.values())
        self.optimizers = torch.optim.Adam(list(net.p.values()), lr=rate), LazyAdam(self.tables, rate)
        self.counts = [torch.zeros(len(w)) for w in self.tables]

    def logits(self, rows, batch, training=False):
        self.net.training = training
        return MODELS[self.net.kind](self.net, rows, batch)

    def step(self, rows, batch):
        for w in [*self.net.p.values(), *self.tables]:
            w.grad = None
        F.binary_cross_entropy_with_logits(self.logits(rows, batch, True), rows.label[batch.start : batch.stop]).backward()
        for w, count in zip(self.tables, self.counts) if self.l2 else ():  # l2 / n_j v_j for each key of the minibatch: DIN, eq. 7
            index = w.grad._indices()[0]
            count.index_add_(0, index, torch.ones(len(index)))
            g = w.grad.coalesce()
            i = g.indices()[0]
            w.grad = torch.sparse_coo_tensor(g.indices(), g.values() + self.l2 / count[i, None] * w.data[i], g.shape)
        for o in self.optimizers:
            o.step()


def steps(start, features, progressive, count, rate, name=None):
    places = {}
    rows = Rows(features, places)
    net = Net(start, places)
    learner, minibatch = Learner(net, float(rate)), int(net.options["minibatch"])
    scores = [json.loads(line)["score"] for line in tool("ctr-export", "-f", "jsonl", "--flat", progressive).splitlines()]
    logits, losses = torch.logit(torch.tensor(scores, dtype=torch.float64)), []
    for s in range(int(count)):
        batch = range(s * minibatch, (s + 1) * minibatch)
        y = rows.label[batch.start : batch.stop]
        with torch.no_grad():
            theirs = float(F.binary_cross_entropy_with_logits(learner.logits(rows, batch), y))
        losses.append((theirs, float(F.binary_cross_entropy_with_logits(logits[batch.start : batch.stop], y.double()))))
        learner.step(rows, batch)
    worst = max(abs(a - b) for a, b in losses)
    print("| %s | %.7f | %.7f | %.7f | %.7f | %.1e |" % (name or net.kind, *losses[0], *losses[-1], worst))
    sys.exit(not worst <= 1e-4)


def area(score, label):
    """AUC; ties count one half."""
    order = torch.argsort(score)
    ranks, s = torch.empty(len(score), dtype=torch.float64), score[order]
    _, inverse, count = torch.unique_consecutive(s, return_inverse=True, return_counts=True)
    ranks[order] = (count.cumsum(0) - (count - 1) / 2)[inverse].double()
    p = label.sum().item()
    return (ranks[label > 0].sum().item() - p * (p + 1) / 2) / (p * (len(label) - p))


def auc(start, train, test, seed, passes, rate, l2=0.0):
    places = {}
    rows, later = Rows(train, places), Rows(test, places)
    net = Net(start, places, None if seed == "same" else int(seed))
    learner, n, minibatch = Learner(net, float(rate), float(l2)), len(rows.label), int(net.options["minibatch"])
    for _ in range(int(passes)):
        for at in range(0, n, minibatch):
            learner.step(rows, range(at, min(at + minibatch, n)))
    with torch.no_grad():
        score = torch.cat([learner.logits(later, range(at, min(at + 4096, len(later.label)))) for at in range(0, len(later.label), 4096)])
    print("%.6f" % area(score, later.label))


if __name__ == "__main__":
    {"steps": steps, "auc": auc}[sys.argv[1]](*sys.argv[2:])
