"""Row groups that a condition leaves out: the rows of ctr-import --where are those of all rows, filtered by ctr-select, on files of every
type, null pattern and kind of statistics.

    parquet_prune.py DIR        prints what differs, then "N conditions, M row groups left out"
"""
import math, os, random, re, subprocess, sys

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

DIR = sys.argv[1]
GROUP, GROUPS = 20, 5
rnd = random.Random(3)


def column(kind, base, nulls):
    """Values that grow from group to group, so that bounds tell something; nulls: none, some, or all of a group."""
    out = []
    for g in range(GROUPS):
        for i in range(GROUP):
            null = nulls == "some" and rnd.random() < 0.3 or nulls == "groups" and g % 2 == 1 or nulls == "all"
            out.append(None if null else base(g, i))
    return pa.array(out, kind)


SPECIAL = [0.0, -0.0, math.nan, math.inf, -math.inf]
BASES = {
    "i8": (pa.int8(), lambda g, i: (g - 2) * 20 + i % 7),
    "i32": (pa.int32(), lambda g, i: (g - 2) * 100 + rnd.randrange(90)),
    "i64": (pa.int64(), lambda g, i: (g - 2) * 2**60 + rnd.randrange(90)),
    "u8": (pa.uint8(), lambda g, i: g * 50 + i % 9),
    "u32": (pa.uint32(), lambda g, i: g * 2**30 - g + rnd.randrange(9) if g < 4 else 2**32 - 1 - i),
    "u64": (pa.uint64(), lambda g, i: g * 2**62 + rnd.randrange(9) if g < 4 else 2**64 - 1 - i),
    "f32": (pa.float32(), lambda g, i: rnd.choice(SPECIAL) if i % 5 == g else np.float32((g - 2) * 10 + rnd.random())),
    "f64": (pa.float64(), lambda g, i: rnd.choice(SPECIAL[:3]) if g == 2 else (g - 2) * 1e300 + rnd.random()),
    "nan": (pa.float64(), lambda g, i: math.nan if g % 2 else float(g)),
    "f16": (pa.float16(), lambda g, i: np.float16(g + i)),
    "b": (pa.bool_(), lambda g, i: g > 2),
    "s": (pa.string(), lambda g, i: "éa€bc"[g] * (1 + i % 3) if i % 4 else "" if not g else "m" * 90 + str(g)),
    "bin": (pa.binary(), lambda g, i: "\x7f\x80ÿāz"[g].encode() + b"q"),
    "date": (pa.date32(), lambda g, i: g * 1000 - 1500 + i % 2),
    "ms": (pa.timestamp("ms", "UTC"), lambda g, i: (g - 2) * 10**11 + i),
    "us": (pa.timestamp("us", "UTC"), lambda g, i: (g - 2) * 10**14 - 1 + i),
    "ns": (pa.timestamp("ns", "UTC"), lambda g, i: (g - 2) * 10**17 - 1 + i),
    "tod": (pa.time64("us"), lambda g, i: g * 10**9 + i),
    "list": (pa.list_(pa.int32()), lambda g, i: [g, i]),
}


def literals(name, array):
    values = [v for v in array.drop_null().to_pylist() if not (isinstance(v, float) and not math.isfinite(v))]
    if name in ("date", "ms", "us", "ns"):
        cast = array.cast(pa.timestamp("ms")) if name == "date" else array
        ints = [v for v in cast.cast(pa.int64()).drop_null().to_pylist()]
        per = {"us": 1000, "ns": 10**6}.get(name, 1)
        for v in [rnd.choice(ints) // per for _ in range(3)] + [ints[0] // per - 1, ints[-1] // per + 1] if ints else [0]:
            s, ms = divmod(v, 1000)
            yield 'ts"%s.%03dZ"' % (np.datetime64(s, "s"), ms)
        return
    if name == "b":
        yield from ("true", "false")
        return
    if name in ("s", "bin"):
        texts = [v.decode() if isinstance(v, bytes) else v for v in values] or ["x"]
        for t in rnd.sample(texts, min(3, len(texts))) + ["", "zz", "m" * 90, "é"]:
            yield '"%s"' % t
        return
    if name == "tod":
        yield from ("0", "1000000", "2000000.5")
        return
    numbers = [float(v) if isinstance(v, (float, np.floating)) else int(v) for v in values] or [0]
    picked = [rnd.choice(numbers) for _ in range(3)] + [min(numbers), max(numbers)]
    if all(isinstance(v, int) for v in picked):
        picked += [min(numbers) - 1, max(numbers) + 1 if max(numbers) < 2**63 else 0]
    for v in picked:
        if isinstance(v, int) and -(2**63) <= v < 2**64:
            yield str(v)
            yield repr(float(v))
        elif isinstance(v, float):
            yield "%r" % v
    yield from ("0", "-0.0", "0.5", "300")


def conditions(name, array):
    if name == "list":
        yield "is_null(list)"
        return
    yield f"is_null({name})"
    yield f"not is_null({name})"
    if name == "b":
        yield "b"
        yield "not b"
    for lit in dict.fromkeys(literals(name, array)):
        op = rnd.choice(["<", "<=", ">", ">="])
        yield f"{name} == {lit}"
        yield f"{name} != {lit}"
        yield f"{name} {op} {lit}"
        yield f"{lit} {op} {name}"
        yield f"not ({name} {op} {lit})"
        yield f"{name} == {lit} and row >= 40"
        yield f"{name} {op} {lit} or row == 97"


def run(*command, data=None):
    r = subprocess.run(command, input=data, capture_output=True, timeout=120)
    if r.returncode:
        sys.exit(f"{command}: {r.stderr.decode()}")
    return r


def digest(stream):
    return run("ctr-export", "-f", "jsonl", data=stream).stdout


def check(path, whole, condition):
    got = run("ctr-import", "-v", "--where", condition, path)
    want = run("ctr-select", "--where", condition, data=whole)
    if digest(got.stdout) != digest(want.stdout):
        print(f"{path}: {condition}: {len(digest(got.stdout).splitlines())} rows, not {len(digest(want.stdout).splitlines())}")
    return int(re.search(rb"left out (\d+) row groups", got.stderr).group(1))


WRITERS = [
    dict(write_statistics=True),
    dict(write_statistics=False),
    dict(write_statistics=True, version="1.0", use_dictionary=False),
    dict(write_statistics=True, data_page_version="2.0", store_schema=False),
]


def main():
    tried = left = 0
    names = sorted(BASES)
    few = "--few" in sys.argv
    for w, options in enumerate(WRITERS):
        for nulls in ("none", "some", "groups", "all"):
            if few and (w, nulls) not in [(0, "some"), (0, "none"), (2, "groups")]:
                continue
            for name in names:
                if few and rnd.random() < 0.5:
                    continue
                kind, base = BASES[name]
                array = column(kind, base, nulls)
                if options.get("version") == "1.0" and name == "ns":
                    continue
                path = os.path.join(DIR, f"{name}-{nulls}-{w}.parquet")
                table = pa.table({"row": pa.array(range(GROUP * GROUPS), pa.int32()), name: array})
                pq.write_table(table, path, row_group_size=GROUP, **options)
                whole = run("ctr-import", "-q", path).stdout
                all_of = list(conditions(name, array))
                for c in rnd.sample(all_of, min(len(all_of), 3 if few else 8)):
                    left += check(path, whole, c)
                    tried += 1
    print(f"{tried} conditions, row groups were left out: {left > 0}")


main()
