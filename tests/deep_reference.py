#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Independent mlp, din, two-tower, fm, dcnv2, dlrm and dicm in plain double precision: forward by the formulas of their pages, gradients by central differences
of their own forward pass, Adam as Kingma & Ba give it. Python alone: streams are read through the tools, models through
ctr-export --format safetensors, so that this also reads those.

    deep_reference.py mlp|din|two-tower|fm|dcnv2|dlrm|dicm STREAM START MODEL PROGRESSIVE [minibatch=… hidden=… activation=… pooling=… batch-norm=1 dropout=… l2=… rate=…
                      decay=… decay-every=… seed=… passes=… counts=CSV running=1 attention=… attention-hidden=… user=COLUMN,… ad=COLUMN,…
                      cross-rank=… structure=… bottom=… images=… images-pool=… images-last=… images-tower=… images-scale=… base=…]
        images: a stream of keys of images, made as those of the rows, and vectors; of an image that is not there: 0
        START: the same model before any learning (trained at a rate of next to nothing). Do scores and values agree?
    deep_reference.py score SAFETENSORS STREAM SCORED [hidden=… activation=… pooling=… batch-norm=1]   what the tensors predict
    deep_reference.py attention MODEL STREAM EXPLAINED [n=…] [OPTION…]   what ctr-model explain -n N said of attention
    deep_reference.py explain MODEL STREAM EXPLAINED [OPTION…]   what ctr-model explain -n 0 said of rows, with the row's number in `row`
    deep_reference.py counts STREAM CSV                         made-up counts of half of the keys
    deep_reference.py same A B [tolerance]                      equal tensors?
"""
import json
import math
import struct
import sys
import tempfile

from model_reference import Table, random64, role, table_of, tool


def tensors(path):
    """name -> (shape, flat list of values)"""
    if not path.endswith(".safetensors"):
        with tempfile.NamedTemporaryFile(suffix=".safetensors") as f:
            tool("ctr-export", "-q", "-f", "safetensors", "-o", f.name, path)
            return tensors(f.name)
    with open(path, "rb") as f:
        data = f.read()
    n = struct.unpack("<Q", data[:8])[0]
    head, at, out = json.loads(data[8 : 8 + n]), 8 + n, {}
    assert n % 8 == 0
    for name, t in head.items():
        if name == "__metadata__":
            continue
        code = {"F32": "f", "U64": "Q", "I64": "q", "I32": "i"}[t["dtype"]]
        a, b = t["data_offsets"]
        out[name] = (t["shape"], list(struct.unpack("<%d%s" % ((b - a) // struct.calcsize(code), code), data[at + a : at + b])))
    return out


class Model:
    """Parameters as lists of floats: dense by name, embeddings by (table, key)."""

    def __init__(self, path):
        t = tensors(path)
        parameters = {n.split(".", 1)[1]: v for n, v in t.items() if "." in n and not n.startswith(("emb.", "vocab."))}
        self.dense = {n: v for n, (_, v) in parameters.items()}
        self.shape = {n: s for n, (s, _) in parameters.items()}
        self.kind = min(n for n in t if "." in n and not n.startswith(("emb.", "vocab."))).split(".")[0]
        self.attends = any(n.startswith("din.") for n in t)
        self.towers = any(n.startswith("two-tower.") for n in t)
        self.rows, self.width = {}, 0
        self.scale = {}
        self.kept = None  # what inputs of keys are pooled to, by row and input, while no vector of a key changes
        for n, (shape, v) in t.items():
            if n.startswith("emb.") and not n.endswith(".key"):
                self.width = w = shape[1]
                for i, k in enumerate(t[n + ".key"][1]):
                    self.rows[n[4:], k] = v[i * w : (i + 1) * w]
        if "numbers" in self.shape:  # fm
            self.width = self.shape["numbers"][1]


def sequences(features):
    """Histories: for each, its fields and the features that these are the past of (None: of none), as numbers of features."""
    of = [f["metadata"].get("ctr.history_of") for f in features]
    group = [f["metadata"].get("ctr.history") and (role(f), f["metadata"].get("ctr.history")) for f in features]
    names, out, done = [f["name"] for f in features], [], set()
    for i in range(len(features)):
        if of[i] and i not in done:
            fields = [k for k in range(len(features)) if k == i or group[k] and group[k] == group[i]]
            done |= set(fields)
            out.append([(k, names.index(of[k]) if of[k] else None) for k in fields])
    return out


class Rows:
    """Rows of a stream as the model takes them: for each, the entries of each input of keys, and the numbers."""

    def __init__(self, path):
        t = Table(path)
        self.keys, self.numbers, self.label, self.weight = [], [], [], []
        self.key_names, self.number_names = [], []
        fields = sorted(t.fields, key=lambda f: f["name"].encode())
        self.sequences = sequences([f for f in fields if role(f) in ("feature", "image")])
        self.oldest = [f["metadata"].get("ctr.order") == "oldest" for f in fields if role(f) in ("feature", "image")]
        self.images = [role(f) == "image" for f in fields if role(f) in ("feature", "image")]
        self.lists = [any(isinstance(r[f["name"]], list) for r in t.rows) for f in fields if role(f) in ("feature", "image")]
        for i in range(len(t.rows)):
            keys, numbers = [], []
            for f in fields:
                v = t.rows[i][f["name"]]
                if role(f) in ("feature", "image"):
                    entries = v if isinstance(v, list) else [v]
                    entries = [(e["key"], e["weight"]) if isinstance(e, dict) else (e, 1.0) for e in entries]
                    keys.append([((table_of(f) if role(f) == "feature" else IMAGE, k), x) for k, x in entries if x != 0])
                    self.key_names += [] if i else [f["name"]]
                elif role(f) == "dense":
                    numbers += [e or 0.0 for e in (v if isinstance(v, list) else [v])]
                    self.number_names += [] if i else [f["name"]] * len(numbers[len(self.number_names) :])
            self.keys.append(keys)
            self.numbers.append(numbers)
            label = [f["name"] for f in fields if role(f) == "label"]
            weight = [f["name"] for f in fields if role(f) == "weight"]
            self.label.append(t.rows[i][label[0]] if label else 0)
            self.weight.append(t.rows[i][weight[0]] if weight else 1.0)


IMAGE = "an image"


def embed_images(m, o, rows, batch):
    """Images through the tower: the vectors of their keys."""
    if "vectors" not in o:
        t = Table(o["images"])
        key, vector = [f["name"] for f in t.fields if role(f) == "image"][0], [f["name"] for f in t.fields if role(f) != "image"][0]
        o["vectors"] = {r[key]: r[vector] for r in t.rows}
    keys = sorted({k for i in batch for entries in rows.keys[i] for k, _ in entries if k[0] == IMAGE})
    vectors, width = o["vectors"], len(next(iter(o["vectors"].values())))
    if o["images-scale"] == "standard":
        if "standard" not in o:
            columns = list(zip(*vectors.values()))
            mean = [sum(c) / len(c) for c in columns]
            scale = [1 / math.sqrt(sum((v - a) ** 2 for v in c) / len(c)) for c, a in zip(columns, mean)]
            near("image.mean", m.dense["image.mean"], mean, 1e-6)
            near("image.scale", m.dense["image.scale"], scale, 1e-5)
            o["standard"] = {k: [(a - b) * c for a, b, c in zip(v, mean, scale)] for k, v in vectors.items()}
        vectors = o["standard"]
    x = [vectors.get(k[1], [0.0] * width) for k in keys]
    m.images = dict(zip(keys, layers(m, dict(o, activation="prelu"), x, "image.", o["images-tower"], None)))


def value(m, k):
    v = m.images[k] if k[0] == IMAGE else m.rows[k]
    return [m.scale[k] * x for x in v] if k in m.scale else v


def sigmoid(z):
    return 1 / (1 + math.exp(-z)) if z > -700 else 0.0


def stats(z):
    n = len(z)
    mean = [sum(c) / n for c in zip(*z)]
    return mean, [sum((v - m) ** 2 for v in c) / n for c, m in zip(zip(*z), mean)]


def activate(kind, z, alpha, mean, var):
    if kind == "relu":
        return max(z, 0.0)
    if kind == "prelu":
        return z if z > 0 else alpha * z
    p = sigmoid((z - mean) / math.sqrt(var + 1e-8))
    return p * z + (1 - p) * alpha * z


POOLING = {"sum": sum, "mean": lambda v: sum(v) / len(v), "max": max}


def stack(m, o, x, name, hidden, training, norm=False, dropout=0.0):
    """The one output of a stack of layers."""
    return [v[0] for v in layers(m, o, x, name, hidden, training, norm, dropout)]


def layers(m, o, x, name, hidden, training, norm=False, dropout=0.0):
    """The outputs of a stack of layers, the last one linear; names of its parameters begin with `name`."""
    return linear(m, "%s%d." % (name, len(hidden)), hidden_layers(m, o, x, name, hidden, training, norm, dropout))


def linear(m, name, x, weight="weight"):
    """W x + b of each x, or W x where there is no b."""
    w, n = m.dense[name + weight], len(x[0]) if x else 0
    b = m.dense.get(name + "bias", [0.0] * m.shape[name + weight][0])
    return [[sum(a * c for a, c in zip(v, w[j * n : (j + 1) * n])) + b[j] for j in range(len(b))] for v in x]


def hidden_layers(m, o, x, name, hidden, training, norm=False, dropout=0.0):
    for l, out in enumerate(hidden):
        at = "%s%d." % (name, l)
        w, width = m.dense[at + "weight"], len(x[0]) if x else 0
        b = m.dense.get(at + "bias", [0.0] * out)
        z = [[sum(a * c for a, c in zip(v, w[j * width : (j + 1) * width])) + b[j] for j in range(out)] for v in x]
        for what, on in (("norm", norm), ("dice", o["activation"] == "dice")):
            if not on:
                continue
            mean, var = (m.dense[at + what + ".mean"], m.dense[at + what + ".var"])
            if training and x:
                mean, var = stats(z)
                training[1][at + what] = mean, var, len(x)
            if what == "norm":
                g, s = m.dense[at + "norm.weight"], m.dense[at + "norm.bias"]
                z = [[g[j] * (v[j] - mean[j]) / math.sqrt(var[j] + 1e-5) + s[j] for j in range(out)] for v in z]
        if o["activation"] != "dice":
            mean = var = [0.0] * out
        alpha = m.dense.get(at + "alpha", [0.0] * out)
        x = [[activate(o["activation"], v[j], alpha[j], mean[j], var[j]) for j in range(out)] for v in z]
        if training and dropout:
            for i, v in enumerate(x):
                for j in range(out):
                    kept = (random64(o["seed"], training[0] * 8 + l, i * out + j) >> 40) / 2**24 >= dropout
                    v[j] = v[j] / (1 - dropout) if kept else 0.0
    return x


def width(m, o, image):
    """Numbers of a value of an image, of a key of ids."""
    return len(m.dense["image.%d.bias" % len(o["images-tower"])]) if image else m.width


def pooled(m, o, entries, image=False, is_list=False, oldest=False):
    values, zero = [[w * e for e in value(m, k)] for k, w in entries], [0.0] * width(m, o, image)
    if image and is_list and o["images-pool"] == "concat":
        last = (values[::-1] if oldest else values)[: o["images-last"]]
        return sum(last + [zero] * (o["images-last"] - len(last)), [])
    how = o["images-pool"] if image and o["images-pool"] in POOLING else o["pooling"]
    return [POOLING[how](column) for column in zip(*values)] or zero


def pooled_input(m, o, rows, i, f):
    if rows.images[f] or m.kept is None:
        return pooled(m, o, rows.keys[i][f], rows.images[f], rows.lists[f], rows.oldest[f])
    if (i, f) not in m.kept:
        m.kept[i, f] = pooled(m, o, rows.keys[i][f])
    return m.kept[i, f]


def attended(m, o, rows, batch, name, fields, training, ids=None):
    """Of each row, the items of a history summed with weights that depend on the candidate; ids: or on these inputs, by a product."""
    items, inputs = [], []
    for i in batch:
        asked = ids or [of for _, of in fields]
        zero = [0.0] * width(m, o, rows.images[fields[0][0]])
        q = sum((zero if f is None else pooled_input(m, o, rows, i, f) for f in asked), [])
        q = linear(m, name, [q], "query")[0] if ids else q
        lists = [rows.keys[i][f] for f, _ in fields]
        assert len({len(v) for v in lists}) == 1
        items.append([sum(([w * e for e in value(m, k)] for k, w in item), []) for item in zip(*lists)])
        inputs += [q + k + [a - b for a, b in zip(q, k)] + [a * b for a, b in zip(q, k)] for k in items[-1]]
    scores, out, size = iter(stack(m, o, inputs, name, o["attention-hidden"], training)), [], sum(width(m, o, rows.images[f]) for f, _ in fields)
    for keys in items:
        s = [next(scores) for _ in keys]
        if o["attention"] == "softmax":
            e = [math.exp(v / math.sqrt(size)) for v in s]
            s = [v / sum(e) for v in e]
        o.get("weights", {}).setdefault(name, []).append(s)
        out.append([sum(a * k[j] for a, k in zip(s, keys)) for j in range(size)])
    return out


def tower(m, o, rows, batch, side, training=None):
    """The vectors of one side, from its inputs alone."""
    keys = [f for f, name in enumerate(rows.key_names) if name in o[side]]
    numbers = [n for n, name in enumerate(rows.number_names) if name in o[side]]
    x = [sum((pooled_input(m, o, rows, i, f) for f in keys), []) + [rows.numbers[i][n] for n in numbers] for i in batch]
    return layers(m, o, x, side + ".", o["hidden"], training, o["batch-norm"])


def fm(m, o, rows, batch, training):
    """Every pair of features, one by one: the entries of all lists, and the numbers."""
    logits = []
    for i in batch:
        features = [(value(m, k), x) for entries in rows.keys[i] for k, x in entries]
        features += [(m.dense["numbers"][n * m.width : (n + 1) * m.width], x) for n, x in enumerate(rows.numbers[i])]
        z = m.dense["bias"][0]
        for a, (v, x) in enumerate(features):
            z += v[0] * x
            for u, y in features[:a]:
                z += x * y * sum(p * q for p, q in zip(v[1:], u[1:]))
        logits.append(z)
    return logits


def dcnv2(m, o, rows, batch, training):
    x0 = [sum((pooled_input(m, o, rows, i, f) for f in range(len(rows.keys[i]))), []) + rows.numbers[i] for i in batch]
    x = x0
    for l in range(sum(n.startswith("cross.") and n.endswith(".weight") for n in m.dense)):
        t = x
        if o["cross-rank"]:
            rank, n = m.shape["cross.%d.down" % l]
            down = m.dense["cross.%d.down" % l]
            t = [[sum(a * c for a, c in zip(v, down[j * n : (j + 1) * n])) for j in range(rank)] for v in x]
        x = [[a * b + c for a, b, c in zip(*v)] for v in zip(x0, linear(m, "cross.%d." % l, t), x)]
    if o["structure"] == "stacked" or not o["hidden"]:
        return stack(m, o, x, "", o["hidden"], training, o["batch-norm"], o["dropout"])
    hidden = hidden_layers(m, o, x0, "", o["hidden"], training, o["batch-norm"], o["dropout"])
    return [z[0] for z in linear(m, "last.", [a + b for a, b in zip(x, hidden)])]


def dlrm(m, o, rows, batch, training):
    v = [[pooled_input(m, o, rows, i, f) for f in range(len(rows.keys[i]))] for i in batch]
    numbers = [rows.numbers[i] for i in batch]
    if numbers[0]:
        bottom = hidden_layers(m, o, numbers, "bottom.", o["bottom"] + [m.width], training, o["batch-norm"])
        v = [[b] + u for b, u in zip(bottom, v)]
    dots = [[sum(a * c for a, c in zip(u[f], u[g])) for f in range(len(u)) for g in range(f)] for u in v]
    x = [(u[0] if numbers[0] else []) + t for u, t in zip(v, dots)]
    return stack(m, o, x, "", o["hidden"], training, o["batch-norm"], o["dropout"])


CROSSES = {"fm": fm, "dcnv2": dcnv2, "dlrm": dlrm}


def forward(m, o, rows, batch, training=None):
    """Logits of rows `batch`. training: None, or (step, dict that gets the statistics of the minibatch)."""
    if m.kind in CROSSES:
        return CROSSES[m.kind](m, o, rows, batch, training)
    if m.towers:
        if o["images"]:
            embed_images(m, o, rows, batch)
        assert not o["dropout"], "draws of a stack with a prefix are not known here"
        pairs = zip(tower(m, o, rows, batch, "user", training), tower(m, o, rows, batch, "ad", training))
        return [sum(a * b for a, b in zip(u, v)) + m.dense["bias"][0] for u, v in pairs]
    histories = rows.sequences if m.attends else []
    if m.kind == "dicm":
        embed_images(m, o, rows, batch)
        wanted = {True: o["images-pool"] in ("attentive", "multi-query"), False: o["base"] == "din"}
        histories = [fields for fields in rows.sequences if wanted[rows.images[fields[0][0]]]]
    past = {f for fields in histories for f, _ in fields}
    lr = m.kind == "dicm" and o["base"] == "lr"
    inputs = [f for f in range(len(rows.key_names)) if f not in past and (rows.images[f] or not lr)]
    x = [sum((pooled_input(m, o, rows, i, f) for f in inputs), []) + rows.numbers[i] for i in batch]
    for n, fields in reversed(list(enumerate(histories))):
        if o["images-pool"] == "multi-query" and rows.images[fields[0][0]]:
            ids = [f for f, name in enumerate(rows.key_names) if name in o["ad"]]
            x = [a + b for a, b in zip(attended(m, o, rows, batch, "attention%d.ids." % (n + 1), fields, training, ids), x)]
        x = [a + b for a, b in zip(attended(m, o, rows, batch, "attention%d." % (n + 1), fields, training), x)]
    if lr:
        ids = [sum(w * value(m, k)[0] for f, e in enumerate(rows.keys[i]) if not rows.images[f] for k, w in e) for i in batch]
        return [a + b[0] for a, b in zip(ids, linear(m, "", x))]
    return stack(m, o, x, "", o["hidden"], training, o["batch-norm"], o["dropout"])


def loss(m, o, rows, batch, step):
    """The sum over these rows."""
    logits = forward(m, o, rows, batch, (step, {}))
    return sum(rows.weight[i] * (math.log1p(math.exp(-abs(z))) + max(z, 0) - rows.label[i] * z) for i, z in zip(batch, logits))


def gradient(m, o, rows, batch, step, values, n):
    """Central differences of the mean over n rows, of which those outside of `batch` do not depend on `values`; one-sided kinks of the
    activations are rare at this eps."""
    out, eps = [], 1e-6
    for i, v in enumerate(values):
        values[i] = v + eps
        up = loss(m, o, rows, batch, step)
        values[i] = v - eps
        out.append((up - loss(m, o, rows, batch, step)) / (2 * eps * n))
        values[i] = v
    return out


def gradients(m, o, rows, batch, step, names, keys):
    """Of all parameters. A key's vector changes the rows that have it; the others too, where statistics of the minibatch or draws by a
    row's place in it are between."""
    m.kept = {}
    grads = {n: gradient(m, o, rows, batch, step, m.dense[n], len(batch)) for n in names}
    m.kept = None
    together = o["batch-norm"] or o["dropout"] or o["activation"] == "dice"
    for k in keys:
        some = batch if together else [i for i in batch if any(k == e for entries in rows.keys[i] for e, _ in entries)]
        grads[k] = gradient(m, o, rows, some, step, m.rows[k], len(batch))
    return grads


def adam(values, g, state, rate, t):
    for i, d in enumerate(g):
        state[0][i] = 0.9 * state[0][i] + 0.1 * d
        state[1][i] = 0.999 * state[1][i] + 0.001 * d * d
        values[i] -= rate * (state[0][i] / (1 - 0.9**t)) / (math.sqrt(state[1][i] / (1 - 0.999**t)) + 1e-8)


def rows_with(rows, batch, counts):
    """To counts, the number of these rows that each key occurs in, once or more."""
    for i in batch:
        for k in {k for entries in rows.keys[i] for k, _ in entries if k[0] != IMAGE}:
            counts[k] = counts.get(k, 0) + 1
    return counts


def train(m, o, rows):
    state, scores, t, learned = {}, [], 0, 0
    counts = {} if o["running"] else rows_with(rows, range(len(rows.label)), {})
    for p in range(o["passes"]):
        for at in range(0, len(rows.label), o["minibatch"]):
            batch = range(at, min(at + o["minibatch"], len(rows.label)))
            if not p:
                scores += [sigmoid(z) for z in forward(m, o, rows, batch)]
            rate = o["rate"] * o["decay"] ** (learned // o["decay-every"])
            used = rows_with(rows, batch, {})
            if o["running"] and not p:
                rows_with(rows, batch, counts)
            trained = [n for n in m.dense if not n.endswith((".mean", ".var")) and n != "image.scale"]
            running = {}
            forward(m, o, rows, batch, (t, running))
            grads = gradients(m, o, rows, batch, t, trained, used)
            t += 1
            for k in used:
                grads[k] = [g + o["l2"] / o["given"].get(k[1], counts[k]) * w for g, w in zip(grads[k], m.rows[k])]
            for n, g in grads.items():
                values = m.rows[n] if isinstance(n, tuple) else m.dense[n]
                adam(values, g, state.setdefault(n, ([0.0] * len(g), [0.0] * len(g))), rate, t)
            for at, (mean, var, n) in running.items():
                unbiased = n / (n - 1) if n > 1 else 1
                for name, new, scale in (("mean", mean, 1), ("var", var, unbiased)):
                    old = m.dense["%s.%s" % (at, name)]
                    old[:] = [0.9 * a + 0.1 * scale * b for a, b in zip(old, new)]
            learned += len(batch)
    return scores


def options(words):
    o = {"minibatch": 3000, "hidden": [200, 80], "activation": "prelu", "pooling": "sum", "batch-norm": 0, "dropout": 0.0, "l2": 0.0, "rate": 0.001}
    o.update({"decay": 1.0, "decay-every": 1440000000, "seed": 0, "passes": 1, "running": 0})
    o.update({"attention": "plain", "attention-hidden": [80, 40], "user": [], "ad": []})
    o.update({"cross-rank": 0, "structure": "parallel", "bottom": [64, 32]})
    o.update({"images": "", "images-pool": "sum", "images-tower": [256, 64], "images-last": 20, "images-scale": "none", "base": "mlp"})
    o["given"] = {}
    for w in words:
        k, v = w.split("=")
        if k == "counts":
            o["given"] = {int(a): int(b) for a, b in (line.split(",") for line in open(v).read().split()[1:])}
            continue
        o[k] = [int(x) for x in v.split(",") if x != "0"] if k.endswith("hidden") or k in ("bottom", "images-tower") else v.split(",") if k in ("user", "ad") else type(o[k])(v)
    return o


def near(what, got, want, tolerance):
    far = [(abs(a - b), i) for i, (a, b) in enumerate(zip(got, want)) if not abs(a - b) <= tolerance]
    if len(got) != len(want) or far:
        d, i = max(far) if far else (0, 0)
        sys.exit("%s: %d of %d differ from %d, most %g at %d: %r, want %r" % (what, len(far), len(got), len(want), d, i, got[i], want[i]))


def check_training(stream, start, model, progressive, words):
    o, rows, m, got = options(words), Rows(stream), Model(start), Model(model)
    for n, v in m.dense.items():  # the start has seen the minibatches' statistics
        if n.endswith((".mean", ".var")) and n != "image.mean":
            v[:] = [0.0 if n.endswith(".mean") else 1.0] * len(v)
    values = [*m.rows.values(), *m.dense.values()]
    first = [list(v) for v in values]
    scores = train(m, o, rows)
    assert first != values, "nothing was learned"
    near("scores", Table(progressive)["score"], scores, 2e-5)
    assert got.rows.keys() == m.rows.keys() and got.dense.keys() == m.dense.keys()
    for n in m.dense:
        near(n, got.dense[n], m.dense[n], 0.02 * o["rate"] + 1e-5)
    for k in m.rows:
        near(k, got.rows[k], m.rows[k], 0.02 * o["rate"] + 1e-5)


def make_counts(stream, out):
    """Counts of some of the keys, as CSV."""
    keys = sorted({k[1] for row in Rows(stream).keys for entries in row for k, _ in entries})
    with open(out, "w") as f:
        f.write("key,count\n" + "".join("%d,%d\n" % (k, 1 + k % 50) for k in keys[::2]))


def check_score(path, stream, scored, words):
    o, rows, m = options(words), Rows(stream), Model(path)
    near("scores", Table(scored)["score"], [sigmoid(z) for z in forward(m, o, rows, range(len(rows.label)))], 1e-5)


def check_attention(path, stream, explained, words):
    """Units in the order of their histories, that of IDs second; items by magnitude of weight, then the sum of the rest."""
    n = int(dict(w.split("=") for w in words).get("n", 0))
    o, rows, m = options([w for w in words if not w.startswith("n=")]), Rows(stream), Model(path)
    o["weights"] = {}
    scores = [sigmoid(z) for z in forward(m, o, rows, range(len(rows.label)))]
    names = sorted(o["weights"])  # attention1. before attention1.ids.
    histories = [h for h in rows.sequences if m.kind != "dicm" or (rows.images[h[0][0]] and o["images-pool"] in ("attentive", "multi-query")) or
                 (not rows.images[h[0][0]] and o["base"] == "din")]
    got, at = Table(explained).rows, 0
    for i in range(len(rows.label)):
        for unit, name in enumerate(names):
            fields, s = histories[int(name.split(".")[0][len("attention") :]) - 1], o["weights"][name][i]
            order = sorted(range(len(s)), key=lambda k: (-abs(s[k]), k))
            shown = order[:n] if n else order
            for rank, k in enumerate(shown):
                lines = [got[at + f] for f in range(len(fields))]
                at += len(fields)
                place = lines[0]["place"] - 1
                assert abs(s[place] - s[k]) < 1e-5, (i, name, rank, lines, s)  # nearly equal ones may change places
                for (f, of), line in zip(fields, lines):
                    assert (line["row"], line["unit"], line["place"], line["list"]) == (i + 1, unit + 1, place + 1, rows.key_names[f]), line
                    assert line["key"] == rows.keys[i][f][place][0][1] and line["weight"] == lines[0]["weight"]
                    assert line["of"] == ("(ids)" if ".ids." in name else None if of is None else rows.key_names[of]), line
                near("weight of row %d" % (i + 1), [lines[0]["weight"]], [s[place]], 1e-5)
                near("score of row %d" % (i + 1), [lines[0]["score"]], [scores[i]], 1e-5)
            if len(shown) < len(order):
                rest = got[at]
                at += 1
                assert (rest["list"], rest["name"], rest["place"]) == ("(rest)", "%d more" % (len(order) - n), None), rest
                near("rest of row %d" % (i + 1), [rest["weight"]], [sum(s[k] for k in order[n:])], 1e-5)
    assert at == len(got) > 0, "%d lines, expected %d" % (len(got), at)


def integrated(m, o, rows, i, points=150):
    """Of row i, its logit, that without vectors and numbers, and the integrated gradient of each entry and number: differences along its own
    direction at the middles of `points` pieces of the line, of the whole forward pass."""
    entries, numbers = [], list(rows.numbers[i])
    for f, keys in enumerate(rows.keys[i]):  # each entry has a vector of its own
        rows.keys[i][f] = [((*k[:2], f, n), w) for n, (k, w) in enumerate(keys)]
        entries += [k for k, _ in rows.keys[i][f]]
    m.rows.update({k: m.rows[k[:2]] for k in entries if k[0] != IMAGE})

    def logit(at, moved=None, by=0.0):
        m.scale = {k: at + (by if k == moved else 0) for k in entries}
        rows.numbers[i] = [(at + (by if n == moved else 0)) * x for n, x in enumerate(numbers)]
        return forward(m, o, rows, [i])[0]

    parts, eps = {}, 1e-6
    line = [logit((p + 0.5) / points) for p in range(points)]
    ways = (eps, -eps) if "max" in (o["pooling"], o["images-pool"]) else (eps,)  # of two that are the largest each has half
    for what in entries + [n for n, x in enumerate(numbers) if x != 0]:
        parts[what] = sum((logit((p + 0.5) / points, what, by) - z) / by for by in ways for p, z in enumerate(line)) / (len(ways) * points)
    answer = logit(1), logit(0), parts
    m.scale = {}
    return answer


def check_explain(path, stream, explained, words):
    o, rows, m, seen = options(words), Rows(stream), Model(path), 0
    got = Table(explained).rows
    for row in sorted({r["row"] for r in got}):
        logit, base, parts = integrated(m, o, rows, row - 1)
        want = {("(bias)", None, ""): base}
        for what, v in parts.items():
            if isinstance(what, int):
                name = rows.number_names[what]
                first = rows.number_names.index(name)
                at = name, None, "" if rows.number_names.count(name) == 1 else str(what - first)
            else:
                at = rows.key_names[what[2]], what[1], None
            want[at] = want.get(at, 0.0) + v
        have, total = {}, 0.0
        for line in (r for r in got if r["row"] == row):
            total += line["contribution"]
            number = line["table"] in rows.number_names
            at = line["table"], None if line["table"] == "(bias)" or number else line["key"], line["name"] if line["table"] == "(bias)" or number else None
            if line["table"] == "(residual)":
                assert abs(line["contribution"]) <= 1e-3, line
            else:
                have[at] = have.get(at, 0.0) + line["contribution"]
            near("score", [line["score"]], [sigmoid(logit)], 1e-5)
        assert have.keys() == want.keys(), (have.keys() ^ want.keys())
        near("sum of row %d" % row, [total], [logit], 1e-4)
        near("parts of row %d, of %s" % (row, list(want)), [have[k] for k in want], list(want.values()), 1e-2)
        seen += sum(abs(v) > 0.05 for v in parts.values())
    assert seen > len(rows.label) / 2, "only %d parts are of any size" % seen


def same(a, b, tolerance):
    x, y = tensors(a), tensors(b)
    assert x.keys() == y.keys()
    for n in x:
        assert x[n][0] == y[n][0], n
        near(n, x[n][1], y[n][1], tolerance)


if __name__ == "__main__":
    what, *a = sys.argv[1:]
    if what in ("mlp", "din", "dicm", "two-tower", *CROSSES):
        check_training(a[0], a[1], a[2], a[3], a[4:])
    elif what == "score":
        check_score(a[0], a[1], a[2], a[3:])
    elif what == "attention":
        check_attention(a[0], a[1], a[2], a[3:])
    elif what == "explain":
        check_explain(a[0], a[1], a[2], a[3:])
    elif what == "counts":
        make_counts(a[0], a[1])
    elif what == "same":
        same(a[0], a[1], float(a[2]) if len(a) > 2 else 0.0)
    else:
        sys.exit(__doc__)
