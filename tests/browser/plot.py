"""Figures of ctr-plot in a real browser: plot.py FIGURE…. Texts lie within the figure and on no other text, colours follow the theme, paper is white.
Prints a TAP-like line a check, without numbers; exit status 1 if one failed."""
import os, sys
sys.path.insert(0, os.path.dirname(__file__))
from chromium import Chromium

failed = 0


def check(name, good, got=''):
    global failed
    failed += not good
    print(('ok' if good else 'not ok') + ' - ' + name + ('' if good else f' (got {got!r})'))


TEXTS = '''(() => { const s = document.documentElement.getBoundingClientRect(), out = [];
    const t = [...document.querySelectorAll('text')].map(e => [e.textContent, e.getBoundingClientRect()]);
    for (const [text, b] of t)
        if (b.left < s.left - 1 || b.right > s.right + 1 || b.top < s.top - 1 || b.bottom > s.bottom + 1) out.push('outside: ' + text);
    for (let i = 0; i < t.length; i++) for (let k = i + 1; k < t.length; k++) { const a = t[i][1], b = t[k][1];
        if (Math.min(a.right, b.right) - Math.max(a.left, b.left) > 1 && Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top) > 3)
            out.push('on each other: ' + t[i][0] + ' | ' + t[k][0]); }
    return out; })()'''
COLOURS = '''['.ctr-bg', '.ctr-t', '.ctr-f0', '.ctr-l0'].map(c => { const e = document.querySelector(c), s = e && getComputedStyle(e);
    return e ? (c == '.ctr-l0' ? s.stroke : s.fill) : ''; })'''

with Chromium(width=700, height=500) as c:
    for path in sys.argv[1:]:
        name = os.path.basename(path)
        c.theme(False)
        c.open(path)
        check(f'{name}: texts have their places', c.js(TEXTS) == [], c.js(TEXTS))
        light = c.js(COLOURS)
        c.theme(True)
        dark = c.js(COLOURS)
        check(f'{name}: light and dark', light[0] == 'rgb(255, 255, 255)' and all(a != b or not a for a, b in zip(light, dark)), (light, dark))
        c.send('Emulation.setEmulatedMedia', media='print', features=[{'name': 'prefers-color-scheme', 'value': 'dark'}])
        check(f'{name}: paper is white', c.js(COLOURS) == light, c.js(COLOURS))
        c.send('Emulation.setEmulatedMedia', media='')
    check('nothing was loaded, no error', c.complaints() == [], c.complaints())
sys.exit(bool(failed))
