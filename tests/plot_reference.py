"""Judges figures of ctr-plot: plot_reference.py KIND SVG CSV [NAME=VALUE…]. The numbers of the figure are read back from it, by the ticks of its axes, and
compared with those computed here from the rows in CSV by the definitions in ctr-plot(1), by plain loops. Exit status 1 and a line for each difference."""
import csv, datetime, math, re, sys
import xml.etree.ElementTree as ET

NS = '{http://www.w3.org/2000/svg}'
NEAR = .03  # units of the figure: two roundings to .01, of a mark and of a tick


def number(text):
    """A tick: 20k, 1.5M, 30%, or a time."""
    if re.match(r'^-?\d{4}-\d\d-\d\d$', text):
        return datetime.datetime.fromisoformat(text).replace(tzinfo=datetime.timezone.utc).timestamp() * 1000
    unit = {'k': 1e3, 'M': 1e6, 'G': 1e9, '%': .01}.get(text[-1])
    return float(text[:-1]) * unit if unit else float(text)


class Figure:
    def __init__(self, path):
        self.root = ET.parse(path).getroot()
        assert self.root.tag == NS + 'svg'
        self.texts = [(self.text(e), e.get('class'), float(e.get('x')), float(e.get('y'))) for e in self.root.iter(NS + 'text')]
        below = {x: t for t, c, x, y in self.texts if c == 'ctr-t ctr-m' and re.match(r'^\d{4}-\d\d-\d\d$', t)}
        self.x, date = [], None
        for t, c, x, y in self.texts:
            if c != 'ctr-t ctr-x':
                continue
            date = below.get(x, date)
            if re.match(r'^\d\d:\d\d(:\d\d)?$', t):
                self.x.append((datetime.datetime.fromisoformat(f'{date}T{t}+00:00').timestamp() * 1000, x))
            else:
                self.x.append((number(t), x))
        self.y = [(number(t), y - 4) for t, c, x, y in self.texts if c == 'ctr-t ctr-y']

    @staticmethod
    def text(e):
        return ''.join(([e.text] if e.text else []) + [c.tail or '' for c in e])

    @staticmethod
    def place(ticks, v):
        (a, p), (b, q) = ticks[0], ticks[-1]
        return p + (v - a) / (b - a) * (q - p)

    def at(self, x, y):
        return self.place(self.x, x), self.place(self.y, y)

    @staticmethod
    def value(ticks, p):
        (a, pa), (b, pb) = ticks[0], ticks[-1]
        return a + (p - pa) / (pb - pa) * (b - a)

    def marks(self, tag, cls):
        return [e for e in self.root.iter(NS + tag) if cls in (e.get('class') or '').split()]

    def circles(self, series):
        return [(float(e.get('cx')), float(e.get('cy'))) for e in self.marks('circle', f'ctr-f{series}')]

    def rects(self, series):
        """Without those of the legend, which are 10 by 10 and have no tip."""
        return [tuple(float(e.get(k)) for k in ('x', 'y', 'width', 'height')) for e in self.marks('rect', f'ctr-f{series}') if len(e)]

    def whiskers(self, cls):
        """Vertical ones: x, y, y."""
        found = [re.match(r'^M(\S+) (\S+)V(\S+)$', e.get('d')) for e in self.marks('path', cls)]
        straight = [re.match(r'^M(\S+) (\S+)L(\S+) (\S+)$', e.get('d')) for e in self.marks('path', cls)]
        return [tuple(map(float, m.groups())) for m in found if m] + [(float(m[1]), float(m[2]), float(m[4])) for m in straight if m and m[1] == m[3]]

    def lines(self, series):
        """Points of the paths of a series, but of the legend."""
        out = []
        for e in self.marks('path', f'ctr-l{series}'):
            if 'ctr-line' not in e.get('class').split() or 'h' in e.get('d'):
                continue
            x = y = None
            points = []
            for op, args in re.findall(r'([MLHV])([-\d. ]+)', e.get('d')):
                v = [float(a) for a in args.split()]
                if op in 'ML':
                    x, y = v
                elif op == 'V':
                    y = v[0]
                else:
                    x = v[0]
                if op != 'V':
                    points.append((x, y))
            out.append(points)
        return out

    def says(self, pattern):
        for t, *_ in self.texts:
            m = re.search(pattern, t)
            if m:
                return m
        return None


bad = []


def check(what, ok, got=''):
    if not ok:
        bad.append(f'{what}: {got!r}')


def near(what, got, want, most=NEAR):
    check(what, len(got) == len(want) and all(abs(a - b) <= most for a, b in zip(got, want)), (got, want))


def rows_of(path):
    out = []
    with open(path) as f:
        for r in csv.DictReader(f):
            out.append((float(r['score']), {'true': 1., 'false': 0.}.get(r['click']) if r['click'] in ('true', 'false') else float(r['click']),
                        float(r.get('w') or 1)))
    return out


def wilson(p, n):
    z = 1.959963984540054
    d = 1 + z * z / n
    m, h = (p + z * z / 2 / n) / d, z * math.sqrt(p * (1 - p) / n + z * z / 4 / n / n) / d
    return (m - h if p > 0 else 0.), (m + h if p < 1 else 1.)


def entries(rows):
    """A row with a fractional label is two."""
    return [(s, 1, w * y) for s, y, w in rows if w * y > 0] + [(s, 0, w * (1 - y)) for s, y, w in rows if w * (1 - y) > 0]


def ties(rows):
    by = {}
    for s, c, w in entries(rows):
        t = by.setdefault(s, [0., 0., 0.])
        t[c] += w
        t[2] += w * w
    return [(s, *by[s]) for s in sorted(by)]  # score, negatives, positives, squares


def reliability(f, rows, series, bins=20, **_):
    groups, left = [], sum(w for *_, w in rows)
    for s, n, p, q in ties(rows):
        if not groups or groups[-1]['full']:
            groups.append({'w': 0., 's': 0., 'p': 0., 'q': 0., 'full': False, 'share': left / (bins - len(groups))})
        g = groups[-1]
        g['w'] += n + p
        g['s'] += (n + p) * s
        g['p'] += p
        g['q'] += q
        left -= n + p
        g['full'] = len(groups) < bins and g['w'] >= g['share']
    want, whisk = [], []
    for g in groups:
        rate = g['p'] / g['w']
        low, high = wilson(rate, g['w'] ** 2 / g['q'])
        x, y = f.at(g['s'] / g['w'], rate)
        want.append((x, y))
        whisk.append((x, f.at(0, low)[1], f.at(0, high)[1]))
    got = f.circles(series)
    check('as many dots as bins', len(got) == len(want), (len(got), len(want)))
    for a, b in zip(got, want):
        near('a dot', a, b)
    for a, b in zip(f.whiskers(f'ctr-l{series}'), whisk):
        near('an interval', a, b)
    check('as many intervals', len(f.whiskers(f'ctr-l{series}')) == len(want))


def cumulated(rows):
    """Positives and negatives with at least each score, the highest first."""
    p = n = 0.
    out = []
    for s, neg, pos, _ in reversed(ties(rows)):
        p += pos
        n += neg
        out.append((p, n))
    return out


def curve(f, rows, series, point, first, from_x, steps):
    above = cumulated(rows)
    P, N = above[-1]
    exact = [point(p, n, P, N) for p, n in above]
    drawn = [e for e in exact if e[0] >= from_x]
    [got] = f.lines(series)
    if first is None:  # the first point holds for what lies before it
        skipped = exact[len(exact) - len(drawn) - 1] if len(drawn) < len(exact) else (0., 0.)
        near('where it begins', got[0], f.at(skipped[0], drawn[0][1]))
    else:
        near('where it begins', got[0], f.at(*first))
    want = [f.at(*e) for e in drawn]
    k = 0
    for g in got[1:]:  # each point drawn is one of these, in order
        while k < len(want) and not (abs(want[k][0] - g[0]) <= NEAR and abs(want[k][1] - g[1]) <= NEAR):
            check('a point left out is near', min(math.hypot(want[k][0] - a[0], want[k][1] - a[1]) for a in got) < 1.2, want[k])
            k += 1
        check('a point is none of the curve', k < len(want), g)
        k = min(k, len(want) - 1)
    near('where it ends', got[-1], want[-1])
    return exact


def roc(f, rows, series, name='', **_):
    curve(f, rows, series, lambda p, n, P, N: (n / N, p / P), (0, 0), -1, False)
    pos = [(s, w) for s, c, w in entries(rows) if c]
    neg = [(s, w) for s, c, w in entries(rows) if not c]
    wins = sum(a * b * (1 if s > t else .5 if s == t else 0) for s, a in pos for t, b in neg)
    auc = wins / sum(w for _, w in pos) / sum(w for _, w in neg)
    m = f.says(re.escape(name) + r'AUC ([\d.]+)')
    check('its AUC', m and abs(float(m[1]) - auc) <= .00005001, (m and m[1], auc))


def pr(f, rows, series, name='', **_):
    exact = curve(f, rows, series, lambda p, n, P, N: (p / P, p / (p + n)), None, .01, True)
    area = sum((r - r0) * p for (r0, _), (r, p) in zip([(0, 0)] + exact, exact))
    m = f.says(re.escape(name) + r'average precision ([\d.]+)')
    check('its average precision', m and abs(float(m[1]) - area) <= .00005001, (m and m[1], area))


def lift(f, rows, series, name='', **_):
    exact = curve(f, rows, series, lambda p, n, P, N: ((p + n) / (P + N), p / P / ((p + n) / (P + N))), None, .01, False)
    gains = [(0., 0.)] + [(x, x * y) for x, y in exact]
    for (a, g), (b, h) in zip(gains, gains[1:]):
        if a < .1 <= b:
            best = (g + (h - g) * (.1 - a) / (b - a)) / .1
    m = f.says(re.escape(name) + r'lift of the best 10% ([\d.]+)')
    check('its lift', m and abs(float(m[1]) - best) <= .00005001, (m and m[1], best))


def histogram(f, values, series, bins=40):
    """values: of numbers and their weights."""
    total = sum(w for _, w in values)
    got = f.rects(series)
    inside = 0.
    for x, y, width, height in got:
        a, b = f.value(f.x, x), f.value(f.x, x + width)
        power = 2. ** round(math.log2(b - a))
        a = round(a / power) * power
        near('a bin', (x, x + width), (f.at(a, 0)[0], f.at(a + power, 0)[0]), .06)
        share = sum(w for v, w in values if a <= v < a + power) / total
        inside += share
        near('a bar', (y, y + height), (f.at(0, share)[1], f.at(0, 0)[1]))
    check('not too many bins', len(got) <= bins, len(got))
    return inside


def scores(f, rows, series, bins=40, **_):
    share = histogram(f, [(s, w) for s, c, w in entries(rows) if c == series], series, bins)
    check('all rows are there', abs(share - 1) < .011, share)


def learning(f, rows, series, bins=100, **_):
    size = 1
    while len(rows) > 2 * bins * size:
        size *= 2
    at, block, sofar, sums = 0, [], [], [0., 0.]
    while at < len(rows):
        part = rows[at:at + size]
        at += len(part)
        losses = [(w, -(y * math.log(min(max(s, 2**-52), 1 - 2**-52)) + (1 - y) * math.log(1 - min(max(s, 2**-52), 1 - 2**-52)))) for s, y, w in part]
        sums[0] += sum(w * l for w, l in losses)
        sums[1] += sum(w for w, _ in losses)
        block.append(f.at(at, sum(w * l for w, l in losses) / sum(w for w, _ in losses)))
        sofar.append(f.at(at, sums[0] / sums[1]))
    for name, want, got in ('blocks', block, f.lines(0)[0]), ('so far', sofar, f.lines(1)[0]):
        check(f'as many points: {name}', len(got) == len(want), (len(got), len(want)))
        for a, b in zip(got, want):
            near(f'a point: {name}', a, b)


def hours(f, path):
    by = {}
    with open(path) as file:
        for r in csv.DictReader(file):
            h = by.setdefault(int(r['time'][11:13]), [0., 0., 0., 0.])
            w, y = float(r.get('w') or 1), float(r['click'])
            for i, v in enumerate((w, w * w, w * y, w * float(r['score']))):
                h[i] += v
    bars, dots, whisk = f.rects(0), f.circles(1), f.whiskers('ctr-w')
    check('a bar an hour', len(bars) == len(by) == len(dots) == len(whisk), (len(bars), len(by), len(dots), len(whisk)))
    for (h, (w, q, clicks, score)), (x, y, width, height), dot, line in zip(sorted(by.items()), bars, dots, whisk):
        near('a bar', (x, x + width, y, y + height), (*(f.at(h + d, 0)[0] for d in (.1, .9)), f.at(0, clicks / w)[1], f.at(0, 0)[1]))
        near('a score', dot, f.at(h + .5, score / w))
        low, high = wilson(clicks / w, w * w / q)
        near('an interval', line, (f.at(h + .5, 0)[0], f.at(0, low)[1], f.at(0, high)[1]))


def metric(f, path, series, name):
    want, band = [], []
    with open(path) as file:
        for r in csv.DictReader(file):
            if r['window'] and not r['by']:
                t = datetime.datetime.fromisoformat(r['window'].replace('Z', '+00:00')).timestamp() * 1000
                want.append(f.at(t, float(r[name])))
                band.append([f.at(t, float(r[name + p])) for p in ('_low', '_high')])
    got = f.circles(series)
    check('a dot a window', len(got) == len(want) > 1, (len(got), len(want)))
    for a, b in zip(got, want):
        near('a dot', a, b)
    [d] = [e.get('d') for e in f.marks('path', 'ctr-band') if f'ctr-f{series}' in e.get('class')]
    corners = [tuple(map(float, p.split())) for p in re.findall(r'[\d.]+ [\d.]+', d)]
    for a, b in zip(corners, [b[0] for b in band] + [b[1] for b in reversed(band)]):
        near('the band', a, b)


def bars(f, path, column):
    with open(path) as file:
        rows = [(r['name'], float(r[column])) for r in csv.DictReader(file) if r[column]]
    rows.sort(key=lambda r: -abs(r[1]))
    got = f.rects(0)
    names = [t for t, c, x, y in f.texts if c == 'ctr-t' and x < f.x[0][1]]
    check('the names', names == [n for n, _ in rows], (names, rows))
    for (x, _, width, _), (_, v) in zip(got, rows):
        near('a bar', (x, x + width), (f.place(f.x, 0), f.place(f.x, v)))
    check('as many bars', len(got) == len(rows), (len(got), len(rows)))


def main(kind, svg, path, *args):
    f = Figure(svg)
    o = dict(a.split('=', 1) for a in args)
    o.update({k: int(o[k]) for k in ('bins', 'series') if k in o})
    series = o.pop('series', 0)
    if kind == 'hours':
        hours(f, path)
    elif kind == 'metric':
        metric(f, path, series, o['metric'])
    elif kind in ('importance', 'drift'):
        bars(f, path, o['column'])
    elif kind == 'histogram':
        with open(path) as file:
            values = [(float(r[o['column']]), 1.) for r in csv.DictReader(file) if r[o['column']]]
        inside = histogram(f, values, series)
        m = f.says(r'([\d.]+)% of the rows beyond')
        check('what lies beyond is said', abs((float(m[1]) / 100 if m else 0) - (1 - inside)) < .001, (inside, m and m[0]))
    else:
        {'reliability': reliability, 'roc': roc, 'pr': pr, 'lift': lift, 'scores': scores, 'learning': learning}[kind](f, rows_of(path), series, **o)
    for line in bad[:20]:
        print(line)
    sys.exit(bool(bad))


main(*sys.argv[1:])
