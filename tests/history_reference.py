#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""ctr-history against the obvious program: for each event a loop over all behaviours. Random logs with ties, nulls, late and
shuffled rows, random options. usage: history_reference.py FIRST LAST FOLDER [leak]; prints the seeds that differ, exit status 1.
With leak the loop sees rows of the same time, so that there must be differences. A log alone is also given day by day, with --state."""
import os, random, subprocess, sys
import pyarrow as pa

LEAK = len(sys.argv) > 4
FIELDS = {
    "item": (pa.string(), lambda r: r.choice(["a", "b", "", "löwe", "x" * 40])),
    "cat": (pa.int32(), lambda r: r.randrange(-3, 4)),
    "price": (pa.float32(), lambda r: r.choice([0.5, -1.25, 2.0**35])),
    "deep": (pa.float64(), lambda r: r.random()),
    "half": (pa.bool_(), lambda r: r.random() < .5),
    "big": (pa.uint64(), lambda r: r.randrange(2**64)),
    "tiny": (pa.int8(), lambda r: r.randrange(-128, 128)),
    "seen": (pa.timestamp("ms", tz="UTC"), lambda r: r.randrange(-10**6, 10**12)),
}


def log(r, n, users, span, user_type, nulls):
    cols = {"user": [None if r.random() < nulls else user_type[1](r.randrange(users)) for _ in range(n)],
            "time": [r.randrange(span) - span // 3 for _ in range(n)],
            "click": [None if r.random() < nulls else r.random() < .6 for _ in range(n)],
            "stay": [None if r.random() < nulls else r.randrange(40) for _ in range(n)]}
    for name, (_, make) in FIELDS.items():
        cols[name] = [None if r.random() < nulls else make(r) for _ in range(n)]
    return cols


def reorder(cols, order):
    return {k: [v[i] for i in order] for k, v in cols.items()}


def stable(cols):
    return reorder(cols, sorted(range(len(cols["time"])), key=lambda i: cols["time"][i]))


def write(path, cols, user_type, time_type, batch, encode):
    types = {"user": user_type, "time": time_type, "click": pa.bool_(), "stay": pa.int16()}
    types.update({k: t for k, (t, _) in FIELDS.items()})
    arrays = {k: pa.array(cols[k], t) for k, t in types.items()}
    for k in encode:
        arrays[k] = arrays[k].dictionary_encode()
    table = pa.table(arrays)
    with pa.OSFile(path, "wb") as f, pa.ipc.new_stream(f, table.schema) as w:
        for b in table.to_batches(batch):
            w.write_batch(b)


def expected(events, past, o):
    """events and past: in order of time."""
    n, m = len(events["time"]), len(past["time"])
    delay = max(o["delay"], o["dwell"] or 0)

    def good(j):
        long_enough = o["dwell"] is None or (past["stay"][j] is not None and past["stay"][j] >= o["dwell"])
        return bool(past["click"][j]) and long_enough
    out = {}
    for i in range(n):
        t = events["time"][i]
        mine = [j for j in range(m) if good(j) and past["user"][j] is not None and past["user"][j] == events["user"][i]
                and past["time"][j] < t + LEAK and delay < t + LEAK - past["time"][j] <= o["window"] + LEAK][-o["last"]:]
        if not o["oldest"]:
            mine.reverse()
        for c in o["columns"]:
            out.setdefault(f"{o['group']}.{c}", []).append([past[c][j] for j in mine])
        if o["age"]:
            out.setdefault(f"{o['group']}.age", []).append([t - past["time"][j] for j in mine])
        before = [j for j in range(m) if past["time"][j] < t and t - past["time"][j] <= o["count_window"]]
        known = [j for j in before if t - past["time"][j] > delay]
        for key in o["count"]:
            of = [k for k in key.split("+")]
            same = lambda j: all(past[k][j] == events[k][i] for k in of)
            rate = None
            if known and sum(same(j) for j in known) + o["prior"] > 0:
                p = sum(good(j) for j in known) / len(known)
                rate = (sum(same(j) and good(j) for j in known) + o["prior"] * p) / (
                    sum(same(j) for j in known) + o["prior"])
            out.setdefault(f"count.{key}.impressions", []).append(sum(same(j) for j in before))
            out.setdefault(f"count.{key}.clicks", []).append(sum(same(j) and good(j) for j in known))
            out.setdefault(f"count.{key}.rate", []).append(rate)
    if o["session"]:
        last = {}
        for i in range(n):
            u, t = events["user"][i], events["time"][i]
            if u is not None:
                was, number, place = last.get(u, (t, 1, 0))
                last[u] = (t, number + 1, 1) if t - was > o["session"] else (t, number, place + 1)
            out.setdefault("session.number", []).append(None if u is None else last[u][1])
            out.setdefault("session.position", []).append(None if u is None else last[u][2])
    return out


def plain(a):
    if pa.types.is_dictionary(a.type):
        a = a.combine_chunks().dictionary_decode() if isinstance(a, pa.ChunkedArray) else a.dictionary_decode()
    if pa.types.is_timestamp(a.type):
        a = a.cast(pa.int64())
    if pa.types.is_list(a.type) and pa.types.is_timestamp(a.type.value_type):
        a = a.cast(pa.list_(pa.int64()))
    return a.to_pylist()


def run(seed, folder):
    r = random.Random(seed)
    users, span = r.choice([1, 2, 5, 40]), r.choice([1, 10, 100, 3000])
    nulls = r.choice([0, 0, .1])
    kind = r.choice([(pa.int32(), int), (pa.string(), lambda v: f"u{v}"), (pa.int64(), int)])
    time_type = r.choice([pa.int64(), pa.timestamp("ms", tz="UTC")])
    two = r.random() < .4
    events = log(r, r.choice([0, 1, 5, 120]), users, span, kind, nulls)
    past = log(r, r.choice([0, 3, 150]), users, span, kind, nulls) if two else events
    o = {"columns": r.sample(sorted(FIELDS), r.randrange(1, 5)), "age": r.random() < .5, "oldest": r.random() < .5,
         "last": r.choice([1, 2, 3, 50]), "delay": r.choice([0, 0, 1, 20, 500]),
         "dwell": r.choice([None, None, 5, 30]), "group": r.choice(["history", "g"]), "prior": r.choice([0, 1, 20.5]),
         "count": r.choice([[], ["item"], ["cat", "user"], ["item+half", "cat"]])}
    known = max(o["delay"], o["dwell"] or 0)
    o["window"] = r.choice([10**9, known + r.choice([1, 7, 200])])
    o["count_window"] = r.choice([10**9, known + r.choice([1, 10, 300])])
    o["session"] = random.Random(-seed - 1).choice([0, 0, 1, 20, 300])
    mode = r.choice(["ordered", "sort", "late"])
    lateness = r.choice([0, 1, 30, 1000])
    args = []
    if mode == "ordered":
        events = stable(events)
        past = stable(past) if two else events
    elif mode == "sort":
        args += ["--sort"]
    else:  # arrival = time + a wait of at most the lateness
        def late(cols):
            arrival = [t + r.randrange(lateness + 1) for t in cols["time"]]
            return reorder(cols, sorted(range(len(arrival)), key=lambda i: arrival[i]))
        events = late(events)
        past = late(past) if two else events
        args += ["--lateness", f"{lateness}ms"]
    encode = r.choice([[], ["item"], ["item", "cat", "half"], ["user"]])
    other = pa.int64() if kind[0] == pa.int32() and two else kind[0]
    write(f"{folder}/events", events, kind[0], time_type, r.choice([1, 7, 1000]), encode)
    args += ["-q", "--user", "user", "--time", "time", "--where", "click", "--last", str(o["last"]),
             "--window", f"{o['window']}ms", "--delay", f"{o['delay']}ms", "--group", o["group"],
             "-c", ",".join(o["columns"]), "--order", "oldest" if o["oldest"] else "newest"]
    args += ["--age"] if o["age"] else []
    args += ["--dwell", "stay", "--min-dwell", f"{o['dwell']}ms"] if o["dwell"] is not None else []
    args += ["--count", ",".join(o["count"]), "--prior", str(o["prior"])] if o["count"] else []
    args += ["--count-window", f"{o['count_window']}ms"] if o["count"] and o["count_window"] < 10**9 else []
    args += ["--session", f"{o['session']}ms"] if o["session"] else []
    if two:
        write(f"{folder}/past", past, other, time_type, r.choice([1, 7, 1000]), r.choice([[], ["item"]]))
        args += ["--behaviours", f"{folder}/past"]
    got = subprocess.run(["ctr-history", *args, f"{folder}/events"], capture_output=True)
    if got.returncode:
        return f"{args}: {got.stderr.decode()}"
    if not two and not LEAK:
        wrong = days(random.Random(-seed - 2), folder, args, events, mode, got.stdout, lambda cols: write(
            f"{folder}/day", cols, kind[0], time_type, r.choice([1, 7, 1000]), encode))
        if wrong:
            return f"{args}: {wrong}"
    table = pa.ipc.open_stream(got.stdout).read_all()
    events, past = stable(events), stable(past)
    want = dict(events, **expected(events, past, o))
    for name in table.column_names:
        g, w = plain(table[name]), want.get(name, [])
        if g != w:
            i = next((i for i in range(min(len(g), len(w))) if g[i] != w[i]), -1)
            return f"{args}: {name} row {i + 1}: {g[i] if g else g} but should be {w[i] if w else w}"
    return None


def days(r, folder, args, events, mode, want, write_day):
    """The same in several runs, each of which goes on from the state of the one before; in some, one is killed and run again."""
    n, parts, state = len(events["time"]), r.randrange(1, 5), f"{folder}/state"
    if os.path.exists(state):
        os.remove(state)
    if mode == "ordered":
        cuts = sorted(r.randrange(n + 1) for _ in range(parts - 1))
        of = [list(range(a, b)) for a, b in zip([0] + cuts, cuts + [n])]
    else:  # a day is a range of times, in the order of arrival
        cuts = sorted(r.choice(events["time"] or [0]) for _ in range(parts - 1))
        bounds = [-10**15] + cuts + [10**15]
        of = [[i for i in range(n) if a <= events["time"][i] < b] for a, b in zip(bounds, bounds[1:])]
    rows = []
    for day, idx in enumerate(of):
        write_day(reorder(events, idx))
        for again in range(1 + r.randrange(2)):  # what was killed before the rename left the state as it was
            before = open(state, "rb").read() if os.path.exists(state) else None
            memory = r.choice([[], [], ["--batch", "3"], ["-j", "3"]])
            got = subprocess.run(["ctr-history", *args, "--state", state, *memory, f"{folder}/day"], capture_output=True)
            if got.returncode:
                return f"day {day}: {got.stderr.decode()}"
            after = open(state, "rb").read()
            if again and after != last:
                return f"day {day}: a second run leaves another state"
            last = after
            if again == 0 and r.random() < .5:
                if before is None:
                    os.remove(state)
                else:
                    open(state, "wb").write(before)
            else:
                break
        if not os.path.exists(state):
            open(state, "wb").write(last)
        open(state, "wb").write(last)
        rows += pa.ipc.open_stream(got.stdout).read_all().to_pylist()
    one = pa.ipc.open_stream(want).read_all().to_pylist()
    if repr(rows) != repr(one):  # of floats too, which print with all their digits
        i = next((i for i in range(min(len(rows), len(one))) if repr(rows[i]) != repr(one[i])), -1)
        return f"in {parts} days: row {i + 1}: {rows[i] if rows else ''} but should be {one[i] if one else ''}"
    return None


bad = 0
for seed in range(int(sys.argv[1]), int(sys.argv[2])):
    difference = run(seed, sys.argv[3])
    if difference:
        print(f"seed {seed}: {difference}")
        bad += 1
sys.exit(bad > 0)
