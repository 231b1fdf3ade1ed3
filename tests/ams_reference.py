#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Algorithm 1 of Ge et al., "Image Matters" (CIKM 2018), plain and in double precision: dicm with a base of lr and sums of images.

    ams_reference.py IMAGES START MODEL MINIBATCH RATE STREAM…      a STREAM a rank

IMAGES: a stream of keys of images, made as those of the rows, and vectors. START: the model before any learning. MODEL: what ranks have learned.
Owners embed each distinct image of a step once, workers compute the rest, owners sum the gradients of ranks and run the tower's backward.
Checks that the values are those of MODEL within 1e-5 and 2% of the rate, that one rank with all rows of a step gets them within 1e-9, and prints what was asked for."""
import sys

import numpy as np
from deep_reference import IMAGE, Model, Rows
from model_reference import Table, role


def prelu(z, a):
    return np.where(z > 0, z, a * z)


class Ams:
    def __init__(self, start, vectors, ranks):
        m = Model(start)
        self.w = {n: np.array(v).reshape(m.shape[n]) for n, v in m.dense.items()}
        self.rows = {k: np.array(v) for k, v in m.rows.items()}
        self.null = np.zeros(len(next(iter(vectors.values()))))  # of a key that is null
        self.state, self.t, self.vectors, self.ranks = {}, 0, vectors, ranks
        self.layers = sum(n.startswith("image.") and n.endswith("alpha") for n in self.w)
        self.count = {"steps": 0, "ids": 0, "images": 0, "forwards": 0}

    def embed(self, x):
        acts = [x]
        for l in range(self.layers):
            z = acts[-1] @ self.w["image.%d.weight" % l].T + self.w["image.%d.bias" % l]
            acts += [z, prelu(z, self.w["image.%d.alpha" % l])]
        return acts, acts[-1] @ self.w["image.%d.weight" % self.layers].T + self.w["image.%d.bias" % self.layers]

    def embed_back(self, acts, dv, g):
        for l in range(self.layers, -1, -1):
            g["image.%d.weight" % l] = dv.T @ acts[2 * l]
            g["image.%d.bias" % l] = dv.sum(0)
            dv = dv @ self.w["image.%d.weight" % l]
            if l:
                z, a = acts[2 * l - 1], self.w["image.%d.alpha" % (l - 1)]
                g["image.%d.alpha" % (l - 1)] = (dv * np.where(z > 0, 0, z)).sum(0)
                dv = dv * np.where(z > 0, 1, a)

    def adam(self, name, values, g, rate):
        m, v = self.state.setdefault(name, (np.zeros_like(g), np.zeros_like(g)))
        m[...] = 0.9 * m + 0.1 * g
        v[...] = 0.999 * v + 0.001 * g * g
        values -= rate * (m / (1 - 0.9**self.t)) / (np.sqrt(v / (1 - 0.999**self.t)) + 1e-8)

    def step(self, batches, rate):
        """batches: (Rows, numbers of rows) of each rank"""
        asked = [list(dict.fromkeys(k[1] for i in b for e in rows.keys[i] for k, _ in e if k[0] == IMAGE)) for rows, b in batches]
        ids = [{k for i in b for e in rows.keys[i] for k, _ in e if k[0] != IMAGE} for rows, b in batches]
        total = sum(len(b) for _, b in batches)
        # Any cut by key does: the owner of an image changes only the order of sums.
        owned = [list(dict.fromkeys(k for a in asked for k in a if k % self.ranks == r)) for r in range(self.ranks)]
        embedded = [self.embed(np.array([self.vectors.get(k, self.null) for k in o]).reshape(len(o), -1)) for o in owned]
        value = {k: v for o, (_, vs) in zip(owned, embedded) for k, v in zip(o, vs)}
        dense, dvalue, drows = {"weight": 0, "bias": 0}, {}, {}
        for rows, b in batches:  # in the order of ranks
            mine, of = {}, {}
            for i in b:
                inputs = [sum((value[k[1]] for k, _ in e), np.zeros(len(self.w["image.%d.bias" % self.layers]))) for f, e in enumerate(rows.keys[i]) if rows.images[f]]
                x = np.concatenate(inputs + [np.array(rows.numbers[i])])
                z = x @ self.w["weight"][0] + self.w["bias"][0]
                z += sum(self.rows[k][0] for f, e in enumerate(rows.keys[i]) if not rows.images[f] for k, _ in e)
                d = rows.weight[i] * (1 / (1 + np.exp(-z)) - rows.label[i]) / total
                dense["weight"], dense["bias"], at = dense["weight"] + d * x, dense["bias"] + d, 0
                for f, e in enumerate(rows.keys[i]):
                    for k, _ in e:
                        if rows.images[f]:
                            mine[k[1]] = mine.get(k[1], 0) + d * self.w["weight"][0][at : at + len(value[k[1]])]
                        else:
                            of[k] = of.get(k, 0) + d
                    at += len(inputs[0]) if rows.images[f] else 0
            for to, from_ in ((dvalue, mine), (drows, of)):
                for k, g in from_.items():
                    to[k] = to[k] + g if k in to else g
        sums = {}
        for o, (acts, _) in zip(owned, embedded):
            g = {}
            self.embed_back(acts, np.array([dvalue[k] for k in o]).reshape(len(o), -1), g)
            for n in g:
                sums[n] = sums.get(n, 0) + g[n]
        self.t += 1
        sums["weight"], sums["bias"] = dense["weight"].reshape(1, -1), np.array([dense["bias"]]).reshape(self.w["bias"].shape)
        for n, g in sums.items():
            self.adam(n, self.w[n], g.reshape(self.w[n].shape), rate)
        for k, g in drows.items():
            self.adam(k, self.rows[k], np.array([g]), rate)
        for what, n in (("steps", 1), ("ids", sum(map(len, ids))), ("images", sum(map(len, asked))), ("forwards", sum(map(len, owned)))):
            self.count[what] += n


def main():
    images, start, model, minibatch, rate = *sys.argv[1:4], int(sys.argv[4]), float(sys.argv[5])
    t = Table(images)
    key, vector = [f["name"] for f in t.fields if role(f) == "image"][0], [f["name"] for f in t.fields if role(f) != "image"][0]
    vectors = {r[key]: r[vector] for r in t.rows}
    parts = [Rows(p) for p in sys.argv[6:]]
    most = max(len(p.label) for p in parts)
    many, one = Ams(start, vectors, len(parts)), Ams(start, vectors, 1)
    for at in range(0, most, minibatch):
        batches = [(p, range(min(at, len(p.label)), min(at + minibatch, len(p.label)))) for p in parts]
        many.step(batches, rate)
        together = Rows.__new__(Rows)
        for what in ("keys", "numbers", "label", "weight"):
            setattr(together, what, [getattr(p, what)[i] for p, b in batches for i in b])
        together.images = parts[0].images
        one.step([(together, range(len(together.label)))], rate)
    got = Model(model)
    worst = {"one rank": 0.0, "the model": 0.0}
    for mine, other, theirs in ((many.w, one.w, got.dense), (many.rows, one.rows, got.rows)):
        for n, v in mine.items():
            worst["one rank"] = max(worst["one rank"], np.abs(v - other[n]).max())
            worst["the model"] = max(worst["the model"], np.abs(v.ravel() - np.array(theirs[n]).ravel()).max())
    print("worst difference: from one rank %.1e, from the model %.1e" % (worst["one rank"], worst["the model"]), file=sys.stderr)
    if not (worst["one rank"] <= 1e-9 and worst["the model"] <= 0.02 * rate + 1e-5):
        sys.exit("they differ")
    print(" ".join("%s %d" % c for c in many.count.items()))


if __name__ == "__main__":
    main()
