"""Pages of ctr-report in a real browser: report.py PAGE…. On a phone nothing but tables scrolls sideways, texts stand out in light and dark, paper has no
menu, links of the contents lead to their parts. Prints a TAP-like line a check, without numbers; exit status 1 if one failed."""
import os, sys
sys.path.insert(0, os.path.dirname(__file__))
from chromium import Chromium

failed = 0


def check(name, good, got=''):
    global failed
    failed += not good
    print(('ok' if good else 'not ok') + ' - ' + name + ('' if good else f' (got {got!r})'))


WIDTH = 'document.documentElement.scrollWidth'
# Elements of text that are wider than the window and lie in nothing that scrolls by itself.
WIDE = '''[...document.querySelectorAll('main *')].filter(e => e.getBoundingClientRect().right > innerWidth + 1 && !e.closest('.wide, pre, svg'))
    .map(e => e.tagName).slice(0, 5)'''
# The least contrast of texts with the page, as WCAG 2 defines it.
CONTRAST = '''(() => { const l = c => { const [r, g, b] = c.match(/[0-9.]+/g).slice(0, 3).map(v => { v /= 255; return v <= .03928 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4; });
        return .2126 * r + .7152 * g + .0722 * b; };
    const page = l(getComputedStyle(document.body).backgroundColor);
    return Math.min(...[...document.querySelectorAll('h1, h2, p, a:not(.skip), th, td, dt, dd, small, code, .ctr-t, .ctr-m')].map(e => {
        const s = getComputedStyle(e), t = l(e.closest('svg') ? s.fill : s.color); return (Math.max(t, page) + .05) / (Math.min(t, page) + .05); })); })()'''

with Chromium(width=1400, height=900) as c:
    for path in sys.argv[1:]:
        name = os.path.basename(path)
        c.open(path)
        check(f'{name}: a window', c.js(WIDTH) <= 1400 and c.js(WIDE) == [], (c.js(WIDTH), c.js(WIDE)))
        for dark in False, True:
            c.theme(dark)
            check(f'{name}: texts stand out, {"dark" if dark else "light"}', c.js(CONTRAST) >= 4.5, c.js(CONTRAST))
        c.theme(False)
        check(f'{name}: links lead to parts', c.js('''[...document.querySelectorAll('nav a')].every(a => document.querySelector(a.getAttribute('href')).tagName == 'H2')'''))
        check(f'{name}: tables can be reached by keys', c.js('''[...document.querySelectorAll('.wide')].every(e => e.tabIndex == 0 && e.getAttribute('aria-label'))'''))
        c.send('Emulation.setEmulatedMedia', media='print', features=[{'name': 'prefers-color-scheme', 'value': 'dark'}])
        check(f'{name}: paper has no menu and is white', c.js('''getComputedStyle(document.querySelector('nav')).display == 'none' &&
            getComputedStyle(document.body).backgroundColor == 'rgb(255, 255, 255)' '''))
        check(f'{name}: texts stand out on paper', c.js(CONTRAST) >= 4.5, c.js(CONTRAST))
        c.send('Emulation.setEmulatedMedia', media='')
        c.send('Emulation.setDeviceMetricsOverride', width=390, height=800, deviceScaleFactor=1, mobile=True)
        c.open(path)
        check(f'{name}: a phone', c.js(WIDTH) <= 390 and c.js(WIDE) == [], (c.js(WIDTH), c.js(WIDE)))
        c.send('Emulation.setDeviceMetricsOverride', width=1400, height=900, deviceScaleFactor=1, mobile=False)
    check('nothing was loaded, no error', c.complaints() == [], c.complaints())
sys.exit(bool(failed))
