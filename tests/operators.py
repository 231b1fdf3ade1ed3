"""Reference for tests/operators.t: operators of plans, from their definitions, beside Python's zoneinfo, datetime and re.

    operators.py times FILE      a csv of times and their parts in several zones
    operators.py locals FILE     a csv of local times and when they are, first of two and behind the gap
    operators.py same A B         do two files of csv hold the same?
    operators.py patterns FILE   lines of: pattern TAB group TAB replacement, and a csv of texts beside it (FILE.csv)
"""
import csv
import datetime
import random
import re
import sys
import zoneinfo

ZONES = ["Europe/Paris", "America/New_York", "Australia/Lord_Howe", "Asia/Kolkata", "America/Sao_Paulo", "Africa/Casablanca",
         "Europe/Dublin", "Pacific/Apia", "Antarctica/Troll"]
EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.timezone.utc)


def iso(t):
    return t.strftime("%Y-%m-%dT%H:%M:%S") + (".%03d" % (t.microsecond // 1000) if t.microsecond else "") + "Z"


def moments(rng):
    for year in range(1900, 2101, 3):
        yield EPOCH.replace(year=year) + datetime.timedelta(milliseconds=rng.randrange(366 * 86400000))
    for zone in ZONES:  # around the changes of clocks, and centuries later, where the rule repeats
        z = zoneinfo.ZoneInfo(zone)
        for year in list(range(1960, 2045, 4)) + [2100, 2250, 2399, 2430, 2777]:
            t, before = EPOCH.replace(year=year), None
            for day in range(365):
                t += datetime.timedelta(days=1)
                offset = t.astimezone(z).utcoffset()
                if before is not None and offset != before:
                    for hours in (-30, -24, -2, -1, 0):
                        yield t + datetime.timedelta(hours=hours, milliseconds=rng.choice([0, 0, 1, 999]))
                before = offset


def part_rows(rng):
    for t in moments(rng):
        row = [iso(t)]
        for zone in ZONES:
            x = t.astimezone(zoneinfo.ZoneInfo(zone))
            row.append("%d %d %d %d %d %d %s" % (x.year, x.month, x.isocalendar()[1], x.day, x.hour, x.weekday(),
                                                 x.strftime("%Y-%m-%d %I:%M:%S %p %j %a %b %G %V %u").replace("  ", " ")))
        yield row


def local_rows(rng):
    for t in moments(rng):
        zone = rng.choice(ZONES)
        z = zoneinfo.ZoneInfo(zone)
        x = t.astimezone(z).replace(tzinfo=None, microsecond=0) + datetime.timedelta(minutes=rng.choice([0, 30, 60, -60]))
        yield [zone, x.strftime("%Y-%m-%d %H:%M:%S"), iso(x.replace(tzinfo=z, fold=0).astimezone(datetime.timezone.utc))]


def write(path, head, rows):
    with open(path, "w", newline="") as f:
        w = csv.writer(f, lineterminator="\n")
        w.writerow(head)
        w.writerows(rows)


# Patterns whose meaning in Python and here is the same: $ is the end, classes are ASCII's.
def pattern(rng, depth=0):
    k = rng.random()
    if depth > 3 or k < 0.45:
        return rng.choice(["a", "b", "c", ".", "[ab]", "[^a]", "é", "[a-é]", r"\d", r"\w", r"\s", "1", " "])
    if k < 0.6:
        return pattern(rng, depth + 1) + pattern(rng, depth + 1)
    if k < 0.72:
        return "(?:%s|%s)" % (pattern(rng, depth + 1), pattern(rng, depth + 1))
    if k < 0.8:
        return "(%s)" % pattern(rng, depth + 1)
    if k < 0.84:
        return rng.choice(["^", r"\b", r"\B", "$"]) + pattern(rng, depth + 1)
    # what is repeated takes a character: engines differ in what the groups of empty repetitions hold
    return rng.choice(["a", "b", ".", "[ab]", r"\w", "(?:ab|c)", "(a|bc)"]) + rng.choice(
        ["*", "+", "?", "*?", "+?", "??", "{2}", "{1,2}", "{0,2}?", "{1,}"])


def patterns(path, rng, n=250):
    texts = ["-"] + ["".join(rng.choice("aabbc1 é€\n") for _ in range(rng.randrange(1, 12))) for _ in range(60)]
    flags = re.ASCII
    with open(path, "w") as f:
        rows = [[t] for t in texts]
        for i in range(n):
            p = "".join(pattern(rng) for _ in range(rng.randrange(1, 4)))
            if i % 5 == 0:
                p = "(?i)" + p
            python = re.compile(p.replace("$", r"\Z"), flags)
            if python.groups > 9:
                continue
            group = 1 if python.groups else 0
            by = "<$0>" + ("$1" if group else "")
            f.write("%s\t%s\n" % (p, by))
            for t, row in zip(texts, rows):
                m = python.search(t)
                found = m.group(group) if m else None
                row.append("%d|%s|%s" % (m is not None, "~" if found is None else found,
                                         python.sub(lambda m: "<%s>" % m.group(0) + (m.group(1) or "" if group else ""), t)))
        write(path + ".csv", ["t"] + ["p%d" % i for i in range(len(rows[0]) - 1)], rows)


if __name__ == "__main__":
    rng = random.Random(7)
    what, path = sys.argv[1:3]
    if what == "times":
        write(path, ["t"] + [z.replace("/", "_") for z in ZONES], part_rows(rng))
    elif what == "same":  # quotes may differ
        got, want = (list(csv.reader(open(p, newline=""))) for p in sys.argv[2:4])
        bad = [(i, j, x, y) for i, r in enumerate(want) for j, y in enumerate(r) for x in [got[i][j]] if x != y]
        print(*bad[:5], sep="\n", file=sys.stderr)
        sys.exit(len(got) != len(want) or bool(bad))
    elif what == "locals":
        write(path, ["zone", "local", "want"], local_rows(rng))
    else:
        patterns(path, rng)
