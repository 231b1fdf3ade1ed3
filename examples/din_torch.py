#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The model of `ctr-train din` in PyTorch.

    din_torch.py steps FEATURES START PROGRESSIVE MINIBATCH STEPS [RATE [SOFTMAX]]
        from the values of the model START (trained at a rate of next to nothing), the loss of each of STEPS minibatches before its update, beside
        that of the scores in PROGRESSIVE; exit 1 where they differ by more than 1e-4
    din_torch.py auc TRAIN TEST SEED EMBEDDING HIDDEN,… ATTENTION,… MINIBATCH PASSES RATE [L2]
        trains with first values of the same distributions, and prints the AUC of TEST

Streams and models are read through ctr-export and ctr-info. Histories are those of ctr.history_of and ctr.history, padded with zeros here."""
import json
import math
import struct
import subprocess
import sys
import tempfile

import torch

torch.set_num_threads(1)


def tool(*args):
    return subprocess.run(args, stdout=subprocess.PIPE, check=True).stdout


def tensors(path):
    with tempfile.NamedTemporaryFile(suffix=".safetensors") as f:
        tool("ctr-export", "-q", "-f", "safetensors", "-o", f.name, path)
        data = open(f.name, "rb").read()
    n = struct.unpack("<Q", data[:8])[0]
    head, out = json.loads(data[8 : 8 + n]), {}
    for name, t in head.items():
        if name != "__metadata__":
            a, b = t["data_offsets"]
            code = {"F32": "f", "U64": "Q", "I64": "q", "I32": "i"}[t["dtype"]]
            out[name] = list(struct.unpack("<%d%s" % ((b - a) // struct.calcsize(code), code), data[8 + n + a : 8 + n + b])), t["shape"]
    return out


class Rows:
    """Fields in the order of names; of each the table and lists of rows of its embedding; histories as [(field, its candidate or None)]."""

    def __init__(self, path, places):
        columns = sorted(json.loads(tool("ctr-info", "--json", path))["columns"], key=lambda c: c["name"].encode())
        meta = {c["name"]: c["metadata"] for c in columns}
        role = {n: m.get("ctr.role") for n, m in meta.items()}
        self.fields = [n for n in meta if role[n] == "feature"]
        self.table = [meta[n].get("ctr.table", n) for n in self.fields]
        label = next(n for n in meta if role[n] == "label")
        rows = [json.loads(line) for line in tool("ctr-export", "-f", "jsonl", "--flat", path).splitlines()]
        self.label = torch.tensor([float(r[label]) for r in rows])
        self.keys = []
        for n, t in zip(self.fields, self.table):
            place = places.setdefault(t, {})
            self.keys.append([[place.setdefault(k, len(place)) for k in (r[n] if isinstance(r[n], list) else [r[n]])] for r in rows])
        of = [meta[n].get("ctr.history_of") for n in self.fields]
        group = [meta[n].get("ctr.history") for n in self.fields]
        self.histories, done = [], set()
        for i in range(len(self.fields)):
            if of[i] and i not in done:
                members = [k for k in range(len(of)) if k == i or group[k] and group[k] == group[i]]
                done.update(members)
                self.histories.append([(k, self.fields.index(of[k]) if of[k] else None) for k in members])
        self.single = [i for i in range(len(self.fields)) if i not in done]


class Dice(torch.nn.Module):
    def __init__(self, n):
        super().__init__()
        self.norm = torch.nn.BatchNorm1d(n, eps=1e-8, affine=False)
        self.alpha = torch.nn.Parameter(torch.zeros(n))

    def forward(self, z):
        p = torch.sigmoid(self.norm(z))
        return p * z + (1 - p) * self.alpha * z


class Stack(torch.nn.Module):
    def __init__(self, size, hidden):
        super().__init__()
        self.linear, self.act = torch.nn.ModuleList(), torch.nn.ModuleList(Dice(h) for h in hidden)
        for h in list(hidden) + [1]:
            self.linear.append(torch.nn.Linear(size, h))
            limit = math.sqrt(6 / (size + h))
            torch.nn.init.uniform_(self.linear[-1].weight, -limit, limit)
            torch.nn.init.zeros_(self.linear[-1].bias)
            size = h

    def forward(self, x):
        for linear, act in zip(self.linear, self.act):
            x = act(linear(x))
        return self.linear[-1](x)

    def load(self, t, prefix):
        copy = lambda to, name: to.copy_(torch.tensor(t[prefix + name][0]).reshape(to.shape))
        with torch.no_grad():
            for l, linear in enumerate(self.linear):
                copy(linear.weight, "%d.weight" % l)
                copy(linear.bias, "%d.bias" % l)
            for l, act in enumerate(self.act):
                copy(act.alpha, "%d.alpha" % l)


class Din(torch.nn.Module):
    def __init__(self, rows, places, width, hidden, attention, softmax=False):
        super().__init__()
        self.width, self.softmax = width, softmax
        self.tables = torch.nn.ModuleDict({t: torch.nn.EmbeddingBag(len(p) + 1, width, mode="sum", sparse=True) for t, p in places.items()})
        for e in self.tables.values():
            torch.nn.init.uniform_(e.weight, -0.01, 0.01)
        self.units = torch.nn.ModuleList(Stack(4 * width * len(h), attention) for h in rows.histories)
        self.top = Stack(width * len(rows.fields), hidden)

    def pooled(self, rows, field, batch):
        keys = [rows.keys[field][i] for i in batch]
        start = torch.tensor([0] + [len(k) for k in keys]).cumsum(0)
        return self.tables[rows.table[field]](torch.tensor([k for one in keys for k in one], dtype=torch.long), start[:-1])

    def interest(self, unit, history, rows, batch):
        n = [len(rows.keys[history[0][0]][i]) for i in batch]
        if not sum(n):
            return torch.zeros(len(batch), self.width * len(history))
        row = torch.repeat_interleave(torch.arange(len(batch)), torch.tensor(n))
        k = torch.cat([self.entries(rows, f, batch) for f, _ in history], 1)
        q = torch.cat([torch.zeros(len(batch), self.width) if of is None else self.pooled(rows, of, batch) for _, of in history], 1)[row]
        s = unit(torch.cat([q, k, q - k, q * k], 1)).flatten()
        if self.softmax:
            s = torch.exp(s / math.sqrt(k.shape[1]))
            s = s / torch.zeros(len(batch)).index_add(0, row, s)[row]
        return torch.zeros(len(batch), k.shape[1]).index_add(0, row, s[:, None] * k)

    def entries(self, rows, field, batch):
        keys = torch.tensor([k for i in batch for k in rows.keys[field][i]], dtype=torch.long)
        return self.tables[rows.table[field]](keys, torch.arange(len(keys)))

    def forward(self, rows, batch):
        past = [self.interest(u, h, rows, batch) for u, h in zip(self.units, rows.histories)]
        return self.top(torch.cat(past + [self.pooled(rows, f, batch) for f in rows.single], 1)).flatten()


class LazyAdam:
    """Adam on the rows that a minibatch touched. (SparseAdam adds eps before the correction of bias, which shows where gradients are small.)"""

    def __init__(self, weights, rate):
        self.weights, self.rate, self.t = weights, rate, 0
        self.m, self.v = ([torch.zeros_like(w) for w in weights] for _ in range(2))

    def zero_grad(self):
        for w in self.weights:
            w.grad = None

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
        self.net, self.l2 = net, l2
        self.dense = torch.optim.Adam([p for n, p in net.named_parameters() if not n.startswith("tables")], lr=rate)
        self.sparse = LazyAdam([e.weight for e in net.tables.values()], rate)
        self.counts = {n: torch.zeros(len(e.weight)) for n, e in net.tables.items()}

    def step(self, rows, batch):
        self.net.train()
        self.dense.zero_grad()
        self.sparse.zero_grad()
        torch.nn.functional.binary_cross_entropy_with_logits(self.net(rows, batch), rows.label[batch.start : batch.stop]).backward()
        for n, e in self.net.tables.items() if self.l2 else ():  # l2 / n_j v_j for each key of the minibatch: DIN, eq. 7
            index = e.weight.grad._indices()[0]
            self.counts[n].index_add_(0, index, torch.ones(len(index)))
            g = e.weight.grad.coalesce()
            i = g.indices()[0]
            e.weight.grad = torch.sparse_coo_tensor(g.indices(), g.values() + self.l2 / self.counts[n][i, None] * e.weight.data[i], g.shape)
        self.dense.step()
        self.sparse.step()


def log_loss(z, y):
    return float(torch.nn.functional.binary_cross_entropy_with_logits(z, y))


def steps(features, start, progressive, minibatch, count, rate=0.001, softmax=0):
    minibatch, count, places, t = int(minibatch), int(count), {}, tensors(start)
    rows = Rows(features, places)
    width = next(s[1] for n, (_, s) in t.items() if n.startswith("emb.") and not n.endswith(".key"))
    sizes = lambda p: [t["%s%d.alpha" % (p, l)][1][-1] for l in range(9) if "%s%d.alpha" % (p, l) in t]
    net = Din(rows, places, width, sizes("din."), sizes("din.attention1."), bool(int(softmax)))
    net.top.load(t, "din.")
    for u, unit in enumerate(net.units):
        unit.load(t, "din.attention%d." % (u + 1))
    with torch.no_grad():
        for name, place in places.items():
            values, keys = torch.tensor(t["emb." + name][0]).reshape(-1, width), t["emb." + name + ".key"][0]
            for k, v in zip(keys, values):
                if k in place:
                    net.tables[name].weight[place[k]] = v
    scores = [json.loads(line)["score"] for line in tool("ctr-export", "-f", "jsonl", "--flat", progressive).splitlines()]
    logits, learner, worst = torch.logit(torch.tensor(scores, dtype=torch.float64)), Learner(net, float(rate)), 0.0
    for s in range(count):
        batch = range(s * minibatch, (s + 1) * minibatch)
        y = rows.label[batch.start : batch.stop]
        net.eval()
        with torch.no_grad():
            theirs, ours = log_loss(net(rows, batch), y), log_loss(logits[batch.start : batch.stop], y.double())
        worst = max(worst, abs(theirs - ours))
        if s % 10 == 9 or not s:
            print("step %d: PyTorch %.7f, ctr-train %.7f" % (s + 1, theirs, ours))
        learner.step(rows, batch)
    print("largest difference of %d losses: %.2g" % (count, worst))
    sys.exit(worst > 1e-4)


def auc(score, label):
    order = torch.argsort(score)
    ranks, s = torch.empty(len(score), dtype=torch.float64), score[order]
    _, inverse, count = torch.unique_consecutive(s, return_inverse=True, return_counts=True)
    ranks[order] = (count.cumsum(0) - (count - 1) / 2)[inverse].double()
    p = label.sum().item()
    return (ranks[label > 0].sum().item() - p * (p + 1) / 2) / (p * (len(label) - p))


def train(path, test, seed, width, hidden, attention, minibatch, passes, rate, l2=0.0):
    torch.manual_seed(int(seed))
    sizes = lambda text: [int(h) for h in text.split(",")]
    places = {}
    rows = Rows(path, places)
    known = {t: len(p) for t, p in places.items()}
    later = Rows(test, places)
    net = Din(rows, places, int(width), sizes(hidden), sizes(attention))
    learner, n = Learner(net, float(rate), float(l2)), len(rows.label)
    for _ in range(int(passes)):
        for at in range(0, n, int(minibatch)):
            learner.step(rows, range(at, min(at + int(minibatch), n)))
    net.eval()
    with torch.no_grad():
        score = torch.cat([net(later, range(at, min(at + 4096, len(later.label)))) for at in range(0, len(later.label), 4096)])
    print("%.6f" % auc(score, later.label))


if __name__ == "__main__":
    {"steps": steps, "auc": train}[sys.argv[1]](*sys.argv[2:])
