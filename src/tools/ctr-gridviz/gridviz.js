// SPDX-License-Identifier: Apache-2.0
// The page of ctr-gridviz: rows are models, each with a strip a metric; columns are slices. Cells are drawn on a canvas (`cells`),
// what moves with the pointer on another above it (`over`); all else is DOM. Works with d3 5 to 7.
'use strict';
(function () {
const data = JSON.parse(document.getElementById('data').textContent);
const $ = id => document.getElementById(id);
const SLICES = data.slice.length, HEAD = 104, STRIP = 26, LUT = 129, FEW_CLICKS = 10, REST_SHARE = .1;
const phone = matchMedia('(max-width: 640px)');
// Between models; on a phone their names stand there, above their strips.
const gap = () => phone.matches && !document.documentElement.classList.contains('paper') ? 20 : 5;
const top = m => HEAD + (gap() > 5 ? gap() - 4 : 0) + m * (state.metrics.length * STRIP + gap());
const percent = d3.format('.3~r'), count = d3.format(',.6~r'), value = d3.format('.6~g'), signed = v =>
  (v > 0 ? '+' : v < 0 ? '\u2212' : '\u00b1') + d3.format(Math.abs(v) < 9.995 ? '.2f' : Math.abs(v) < 99.95 ? '.1f' : '.3~s')(Math.abs(v));

const state = {
  breakdown: 0, filter: null, baseline: 0, width: 'rows', sort: 'table', descending: false, numbers: 'change',
  metrics: [], range: 1, model: 0, metric: 0, // model, metric: the strip that columns are sorted by
  zoom: d3.zoomIdentity, at: null,            // at: { strip, column } of the card
};
let columns = [], edge = new Float64Array(1), strips = [], view = { width: 0, height: 0 };

// ---- text from data: nothing in it is markup, moves the cursor or turns the direction of what follows ----

const names = { '\u061c': 1, '\u200b': 1, '\u200e': 1, '\u200f': 1, '\u2060': 1, '\ufeff': 1 };
function clean(text, most) {
  const points = Array.from(text), cut = points.length > most;
  const shown = points.slice(0, cut ? most - 1 : most).map(c => {
    const n = c.codePointAt(0);
    if (n < 32 || n === 127)
      return n === 127 ? '\u2421' : String.fromCharCode(0x2400 + n);
    if ((n >= 0x80 && n < 0xa0) || (n >= 0x2028 && n <= 0x202e) || (n >= 0x2066 && n <= 0x2069) || names[c])
      return '\u2039U+' + n.toString(16).toUpperCase().padStart(4, '0') + '\u203a';
    return c;
  }).join('');
  return shown + (cut ? '\u2026' : '');
}
const isolate = text => '\u2068' + text + '\u2069';
const windowText = ms => Math.abs(ms) > 864e13 ? ms + ' ms' : // beyond the times that Date has
  new Date(ms).toISOString().replace(/(:00)?\.000Z$/, 'Z').replace('T', ' ');
function sliceText(i) {
  const all = data.by_of[i] < 0, w = data.window[i];
  return (all ? 'total' : data.slice[i] === '' ? '(empty)' : data.slice[i]) + (w === null ? '' : all ? ' ' + windowText(w) : ' \u00b7 ' + windowText(w));
}
// What the filter looks at: "site=news 2020-01-01 00:00Z".
function fullText(i) {
  const w = data.window[i];
  return (data.by_of[i] < 0 ? 'total' : data.by[data.by_of[i]] + '=' + data.slice[i]) + (w === null ? '' : ' ' + windowText(w));
}

// ---- numbers ----

const get = (m, series, i) => {
  const s = data.models[m][series], v = s && s[i];
  return v === undefined || v === null ? NaN : v;
};
const first = (series, i) => { // of the first model that has the slice
  for (let m = 0; m < data.models.length; m++) {
    const v = get(m, series, i);
    if (!isNaN(v))
      return v;
  }
  return 0;
};
const impressions = d3.range(SLICES).map(i => first('rows', i));
const total = d3.range(SLICES).find(i => data.by_of[i] < 0 && data.window[i] === null);
const hasControl = data.models.some(m => data.metrics.some(k => m[k.name + '_control']));
const baselines = data.models.map((m, i) => ({ text: m.name, model: i, of: (_, metric, k) => get(i, metric, k) }));
if (hasControl)
  baselines.unshift({ text: 'control of ctr-eval', of: (m, metric, k) => get(m, metric + '_control', k), control: true });
if (total !== undefined)
  baselines.push({ text: "the model's own total", of: (m, metric) => get(m, metric, total) });

// Change in per cent, and how good it is: > 0 is better, by the metric's goal.
function compare(m, metric, i) {
  const v = get(m, metric.name, i), b = baselines[state.baseline].of(m, metric.name, i);
  const change = b === 0 ? NaN : 100 * (v - b) / Math.abs(b);
  const good = metric.goal === 'low' ? -change : metric.goal === 'one' ? 100 * (Math.abs(b - 1) - Math.abs(v - 1)) : change;
  return { v, b, change, good, ...changeInterval(m, metric.name, i) };
}
// That of ctr-eval --control --bootstrap, whose baseline is the control. Unsure: it holds 0.
function changeInterval(m, name, i) {
  const control = baselines[state.baseline].control, low = control ? get(m, name + '_change_low', i) : NaN;
  const high = control ? get(m, name + '_change_high', i) : NaN;
  return { low, high, unsure: low <= 0 && high >= 0 };
}

// ---- what is shown: columns and strips ----

const breakdowns = [];
d3.range(-1, data.by.length).forEach(by => [false, true].forEach(windowed => {
  const slices = d3.range(SLICES).filter(i => data.by_of[i] === by && (data.window[i] !== null) === windowed);
  if (slices.length)
    breakdowns.push({ by, windowed, slices, text: (by < 0 ? 'total' : clean(data.by[by], 40)) + (windowed ? ' by window' : '') });
}));
breakdowns.push({ by: null, slices: d3.range(SLICES), text: 'every breakdown' });

const weight = i => state.width === 'equal' ? 1 : Math.max(0, first(state.width, i));
const sorts = {
  table: { text: 'order of the table', key: null },
  name: { text: 'name', key: i => fullText(i), order: new Intl.Collator('en', { numeric: true }).compare },
  rows: { text: 'impressions', key: i => -impressions[i] },
  positives: { text: 'clicks', key: i => -first('positives', i) },
  rate: { text: 'click rate', key: i => -(first('positives', i) / (first('weight', i) || NaN)) },
  change: { text: 'change of the marked metric', key: i => compare(state.model, data.metrics[state.metric], i).good },
  metric: { text: 'value of the marked metric', key: i => get(state.model, data.metrics[state.metric].name, i) },
};

// Columns by breakdown, filter and order; the undefined come last, whatever the direction.
function layColumns() {
  const slices = breakdowns[state.breakdown].slices, re = state.filter, { key, order = d3.ascending } = sorts[state.sort];
  const list = slices.filter(i => !re || re.test(fullText(i))).map((i, n) => ({ i, n, key: key ? key(i) : n }));
  const undefinedKey = c => typeof c.key === 'number' && isNaN(c.key);
  list.sort((a, b) => undefinedKey(a) - undefinedKey(b) ||
    (state.descending ? -1 : 1) * (order(a.key, b.key) || 0) || a.n - b.n);
  columns = list.map(c => c.i);
  columns.most = d3.max(columns, i => impressions[i]) || 1;
  edge = new Float64Array(columns.length + 1);
  const narrow = restScale();
  columns.forEach((i, n) => { edge[n + 1] = edge[n] + weight(i) * (isRest(i) ? narrow : 1); });
  const all = edge[columns.length];
  if (!(all > 0)) // no impressions at all: equal
    edge = edge.map((_, n) => n / Math.max(1, columns.length));
  else
    edge = edge.map(e => e / all);
}
// The slices that ctr-eval --slices put together take at most a tenth of the width, however many impressions they have.
const isRest = i => data.by_of[i] >= 0 && data.slice[i] === '(rest)';
function restScale() {
  const rest = d3.sum(columns, i => isRest(i) ? weight(i) : 0), others = d3.sum(columns, i => isRest(i) ? 0 : weight(i));
  columns.narrowed = state.width !== 'equal' && others > 0 && rest > REST_SHARE * (rest + others);
  return columns.narrowed ? REST_SHARE / (1 - REST_SHARE) * others / rest : 1;
}
function layStrips() {
  strips = [];
  data.models.forEach((_, m) => state.metrics.forEach((k, n) => {
    const y = top(m) + n * STRIP, good = new Float64Array(SLICES), text = new Float64Array(SLICES);
    const unsure = new Uint8Array(SLICES), faded = new Uint8Array(SLICES);
    const plain = state.numbers === 'value' || baselines[state.baseline].model === m; // the baseline's own changes are 0
    for (let i = 0; i < SLICES; i++) {
      const c = compare(m, data.metrics[k], i);
      good[i] = c.good;
      unsure[i] = c.unsure;
      faded[i] = c.unsure || get(m, 'positives', i) < FEW_CLICKS;
      text[i] = plain ? c.v : c.change;
    }
    strips.push({ m, k, y, good, text, plain, unsure, faded });
  }));
  view.height = strips.length ? top(data.models.length) : HEAD + 96;
}

// The range that 95% of the impressions in view fit in.
function autoRange() {
  const seen = [];
  strips.forEach(s => columns.forEach(i => {
    if (isFinite(s.good[i]))
      seen.push([Math.abs(s.good[i]), Math.max(1, impressions[i])]);
  }));
  seen.sort((a, b) => a[0] - b[0]);
  let left = .95 * d3.sum(seen, s => s[1]), range = 1;
  for (const s of seen) {
    range = s[0];
    if ((left -= s[1]) <= 0)
      break;
  }
  return Math.min(100, Math.max(.001, range || 1));
}

// ---- colours: orange is worse, blue is better, for every kind of colour vision; the middle is the page's own ----

const ramps = {
  light: ['#7f3b08', '#b35806', '#e08214', '#fdb863', '#fee0b6', '#f7f7f7', '#d1e5f0', '#92c5de', '#4393c3', '#2166ac', '#053061'],
  dark: ['#ffdca3', '#fdb04c', '#d9831f', '#9a5a12', '#543510', '#24282d', '#173a56', '#1f5f96', '#3c8fd1', '#7fc1f3', '#cfeaff'],
};
let lut = [], pale = [], ink = []; // pale: of what is not sure
function layColours() {
  const ramp = d3.piecewise(d3.interpolateLab, ramps[document.documentElement.dataset.theme]);
  lut = d3.range(LUT).map(n => d3.rgb(ramp(n / (LUT - 1))).hex());
  pale = lut.map(c => d3.rgb(d3.interpolateRgb(c, style('--page'))(.7)).hex());
  ink = lut.map(c => d3.lab(c).l > 58 ? '#111418' : '#ffffff');
}
const shade = good => Math.round((Math.max(-1, Math.min(1, good / state.range)) + 1) / 2 * (LUT - 1));
const colour = good => isNaN(good) ? style('--none') : lut[shade(good)];
const style = name => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

// ---- drawing ----

let cells = $('cells').getContext('2d', { alpha: false }); // or that of a picture
const over = $('over').getContext('2d');
const FONT = 'system-ui, "Segoe UI", "DejaVu Sans", sans-serif';
const px = n => edge[n] * view.width * state.zoom.k + state.zoom.x;
const columnAt = x => Math.min(columns.length - 1, d3.bisectRight(edge, (x - state.zoom.x) / state.zoom.k / view.width) - 1);

// The longest beginning of a text that fits.
function fit(ctx, text, room) {
  const whole = clean(text, 120);
  if (ctx.measureText(whole).width <= room)
    return isolate(whole);
  const points = Array.from(whole);
  let low = 0, high = points.length;
  while (low < high) {
    const mid = (low + high + 1) >> 1;
    if (ctx.measureText(points.slice(0, mid).join('') + '\u2026').width <= room)
      low = mid;
    else
      high = mid - 1;
  }
  return low ? isolate(points.slice(0, low).join('')) + '\u2026' : '';
}
function drawHead(n, x0, x1, look) {
  const label = breakdowns[state.breakdown].by === null ? fullText(columns[n]) : sliceText(columns[n]), w = x1 - x0;
  if (w >= 13) {
    cells.fillStyle = look.ink;
    if (w >= 76) {
      cells.textAlign = 'center';
      cells.fillText(fit(cells, label, w - 8) || '\u2026', (Math.max(x0, 0) + Math.min(x1, view.width)) / 2, HEAD - 34);
    } else {
      cells.save();
      cells.translate(x0 + w / 2, HEAD - 30);
      cells.rotate(-Math.PI / 2);
      cells.textAlign = 'left';
      cells.fillText(fit(cells, label, HEAD - 36) || '\u2026', 0, 0);
      cells.restore();
    }
  } else { // a name that has no room leaves a sign: a dot each, or one every 4 pixels
    look.nameless++;
    if (x0 + w / 2 >= look.sign + 4) {
      look.sign = x0 + w / 2;
      cells.fillStyle = look.soft;
      cells.fillRect(Math.round(look.sign) - 1, HEAD - 34, 2, 2);
    }
  }
  const tall = Math.max(1, Math.round(22 * Math.sqrt(impressions[columns[n]] / look.most)));
  cells.fillStyle = look.bar;
  cells.fillRect(x0, HEAD - 3 - tall, Math.max(1, w - (w > 4 ? 1 : 0)), tall);
}
function number(strip, i) {
  const v = strip.text[i];
  return isNaN(v) ? '\u2013' : strip.plain ? value(v) : strip.unsure[i] ? '(' + signed(v) + ')' : signed(v);
}
function drawStrip(s, from, to, x, look) {
  let last = null;
  for (let n = from; n < to; n++) {
    if (x[n + 1 - from] <= x[n - from])
      continue;
    const good = s.good[columns[n]], faded = s.faded[columns[n]] && !isNaN(good), w = x[n + 1 - from] - x[n - from];
    const fill = isNaN(good) ? look.none : (faded ? pale : lut)[shade(good)];
    if (fill !== last)
      cells.fillStyle = last = fill;
    cells.fillRect(x[n - from], s.y, w - (w > 4 ? 1 : 0), STRIP - 1);
    if (w < 30)
      continue;
    const text = number(s, columns[n]);
    if (!text || cells.measureText(text).width > w - 6)
      continue;
    cells.fillStyle = last = isNaN(good) ? look.soft : faded ? look.ink : ink[shade(good)];
    cells.fillText(text, (Math.max(0, x[n - from]) + Math.min(view.width, x[n + 1 - from])) / 2, s.y + STRIP / 2);
  }
}
function draw() {
  const look = { ink: style('--ink'), bar: style('--bar'), soft: style('--soft'), none: style('--none'), most: columns.most, nameless: 0, sign: -9 };
  const from = Math.max(0, columnAt(0)), to = Math.min(columns.length, columnAt(view.width) + 1);
  const x = new Int32Array(Math.max(0, to - from) + 1);
  cells.fillStyle = style('--page');
  cells.fillRect(0, 0, view.width, view.height);
  cells.textBaseline = 'middle';
  cells.font = '12px ' + FONT;
  for (let n = from; n <= to; n++)
    x[n - from] = Math.round(Math.max(-10, Math.min(view.width + 10, px(n))));
  for (let n = from; n < to; n++)
    if (x[n + 1 - from] > x[n - from])
      drawHead(n, x[n - from], x[n + 1 - from], look);
  cells.font = '11px ' + FONT;
  cells.textAlign = 'center';
  strips.forEach(s => drawStrip(s, from, to, x, look));
  if (cells.canvas !== $('cells'))
    return;
  $('note').hidden = !strips.some(s => !s.plain && columns.some(i => s.unsure[i]));
  $('faded').hidden = !strips.some(s => columns.some(i => s.faded[i] && !isNaN(s.good[i])));
  $('undefined').hidden = !strips.some(s => columns.some(i => isNaN(s.good[i])));
  $('empty').textContent = whyEmpty();
  $('empty').hidden = !$('empty').textContent;
  let thin = 0;
  for (let n = from; n < to; n++)
    thin += x[n + 1 - from] <= x[n - from];
  $('status').textContent = count(columns.length) + ' of ' + count(breakdowns[state.breakdown].slices.length) + ' columns' +
    (look.nameless ? '; ' + count(look.nameless) + (look.nameless === 1 ? ' has' : ' have') + ' no room for a name' : '') +
    (thin ? '; ' + count(thin) + ' are narrower than a pixel: zoom in' : '') +
    (columns.narrowed ? '; (rest) is drawn narrower' : '');
  saveView();
  drawOver();
}
// A grid without a cell says why.
function whyEmpty() {
  if (!SLICES)
    return 'The tables have no rows.';
  if (!state.metrics.length)
    return 'No metric is chosen: tick one under Metrics.';
  if (!columns.length)
    return 'No slice of this breakdown matches the filter.';
  if (strips.every(s => columns.every(i => isNaN(s.text[i]) && isNaN(s.good[i]))))
    return 'No cell has a value: the metrics are undefined here, as where all labels are alike, or the baseline lacks these slices.';
  return '';
}
function drawOver() {
  over.clearRect(0, 0, view.width, view.height);
  if (!state.at)
    return;
  const s = strips[state.at.strip], x0 = px(state.at.column), w = Math.max(2, px(state.at.column + 1) - x0);
  over.strokeStyle = style('--ink');
  over.globalAlpha = .35;
  over.strokeRect(x0 - .5, HEAD - .5, w, view.height - HEAD - gap());
  over.globalAlpha = 1;
  over.lineWidth = 2;
  over.strokeRect(x0 - 1, s.y - 1, w + 1, STRIP + 1);
  over.lineWidth = 1;
}
let asked = 0;
function redraw() {
  asked = asked || requestAnimationFrame(() => { asked = 0; draw(); });
}

// ---- the card ----

function cardRows(m, i) {
  return data.metrics.filter(k => data.models[m][k.name]).map(k => {
    const c = compare(m, k, i), low = get(m, k.name + '_low', i), high = get(m, k.name + '_high', i);
    const on = state.metrics.indexOf(data.metrics.indexOf(k)) >= 0;
    return { name: k.name, on, good: c.good, cells: [k.name, isNaN(c.v) ? '\u2013' : value(c.v), between(low, high, d3.format('.4~g')),
      isNaN(c.b) ? '\u2013' : value(c.b), isNaN(c.change) ? '\u2013' : signed(c.change) + '%', between(c.low, c.high, signed)] };
  });
}
const between = (low, high, format) => isNaN(low) || isNaN(high) ? '' : '[' + format(low) + ', ' + format(high) + ']';
const cardHeads = ['', 'value', 'interval', 'baseline', 'change', 'interval in %'];
function showCard(anchor) {
  const s = strips[state.at.strip], i = columns[state.at.column], m = s.m, card = d3.select('#card');
  const rows = get(m, 'rows', i), all = total === undefined ? NaN : get(m, 'rows', total), clicks = get(m, 'positives', i);
  const weights = get(m, 'weight', i), by = data.by_of[i];
  card.selectAll('*').remove();
  card.append('h2').text(clean(sliceText(i), 300));
  card.append('p').append('bdi').text((by < 0 ? '' : clean(data.by[by], 80) + ' \u00b7 ') + clean(data.models[m].name, 120));
  card.append('p').text(isNaN(rows) ? 'not in the table of this model' :
    count(rows) + ' impressions' + (all > 0 ? ' (' + percent(100 * rows / all) + '%)' : '') + ', ' + count(clicks) + ' clicks, ' +
    (weights > 0 ? percent(100 * clicks / weights) + '%' : 'no weight') + (weights !== rows ? ', weight ' + count(weights) : ''));
  const table = card.append('table');
  const metrics = cardRows(m, i), used = cardHeads.map((_, n) => n).filter(n => n % 3 !== 2 || metrics.some(r => r.cells[n]));
  table.append('tr').selectAll('th').data(used.map(n => cardHeads[n])).join('th').text(t => t);
  const tr = table.selectAll('tr.metric').data(metrics).join('tr').attr('class', r => r.on ? 'metric on' : 'metric');
  tr.selectAll('td').data(r => used.map(n => r.cells[n])).join('td').text(t => t).attr('class', (_, n) => used[n] % 3 === 2 ? 'interval' : null);
  tr.append('td').append('span').attr('class', 'chip').style('background-color', r => colour(r.good));
  const box = $('card');
  box.hidden = false;
  const w = box.offsetWidth, h = box.offsetHeight;
  box.style.left = Math.max(4, anchor.x + 24 + w > innerWidth ? anchor.x - w - 16 : anchor.x + 16) + 'px';
  box.style.top = Math.max(4, Math.min(anchor.y + 16, innerHeight - h - 4)) + 'px';
}
function hideCard() {
  state.at = null;
  $('card').hidden = true;
  drawOver();
}
function moveTo(strip, column, anchor) {
  if (!columns.length || !strips.length)
    return hideCard();
  state.at = { strip: Math.max(0, Math.min(strips.length - 1, strip)), column: Math.max(0, Math.min(columns.length - 1, column)) };
  if (!anchor) { // by keyboard: bring it into view
    const k = state.zoom.k, x0 = px(state.at.column), x1 = px(state.at.column + 1), box = $('over').getBoundingClientRect();
    if (x0 < 0 || x1 > view.width)
      zoomTo(k, view.width / 2 - (edge[state.at.column] + edge[state.at.column + 1]) / 2 * view.width * k);
    anchor = { x: box.left + Math.max(0, Math.min(view.width, px(state.at.column + 1))), y: box.top + strips[state.at.strip].y };
  }
  drawOver();
  showCard(anchor);
}
$('over').addEventListener('pointermove', e => {
  const box = $('over').getBoundingClientRect(), x = e.clientX - box.left, y = e.clientY - box.top;
  const strip = strips.findIndex(s => y >= s.y && y < s.y + STRIP), column = columnAt(x);
  if (strip < 0 || column < 0 || px(columns.length) < x)
    return hideCard();
  moveTo(strip, column, { x: e.clientX, y: e.clientY });
});
$('over').addEventListener('pointerleave', hideCard);
$('over').addEventListener('blur', hideCard);
$('over').addEventListener('focus', () => {
  if ($('over').matches(':focus-visible'))
    moveTo(0, Math.max(0, columnAt(0)));
});
const keys = {
  ArrowLeft: a => moveTo(a.strip, a.column - 1), ArrowRight: a => moveTo(a.strip, a.column + 1),
  ArrowUp: a => moveTo(a.strip - 1, a.column), ArrowDown: a => moveTo(a.strip + 1, a.column),
  Home: a => moveTo(a.strip, 0), End: a => moveTo(a.strip, columns.length - 1),
  PageUp: a => moveTo(a.strip - state.metrics.length, a.column), PageDown: a => moveTo(a.strip + state.metrics.length, a.column),
  Escape: hideCard, '+': () => zoomBy(1.5), '=': () => zoomBy(1.5), '-': () => zoomBy(1 / 1.5), 0: () => zoomTo(1, 0),
};
$('over').addEventListener('keydown', e => {
  if (!keys[e.key] || e.ctrlKey || e.metaKey || e.altKey)
    return;
  e.preventDefault();
  keys[e.key](state.at || { strip: 0, column: Math.max(0, columnAt(0)) });
});

// ---- zoom ----

const zoom = d3.zoom().scaleExtent([1, 20000]).filter(function (event) {
  const e = d3.event || event;
  return !e.button && (e.type !== 'wheel' || e.ctrlKey || e.shiftKey);
}).on('zoom', function (event) {
  state.zoom = (d3.event || event).transform;
  redraw();
});
const zoomed = d3.select('#over');
function zoomTo(k, x) {
  zoomed.call(zoom.transform, d3.zoomIdentity.translate(Math.min(0, Math.max(view.width * (1 - k), x)), 0).scale(k));
}
function zoomBy(by) {
  const k = Math.max(1, Math.min(20000, state.zoom.k * by)), mid = state.at ? (px(state.at.column) + px(state.at.column + 1)) / 2 : view.width / 2;
  zoomTo(k, mid - (mid - state.zoom.x) / state.zoom.k * k);
  if (state.at)
    moveTo(state.at.strip, state.at.column);
}

// ---- out of the page: csv, svg, png ----

// What is drawn on it becomes elements of svg. It has the part of a canvas' context that draw() uses.
class SvgContext {
  constructor(width, height) {
    Object.assign(this, { width, height, out: [], turned: [], fillStyle: '#000', font: '', textAlign: 'left', textBaseline: 'alphabetic' });
  }
  escape(text) {
    return text.replace(/[\u2066-\u2069]/g, '').replace(/[&<>"]/g, c => '&#' + c.charCodeAt(0) + ';');
  }
  measureText(text) {
    const c = over;
    c.font = this.font;
    return c.measureText(text);
  }
  fillRect(x, y, w, h) {
    this.out.push(`<rect x="${+x.toFixed(2)}" y="${+y.toFixed(2)}" width="${+w.toFixed(2)}" height="${+h.toFixed(2)}" fill="${this.fillStyle}"/>`);
  }
  fillText(text, x, y) {
    const place = this.turned.length ? `transform="${this.turned.join(' ')}"` : `x="${+x.toFixed(2)}" y="${+(y + 4).toFixed(2)}"`;
    const anchor = { center: 'middle', right: 'end', left: 'start' }[this.textAlign];
    this.out.push(`<text ${place}${this.turned.length ? ' dy="4"' : ''} text-anchor="${anchor}" font-size="${parseFloat(this.font)}" fill="${this.fillStyle}">${this.escape(text)}</text>`);
  }
  save() {}
  translate(x, y) { this.turned.push(`translate(${+x.toFixed(2)} ${+y.toFixed(2)})`); }
  rotate(a) { this.turned.push(`rotate(${Math.round(a * 180 / Math.PI)})`); }
  restore() { this.turned = []; }
  text() {
    return `<svg xmlns="http://www.w3.org/2000/svg" width="${this.width}" height="${this.height}" viewBox="0 0 ${this.width} ${this.height}" ` +
      `font-family="system-ui, sans-serif">\n<title>${this.escape(clean(data.title, 200))}</title>\n${this.out.join('\n')}\n</svg>\n`;
  }
}
// The columns in view with the names of models and metrics at the left, as wide as the window, on a context of canvas or svg.
const LEFT = 190;
function picture(context) {
  const screen = cells, move = x => x + LEFT;
  cells = new Proxy(context, {
    get: (c, name) => name === 'fillRect' ? (x, y, w, h) => c.fillRect(move(Math.max(0, x)), y, Math.max(0, Math.min(x + w, view.width) - Math.max(0, x)), h)
      : name === 'fillText' ? (text, x, y) => c.fillText(text, turned ? x : move(x), y)
      : name === 'translate' ? (x, y) => { turned = true; c.translate(move(x), y); }
      : name === 'restore' ? () => { turned = false; c.restore(); }
      : typeof c[name] === 'function' ? c[name].bind(c) : c[name],
    set: (c, name, v) => { c[name] = v; return true; },
  });
  let turned = false;
  try {
    draw();
  } finally {
    cells = screen;
  }
  context.fillStyle = style('--page');
  context.fillRect(0, 0, LEFT, view.height);
  context.fillStyle = style('--ink');
  context.textBaseline = 'middle';
  data.models.forEach((model, m) => {
    context.font = '600 12px ' + FONT;
    context.textAlign = 'left';
    context.fillText(fit(context, model.name, LEFT - 100), 6, top(m) + state.metrics.length * STRIP / 2);
    context.font = '11px ' + FONT;
    context.textAlign = 'right';
    state.metrics.forEach((k, n) => context.fillText(data.metrics[k].name, LEFT - 6, top(m) + n * STRIP + STRIP / 2));
  });
}
function svgText() {
  const svg = new SvgContext(view.width + LEFT, view.height);
  picture(svg);
  return svg.text();
}
function pngCanvas() {
  const scale = 2, canvas = document.createElement('canvas');
  canvas.width = (view.width + LEFT) * scale;
  canvas.height = view.height * scale;
  const context = canvas.getContext('2d');
  context.scale(scale, scale);
  picture(context);
  return canvas;
}
// A line a column, model and metric that is shown.
function csvText() {
  const quoted = t => /[",\r\n]/.test(t) ? '"' + t.replace(/"/g, '""') + '"' : t, plain = v => isNaN(v) ? '' : String(v);
  const lines = ['by,slice,window,model,rows,positives,weight,metric,value,low,high,baseline,change_percent,change_low,change_high'];
  columns.forEach(i => strips.forEach(s => {
    const k = data.metrics[s.k], c = compare(s.m, k, i), w = data.window[i];
    lines.push([data.by_of[i] < 0 ? '' : data.by[data.by_of[i]], data.by_of[i] < 0 ? '' : data.slice[i], w === null ? '' : new Date(w).toISOString(), data.models[s.m].name]
      .map(quoted).concat([get(s.m, 'rows', i), get(s.m, 'positives', i), get(s.m, 'weight', i)].map(plain), quoted(k.name),
        [c.v, get(s.m, k.name + '_low', i), get(s.m, k.name + '_high', i), c.b, c.change, c.low, c.high].map(plain)).join(','));
  }));
  return lines.join('\n') + '\n';
}
function download(blob, ending) {
  const a = document.createElement('a');
  a.href = URL.createObjectURL(blob);
  a.download = clean(data.title, 60).replace(/[^A-Za-z0-9_-]+/g, '-') + '.' + ending;
  a.click();
  setTimeout(() => URL.revokeObjectURL(a.href), 10000);
}

// ---- the view in the address: what is chosen, by name, so that a link shows the same ----

const defaults = {};
const parts = { // write it, and read it: false if this page lacks it
  breakdown: [() => breakdowns[state.breakdown].text, t => pick(breakdowns.findIndex(b => b.text === t), n => { state.breakdown = n; })],
  filter: [() => $('filter').value, t => { $('filter').value = t; setFilter(t); }],
  baseline: [() => baselines[state.baseline].text, t => pick(baselines.findIndex(b => b.text === t), n => { state.baseline = n; })],
  width: [() => state.width, t => pick(['rows', 'positives', 'equal'].indexOf(t), () => { state.width = t; })],
  sort: [() => state.sort, t => pick(Object.keys(sorts).indexOf(t), () => { state.sort = t; })],
  direction: [() => state.descending ? 'down' : 'up', t => { state.descending = t === 'down'; }],
  marked: [() => data.models[state.model].name + ' ' + data.metrics[state.metric].name, t => data.models.forEach((model, m) =>
    data.metrics.forEach((k, n) => { if (t === model.name + ' ' + k.name) Object.assign(state, { model: m, metric: n }); }))],
  numbers: [() => state.numbers, t => pick(['change', 'value'].indexOf(t), () => { state.numbers = t; })],
  metrics: [() => state.metrics.map(k => data.metrics[k].name).join(' '), t => {
    state.metrics = t.split(' ').map(n => data.metrics.findIndex(k => k.name === n)).filter(k => k >= 0);
  }],
  range: [() => state.range.toPrecision(4), t => { if (+t > 0 && isFinite(+t)) state.range = Math.min(100, Math.max(.001, +t)); }],
  zoom: [() => state.zoom.k.toPrecision(5) + ' ' + (state.zoom.x / view.width).toPrecision(5), t => {
    const [k, x] = t.split(' ').map(Number);
    if (k >= 1 && k <= 20000 && isFinite(x))
      zoomTo(k, x * view.width);
  }],
};
function pick(n, set) {
  if (n >= 0)
    set(n);
}
let ready = false, saving = 0;
function viewText() {
  return Object.keys(parts).filter(p => parts[p][0]() !== defaults[p]).map(p => p + '=' + encodeURIComponent(parts[p][0]())).join('&');
}
// Browsers limit how often an address changes.
function saveView() {
  if (!ready)
    return;
  clearTimeout(saving);
  saving = setTimeout(() => {
    const text = viewText();
    try {
      if (text !== location.hash.slice(1))
        history.replaceState(null, '', '#' + text);
    } catch (e) { // a page within another one may not
      ready = false;
    }
  }, 250);
}
function readView() {
  location.hash.slice(1).split('&').forEach(p => {
    const [name, text] = p.split('=');
    if (!Object.prototype.hasOwnProperty.call(parts, name) || text === undefined)
      return;
    try {
      parts[name][1](decodeURIComponent(text));
    } catch (e) { // an address that was cut: the rest of it counts
    }
  });
  showState();
}
// The controls show the state.
function showState() {
  ['breakdown', 'baseline', 'width', 'sort', 'numbers'].forEach(id => { $(id).value = state[id]; });
  d3.selectAll('#metrics input').property('checked', (_, i) => state.metrics.indexOf(i) >= 0);
}

// ---- controls ----

function layRows() {
  const block = state.metrics.length * STRIP;
  const model = d3.select('#rows').classed('none', !strips.length).style('height', view.height + 'px').selectAll('.model').data(data.models).join('div').attr('class', 'model')
    .style('top', (_, m) => top(m) + 'px').style('height', block - 1 + 'px').attr('title', m => clean(m.name, 200));
  model.selectAll('.name').data(m => [m.name]).join('bdi').attr('class', 'name').text(n => clean(n, 60));
  model.selectAll('.strips').data((_, m) => [m]).join('div').attr('class', 'strips').selectAll('button')
    .data(m => state.metrics.map(k => ({ m, k }))).join('button').attr('type', 'button').attr('class', 'strip')
    .attr('title', 'sort columns by the change of this').style('height', STRIP + 'px')
    .attr('aria-pressed', s => s.m === state.model && s.k === state.metric)
    .text(s => data.metrics[s.k].name)
    .each(function (s) {
      this.onclick = () => {
        const again = state.sort === 'change' && state.model === s.m && state.metric === s.k;
        Object.assign(state, { sort: 'change', model: s.m, metric: s.k, descending: again && !state.descending });
        update();
      };
    });
  const widest = d3.max(data.models, m => m.name.length);
  const metric = d3.max(state.metrics, k => data.metrics[k].name.length) || 6;
  $('rows').style.width = (gap() > 5 ? Math.min(110, 14 + 6.2 * metric) : Math.min(320, 120 + 7.5 * Math.min(widest, 27))) + 'px';
}
function resize() {
  const scale = window.devicePixelRatio || 1;
  view.width = Math.max(100, $('plot').clientWidth);
  $('plot').style.height = view.height + 'px';
  ['cells', 'over'].forEach(id => {
    const c = $(id);
    c.width = Math.round(view.width * scale);
    c.height = Math.round(view.height * scale);
    c.style.width = view.width + 'px';
    c.style.height = view.height + 'px';
    c.getContext('2d').setTransform(scale, 0, 0, scale, 0, 0);
  });
  zoom.extent([[0, 0], [view.width, view.height]]).translateExtent([[0, -Infinity], [view.width, Infinity]]);
}
function layLegend() {
  const svg = d3.select('#scale'), x = d3.scaleLinear([-state.range, state.range], [14, 246]);
  const neutral = state.metrics.every(k => data.metrics[k].goal === 'none');
  svg.selectAll('rect').data(lut).join('rect').attr('x', (_, n) => 14 + 232 * n / LUT).attr('y', 2).attr('width', 232 / LUT + .5).attr('height', 12)
    .attr('fill', c => c);
  svg.selectAll('g').data([0]).join('g').attr('transform', 'translate(0,14)').call(d3.axisBottom(x).ticks(5).tickSize(3)
    .tickFormat(t => (!neutral ? '' : t > 0 ? '+' : t < 0 ? '\u2212' : '') + d3.format('~r')(+Math.abs(t).toPrecision(3)) + '%')).select('.domain').remove();
  $('worse').textContent = neutral ? 'lower' : 'worse';
  $('better').textContent = neutral ? 'higher' : 'better';
  $('range').value = Math.log10(state.range);
  $('range_text').textContent = '\u00b1' + percent(state.range) + '%';
}
function update() { // after any change of the state
  const at = state.at;
  layColumns();
  layStrips();
  layRows();
  resize();
  layLegend();
  $('sort').value = state.sort;
  $('direction').textContent = state.descending ? '\u2193' : '\u2191';
  if (at)
    hideCard();
  draw();
}
function options(id, list) {
  d3.select('#' + id).selectAll('option').data(list).join('option').attr('value', o => o.value).text(o => o.text);
}
function on(id, event, change) {
  $(id).addEventListener(event, e => {
    change(e.target.value);
    update();
  });
}
function setFilter(text) {
  try {
    state.filter = text ? new RegExp(text, 'i') : null;
    $('filter').removeAttribute('aria-invalid');
    $('filter').title = '';
  } catch (e) { // half typed: the last one that was right stays
    $('filter').setAttribute('aria-invalid', 'true');
    $('filter').title = e.message;
  }
}
function setTheme(theme) {
  document.documentElement.dataset.theme = theme;
  $('theme').textContent = theme === 'dark' ? 'light theme' : 'dark theme';
  layColours();
}
function start() {
  const dark = matchMedia('(prefers-color-scheme: dark)');
  document.title = $('title').textContent = clean(data.title, 200);
  $('summary').textContent = count(data.models.length) + (data.models.length === 1 ? ' model, ' : ' models, ') + count(SLICES) + ' slices';
  options('breakdown', breakdowns.map((b, i) => ({ value: i, text: b.text + ' (' + count(b.slices.length) + ')' })));
  options('baseline', baselines.map((b, i) => ({ value: i, text: clean(b.text, 60) })));
  options('sort', Object.keys(sorts).map(k => ({ value: k, text: sorts[k].text })));
  state.breakdown = Math.max(0, breakdowns.findIndex(b => b.by >= 0 && b.by !== null));
  state.baseline = hasControl || data.models.length > 1 ? 0 : baselines.length - 1;
  $('breakdown').value = state.breakdown;
  $('baseline').value = state.baseline;
  const usual = ['auc_loss', 'log_loss', 'calibration'].map(n => data.metrics.findIndex(k => k.name === n)).filter(k => k >= 0);
  state.metrics = usual.length ? usual : data.metrics.length ? [0] : [];
  state.metric = state.metrics[0] || 0;
  state.model = data.models.length > 1 && !hasControl ? 1 : 0;
  const label = d3.select('#metrics').selectAll('label').data(data.metrics).join('label').attr('title', k => k.help);
  label.append('input').attr('type', 'checkbox').attr('value', (_, i) => i).property('checked', (_, i) => state.metrics.indexOf(i) >= 0);
  label.append('span').text(k => k.name);
  $('metrics').addEventListener('change', () => {
    state.metrics = Array.from(document.querySelectorAll('#metrics input:checked'), e => +e.value);
    update();
  });
  on('breakdown', 'change', v => { state.breakdown = +v; zoomTo(1, 0); });
  on('filter', 'input', setFilter);
  on('baseline', 'change', v => { state.baseline = +v; });
  on('width', 'change', v => { state.width = v; });
  on('sort', 'change', v => { state.sort = v; state.descending = false; });
  on('numbers', 'change', v => { state.numbers = v; });
  on('direction', 'click', () => { state.descending = !state.descending; });
  on('theme', 'click', () => setTheme(document.documentElement.dataset.theme === 'dark' ? 'light' : 'dark'));
  on('auto', 'click', () => { state.range = autoRange(); });
  $('range').addEventListener('input', e => {
    state.range = Math.pow(10, +e.target.value);
    layLegend();
    redraw();
  });
  $('in').onclick = () => zoomBy(1.5);
  $('out').onclick = () => zoomBy(1 / 1.5);
  $('fit').onclick = () => zoomTo(1, 0);
  $('controls').onsubmit = e => e.preventDefault();
  dark.onchange = () => { setTheme(dark.matches ? 'dark' : 'light'); update(); };
  let paper = null; // the theme of the screen, while there is paper
  window.onresize = () => {
    if (paper !== null)
      return;
    zoomTo(1, 0);
    update();
  };
  // For paper all is laid out anew, as wide as it is, and light; then back.
  window.addEventListener('beforeprint', () => {
    if (paper !== null)
      return;
    paper = document.documentElement.dataset.theme;
    document.documentElement.classList.add('paper');
    setTheme('light');
    zoomTo(1, 0);
    update();
  });
  window.addEventListener('afterprint', () => {
    document.documentElement.classList.remove('paper');
    setTheme(paper);
    paper = null;
    update();
  });
  $('fold').onclick = () => $('fold').setAttribute('aria-expanded', document.documentElement.classList.toggle('open'));
  $('csv').onclick = () => download(new Blob([csvText()], { type: 'text/csv' }), 'csv');
  $('svg').onclick = () => download(new Blob([svgText()], { type: 'image/svg+xml' }), 'svg');
  $('png').onclick = () => pngCanvas().toBlob(b => download(b, 'png'));
  setTheme(dark.matches ? 'dark' : 'light');
  zoomed.call(zoom).on('dblclick.zoom', null);
  update();
  state.range = autoRange();
  update();
  Object.keys(parts).forEach(p => { defaults[p] = parts[p][0](); });
  readView();
  update();
  ready = true;
  window.onhashchange = () => {
    Object.keys(parts).forEach(p => parts[p][1](defaults[p]));
    readView();
    update();
  };
}
start();
// For tests and consoles: what is drawn where.
window.gridviz = { data, state, ramps, columns: () => columns.map(fullText), strips: () => strips, colour,
  svgText, csvText, pngCanvas, viewText,
  cell: (strip, column) => ({ x: (px(column) + px(column + 1)) / 2, y: strips[strip].y + STRIP / 2, width: px(column + 1) - px(column) }) };
})();
