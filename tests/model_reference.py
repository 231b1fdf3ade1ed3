#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Independent optimizers, FTRL-Proximal (Algorithm 1 of "Ad Click Prediction: a View from the Trenches") first, in plain double
precision, and what the tests of ctr-train and ctr-predict need besides. Python alone: streams are made and read through the tools.

    model_reference.py make KIND ROWS OUT        a stream of features: onehot, mixed
    model_reference.py ftrl STREAM MODEL PROGRESSIVE [alpha=… beta=… l1=… l2=… passes=… bias=… hash-bits=… normalize=… dropout=… seed=… uncertainty=1]
    model_reference.py score STREAM (MODEL SCORED)… [hash-bits=… normalize=… dropout=…]   what the weights of models predict
    model_reference.py uncertainty STREAM MODEL SCORED [alpha=… beta=… power=… steps=…]
    model_reference.py auc STREAM [from]         exact AUC of score and label, of the rows from a fraction on
    model_reference.py same A B                  equal columns but for the order of columns?
    model_reference.py set STREAM OUT COLUMN VALUE [ROW]    one value changed, or all of a column
    model_reference.py column STREAM NAME        its values, a line each
    model_reference.py foreign STREAM OUT        the same by pyarrow: word dictionary-encoded, age as float64
"""
import datetime
import json
import math
import struct
import subprocess
import sys


def tool(*args, data=None):
    return subprocess.run(args, input=data, stdout=subprocess.PIPE, check=True).stdout


class Table:
    """A stream: fields as ctr-info tells them, columns by name. float32 comes as the shortest text and is rounded to its value."""

    def __init__(self, path):
        self.fields = json.loads(tool("ctr-info", "--json", path))["columns"]
        self.rows = [json.loads(line) for line in tool("ctr-export", "-f", "jsonl", "--flat", path).splitlines()]
        for f in self.fields:
            if "float32" in f["type"]:
                for r in self.rows:
                    r[f["name"]] = single(r[f["name"]])

    def __getitem__(self, name):
        return [r[name] for r in self.rows]


def single(v):
    if isinstance(v, list):
        return [single(x) for x in v]
    return struct.unpack("<f", struct.pack("<f", v))[0] if isinstance(v, float) else v


def role(field):
    return field["metadata"].get("ctr.role", "")


def table_of(field):
    return field["metadata"].get("ctr.table", field["name"])


# ---- streams ------------------------------------------------------------------------------------------------------


def write(like, rows, out):
    lines = "".join(json.dumps(r) + "\n" for r in rows).encode()
    tool("ctr-cat", "--batch", "1000", "-o", out, data=tool("ctr-import", "-f", "jsonl", "--like", like, data=lines))


# Names, types, roles and tables of the columns: what ctr-extract makes of this plan, weighted keys as ctr-import makes them.
PLAN = {
    "onehot": "id row\nlabel click\nfeature a = n\nfeature b = n\n",
    "mixed": "id row\nlabel click\nweight w\nkeep note\nfeature a = n\nfeature b = n\nfeature item in shared = n\n"
    "feature past in shared = ns\ndense age\ndense vec\nfeature word = n\n",
}
PLAN["timed"] = PLAN["onehot"] + "time time\n"
COLUMNS = "time:timestamp,row:int64,click:float64,w:float64,note:utf8,n:int64,ns:list<int64>,age:float64,vec:fixed_size_list<float32>[3]"


def schema(kind, out):
    """An empty stream of the columns."""
    with open(out + ".plan", "w") as f:
        f.write(PLAN[kind])
    empty = tool("ctr-import", "-f", "jsonl", "--columns", COLUMNS, data=b"")
    with open(out + ".like", "wb") as f:
        f.write(tool("ctr-extract", out + ".plan", data=empty))
    if kind == "mixed":
        with open(out + ".text", "wb") as f:
            f.write(tool("ctr-select", "--head", "0", "--columns", "text", data=tool("ctr-import", "-f", "vw", data=b"1 |text a:2\n")))
        both = tool("ctr-join", "--by-row", out + ".text", out + ".like")
        with open(out + ".like", "wb") as f:
            f.write(tool("ctr-select", "--columns", "row,click,a,b,w,item,past,text,age,vec,word,note", data=both))
    return out + ".like"


def key(*parts):
    import hashlib

    return int.from_bytes(hashlib.sha256(repr(parts).encode()).digest()[:8], "little")


def make(kind, rows, out):
    import random

    rng = random.Random(7)
    data = []
    for i in range(rows):
        a, b, item = rng.randrange(40), int(rng.paretovariate(0.7)) % 5000, rng.randrange(300)
        p = 1 / (1 + math.exp(1 - (a % 5) * 0.4 - (b % 3) * 0.3 - item % 2))
        row = dict(row=i, click=float(rng.random() < p), a=key("a", a), b=key("b", b))
        if kind == "timed":  # days of different length, some without rows, some rows late, some before 1970
            day = i // 90 + (i // 700) * 5 - 3 - (2 if i % 37 == 0 else 0)
            row["time"] = (datetime.datetime(1970, 1, 1) + datetime.timedelta(days=day, hours=i % 24)).isoformat()
        if kind == "mixed":
            if i % 11 == 0:
                row["click"] = 0.25  # fractional labels
            row["w"] = [1.0, 1.0, 2.5, 0.0][i % 4]
            row["item"] = key("s", item)
            past = [key("s", rng.randrange(30)) for _ in range(rng.randrange(0, 60 if i % 50 == 0 else 6))]
            row["past"] = past + past[:1] + [key("s", item)]  # repeats within the list, and of the candidate
            row["text"] = [
                dict(key=key("t", rng.randrange(9)), weight=rng.choice([0.0, 0.5, -1.25])) for _ in range(rng.randrange(5))
            ]
            row["age"] = None if i % 7 == 0 else rng.random() * 3
            row["vec"] = [rng.random(), 0.0, -rng.random()]
            row["word"] = key("w", rng.randrange(20))
            row["note"] = "n%d" % (i % 10)
        data.append(row)
    write(schema(kind, out), data, out)


# ---- the algorithm --------------------------------------------------------------------------------------------------


def coordinates(t):
    """A list a row of (table, key or dense position) -> x, in any order, repeated keys summed."""
    rows = [dict() for _ in t.rows]
    for f in t.fields:
        r, tab, col = role(f), table_of(f), t[f["name"]]
        if r not in ("feature", "dense"):
            continue
        for x, v in zip(rows, col):
            if r == "feature":
                entries = v if isinstance(v, list) else [v]
                entries = [(e["key"], e["weight"]) if isinstance(e, dict) else (e, 1.0) for e in entries]
                entries = [((tab, k), w) for k, w in entries]
            elif isinstance(v, list):
                entries = [((tab, "dense", j), e) for j, e in enumerate(v)]
            else:
                entries = [((tab, "dense", -1), v)] if v is not None else []
            for k, w in entries:
                if w != 0:
                    x[k] = x.get(k, 0.0) + w
    return rows


def mix64(x):
    for _ in range(2):
        x = (x ^ x >> 32) * 0xD6E8FEB86659FD93 & 2**64 - 1
    return x ^ x >> 32


def sparse_hash(k):
    return mix64(k ^ 0x2545F4914F6CDD1D)


def random64(seed, stream, counter):
    golden = 0x9E3779B97F4A7C15
    return mix64((mix64(mix64(seed + golden & 2**64 - 1) ^ stream) + counter * golden) & 2**64 - 1)


def changed(x, row, o, training=0):
    """A row as section 9 of the paper changes it; training: the number of the pass, None for prediction."""
    bits, norm, drop = int(o.get("hash-bits", 0)), o.get("normalize", "none"), float(o.get("dropout", 0))
    if bits:
        folded = {}
        for (_, k), v in x.items():
            k = ("(hashed)", sparse_hash(k) >> 64 - bits)
            folded[k] = folded.get(k, 0.0) + v
        x = folded
    if norm != "none" and any(x.values()):
        size = {"l1": lambda v: math.fsum(map(abs, v)), "l2": lambda v: math.hypot(*v), "max": lambda v: max(map(abs, v))}[norm](x.values())
        x = {k: v / size for k, v in x.items()}
    if drop and training is None:
        x = {k: v * (1 - drop) for k, v in x.items()}
    elif drop:
        seed = int(o.get("seed", 0))
        seed = random64(seed, 0, training) if training else seed
        x = {k: v for k, v in x.items() if random64(seed, row, sparse_hash(k[1])) >> 11 >= drop * 2**53}
    return x


GOLDEN = 0x9E3779B97F4A7C15


def counted(c, weight, bits):
    """A counter of 16 bits, of which 11 are mantissa, after one event more: the sum is rounded at random, without bias."""
    if count_value(c) + weight >= count_value(0xFFFF):
        return 0xFFFF
    low = c
    while count_value(low + 1) <= count_value(c) + weight:
        low += 1
    e = low >> 11
    return low + ((bits & (1 << e) - 1) + (bits >> e) * 2.0 ** (e - 32) < count_value(c) + weight - count_value(low))


def count_value(c):
    return (2048 + c % 2048) * 2 ** (c >> 11) - 2048


class Learner:
    """State by coordinate: z (ftrl, rda) or w, the counter n of the rate, events N and P, occurrences. Written for reading:
    with one global rate ftrl visits every coordinate in every row, and fobos with any."""

    def __init__(self, o):
        self.o, self.kind, self.rate = o, o["optimizer"], o["learning-rate"]
        self.dual = self.kind in ("ftrl", "rda")
        self.state, self.n, self.counts, self.seen, self.step = {}, {}, {}, {}, 0
        self.settled, self.clock = {}, 0.0  # of fobos: the state after the key's last row, and when; what rows shrink by

    def counter(self, k):
        if self.rate == "global":
            return self.step
        if self.rate == "counts":
            neg, pos = map(count_value, self.counts.get(k, (0, 0)))
            return single(neg * pos / (neg + pos)) if neg + pos else 0.0
        return self.n.get(k, 0.0)

    def root(self, k):
        n = self.counter(k)
        return n ** self.o["power"] if n else 0.0

    def weight(self, k):
        s, o = self.state.get(k, 0.0), self.o
        if not self.dual:
            return s
        if abs(s) <= o["l1"]:
            return 0.0
        return -(s - math.copysign(o["l1"], s)) / ((o["beta"] + self.root(k)) / o["alpha"] + o["l2"])

    def count(self, k, g, positive, importance):
        """Returns whether the coordinate is held."""
        if self.rate == "counts":
            h = 0 if k[0] == "(bias)" or k[1] == "dense" else sparse_hash(k[1]) >> 32
            pair, draw = list(self.counts.get(k, (0, 0))), mix64(mix64(self.o["seed"] + 0x51ED270B) ^ self.step * GOLDEN & 2**64 - 1)
            pair[positive] = counted(pair[positive], importance, h + (draw >> 32) & 2**32 - 1)
            self.counts[k] = tuple(pair)
        if self.kind == "ogd-count":
            self.seen[k] = sum(map(count_value, self.counts[k])) if self.rate == "counts" else self.seen.get(k, 0) + (g != 0)
            if self.seen[k] <= self.o["threshold"]:
                return True
        self.n[k] = self.n.get(k, 0.0) + g * g
        return False

    def set_weight(self, k, w):
        o = self.o
        self.state[k] = -math.copysign(abs(w) * ((o["beta"] + self.root(k)) / o["alpha"] + o["l2"]) + o["l1"], w) if self.dual else w
        self.settled[k] = w, self.clock

    def learn(self, x, weights, y, p, importance):
        for k in x:
            self.state.setdefault(k, 0.0)
        if importance == 0:
            return
        o, everywhere = self.o, self.kind == "fobos" or self.kind == "ftrl" and self.rate == "global"
        touched = {k: (self.root(k), self.weight(k)) for k in (self.state if everywhere else x)}
        self.step += 1
        held = {k: self.count(k, importance * (p - y) * v, y >= 0.5, importance) for k, v in x.items()}
        for k, (root, w) in touched.items():
            g, next_root = importance * (p - y) * x.get(k, 0.0), self.root(k)
            if self.kind == "ftrl":
                self.state[k] += g - (next_root - root) / o["alpha"] * weights.get(k, w)
            elif self.kind == "rda":
                self.state[k] += g
            elif not held.get(k):
                eta = o["alpha"] / (o["beta"] + next_root or 1)
                if self.kind == "fobos":
                    half = w - eta * g
                    self.state[k] = math.copysign(max(0.0, abs(half) - eta * o["l1"]), half) / (1 + eta * o["l2"])
                else:
                    self.state[k] -= eta * (g + o["l1"] * ((w > 0) - (w < 0)) + o["l2"] * w)

        if self.kind == "fobos":
            eta = o["alpha"] / (o["beta"] + self.step ** o["power"]) if self.rate == "global" else 1
            self.clock += math.log1p(eta * o["l2"]) if self.rate == "global" and o["l2"] else eta
            self.settled.update((k, (self.state[k], self.clock)) for k in x)

    def row(self, k):
        """The columns of a model file."""
        o, s, w, r = self.o, self.state[k], self.weight(k), {}
        r["weight"] = w
        if self.dual:
            r["z"] = s
        if self.kind == "fobos":
            r["z"], r["last"] = self.settled.get(k, (0.0, 0.0))
        if self.dual and self.rate == "global" and self.kind == "ftrl":
            r["z"] = o["alpha"] * s if w == 0 else -math.copysign(o["alpha"] * o["l1"] + abs(w), w)
        if self.rate == "counts":
            r["negatives"], r["positives"] = map(count_value, self.counts.get(k, (0, 0)))
        elif self.kind == "ogd-count" and self.seen.get(k, 0) <= o["threshold"]:
            r["n"] = -self.seen.get(k, 0)
        elif self.rate == "per-coordinate":
            r["n"] = self.n.get(k, 0.0)
        elif self.kind == "ogd-count":
            r["n"] = -o["threshold"]
        return r


def day_of(text):
    return (datetime.datetime.fromisoformat(text.rstrip("Z")) - datetime.datetime(1970, 1, 1)).days


def expire(learner, last, today, o):
    """Drop keys, whole days at a time, the oldest first, while floor of them are left."""
    keys = [k for k in last if k[0] != "(bias)"]
    for day in sorted({last[k] for k in keys}):
        old = [k for k in keys if last[k] == day]
        if today - day <= o["expire"] or len(keys) - len(old) < o["expire-floor"]:
            return
        for k in old:
            del learner.state[k], last[k]
            for d in (learner.n, learner.counts, learner.seen, learner.settled):
                d.pop(k, None)
        keys = [k for k in keys if k in last]


def start_bias(learner, y, importance, row, o):
    """The log-odds of the labels before a minibatch, for the first 1000 rows and while labels of one class are few."""
    span, minibatch = -(-1000 // o["minibatch"]) * o["minibatch"], o["minibatch"]
    some = row < span or row % span == 0
    total, positives = (sum(importance[:row]), sum(a * b for a, b in zip(y[:row], importance))) if some else (0, 0)
    if row == 0 and o["init-bias"] > 0:
        learner.set_weight(("(bias)", "bias"), math.log(o["init-bias"] / (1 - o["init-bias"])))
    elif row and o["init-bias"] < 0 and total and row % (minibatch if row < span else span) == 0:
        mean = total / row
        if row <= span or min(positives, total - positives) < 10 * mean:
            learner.set_weight(("(bias)", "bias"), math.log((positives + mean / 2) / (total - positives + mean / 2)))


def learn(t, o):
    names = {role(f): f["name"] for f in t.fields}
    y = [float(v) for v in t[names["label"]]]
    importance = t[names["weight"]] if "weight" in names else [1.0] * len(y)
    minibatch, scores, doubts, learner = int(o["minibatch"]), [], [], Learner(o)
    whole = coordinates(t)
    days = [day_of(v) for v in t[names["time"]]] if o["expire"] else None
    today, last = None, {}
    for one in range(int(o["passes"])):
        rows = [changed(x, i, o, one) for i, x in enumerate(whole)]
        for x in rows:
            if o["bias"]:
                x[("(bias)", "bias")] = 1.0
        for first in range(0, len(rows), minibatch):
            some = range(first, min(first + minibatch, len(rows)))
            if days:
                if today is None or days[first] > today:
                    today = days[first]
                    expire(learner, last, today, o)
                last.update((k, today) for k in rows[first])
            if one == 0 and o["bias"]:
                start_bias(learner, y, importance, first, o)
            weights = [{k: learner.weight(k) for k in rows[i]} for i in some]
            scored = [1 / (1 + math.exp(-math.fsum(w[k] * v for k, v in rows[i].items()))) for i, w in zip(some, weights)]
            scores += scored if one == 0 else []
            if o["uncertainty"] and one == 0:
                doubts += [math.fsum(abs(v) * o["alpha"] / (o["beta"] + learner.root(k)) for k, v in rows[i].items()) for i in some]
            for i, w, p in zip(some, weights, scored):
                learner.learn(rows[i], w, y[i], p, importance[i])
    return {k: dict(learner.row(k), day=last[k]) if days else learner.row(k) for k in learner.state}, scores, doubts


WORDS = {"normalize": "none", "optimizer": "ftrl", "learning-rate": "per-coordinate"}


def check_learned(stream, model, progressive, options):
    o = dict(WORDS, alpha=0.1, beta=1.0, l1=0.0, l2=0.0, power=0.5, threshold=5, passes=1, bias=1, minibatch=1, seed=0, uncertainty=0, **{"expire": 0, "expire-floor": 0, "init-bias": 0}, tolerance=1e-6)
    o.update((k, v if k in WORDS else float(v)) for k, v in (a.split("=") for a in options))
    o["seed"] = int(o["seed"])
    want, scores, doubts = learn(Table(stream), o)
    m = Table(model)
    columns = list(next(iter(want.values()))) if want else ["weight"]
    assert not want or all(list(r) == columns for r in want.values())
    got = {(r["table"], r["key"]): [float(r[c]) for c in columns] for r in m.rows}
    assert {f["name"] for f in m.fields} == {"table", "key", *columns}, "other columns than %s" % columns
    assert list(got) == sorted(got), "rows are not sorted by table and key"
    assert len(got) == len(m.rows) == len(want), "%d rows, %d keys, the reference has %d" % (len(m.rows), len(got), len(want))

    # The keys of dense coordinates and of the bias are XXH3 hashes, which this reference does not make: such
    # coordinates are matched by their state within the table.
    def distance(a, b):
        return max(abs(x - y) / max(1.0, abs(y)) for x, y in zip(a, b))

    hashed, worst = {}, 0.0
    for k, row in want.items():
        v = [row[c] for c in columns]
        if len(k) == 2 and k[0] != "(bias)":
            if k not in got:
                sys.exit("no row for %s" % (k,))
            worst = max(worst, distance(got.pop(k), v))
        else:
            hashed.setdefault(k[0], []).append(v)
    for (tab, k), v in got.items():
        best = min(hashed[tab], key=lambda u: distance(v, u))
        hashed[tab].remove(best)
        worst = max(worst, distance(v, best))
    assert not any(hashed.values()), "coordinates missing: %s" % hashed
    p = Table(progressive)["score"]
    assert len(p) == len(scores), "%d predictions, want %d" % (len(p), len(scores))
    worst_p = max((abs(a - b) for a, b in zip(p, scores)), default=0)
    worst_u = 0.0
    if o["uncertainty"]:
        u = Table(progressive)["uncertainty"]
        worst_u = max(abs(a - b) / max(1.0, b) for a, b in zip(u, doubts))
        assert len(u) == len(doubts), "%d uncertainties, want %d" % (len(u), len(doubts))
    print("worst coordinate %.3g, worst prediction %.3g, worst uncertainty %.3g, %d coordinates" % (worst, worst_p, worst_u, len(m.rows)))
    sys.exit(not (worst < o["tolerance"] and worst_p < o["tolerance"] and worst_u < o["tolerance"]))


def check_uncertainty(stream, model, scored, options):
    """u(x) = sum of |x_i| alpha / (beta + n_i^power), rounded to single precision, an unseen key alpha / beta."""
    o = dict(alpha=0.1, beta=1.0, power=0.5, steps=0)
    o.update((k, float(v)) for k, v in (a.split("=") for a in options))
    root, new = {}, o["steps"] ** o["power"]
    for r in Table(model).rows:
        k = (r["table"], r["key"])
        if "n" in r:
            root[k] = max(r["n"], 0) ** o["power"]
        elif "negatives" in r:  # in single precision
            neg, pos = r["negatives"], r["positives"]
            root[k] = single(math.sqrt(single(single(float(neg * pos)) / (neg + pos or 1))))
        else:
            root[k] = new
    bias = [v for (t, _), v in root.items() if t == "(bias)"]
    worst, unseen = 0.0, 0
    for x, u in zip(coordinates(Table(stream)), Table(scored)["uncertainty"]):
        terms = [(root.get(k, new), abs(v)) for k, v in x.items()] + [(v, 1.0) for v in bias]
        unseen += any(k not in root for k in x)
        worst = max(worst, abs(u - math.fsum(v * single(o["alpha"] / (o["beta"] + m)) for m, v in terms)))
    print("worst uncertainty %.3g, %d rows with unseen keys" % (worst, unseen))
    sys.exit(not worst < 1e-9)


def check_score(stream, args):
    o = dict(a.split("=") for a in args if "=" in a)
    files = [a for a in args if "=" not in a]
    rows = [changed(x, i, o, None) for i, x in enumerate(coordinates(Table(stream)))]
    bad = False
    for model, scored in zip(files[::2], files[1::2]):
        m = Table(model)
        w = {(t, k): v for t, k, v in zip(m["table"], m["key"], m["weight"])}
        bias = [v for (t, _), v in w.items() if t == "(bias)"]
        scores = Table(scored)["score"]
        assert len(scores) == len(rows), "%s: %d scores of %d rows" % (scored, len(scores), len(rows))
        worst = 0.0
        for x, p in zip(rows, scores):
            z = math.fsum([w.get(k, 0.0) * v for k, v in x.items()] + bias)
            worst = max(worst, abs(p - 1 / (1 + math.exp(-z))))
        print("%s: worst prediction %.3g" % (scored, worst))
        bad |= not worst < 1e-12
    sys.exit(bad)


# ---- other checks ----------------------------------------------------------------------------------------------------


def auc(stream, start):
    t = Table(stream)
    names = {role(f): f["name"] for f in t.fields}
    rows = list(zip(t[names["score"]], t[names["label"]]))
    rows = sorted(rows[int(len(rows) * start):])
    pairs = below = 0.0
    i = 0
    while i < len(rows):
        j = i
        while j < len(rows) and rows[j][0] == rows[i][0]:
            j += 1
        pos = sum(r[1] for r in rows[i:j])
        neg = (j - i) - pos
        pairs += pos * (below + neg / 2)
        below += neg
        i = j
    print("%.4f" % (pairs / (below * (len(rows) - below))))


def same(a, b):
    x, y = Table(a), Table(b)
    names = [f["name"] for f in x.fields if f["name"] in {g["name"] for g in y.fields}]
    assert names, "no common columns"
    assert len(x.rows) == len(y.rows), "%d and %d rows" % (len(x.rows), len(y.rows))
    for n in names:
        assert x[n] == y[n], "column %s differs" % n
    print("%d rows, equal: %s" % (len(x.rows), ",".join(names)))


def set_value(stream, out, column, value, row=None):
    t = Table(stream)
    value = {"null": None, "nan": "NaN", "inf": "Infinity"}.get(value) if value in ("null", "nan", "inf") else json.loads(value)
    for i, r in enumerate(t.rows):
        if row is None or i == int(row) - 1:
            r[column] = value
    write(stream, t.rows, out)


def foreign(stream, out):
    import pyarrow as pa

    t = pa.ipc.open_stream(stream).read_all()
    for name, kind in (("word", pa.dictionary(pa.int32(), pa.uint64())), ("age", pa.float64())):
        i = t.schema.get_field_index(name)
        column = t[name].dictionary_encode() if name == "word" else t[name].cast(kind)
        t = t.set_column(i, pa.field(name, kind, metadata=t.schema.field(i).metadata), column)
    with pa.ipc.new_stream(out, t.schema) as w:
        w.write_table(t.combine_chunks(), max_chunksize=1000)


if __name__ == "__main__":
    what, *args = sys.argv[1:]
    if what == "make":
        make(args[0], int(args[1]), args[2])
    elif what == "learned":
        check_learned(args[0], args[1], args[2], args[3:])
    elif what == "score":
        check_score(args[0], args[1:])
    elif what == "uncertainty":
        check_uncertainty(args[0], args[1], args[2], args[3:])
    elif what == "auc":
        auc(args[0], float(args[1]) if len(args) > 1 else 0)
    elif what == "same":
        same(*args)
    elif what == "set":
        set_value(*args)
    elif what == "column":
        print(*Table(args[0])[args[1]], sep="\n")
    elif what == "foreign":
        foreign(*args)
    else:
        sys.exit(__doc__)
