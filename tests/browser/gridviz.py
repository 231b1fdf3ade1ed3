"""The page of ctr-gridviz in a real browser: gridviz.py PAGE (of tests/ctr-gridviz.t) | --hostile PAGE | --control PAGE | --view PAGE | --frames PAGE | --shot PAGE PNG SCRIPT….
Prints a TAP-like line a check, without numbers; exit status 1 if one failed."""
import json, os, sys, time
sys.path.insert(0, os.path.dirname(__file__))
from chromium import Chromium

failed = 0


def check(name, good, got=''):
    global failed
    failed += not good
    print(('ok' if good else 'not ok') + ' - ' + name + ('' if good else f' (got {got!r})'))


def equal(name, got, want):
    check(name, got == want, got)


def set_value(c, element, value, event='change'):
    c.js(f'''(() => {{ const e = document.getElementById({json.dumps(element)}); e.value = {json.dumps(value)};
        e.dispatchEvent(new Event('{event}', {{ bubbles: true }})); }})()''')
    c.frames()


def over_cell(c, strip, column):
    """Where a cell is in the window."""
    return c.js(f'''(() => {{ const p = gridviz.cell({strip}, {column}), b = document.getElementById('over').getBoundingClientRect();
        return [b.left + p.x, b.top + p.y, p.width]; }})()''')


def pixel(c, strip, column):
    """The colour in the left upper corner of a cell, where no number is."""
    return c.js(f'''(() => {{ const p = gridviz.cell({strip}, {column}), k = devicePixelRatio;
        const d = document.getElementById('cells').getContext('2d').getImageData((p.x - p.width / 2) * k + 2, (p.y - 11) * k, 1, 1).data;
        return '#' + [0, 1, 2].map(i => d[i].toString(16).padStart(2, '0')).join(''); }})()''')


def card(c):
    return c.js("document.getElementById('card').hidden ? '' : document.getElementById('card').innerText")


def page(path):
    with Chromium() as c:
        c.open(path)
        equal('the title', c.js('document.title'), 'A & B')
        equal('columns in the order of the table', c.js('gridviz.columns()'), ['site=news', 'site=shop', 'site=sport'])
        equal('a strip a model and metric', c.js('gridviz.strips().map(s => [s.m, gridviz.data.metrics[s.k].name])'),
              [[0, 'auc_loss'], [0, 'log_loss'], [1, 'auc_loss'], [1, 'log_loss']])

        # geometry: impressions 600, 300, 100
        widths = lambda: [round(c.js(f'gridviz.cell(0, {i}).width / gridviz.cell(0, 0).width'), 3) for i in range(3)]
        equal('width by impressions', widths(), [1, .5, .167])
        set_value(c, 'width', 'positives')
        equal('width by clicks', widths(), [1, 1, .5])
        set_value(c, 'width', 'equal')
        equal('equal widths', widths(), [1, 1, 1])

        # colours: model b against model a; its loss is lower by 10% in news, higher by 20% in shop, the same in sport
        equal('better, worse, equal are three colours', c.js('[1, 4, 5].map(i => Math.round(gridviz.strips()[3].good[i]))'), [10, -20, 0])
        colours = [pixel(c, 3, i) for i in range(3)]
        equal('drawn as they should', colours, c.js('[10, -20, 0].map(gridviz.colour)'))
        check('the three differ', len(set(colours)) == 3, colours)
        set_value(c, 'range', '2', 'input')
        wide = [pixel(c, 3, i) for i in range(3)]
        check('a wider range is paler', wide[0] != colours[0] and wide[2] == colours[2], wide)
        c.js("document.getElementById('auto').click()")
        set_value(c, 'baseline', '1')
        check('with the other baseline the signs turn', c.js('gridviz.strips()[1].good[1] < 0 && gridviz.strips()[1].good[4] > 0'))
        set_value(c, 'baseline', '0')
        colour_blind(c)

        # the card, by pointer
        x, y, _ = over_cell(c, 3, 1)
        c.mouse('mouseMoved', x, y)
        c.frames()
        text = card(c)
        check('a card on hover', 'shop' in text and 'model b' in text and '300 impressions (30%)' in text and '+20.0%' in text, text)
        check('with baseline and intervals', '0.5' in text and '[0.55, 0.65]' in text, text)
        c.mouse('mouseMoved', 5, 5)
        c.frames()
        equal('no card elsewhere', card(c), '')

        # and by keyboard: from the last control into the grid
        c.js("Array.from(document.querySelectorAll('.strip')).pop().focus()")
        c.key('Tab', 9)
        c.frames()
        check('Tab leads into the grid, and there is a card', 'news' in card(c) and 'model a' in card(c), card(c))
        for k, code in ('ArrowRight', 39), ('ArrowDown', 40), ('ArrowDown', 40):
            c.key(k, code)
        c.frames()
        check('arrows move it', 'shop' in card(c) and 'model b' in card(c), card(c))
        c.key('End', 35)
        check('End is the last column', 'sport' in card(c), card(c))
        c.key('+', 187)
        c.frames()
        check('plus zooms in', c.js('gridviz.state.zoom.k') > 1)
        c.key('0', 48)
        c.frames()
        equal('0 shows all', c.js('gridviz.state.zoom.k'), 1)
        c.key('Escape', 27)
        equal('Escape closes it', card(c), '')

        # filter, breakdowns, order
        set_value(c, 'filter', 'SH|sport$', 'input')
        equal('a regular expression chooses', c.js('gridviz.columns()'), ['site=shop', 'site=sport'])
        set_value(c, 'filter', '(', 'input')
        equal('half an expression is marked', c.js("document.getElementById('filter').getAttribute('aria-invalid')"), 'true')
        equal('and the last one stays', c.js('gridviz.columns().length'), 2)
        set_value(c, 'filter', '', 'input')
        menu = c.js("Array.from(document.getElementById('breakdown').options, o => o.text)")
        equal('breakdowns', menu, ['total (1)', 'site (3)', 'site by window (2)', 'every breakdown (6)'])
        set_value(c, 'breakdown', '2')
        equal('by window', c.js('gridviz.columns()'), ['site=news 2026-01-01 00:00Z', 'site=news 2026-01-01 01:00Z'])
        set_value(c, 'breakdown', '3')
        set_value(c, 'filter', '^total|=news', 'input')
        equal('a breakdown by expression', c.js('gridviz.columns().length'), 4)
        set_value(c, 'filter', '', 'input')
        set_value(c, 'breakdown', '1')
        set_value(c, 'sort', 'change')
        first = lambda: c.js('gridviz.columns()[0]')
        c.js("document.querySelectorAll('.strip')[3].click()")
        c.frames()
        equal('a click on a metric sorts by its change, the worst first', first(), 'site=shop')
        c.js("document.querySelectorAll('.strip')[3].click()")
        c.frames()
        equal('again: the best first', first(), 'site=news')
        set_value(c, 'sort', 'rows')
        equal('by impressions', c.js('gridviz.columns()'), ['site=news', 'site=shop', 'site=sport'])
        c.js("document.getElementById('direction').click()")
        c.frames()
        equal('and round', first(), 'site=sport')

        # metrics, themes
        c.js("document.querySelectorAll('#metrics input')[0].click()")
        c.frames()
        equal('a metric less', c.js('gridviz.strips().length'), 2)
        light = c.js('getComputedStyle(document.body).backgroundColor')
        equal('light by the system', light, 'rgb(255, 255, 255)')
        c.js("document.getElementById('theme').click()")
        c.frames()
        check('the button makes it dark', c.js('getComputedStyle(document.body).backgroundColor') == 'rgb(20, 23, 27)')
        colour_blind(c)
        c.theme(True)
        c.open(path)
        equal('dark by the system', c.js('document.documentElement.dataset.theme'), 'dark')
        equal('nothing complained and nothing was loaded', c.complaints(), [])


def control(path):
    """A table with control and intervals, in a wide and a narrow window: card, legend, what is unsure, what is empty, paper."""
    for width in 1280, 420:
        with Chromium(width, 900) as c:
            c.open(path)
            c.frames()
            for column in range(2):
                x, y, _ = over_cell(c, 0, column)
                c.mouse('mouseMoved', x, y)
                c.frames()
                box = c.js("(() => { const b = document.getElementById('card').getBoundingClientRect(); return [b.left, b.right, document.getElementById('card').scrollWidth <= b.width]; })()")
                check(f'{width} wide: the card {column} lies in the window and holds its table', box[0] >= 0 and box[1] <= width and box[2], box)
                check(f'{width} wide: the interval of the change is there', ('[\u221212.0, \u22128.00]', '[\u22123.00, +5.00]')[column] in card(c), card(c))
            c.mouse('mouseMoved', 5, 5)
            equal(f'{width} wide: cells whose change may be none are marked', c.js('[1, 2].map(i => gridviz.strips()[0].unsure[i])'), [0, 1])
            equal(f'{width} wide: and the mark is explained', c.js("document.getElementById('note').hidden"), False)
            ticks = c.js("Array.from(document.querySelectorAll('#scale text'), t => t.textContent)")
            check(f'{width} wide: the legend has no sign that cells of a loss contradict', ticks and not any(t[0] in '+\u2212' for t in ticks), ticks)
            c.js("window.dispatchEvent(new Event('beforeprint'))")
            equal(f'{width} wide: paper has the whole grid', c.js("[Math.round(document.querySelector('main').getBoundingClientRect().width), Math.round(gridviz.cell(0, 1).x + gridviz.cell(0, 1).width / 2) <= document.getElementById('plot').clientWidth, document.documentElement.dataset.theme]"),
                  [970, True, 'light'])
            c.js("window.dispatchEvent(new Event('afterprint'))")
            check(f'{width} wide: the screen has its own again', c.js("document.querySelector('main').getBoundingClientRect().width") < width)
            empty = lambda: c.js("document.getElementById('empty').hidden ? '' : document.getElementById('empty').textContent")
            equal(f'{width} wide: a full grid says nothing', empty(), '')
            set_value(c, 'filter', 'nothing', 'input')
            equal(f'{width} wide: no slice', empty(), 'No slice of this breakdown matches the filter.')
            set_value(c, 'filter', '', 'input')
            c.js("document.querySelector('#metrics input').click()")
            c.frames()
            equal(f'{width} wide: no metric', empty(), 'No metric is chosen: tick one under Metrics.')
            equal(f'{width} wide: nothing complained', c.complaints(), [])


def lab(rgb):
    lin = [v / 12.92 if v <= .04045 else ((v + .055) / 1.055) ** 2.4 for v in rgb]
    return lin


def to_lab(lin):
    m = [[.4124, .3576, .1805], [.2126, .7152, .0722], [.0193, .1192, .9505]]
    f = lambda t: t ** (1 / 3) if t > .008856 else 7.787 * t + 16 / 116
    x, y, z = (f(max(0, sum(a * b for a, b in zip(r, lin))) / w) for r, w in zip(m, (.9505, 1, 1.089)))
    return 116 * y - 16, 500 * (x - y), 200 * (y - z)


# Machado, Oliveira, Fernandes: A Physiologically-based Model for Simulation of Color Vision Deficiency (2009), severity 1.
BLIND = {
    'protanopia': [[.152286, 1.052583, -.204868], [.114503, .786281, .099216], [-.003882, -.048116, 1.051998]],
    'deuteranopia': [[.367322, .860646, -.227968], [.280085, .672501, .047413], [-.011820, .042940, .968881]],
    'tritanopia': [[1.255528, -.076749, -.178779], [-.078411, .930809, .147602], [.004733, .691367, .303900]],
}


def colour_blind(c):
    theme = c.js('document.documentElement.dataset.theme')
    ramp = [c.js(f'gridviz.colour({x} * gridviz.state.range)') for x in (-1, -.5, 0, .5, 1)]
    for name, matrix in BLIND.items():
        seen = []
        for h in ramp:
            lin = lab([int(h[i:i + 2], 16) / 255 for i in (1, 3, 5)])
            seen.append(to_lab([sum(a * b for a, b in zip(r, lin)) for r in matrix]))
        far = min(sum((a - b) ** 2 for a, b in zip(seen[i], seen[j])) ** .5 for i in range(5) for j in range(i))
        check(f'{theme}: five steps of the colours differ under {name}', far > 12, (round(far, 1), ramp))


def hostile(path):
    with Chromium() as c:
        c.open(path)
        c.frames(5)
        equal('no script of the data ran', c.js('window.hacked === undefined'), True)
        equal('the texts are those of the data', c.js('gridviz.data.slice.filter(s => s.includes("</script>")).length'), 1)
        equal('one element of data', c.js("document.querySelectorAll('script').length"), 3)
        equal('no element came from a text', c.js("document.querySelectorAll('img, b, iframe, svg svg').length"), 0)
        for i in range(c.js('gridviz.columns().length')):
            c.js("document.getElementById('over').focus()")
            x, y, _ = over_cell(c, 0, i)
            c.mouse('mouseMoved', x, y)
            text = card(c)
            check(f'card {i} has no control and no bidi character', not any(ord(ch) < 32 and ch not in '\n\t' or 0x202a <= ord(ch) <= 0x202e for ch in text), text)
            check(f'card {i} is short', len(text) < 1500, len(text))
        equal('the policy refuses what is injected', c.js('''(() => { const s = document.createElement('script'); s.textContent = 'window.hacked = 1';
            document.body.append(s); return window.hacked === undefined; })()'''), True)
        equal('still no script ran', c.js('window.hacked === undefined'), True)
        set_value(c, 'breakdown', str(c.js("document.getElementById('breakdown').options.length - 1")))
        equal('a window beyond the times of the browser', c.js('gridviz.columns().filter(s => / ms$/.test(s))'), ['site=far 9404918380800000 ms'])


def frames(path):
    """The longest task of the page's thread while it is used: the trace's own durations."""
    with Chromium() as c:
        c.open(path)
        c.frames(10)

        def one(name, work):
            events = [e for e in c.trace(work) if e.get('ph') == 'X']
            # RunTask is what a thread does between two looks at its queue; a frame is made within one. tdur: the time that the thread
            # ran, which does not grow with what else the machine does.
            page = {(e['pid'], e['tid']) for e in events if e['name'] == 'FireAnimationFrame'}
            tasks = [e for e in events if e['name'] in ('RunTask', 'ThreadControllerImpl::RunTask') and (e['pid'], e['tid']) in page]
            longest = lambda list, part: max((e.get(part, 0) / 1000 for e in list), default=0)
            print(f"{name}: longest task {longest(tasks, 'tdur'):.1f} ms of processor, {longest(tasks, 'dur'):.1f} ms by the clock")
            return longest(tasks, 'tdur')

        def hover():
            for i in range(40):
                c.mouse('mouseMoved', 300 + i * 20, 330 + i * 5)
                c.frames(1)

        def ranges():
            for i in range(20):
                set_value(c, 'range', str(-1 + i / 10), 'input')

        def zooms():
            for i in range(12):
                c.mouse('mouseWheel', 700, 400, deltaX=0, deltaY=-120 if i < 8 else 120, modifiers=2)
                c.frames(1)

        def pans():
            c.mouse('mousePressed', 800, 400, button='left', clickCount=1)
            for i in range(20):
                c.mouse('mouseMoved', 800 - 10 * i, 400, button='left', buttons=1)
                c.frames(1)
            c.mouse('mouseReleased', 600, 400, button='left', clickCount=1)

        def keyboard():
            c.js("document.getElementById('over').focus()")
            for i in range(20):
                c.key('ArrowRight', 39)
                c.frames(1)

        def sorts():
            for s in 'rows', 'change', 'name', 'table':
                set_value(c, 'sort', s)

        def filters():
            for s in '1', '12', '12.', '', '7$', '':
                set_value(c, 'filter', s, 'input')

        worst = max([one(*w) for w in (('hover', hover), ('range', ranges), ('zoom', zooms), ('pan', pans), ('keyboard', keyboard),
                                       ('sort', sorts), ('filter', filters))])
        print(f'worst {worst:.1f} ms')
        equal('nothing complained', c.complaints(), [])


def signs(c):
    """Columns too narrow for a name, and how many of them have a mark where it would be, or share one with a neighbour 4 pixels away."""
    return c.js('''(() => { const d = document.getElementById('cells').getContext('2d'), k = devicePixelRatio;
        const page = d.getImageData(2, 2, 1, 1).data.join();
        const narrow = gridviz.columns().map((_, i) => gridviz.cell(0, i)).filter(p => p.width > 0 && p.width < 13);
        const marked = narrow.filter(p => { const a = d.getImageData(Math.max(0, Math.round((p.x - 5) * k)), 70 * k, Math.round(10 * k), Math.round(3 * k)).data;
            for (let i = 0; i < a.length; i += 4) if (a.slice(i, i + 4).join() !== page) return true;
            return false; });
        return [narrow.length, marked.length]; })()''')


def view(path):
    """A table of many slices and a rest: signs of names, what is pale, pictures and csv, the view in the address, a phone."""
    with Chromium() as c:
        c.open(path)
        share = lambda i: c.js(f'gridviz.cell(0, {i}).width') / c.js("document.getElementById('plot').clientWidth")
        n = c.js('gridviz.columns().length')
        rest = c.js("gridviz.columns().indexOf('ad=(rest)')")
        check('the rest takes a tenth', abs(share(rest) - .1) < .001, share(rest))
        check('the others keep their proportions', abs(share(0) / share(1) - 2) < .01, (share(0), share(1)))
        narrow, marked = signs(c)
        check('names that do not fit leave a sign', narrow > 5 and marked == narrow, (narrow, marked, n))
        status = lambda: c.js("document.getElementById('status').textContent")
        check('and are counted, and the rest is told', f'{narrow} have no room for a name' in status() and '(rest) is drawn narrower' in status(), status())
        set_value(c, 'width', 'equal')
        check('equal widths are equal', abs(share(rest) - 1 / n) < .001)
        set_value(c, 'filter', 'rest', 'input')
        equal('alone it has all', round(share(0), 3), 1)
        set_value(c, 'filter', '', 'input')
        tiny = c.js("gridviz.columns().indexOf('ad=tiny')")
        good = c.js(f'gridviz.strips()[1].good[{tiny} + 1]')
        seen, full = pixel(c, 1, tiny), c.js(f'gridviz.colour({good})')
        light = lambda h: sum(int(h[i:i + 2], 16) for i in (1, 3, 5))
        check('a slice with few clicks is pale', light(full) + 60 < light(seen) < 765, (seen, full))
        equal('and that is explained', c.js("[document.getElementById('faded').hidden, document.getElementById('undefined').hidden]"), [False, False])
        grey = c.js("gridviz.columns().indexOf('ad=grey')")
        equal('a cell without a value is grey', pixel(c, 1, grey), c.js("getComputedStyle(document.documentElement).getPropertyValue('--none').trim()"))

        # out: what is shown, and nothing else
        set_value(c, 'filter', 'tiny|grey|quote', 'input')
        lines = c.js('gridviz.csvText()').split('\n')
        equal('csv: a line a column, model and metric', len(lines), 1 + 3 * 2 + 1)
        check('csv: values and changes', any(l.startswith('ad,tiny,,b,20,3,20,log_loss,0.6,,,0.5,') for l in lines), lines)
        check('csv: quotes are doubled', any(l.startswith('ad,"a ""quote"", <b>",') for l in lines), lines)
        check('csv: undefined is empty', any(l.startswith('ad,grey,,b,30,30,30,log_loss,,,,') for l in lines), lines)
        equal('svg: well-formed', c.js("new DOMParser().parseFromString(gridviz.svgText(), 'image/svg+xml').querySelectorAll('parsererror').length"), 0)
        texts = c.js("[...new DOMParser().parseFromString(gridviz.svgText(), 'image/svg+xml').querySelectorAll('text')].map(t => t.textContent)")
        check('svg: names of columns, models and metrics, and numbers', all(t in texts for t in ('tiny', 'a "quote", <b>', 'a', 'b', 'log_loss', '+20.0')), texts)
        check('png: of twice the pixels, drawn', c.js('''(() => { const p = gridviz.pngCanvas(), d = p.getContext('2d').getImageData(0, 0, p.width, p.height).data;
            const seen = new Set(); for (let i = 0; i < d.length; i += 4) seen.add(d[i] << 16 | d[i + 1] << 8 | d[i + 2]);
            return p.width === 2 * (document.getElementById('plot').clientWidth + 190) && seen.size > 10; })()'''))
        c.send('Page.setDownloadBehavior', behavior='allow', downloadPath=c.home)
        for ending in 'csv', 'svg', 'png':
            c.js(f"document.getElementById('{ending}').click()")
            file = os.path.join(c.home, 'many-slices.' + ending)
            end = time.time() + 20
            while not os.path.exists(file) and time.time() < end:
                time.sleep(.05)
            check(f'the button gives a file: {ending}', os.path.exists(file))

        # the address
        set_value(c, 'sort', 'change')
        set_value(c, 'numbers', 'value')
        c.js("document.getElementById('direction').click()")
        time.sleep(.4)
        link = c.js('location.hash')
        shown = c.js('gridviz.columns()')
        check('what is chosen is in the address', all(p in link for p in ('filter=tiny', 'sort=change', 'numbers=value', 'direction=down', 'width=equal')), link)
        equal('nothing complained', c.complaints(), [])
    with Chromium() as c:
        c.open(path + link)
        equal('which shows the same again', [c.js('gridviz.columns()'), c.js('gridviz.viewText()')], [shown, link[1:]])
        c.js("location.hash = '#filter=(&sort=nothing&zoom=x&range=-1&metrics=&__proto__=1&baseline=%E0%A4%A'")
        time.sleep(.3)
        equal('rubbish in it does no harm', [c.js('gridviz.state.sort'), c.js('gridviz.state.zoom.k'), c.complaints()], ['table', 1, []])
    with Chromium(390, 800) as c:
        c.open(path)
        visible = lambda id: c.js(f"document.getElementById('{id}').offsetParent !== null")
        equal('on a phone controls are folded', [visible('controls'), visible('range'), visible('fold')], [False, False, True])
        width = c.js("document.getElementById('plot').clientWidth")
        check('cells have the width', width > 270, width)
        check('the page is no wider than the phone', c.js('document.documentElement.scrollWidth') <= 390, c.js('document.documentElement.scrollWidth'))
        boxes = c.js('''[...document.querySelectorAll('.model')].map(m => { const n = m.querySelector('.name').getBoundingClientRect(), s = m.querySelector('.strip').getBoundingClientRect();
            return [n.width > 5, n.bottom <= s.top + 2, Math.abs(s.top - document.getElementById('over').getBoundingClientRect().top - gridviz.strips()[2 * [...m.parentNode.children].indexOf(m) * 0].y) >= 0]; })''')
        check('names of models stand above their strips', all(all(b) for b in boxes), boxes)
        equal('strips and cells are level', c.js('''[...document.querySelectorAll('.strip')].every((s, i) => Math.abs(s.getBoundingClientRect().top
            - document.getElementById('over').getBoundingClientRect().top - gridviz.strips()[i].y) < 1.5)'''), True)
        c.js("document.getElementById('fold').click()")
        equal('a button opens them', visible('controls'), True)
        equal('nothing complained on a phone', c.complaints(), [])


# What the scripts of a picture are written with.
HELPERS = '''
window.set = (id, value, event = 'change') => { const e = document.getElementById(id); e.value = value; e.dispatchEvent(new Event(event)); };
window.click = selector => document.querySelector(selector).click();
window.hover = (strip, column) => { const p = gridviz.cell(strip, column), over = document.getElementById('over'), b = over.getBoundingClientRect();
    over.dispatchEvent(new PointerEvent('pointermove', { clientX: b.left + p.x, clientY: b.top + p.y })); };'''


def shot(path, png, *scripts):
    """A picture of the page after some scripts, as high as the grid."""
    width, height = 1280, 1000
    with Chromium(width, height) as c:
        c.open(path)
        c.js(HELPERS)
        for s in scripts:
            c.js(s)
            c.frames(3)
        bottom = c.js("Math.ceil(document.querySelector('main').getBoundingClientRect().bottom)")
        c.screenshot(png, x=0, y=0, width=width, height=min(height, bottom + 14))


if sys.argv[1] == '--hostile':
    hostile(sys.argv[2])
elif sys.argv[1] == '--control':
    control(sys.argv[2])
elif sys.argv[1] == '--view':
    view(sys.argv[2])
elif sys.argv[1] == '--frames':
    frames(sys.argv[2])
elif sys.argv[1] == '--shot':
    shot(*sys.argv[2:])
else:
    page(sys.argv[1])
sys.exit(failed > 0)
