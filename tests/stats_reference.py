"""Judges ctr-stats by plain loops over the rows, from the definitions: stats_reference.py make DIR | check LOG STATS [LABEL] | drift LOG REF
DRIFT TOLERANCE."""
import collections
import datetime
import fractions
import math
import random
import sys

import pyarrow as pa
import pyarrow.ipc


def write(path, columns):
    table = pa.table(columns)
    with pa.ipc.new_stream(path, table.schema) as w:
        w.write_table(table, max_chunksize=5000)


def make(folder):
    r = random.Random(1)
    n = 3000
    some = lambda x: None if r.random() < .1 else x
    label = [int(r.random() < .3) for _ in range(n)]
    rate = [.5 if y else .2 for y in label]
    words = ["", "a", "ä" * 40, "x" * 70, "x" * 69 + "y", "b\0", "b", "\U0001F600" * 20]
    small = {
        "label": pa.array(label, pa.int8()),
        "int": pa.array([some(r.randrange(-5, 90)) for _ in range(n)], pa.int64()),
        "few": pa.array([some(r.choice([1, 2, 3, 3, 3, 7 * y])) for y in label], pa.int32()),
        "big": pa.array([r.choice([2**64 - 1, 2**63, 0, 7]) for _ in range(n)], pa.uint64()),
        "edge": pa.array([r.choice([-2**63, 2**63 - 1, 3]) for _ in range(n)], pa.int64()),
        "float": pa.array([some(r.choice([0.0, -0.0, math.nan, r.gauss(1e9, 1), 5e-324, -3.5])) for _ in range(n)], pa.float64()),
        "endless": pa.array([r.choice([math.inf, 1.0, 2.0]) for _ in range(n)], pa.float64()),
        "ends": pa.array([r.choice([-math.inf, -math.inf, 0.0, 2.0, math.inf]) for _ in range(n)], pa.float64()),
        "halves": pa.array([-math.inf] * (n // 2) + [math.inf] * (n - n // 2), pa.float64()),
        "below": pa.array([-math.inf] + [1.5] * (n - 1), pa.float64()),
        "id": pa.array([f"user {i // 2}" for i in range(n)], pa.utf8()),
        "huge": pa.array([r.choice([1e300, -1e300, 1.0]) for _ in range(n)], pa.float64()),
        "single": pa.array([r.random() if r.random() > p else -1.0 for p in rate], pa.float32()),
        "flag": pa.array([some(r.random() < p) for p in rate], pa.bool_()),
        "text": pa.array([some(r.choice(words)) for _ in range(n)], pa.utf8()),
        "code": pa.array([some(r.choice("pqrs")) for _ in range(n)], pa.utf8()).dictionary_encode(),
        "time": pa.array([some(r.randrange(0, 10**12)) for _ in range(n)], pa.timestamp("ms", tz="UTC")),
        "tags": pa.array([some([some(r.choice("uvw")) for _ in range(r.randrange(4))]) for _ in range(n)], pa.list_(pa.utf8())),
        "vector": pa.array([[r.random(), float(y)] for y in label], pa.list_(pa.float32(), 2)),
        "none": pa.array([None] * n, pa.float64()),
        "one": pa.array([4] + [None] * (n - 1), pa.int64()),
    }
    write(f"{folder}/small.arrows", small)
    n = 100000
    heavy = lambda x, y: y if r.random() < .05 else x
    many = {
        "label": pa.array([int(r.random() < .3) for _ in range(n)], pa.int8()),
        "float": pa.array([heavy(r.lognormvariate(0, 2), 0.25) for _ in range(n)], pa.float64()),
        "wide": pa.array([r.choice([-math.inf, math.inf]) if r.random() < .06 else r.gauss(0, 1e3) for _ in range(n)], pa.float64()),
        "near": pa.array([1e9 + r.gauss(0, 1) for _ in range(n)], pa.float64()),
        "int": pa.array([heavy(r.randrange(-10**12, 10**12), -77) for _ in range(n)], pa.int64()),
        "id": pa.array([heavy(r.getrandbits(64), 2**64 - 5) for _ in range(n)], pa.uint64()),
        "time": pa.array([heavy(1500000000000 + r.randrange(10**9), 1500000000000) for _ in range(n)], pa.timestamp("ms", tz="UTC")),
        "text": pa.array([heavy(f"user {r.randrange(10**6)}", "frequent " + r.choice(["é", "one that is long enough to be cut somewhere"])) for _ in range(n)]),
        "items": pa.array([[r.randrange(10**9), 5] for _ in range(n)], pa.list_(pa.int64())),
    }
    write(f"{folder}/many.arrows", many)
    other = {
        "label": many["label"],
        "float": pa.array([x * 1.2 for x in many["float"].to_pylist()], pa.float64()),
        "int": pa.array([x if r.random() < .8 else r.randrange(10**12) for x in many["int"].to_pylist()], pa.int64()),
        "text": pa.array([x if r.random() < .3 else x + " again" for x in many["text"].to_pylist()]),
    }
    write(f"{folder}/other.arrows", other)


def number(x):
    if isinstance(x, datetime.datetime):
        return (x - datetime.datetime(1970, 1, 1, tzinfo=datetime.timezone.utc)) // datetime.timedelta(milliseconds=1)
    return int(x) if isinstance(x, bool) else x


def quantile(x, p):
    at = (len(x) - 1) * p
    i = math.floor(at)
    if at == i:
        return float(x[i])
    low, high, part = float(x[i]), float(x[i + 1]), at - i
    if math.isinf(low) and math.isinf(high) and low != high:
        return None if part == 0.5 else low if part < 0.5 else high
    return low if math.isinf(low) else high if math.isinf(high) else low + part * (high - low)


def near(what, got, want, error=1e-12):
    if want is None or got is None:
        assert want is None and got is None, (what, got, want)
    elif not (got == want or abs(got - want) <= error * max(abs(got), abs(want))):
        raise AssertionError((what, got, want))


def moments(x, exact):
    """Mean and variance: of some values without rounding, of many by exact sums of rounded terms."""
    if not exact:
        mean = sum(x) / len(x) if isinstance(x[0], int) else math.fsum(x) / len(x)
        return mean, math.fsum((v - mean) ** 2 for v in x) / (len(x) - 1)
    count = collections.Counter(map(fractions.Fraction, x))
    total = sum(v * n for v, n in count.items())
    squares = sum(v * v * n for v, n in count.items())
    return total / len(x), (squares - total**2 / len(x)) / (len(x) - 1) if len(x) > 1 else 0


def wilson(k, n):
    z = 1.959963984540054
    low = (k + z * z / 2 - z * math.sqrt(k * (n - k) / n + z * z / 4)) / (n + z * z)
    high = (k + z * z / 2 + z * math.sqrt(k * (n - k) / n + z * z / 4)) / (n + z * z)
    return max(0, low), min(1, high)


def auc(groups):
    right = clicks = others = 0
    for n, k in groups:
        right += k * (others + (n - k) / 2)
        clicks += k
        others += n - k
    return max(right / clicks / others, 1 - right / clicks / others) if clicks and others else 0


def shown(x, kind):
    if kind.startswith("float32"):
        return x  # compared as a number
    if isinstance(x, bool):
        return str(x).lower()
    if isinstance(x, float) and x == int(x) and abs(x) < 2**53 if isinstance(x, float) and math.isfinite(x) else False:
        return str(int(x))
    if isinstance(x, datetime.datetime):
        ms = number(x) % 1000
        return x.strftime("%Y-%m-%dT%H:%M:%S") + (f".{ms:03}" if ms else "") + "Z"
    return x


def check_column(name, rows, labels, got):
    values, clicks = [], []
    lists = [v for v in rows if isinstance(v, list)]
    for v, y in zip(rows, labels):
        for item in v if isinstance(v, list) else [v]:
            if item is not None:
                values.append(item)
                clicks.append(y)
    nan = sum(isinstance(v, float) and math.isnan(v) for v in values)
    key = lambda v: "nan" if isinstance(v, float) and math.isnan(v) else v
    count = collections.Counter(map(key, values))
    hits = collections.Counter()
    for v, y in zip(values, clicks):
        hits[key(v)] += y
    assert (got["rows"], got["nulls"], got["values"]) == (len(rows), sum(v is None for v in rows), len(values)), (name, "counts", got)
    assert (got["nan"] or 0) == nan, (name, "nan")
    is_text = "utf8" in got["type"]
    assert got["zeros"] == (count[""] if is_text else count[0]), (name, "zeros", got["zeros"])
    exact = len(count) <= 65536
    if exact:
        assert (got["distinct"], got["distinct_error"]) == (len(count), 0), (name, "distinct")
    else:
        assert 0 < got["distinct_error"] < .012
        near((name, "distinct"), got["distinct"], len(count), 4 * got["distinct_error"])
    ordered = sorted(v.encode() if is_text else number(v) for v in values if key(v) != "nan")
    if is_text and ordered:
        for end, v in ("min", ordered[0]), ("max", ordered[-1]):
            short = v[:64].decode(errors="ignore")
            assert got[end] == (short + "…" if len(short.encode()) < len(v) else short), (name, end, got[end], short)
    if ordered and not is_text:
        x = [v for v in ordered]
        ends = {v for v in x if isinstance(v, float) and math.isinf(v)}
        if ends:
            assert got["mean"] == (None if len(ends) == 2 else ends.pop()) and got["sd"] is None, (name, got["mean"])
        else:
            mean, variance = moments(x, exact)
            near((name, "mean"), got["mean"], float(mean), 1e-15)
            if len(x) == 1:
                assert got["sd"] is None
            else:
                near((name, "sd"), got["sd"], math.inf if variance > 10**400 else math.sqrt(float(variance)), 1e-14 if exact else 1e-9)
        for column, p in zip("q01 q05 q25 median q75 q95 q99".split(), (.01, .05, .25, .5, .75, .95, .99)):
            want = quantile(x, p)
            if exact or want is None or math.isinf(want):
                near((name, column), got[column], want, 1e-15)
            else:
                assert abs(got[column] - want) <= got["quantile_error"], (name, column, got[column], want, got["quantile_error"])
        spread = quantile(x, .75) - quantile(x, .25)
        assert got["quantile_error"] == 0 if exact else 0 < got["quantile_error"] < .02 * max(spread, abs(got["q99"])), (name, got["quantile_error"])
    lengths = [len(v) for v in lists] if lists else [len(v.encode()) for v in values] if is_text else []
    if lengths:
        assert (got["shortest"], got["longest"]) == (min(lengths), max(lengths)), (name, "lengths")
        near((name, "mean_length"), got["mean_length"], sum(lengths) / len(lengths))
    if exact:
        order = sorted(count, key=lambda v: (-count[v], (1, 0) if v == "nan" and not is_text else (0, v.encode() if is_text else number(v))))[:10]
        assert got["top_rows"] == [count[v] for v in order], (name, "top_rows", got["top_rows"])
        if not got["type"].startswith(("float", "list<float", "fixed")):
            assert [t.rstrip("…") for t in got["top"]] == [str(shown(v, "")).encode()[:64].decode(errors="ignore") for v in order], (name, got["top"], order)
    else:
        order = [v for v in count if count[v] > len(values) / 500]
        assert len(got["top"]) == len(order), (name, got["top"], order)
        for text, n, share in zip(got["top"], got["top_rows"], got["top_share"]):
            v = [v for v in order if str(shown(v, "")).startswith(text.rstrip("…"))]
            assert len(v) == 1 and abs(n - count[v[0]]) / len(values) < 4 * got["top_error"], (name, text, n)
            assert share == n / len(values)
            i = got["top"].index(text)
            if "top_rate" in got and name != "label":
                assert abs(got["top_rate"][i] - hits[v[0]] / count[v[0]]) < .02, (name, text, got["top_rate"])
        assert got["top_error"] < 2e-4
    if "rate" not in got or name == "label":
        return
    near((name, "rate"), got["rate"], sum(labels) / len(labels))
    missing = [y for v, y in zip(rows, labels) if v is None]
    near((name, "null_rate"), got["null_rate"], sum(missing) / len(missing) if missing else None)
    if not exact:
        return
    for v, n, rate, low, high in zip(order, got["top_rows"], got["top_rate"], got["top_rate_low"], got["top_rate_high"]):
        near((name, "top_rate"), rate, hits[v] / n)
        near((name, "wilson"), low, wilson(hits[v], n)[0], 1e-9)
        near((name, "wilson"), high, wilson(hits[v], n)[1], 1e-9)
    points = sorted((number(v), v) for v in count if v != "nan") if not is_text else []
    groups = [(len(missing), sum(missing))]
    if len(points) > 64:
        n = k = before = 0
        edge = 1
        for _, v in points:
            n, k, before = n + count[v], k + hits[v], before + count[v]
            if before * 20 >= len(ordered) * edge:
                groups.append((n, k))
                n = k = 0
                while edge < 20 and before * 20 >= len(ordered) * edge:
                    edge += 1
    else:
        groups += [(count[v], hits[v]) for v in count if count[v] >= 100]
    groups.append((len(values) - sum(n for n, _ in groups[1:]), sum(clicks) - sum(k for _, k in groups[1:])))
    groups = [g for g in groups if g[0]]
    clicked, other = sum(k for _, k in groups), sum(n - k for n, k in groups)
    iv = 0
    for n, k in groups:
        a, b = (k + .5) / (clicked + len(groups) / 2), (n - k + .5) / (other + len(groups) / 2)
        iv += (a - b) * math.log(a / b)
    apart = len(points) > 64 or len(count) <= 1 or max(count.values()) >= 100
    near((name, "information"), got["information"], iv if apart else None, 1e-9)
    best = max(auc(sorted(groups, key=lambda g: g[1] / g[0])) if apart else 0, auc([(count[v], hits[v]) for _, v in points]))
    near((name, "auc"), got["auc"], best or None, 1e-9)


def check(log, stats, label=None):
    log, stats = pa.ipc.open_stream(log).read_all(), pa.ipc.open_stream(stats).read_all().to_pylist()
    labels = log[label].to_pylist() if label else [0] * log.num_rows
    assert [s["name"] for s in stats] == log.column_names
    for s in stats:
        check_column(s["name"], log[s["name"]].to_pylist(), labels, s)


def flat(rows):
    return [v for row in rows if row is not None for v in (row if isinstance(row, list) else [row]) if v is not None]


def distribution(rows):
    """Values and counts; NaN is a value that has no place in the order."""
    values = ["nan" if isinstance(v, float) and math.isnan(v) else v for v in flat(rows)]
    return collections.Counter(values), sum(v is None for v in rows)


def drift_column(name, kind, now_rows, ref_rows, got, tolerance):
    (now, now_nulls), (ref, ref_nulls) = distribution(now_rows), distribution(ref_rows)
    text = "utf8" in kind
    order = [] if text else sorted((v for v in ref if v != "nan"), key=number)
    groups, exact = [(now_nulls, ref_nulls)], max(len(now), len(ref)) <= 65536
    first = len(groups)
    if len(order) > 64:
        seen, n, before, last, total = 0, 0, 0, -math.inf, sum(ref[v] for v in order)
        numbers = [(number(x), c) for x, c in now.items() if x != "nan"]
        for i, v in enumerate(order):
            n, before = n + ref[v], before + ref[v]
            if before * 10 >= total * (seen + 1) or i == len(order) - 1:
                edge = math.inf if i == len(order) - 1 else number(v)
                groups.append((sum(c for x, c in numbers if last < x <= edge or last == -math.inf == x), n))
                n, last = 0, edge
                while seen < 9 and before * 10 >= total * (seen + 1):
                    seen += 1
    elif exact:
        top = sorted(ref, key=lambda v: (-ref[v], (1, 0) if v == "nan" and not text else (0, v.encode() if text else number(v))))[:256]
        groups += [(now[v], ref[v]) for v in top]
    else:
        least = sum(ref.values()) / 500
        top = [v for v in ref if ref[v] > least]
        groups += [(now[v], ref[v]) for v in top]
    groups.append((sum(now.values()) - sum(a for a, _ in groups[first:]), sum(ref.values()) - sum(b for _, b in groups[first:])))
    groups = [g for g in groups if g[0] or g[1]]
    n, m, k = sum(a for a, _ in groups), sum(b for _, b in groups), len(groups)
    psi = sum(((a + .5) / (n + k / 2) - (b + .5) / (m + k / 2)) * math.log((a + .5) / (n + k / 2) / ((b + .5) / (m + k / 2))) for a, b in groups)
    half = lambda p, q: p * math.log2(2 * p / (p + q)) / 2 if p else 0
    js = sum(half(a / n, b / m) + half(b / m, a / n) for a, b in groups)
    for what, want in ("psi", psi), ("js", js):
        assert abs(got[what] - want) <= tolerance + 1e-9 * want, (name, what, got[what], want)
        assert 0 <= got[what + "_low"] <= got[what] <= got[what + "_high"] < got[what] * 1.5 + .2
    if exact:
        near((name, "new"), got["new"], sum(now[v] for v in now if v not in ref) / sum(now.values()) if now else None)
        near((name, "vanished"), got["vanished"], sum(ref[v] for v in ref if v not in now) / sum(ref.values()) if ref else None)
    elif "float" in kind or "time" in kind:
        assert got["new"] is None and got["vanished"] is None
    else:
        assert abs(got["new"] - sum(now[v] for v in now if v not in ref) / sum(now.values())) < .02, (name, "new", got["new"])
    near((name, "nulls"), got["nulls"], now_nulls / len(now_rows))
    near((name, "ref_nulls"), got["ref_nulls"], ref_nulls / len(ref_rows))
    here = sorted(number(v) for v in now if v != "nan") if not text else []
    there = [number(v) for v in order for _ in range(ref[v])]
    variance = moments(there, exact)[1] if len(there) > 1 and all(map(math.isfinite, there)) else 0
    if not variance or not here or variance > 10**400 or not all(map(math.isfinite, here)):
        assert got["wasserstein"] is None, (name, got["wasserstein"])
        return
    both = sorted(set(here) | {number(v) for v in order})
    by_number = [collections.Counter(), collections.Counter()]
    for counter, of in zip(by_number, (now, ref)):
        for v, c in of.items():
            if v != "nan":
                counter[number(v)] += c
    total, a, b, area = [sum(c.values()) for c in by_number], 0, 0, 0
    for x, y in zip(both, both[1:]):
        a, b = a + by_number[0][x], b + by_number[1][x]
        area += abs(a / total[0] - b / total[1]) * float(fractions.Fraction(y) - fractions.Fraction(x) if exact else y - x)
    want = area / math.sqrt(float(variance))
    assert abs(got["wasserstein"] - want) <= tolerance + 1e-9 * want, (name, "wasserstein", got["wasserstein"], want)


def drift(now, ref, out, tolerance):
    now, ref = (pa.ipc.open_stream(f).read_all() for f in (now, ref))
    for got in pa.ipc.open_stream(out).read_all().to_pylist():
        assert (got["rows"], got["ref_rows"]) == (now.num_rows, ref.num_rows)
        drift_column(got["name"], got["type"], now[got["name"]].to_pylist(), ref[got["name"]].to_pylist(), got, float(tolerance))


{"make": make, "check": check, "drift": drift}[sys.argv[1]](*sys.argv[2:])
