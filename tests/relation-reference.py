#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""An independent reference for ctr-sort, ctr-split, ctr-join and ctr-group: plain loops over random rows with nulls, skewed and
repeated keys. Writes the inputs, and for each case a line "NAME<tab>ARGUMENTS" in OUT/cases, of joins by keys or times with
"<tab>UNMATCHED LEFT-ROWS UNMATCHED-RIGHT RIGHT-ROWS", and what must come out of it in OUT/NAME.want. usage: relation-reference.py sort|join|group|each OUT"""
import math, random, sys
import pyarrow as pa

rng = random.Random(4711)
out = sys.argv[2]


def write(name, table, batch=997):
    with pa.OSFile(f"{out}/{name}", "wb") as f, pa.ipc.new_stream(f, table.schema) as w:
        for b in table.to_batches(batch):
            w.write_batch(b)


def maybe(p, f):
    return None if rng.random() < p else f()


def skewed(n):
    return min(int(rng.paretovariate(0.7)), n)


cases = []


def case(name, args, table, pairs=None, right=None):
    counts = ""
    if pairs:
        left = {i for i, _ in pairs}
        counts = (f"\t{len({i for i, j in pairs if j is None})} {len(left)} "
                  f"{right.num_rows - len({j for _, j in pairs if j is not None})} {right.num_rows}")
    cases.append(f"{name}\t{args}{counts}\n")
    write(name + ".want", table)


def log(n):
    reals = [0.0, -0.0, 1.5, -2.5, math.nan, math.inf, -math.inf]
    return pa.table({
        "row": pa.array(range(n), pa.int64()),
        "user": pa.array([maybe(.03, lambda: skewed(3000)) for _ in range(n)], pa.int32()),
        "small": pa.array([maybe(.1, lambda: rng.randrange(-2, 3)) for _ in range(n)], pa.int8()),
        "big": pa.array([rng.choice([0, 1, 2**63, 2**64 - 1, rng.randrange(2**64)]) for _ in range(n)], pa.uint64()),
        "text": pa.array([maybe(.05, lambda: "".join(rng.choice("abä\0") for _ in range(rng.randrange(30)))) for _ in range(n)]),
        "word": pa.array([maybe(.05, lambda: f"common prefix of words {skewed(40)}") for _ in range(n)]).dictionary_encode(),
        "real": pa.array([maybe(.05, lambda: rng.choice(reals) if rng.random() < .3 else rng.gauss(0, 9)) for _ in range(n)]),
        "flag": pa.array([maybe(.1, lambda: rng.random() < .5) for _ in range(n)]),
        "time": pa.array([maybe(.02, lambda: 1500000000000 + rng.randrange(40000) * 1000) for _ in range(n)], pa.timestamp("ms", "UTC")),
        "list": pa.array([maybe(.2, lambda: [maybe(.1, lambda: rng.randrange(9)) for _ in range(rng.randrange(4))]) for _ in range(n)],
                         pa.list_(pa.int32())),
    })


# ---- sort ----

def sort_key(v, desc):
    if v is None:
        return (2, 0)
    if isinstance(v, float) and math.isnan(v):
        return (1, 0)
    if isinstance(v, str):
        v = v.encode()
        return (0, tuple(-b for b in v) + (1,)) if desc else (0, tuple(v))
    if hasattr(v, "timestamp"):
        v = round(v.timestamp() * 1000)
    return (0, -v if desc else v)


def plain(t):
    return t.set_column(t.column_names.index("word"), "word", t["word"].cast(pa.string()))


def sorts():
    t = log(20000)
    write("log", t)
    for name, keys in {"text": "text", "word": "word:desc,row:desc", "real": "real", "realdesc": "real:desc", "time": "time",
                       "big": "big:desc", "mixed": "flag,small:desc,user,text:desc", "user": "user"}.items():
        spec = [(k.split(":")[0], k.endswith(":desc")) for k in keys.split(",")]
        cols = [[sort_key(v, d) for v in t[k].to_pylist()] for k, d in spec]
        order = sorted(range(t.num_rows), key=lambda i: [c[i] for c in cols])
        case(name, f"-k {keys} OUT/log", plain(t.take(order)))
        first, seen = [], set()
        for i in order:
            k = tuple(c[i] for c in cols)
            if k not in seen:
                first.append(i)
            seen.add(k)
        case(name + "-unique", f"-k {keys} --unique OUT/log", plain(t.take(first)))


# ---- join ----

def gather(t, idx, names):
    return [t[n].take(pa.array(idx, pa.int64())) for n in names]


def joined(left, right, pairs, names):
    l = [i for i, _ in pairs]
    return pa.table(gather(left, l, left.column_names) + gather(right, [j for _, j in pairs], names),
                    names=left.column_names + names)


def key_rows(t, keys):
    cols = [t[k].to_pylist() for k in keys]
    return [None if any(v is None for v in k) else k for k in zip(*cols)]


def index(right, keys):
    at = {}
    for j, k in enumerate(key_rows(right, keys)):
        if k is not None:
            at.setdefault(k, []).append(j)
    return at


def ms(t, col):
    return [None if v is None else v for v in t[col].cast(pa.int64()).to_pylist()]


def joins():
    left = log(12000)
    write("left", left)
    users = list(range(1, 3001))
    rng.shuffle(users)
    users = users[:1500]
    right = pa.table({"user": pa.array(users + [None, None], pa.int64()),
                      "age": pa.array([maybe(.2, lambda: rng.randrange(99)) for _ in range(1502)], pa.int16()),
                      "name": pa.array([maybe(.2, lambda: "n" * rng.randrange(40)) for _ in range(1502)]).dictionary_encode(),
                      "seen": pa.array([maybe(.1, lambda: [str(rng.randrange(9)) * rng.randrange(5) for _ in range(rng.randrange(3))])
                                        for _ in range(1502)], pa.list_(pa.string()))})
    write("users", right)
    right = right.set_column(2, "name", right["name"].cast(pa.string()))
    names = ["age", "name", "seen"]
    at, keys = index(right, ["user"]), key_rows(left, ["user"])
    one = [(i, at[k][0] if k in at else None) for i, k in enumerate(keys)]
    case("left", "-k user OUT/users OUT/left", joined(left, right, one, names), one, right)
    case("inner", "-k user --inner OUT/users OUT/left", joined(left, right, [p for p in one if p[1] is not None], names), one, right)
    case("anti", "-k user --anti OUT/users OUT/left", joined(left, right, [p for p in one if p[1] is None], []), one, right)

    # several keys, a text plain on one side and encoded on the other, repeated right keys
    n = 3000
    many = pa.table({"w": pa.array([maybe(.05, lambda: f"common prefix of words {skewed(40)}") for _ in range(n)]),
                     "small": pa.array([maybe(.05, lambda: rng.randrange(-2, 3)) for _ in range(n)], pa.int64()),
                     "id": pa.array(range(n), pa.int32())})
    some = left.slice(0, 2500)
    write("many", many)
    write("some", some)
    at, keys = index(many, ["w", "small"]), key_rows(some, ["word", "small"])
    multi = [(i, j) for i, k in enumerate(keys) for j in (at.get(k) or [None])]
    case("multi", "-k word=w,small --multi OUT/many OUT/some", joined(some, many, multi, ["id"]), multi, many)
    case("multi-inner", "-k word=w -k small --multi --inner OUT/many OUT/some",
         joined(some, many, [p for p in multi if p[1] is not None], ["id"]), multi, many)

    # times
    n = 5000
    clicks = pa.table({"user": pa.array([maybe(.05, lambda: skewed(3000)) for _ in range(n)], pa.int32()),
                       "at": pa.array([maybe(.02, lambda: 1500000000000 + rng.randrange(40000) * 1000) for _ in range(n)],
                                      pa.timestamp("ms", "UTC")),
                       "price": pa.array([rng.random() for _ in range(n)])})
    write("clicks", clicks)
    ct, lt = ms(clicks, "at"), ms(left, "time")
    for keyed in (True, False):
        ri = index(clicks, ["user"]) if keyed else {(): range(n)}
        lk = key_rows(left, ["user"]) if keyed else [()] * left.num_rows
        groups = {k: sorted((j for j in js if ct[j] is not None), key=lambda j: ct[j]) for k, js in ri.items()}
        asof, upto, nxt, near = [], [], [], []
        for i, k in enumerate(lk):
            g = groups.get(k, []) if lt[i] is not None else []
            if not keyed:
                import bisect
                ts = groups.setdefault("times", [ct[j] for j in groups[()]])
                p = bisect.bisect_left(ts, lt[i]) if lt[i] is not None else 0
                before, after = g[max(p - 1, 0):p], g[p:p + 1]
                q = bisect.bisect_right(ts, lt[i]) if lt[i] is not None else 0
                same = g[max(q - 1, 0):q]
            else:
                before = [j for j in g if ct[j] < lt[i]][-1:]
                after = [j for j in g if ct[j] >= lt[i]][:1]
                same = [j for j in g if ct[j] <= lt[i]][-1:]
            asof.append((i, before[0] if before else None))
            upto.append((i, same[0] if same else None))
            nxt.append((i, after[0] if after else None))
            near.append((i, after[0] if after and ct[after[0]] - lt[i] <= 600000 else None))
        k, tag = ("-k user ", "") if keyed else ("", "-nokey")
        names = ["at", "price"] if keyed else ["price"]
        c = "" if keyed else "--columns price "
        case("as-of" + tag, f"{k}{c}--as-of time=at OUT/clicks OUT/left", joined(left, clicks, asof, names), asof, clicks)
        case("inclusive" + tag, f"{k}{c}--as-of time=at --inclusive OUT/clicks OUT/left", joined(left, clicks, upto, names), upto, clicks)
        case("next" + tag, f"{k}{c}--next time=at OUT/clicks OUT/left", joined(left, clicks, nxt, names), nxt, clicks)
        case("within" + tag, f"{k}{c}--next time=at --within 10m OUT/clicks OUT/left", joined(left, clicks, near, names), near, clicks)

        # a click for one of the impressions whose next click it is: the last of them in time, or the first
        for which, pick in ("once", max), ("first", min):
            by = {}
            for i, j in near if keyed else nxt:
                if j is not None:
                    by.setdefault(j, []).append(i)
            keeps = {pick(of, key=lambda i: (lt[i], i)) for of in by.values()}
            given = [(i, j if i in keeps else None) for i, j in nxt]
            o = ("--within 10m " if keyed else "") + "--once " + ("--first " if which == "first" else "")
            for kind, pairs, cols in ("", given, names), ("--inner ", [p for p in given if p[1] is not None], names), ("--anti ", [p for p in given if p[1] is None], []):
                case(which + kind.strip(" -") + tag, f"{k}{'' if kind == '--anti ' else c}--next time=at {o}{kind}OUT/clicks OUT/left",
                     joined(left, clicks, pairs, cols), given, clicks)

    # both sides sorted
    def by(t, keys):
        cols = [[sort_key(v, False) for v in t[k].to_pylist()] for k in keys]
        return t.take(sorted(range(t.num_rows), key=lambda i: [c[i] for c in cols]))
    sl, sr = by(left, ["user"]), by(right, ["user"])
    write("sorted-left", sl, 311)
    write("sorted-users", sr, 57)
    at = index(sr, ["user"])
    one = [(i, at[k][0] if k in at else None) for i, k in enumerate(key_rows(sl, ["user"]))]
    names = ["age", "name", "seen"]
    case("merge", "-k user --merge OUT/sorted-users OUT/sorted-left", joined(sl, sr, one, names), one, sr)
    case("merge-inner", "-k user --merge --inner OUT/sorted-users OUT/sorted-left",
         joined(sl, sr, [p for p in one if p[1] is not None], names), one, sr)
    case("merge-anti", "-k user --merge --anti OUT/sorted-users OUT/sorted-left",
         joined(sl, sr, [p for p in one if p[1] is None], []), one, sr)
    sl, sr = by(some, ["word", "small"]), by(many, ["w", "small"])
    write("sorted-some", sl, 101)
    write("sorted-many", sr, 99)
    at = index(sr, ["w", "small"])
    multi = [(i, j) for i, k in enumerate(key_rows(sl, ["word", "small"])) for j in (at.get(k) or [None])]
    case("merge-multi", "-k word=w,small --merge --multi OUT/sorted-many OUT/sorted-some", joined(sl, sr, multi, ["id"]), multi, sr)

    # row with row
    labels = pa.table({"label": pa.array([maybe(.1, lambda: rng.random()) for _ in range(left.num_rows)])})
    write("labels", labels, 1234)
    case("by-row", "--by-row OUT/labels OUT/left", joined(left, labels, [(i, i) for i in range(left.num_rows)], ["label"]))


# ---- group ----

def ordered(v):
    return sorted((x for x in v if x is not None), key=lambda x: sort_key(x, False))


def quantile(p):
    def of(v):
        v = [float(x) + 0.0 for x in ordered(v)]  # -0 and 0 are one value
        if not v:
            return None
        rank = (len(v) - 1) * p
        low = int(rank)
        high = min(low + 1, len(v) - 1)
        if rank == low or v[low] == v[high]:
            return v[low]
        return v[low] + (rank - low) * (v[high] - v[low])
    return of


def total(v):
    s = 0
    for x in v:
        if x is not None:
            s += x
    return s


def mean(v):
    n = sum(x is not None for x in v)
    return float(total(v)) / n if n else None


def distinct(v):
    return len({sort_key(x, False) for x in v if x is not None})


def largest(v):
    v = [x for x in v if x is not None]
    return max(v, key=lambda x: sort_key(x, False)) if v else None  # the first of equal ones


def top(n):
    def of(v):
        count = {}
        for x in ordered(v):
            x = x + 0.0 if isinstance(x, float) else x  # -0 and 0 are one value
            k = sort_key(x, False)
            count[k] = (count[k][0] + 1, x) if k in count else (1, x)
        best = sorted(count.items(), key=lambda kv: (-kv[1][0], kv[0]))
        return [x for _, (_, x) in best[:n]] or None
    return of


def groups():
    t = log(20000)
    write("log", t)
    same = lambda c: t.schema.field(c).type if c != "word" else pa.string()
    whole, real = lambda c: pa.int64(), lambda c: pa.float64()
    functions = {
        "count": (lambda v: sum(x is not None for x in v), whole),
        "sum": (total, lambda c: pa.float64() if c == "real" else pa.int64()),
        "mean": (mean, real),
        "min": (lambda v: (ordered(v) or [None])[0], same),
        "max": (largest, same),
        "first": (lambda v: v[0], same),
        "last": (lambda v: v[-1], same),
        "distinct": (distinct, whole),
        "mode": (lambda v: (top(1)(v) or [None])[0], same),
    }
    for name, keys, adds in [
        ("numbers", "small", "count() count(real) sum(real) mean(real) sum(user) mean(user) mean(flag) sum(flag) count(list)"),
        ("extremes", "word", "min(real) max(real) min(text) max(text) min(time) max(time) max(big) min(flag)"),
        ("rows", "user,flag", "first(text) last(list) first(real) last(word) count()"),
        ("values", "flag,small", "quantile(real,0.5) quantile(real,0) quantile(real,1) quantile(user,.9) distinct(text) distinct(real) distinct(big)"),
        ("often", "flag,small", "mode(real) mode(text) mode(flag) mode(time) mode(word) top(user,3) top(text,2) top(real,4) top(big,1) distinct(user) top(flag,9)"),
        ("reals", "real", "count() first(real) quantile(small,0.25) distinct(real)"),
        ("times", "time,text", "count() mean(real) quantile(flag,0.5)"),
    ]:
        spec = keys.split(",")
        cols = [t[k].to_pylist() for k in spec]
        by = {}
        for i in range(t.num_rows):
            by.setdefault(tuple(sort_key(c[i], False) for c in cols), []).append(i)
        order = sorted(by)
        head = plain(t.take([by[k][0] for k in order])).select(spec)
        names, out_cols, args = list(spec), head.columns, ""
        for n, add in enumerate(adds.split()):
            f, _, c = add[:-1].partition("(")
            c, _, p = c.partition(",")
            take, kind = (top(int(p)), lambda c: pa.list_(same(c))) if f == "top" else (quantile(float(p)), real) if p else functions[f]
            values = t[c].to_pylist() if c else [1] * t.num_rows
            # One NaN: which one a sum gives is the processor's matter.
            one = lambda x: math.nan if isinstance(x, float) and math.isnan(x) else [one(y) for y in x] if isinstance(x, list) else x
            names.append(f"a{n}")
            out_cols.append(pa.array([one(take([values[i] for i in by[k]])) for k in order], kind(c)))
            args += f" --add a{n}={add}"
        case(name, f"-k {keys}{args} OUT/log", pa.table(out_cols, names=names))


def each():
    t = log(3000)
    at = ms(t, "time")
    t = t.take(sorted((i for i in range(t.num_rows) if at[i] is not None), key=lambda i: at[i] // 60000))
    t = t.set_column(t.column_names.index("time"), "time", pa.array([x // 60000 * 60000 for x in ms(t, "time")], pa.timestamp("ms", "UTC")))
    write("log", t, 53)
    at = ms(t, "time")
    adds = {"count()": (len, pa.int64()), "sum(small)": (total, pa.int64()), "mean(real)": (mean, pa.float64()), "first(text)": (lambda v: v[0] if v else None, pa.string()),
            "max(word)": (largest, pa.string()), "last(list)": (lambda v: v[-1] if v else None, pa.list_(pa.int32()))}
    for keys in "user", "small,flag":
        spec = keys.split(",")
        key, by = key_rows(t, spec), {}
        for i, k in enumerate(key):
            by.setdefault(k, []).append(i)
        for name, known in ("all", lambda i, j: True), ("as-of", lambda i, j: at[j] < at[i]):
            cols, args = [], ""
            for n, (add, (take, kind)) in enumerate(adds.items()):
                c = add[:-1].split("(")[1]
                v = t[c].to_pylist() if c else [1] * t.num_rows
                of = [None if k is None else take([v[j] for j in by[k] if known(i, j)]) for i, k in enumerate(key)]
                cols.append(pa.array([math.nan if isinstance(x, float) and math.isnan(x) else x for x in of], kind))
                args += f" --add a{n}={add}"
            case(f"{name}-{keys}", f"--each-row {'--as-of time ' if name == 'as-of' else ''}-k {keys}{args} OUT/log",
                 pa.table(t.columns + cols, names=t.column_names + [f"a{n}" for n in range(len(adds))]))


{"sort": sorts, "join": joins, "group": groups, "each": each}[sys.argv[1]]()
with open(f"{out}/cases", "w") as f:
    f.writelines(cases)
