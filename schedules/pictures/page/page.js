// The page of a timeline, or of two on one time axis. Reads the JSON beside it
// (timeline_html.c says what is in it), draws on one canvas per run (panel.js), needs
// nothing else.
'use strict';

const data = JSON.parse(document.getElementById('data').textContent);
const FIELDS = 13;  // numbers per action in the JSON

// --- what is shown --------------------------------------------------------------

const view = { from: 0, to: 1 };  // ns since the beginning
const show = { critical: false, messages: false, memory: true, dark: false };
let whole = 1;          // ns, of the longest run
let hovered = null;     // { run, box } or { run, rank, idle: [from, to], next }
let panels = [];

// One run's actions in columns, lane by lane: what is drawn 60 times a second stays in typed arrays.
function unpack(run) {
  const count = run.spans.reduce((sum, lane) => sum + lane.length / FIELDS, 0);
  const boxes = { start: new Float64Array(count), end: new Float64Array(count), latest: new Float64Array(count),
    kind: new Uint8Array(count), stage: new Uint16Array(count), micro: new Int32Array(count),
    split: new Uint8Array(count), shade: new Uint8Array(count), row: new Uint8Array(count), rows: new Uint8Array(count),
    again: new Float64Array(count), cause: new Int32Array(count), message: new Int32Array(count),
    critical: new Uint8Array(count), rank: new Uint16Array(count), lane: new Uint16Array(count) };
  run.lanes = [...Array(run.ranks).keys(), ...run.exchanges || []];  // the rank of each
  const first = new Uint32Array(run.lanes.length + 1);
  let at = 0;
  run.spans.forEach((lane, number) => {
    let time = 0, latest = 0;
    first[number] = at;
    for (let i = 0; i < lane.length; i += FIELDS, at++) {
      time += lane[i];
      boxes.start[at] = time;
      boxes.end[at] = time + lane[i + 1];
      latest = Math.max(latest, boxes.end[at]);
      boxes.latest[at] = latest;  // of all up to here: grows, so it can be searched
      boxes.lane[at] = number;
      boxes.rank[at] = run.lanes[number];
      ['kind', 'stage', 'micro', 'split', 'shade', 'row', 'rows', 'again', 'cause', 'message', 'critical']
        .forEach((name, k) => { boxes[name][at] = lane[i + 2 + k]; });
    }
  });
  first[run.lanes.length] = at;
  run.boxes = boxes;
  run.first = first;
  run.spans = null;
  run.most = Math.max(1, ...run.peaks);
  // A limit that is far above would leave the curves no height: then it is only said.
  run.top = Math.max(run.most, ...run.limits.filter(limit => limit <= 2.5 * run.most));
  run.holds = run.levels.length > 0 && run.peaks.some(peak => peak > 0);  // a curve of zeros would say nothing
  run.curves = new Set(run.levels.map((_, rank) => rank).filter(rank => run.ranks <= 8 || rank === 0
    || rank === run.ranks - 1 || rank === run.ranks >> 1 || run.peaks[rank] === run.most));
}

// The first i in [from, to) for which values[i] > limit; `to` if there is none.
function firstAbove(values, limit, from, to) {
  while (from < to) {
    const middle = (from + to) >> 1;
    if (values[middle] > limit) to = middle; else from = middle + 1;
  }
  return from;
}

// --- words -------------------------------------------------------------------------

// What 1 is, where the costs of all runs have no units: then there are none to write.
const unit = data.runs.every(run => run.unit === data.runs[0].unit) ? data.runs[0].unit : 0;

function time(ns) {
  if (unit) return (ns / unit).toLocaleString('en', { maximumFractionDigits: 3 });
  const [name, size] = ns >= 1e9 ? ['s', 1e9] : ns >= 1e6 ? ['ms', 1e6] : ns >= 1e3 ? ['us', 1e3] : ['ns', 1];
  const value = ns / size;
  const digits = Math.max(3, Math.floor(Math.log10(value)) + 1);
  return (size === 1 ? value.toFixed(0) : value.toPrecision(digits)) + ' ' + name;
}

function bytes(count) {
  const units = ['B', 'KiB', 'MiB', 'GiB', 'TiB', 'PiB'];
  let unit = 0;
  while (count >= 1024 && unit < 5) { count /= 1024; unit++; }
  return (unit === 0 ? count : count >= 100 ? count.toFixed(0) : count.toPrecision(3)) + ' ' + units[unit];
}

const isExchange = kind => data.kinds[kind].letter.startsWith('SEND');

const percent = share => (100 * share).toFixed(2) + ' %';

function label(run, i, withStage) {
  const b = run.boxes;
  return (withStage ? b.stage[i] : '') + data.kinds[b.kind[i]].letter + (b.micro[i] < 0 ? '' : b.micro[i])
    + (b.split[i] ? '.' + b.split[i] : '');
}

// --- colours -------------------------------------------------------------------------

let theme = {};
function readTheme() {
  document.documentElement.dataset.theme = show.dark ? 'dark' : 'light';
  const style = getComputedStyle(document.documentElement);
  for (const name of ['ground', 'ink', 'soft', 'line', 'lane', 'hatch', 'accent', 'step'])
    theme[name] = style.getPropertyValue('--' + name).trim();
  const onDark = kind => kind.letter === 'STEP' && show.dark;  // black on black would not be seen
  theme.boxes = data.kinds.map(kind => kind.box.map(colour => onDark(kind) ? theme.step : colour));
  theme.inks = data.kinds.map(kind => kind.ink.map(colour => onDark(kind) ? '#101017' : colour));
  theme.colours = new Float32Array(data.kinds.length * 12);  // 4 shades of 3 parts
  theme.boxes.forEach((shades, kind) =>
    shades.forEach((colour, shade) => theme.colours.set(rgb(colour), (kind * 4 + shade) * 3)));
  const tile = document.createElement('canvas');
  tile.width = tile.height = 8;
  const pen = tile.getContext('2d');
  pen.fillStyle = theme.lane;
  pen.fillRect(0, 0, 8, 8);
  pen.strokeStyle = theme.hatch;
  pen.beginPath();
  for (const x of [-8, 0, 8]) { pen.moveTo(x, 8); pen.lineTo(x + 8, 0); }
  pen.stroke();
  theme.idle = pen.createPattern(tile, 'repeat');
}

function rgb(hex) {
  return [1, 3, 5].map(at => parseInt(hex.slice(at, at + 2), 16));
}

// --- hints -----------------------------------------------------------------------------

function escaped(text) {
  return text.replace(/[&<>]/g, letter => ({ '&': '&amp;', '<': '&lt;', '>': '&gt;' })[letter]);
}

function waits(run, i) {
  const b = run.boxes, cause = b.cause[i] - 1;
  if (cause < 0) return b.start[i] > 0 ? 'waits for nothing that was recorded' : 'waits for nothing';
  const name = `<em>${label(run, cause, true)}</em>`;
  if (b.message[i] > 0) {
    const at = (b.message[i] - 1) * 4, took = run.messages[at + 3];
    return `waits for ${name} of rank ${b.rank[cause]}, whose message took ${time(took)}`
      + ` and arrived at ${time(run.messages[at + 2] + took)}`;
  }
  if (b.rank[cause] !== b.rank[i])
    return `waits for ${name} of rank ${b.rank[cause]}, which ended at ${time(b.end[cause])}`;
  return `waits for its rank, which did ${name} until ${time(b.end[cause])}`;
}

// What begins and ends with it is done together with it.
function together(run, i) {
  const b = run.boxes;
  const names = [i - 1, i + 1].filter(k => b.rows[i] > 1 && b.rank[k] === b.rank[i] && b.start[k] === b.start[i]
    && b.end[k] === b.end[i]).map(k => `<em>${label(run, k, true)}</em>`);
  return names.length ? `<div>together with ${names.join(' and ')}</div>` : '';
}

function hintText(found) {
  const run = found.run, b = run.boxes;
  if (found.idle) {
    const [from, to] = found.idle;
    return `<b>idle</b> ${time(to - from)}<div>rank ${found.rank}, from ${time(from)} to ${time(to)}</div>`
      + (found.next < 0 ? '<div>nothing more to do</div>'
        : `<div>then <em>${label(run, found.next, true)}</em>, which ${waits(run, found.next)}</div>`);
  }
  const i = found.box, kind = data.kinds[b.kind[i]];
  return `<b>${label(run, i, true)}</b> ${kind.name}, ${time(b.end[i] - b.start[i])}`
    + `<div>rank ${b.rank[i]}, stage ${b.stage[i]}${b.micro[i] < 0 ? '' : ', micro-batch ' + b.micro[i]}`
    + `${b.split[i] ? ', split ' + b.split[i] : ''}; from ${time(b.start[i])} to ${time(b.end[i])}</div>`
    + together(run, i) + (b.again[i] > 0 ? `<div>of it ${time(b.again[i])} recomputing</div>` : '')
    + `<div>${waits(run, i)}</div>` + (b.critical[i] ? '<div>on the critical path</div>' : '');
}

function hint(found, x, y) {
  const box = document.getElementById('hint');
  hovered = found;
  box.hidden = !found;
  if (found) {
    box.innerHTML = hintText(found);
    box.style.left = Math.max(4, Math.min(x + 14, innerWidth - box.offsetWidth - 10)) + 'px';
    box.style.top = (y + 18 + box.offsetHeight > innerHeight ? y - box.offsetHeight - 10 : y + 18) + 'px';
  }
  redraw();
}

// Beside a box, wherever the pointer is: for keys and links.
function hintAt(panel, box) {
  const b = panel.run.boxes, length = view.to - view.from, middle = (b.start[box] + b.end[box]) / 2;
  if (middle < view.from || middle > view.to) look(middle - length / 2, middle + length / 2);
  const place = panel.canvas.getBoundingClientRect();
  hint({ run: panel.run, rank: b.rank[box], box, time: middle }, place.left + panel.x(middle),
    place.top + panel.y(b.lane[box]) + panel.tall(b.lane[box]));
}

// --- the view --------------------------------------------------------------------------

let waiting = false;
function redraw() {
  if (waiting) return;
  waiting = true;
  requestAnimationFrame(() => { waiting = false; drawNow(); });
}

function drawNow() {
  for (const panel of panels) panel.draw();
}

function look(from, to) {
  const least = Math.min(10, whole), length = Math.min(whole * 1.04, Math.max(least, to - from));
  const middle = (from + to) / 2;
  from = Math.max(-.02 * whole, Math.min(middle - length / 2, 1.02 * whole - length));
  view.from = from;
  view.to = from + length;
  redraw();
}

function zoom(factor, around) {
  look(around - (around - view.from) * factor, around + (view.to - around) * factor);
}

function along(share) {
  const length = view.to - view.from;
  look(view.from + share * length, view.to + share * length);
}

function layout() {
  const above = document.getElementById('runs').getBoundingClientRect().top + window.scrollY;
  const room = Math.max(260, (innerHeight - above - 30) / panels.length - 26);
  for (const panel of panels) panel.resize(room);
  drawNow();
}

// --- what people do ------------------------------------------------------------------------

function toggle(name) {
  show[name] = !show[name];
  if (name === 'dark') {
    readTheme();
    fillLegend();
  }
  press();
  layout();
}

function press() {
  for (const [key, name] of [['c', 'critical'], ['m', 'messages'], ['b', 'memory'], ['t', 'dark']])
    document.querySelector(`button[data-key="${key}"]`).setAttribute('aria-pressed', show[name]);
}

// To the neighbour of what is shown, or to what it waited for.
function step(by) {
  const panel = panels.find(each => hovered && each.run === hovered.run) || panels[0];
  const run = panel.run, b = run.boxes;
  const at = hovered && hovered.box !== undefined ? hovered.box : hovered && hovered.next >= 0 ? hovered.next : 0;
  const to = by === 0 ? b.cause[at] - 1 : at + by;
  if (to >= 0 && to < b.start.length && (by === 0 || b.lane[to] === b.lane[at])) hintAt(panel, to);
}

function toDifference() {
  if (!data.first) return;
  const number = data.first.boxes[0] >= 0 ? 0 : 1, box = data.first.boxes[number];
  if (box < 0) return;
  const start = panels[number].run.boxes.start[box], length = Math.min(view.to - view.from, whole / 4);
  look(start - length / 2, start + length / 2);
  hintAt(panels[number], box);
}

function act(key) {
  const middle = (view.from + view.to) / 2;
  const acts = { '0': () => look(-.01 * whole, 1.01 * whole), 'Home': () => look(-.01 * whole, 1.01 * whole),
    '+': () => zoom(1 / 1.5, middle), '=': () => zoom(1 / 1.5, middle), 'ArrowUp': () => zoom(1 / 1.5, middle),
    '-': () => zoom(1.5, middle), 'ArrowDown': () => zoom(1.5, middle), 'ArrowLeft': () => along(-.15),
    'ArrowRight': () => along(.15), 'c': () => toggle('critical'), 'm': () => toggle('messages'),
    'b': () => toggle('memory'), 't': () => toggle('dark'), 'd': toDifference, 'n': () => step(1), 'p': () => step(-1),
    'w': () => step(0), 'Escape': () => hint(null),
    '?': () => { const keys = document.getElementById('keys'); keys.hidden = !keys.hidden; } };
  if (acts[key]) acts[key]();
  return Boolean(acts[key]);
}

function listen(panel) {
  const canvas = panel.canvas;
  let held = null;
  const place = event => {
    const box = canvas.getBoundingClientRect();
    return [event.clientX - box.left, event.clientY - box.top];
  };
  canvas.addEventListener('wheel', event => {
    const [x] = place(event), lines = event.deltaMode === 1 ? 16 : 1;
    if (x < LEFT || x > LEFT + panel.plot) return;  // beside the lanes the wheel scrolls the page, as elsewhere
    event.preventDefault();
    if (event.shiftKey || Math.abs(event.deltaX) > Math.abs(event.deltaY))
      along((event.deltaX || event.deltaY) * lines / panel.plot);
    else
      zoom(Math.exp(event.deltaY * lines * .0018), Math.max(view.from, Math.min(view.to, panel.ns(x))));
  }, { passive: false });
  canvas.addEventListener('pointerdown', event => {
    held = { x: event.clientX, y: event.clientY, moved: false };
    canvas.setPointerCapture(event.pointerId);
  });
  canvas.addEventListener('pointermove', event => {
    const [x, y] = place(event);
    if (!held) return hint(panel.find(x, y), event.clientX, event.clientY);
    if (!held.moved && Math.hypot(event.clientX - held.x, event.clientY - held.y) < 4) return;
    along((held.x - event.clientX) / panel.plot);
    window.scrollBy(0, event.pointerType === 'touch' ? 0 : held.y - event.clientY);
    held = { x: event.clientX, y: event.clientY, moved: true };
    hint(null);
  });
  canvas.addEventListener('pointerup', event => {
    const [x, y] = place(event), rank = panel.run.lanes[panel.laneAt(y)], curves = panel.run.curves;
    if (held && !held.moved && x < LEFT && rank < panel.run.levels.length) {
      if (!curves.delete(rank)) curves.add(rank);
      redraw();
    }
    held = null;
  });
  canvas.addEventListener('pointerleave', () => { if (!held) hint(null); });
  canvas.addEventListener('dblclick', event => {
    const found = panel.find(...place(event));
    if (!found) return;
    const b = panel.run.boxes;
    const [from, to] = found.idle || [b.start[found.box], b.end[found.box]];
    look(from - 2 * (to - from), to + 2 * (to - from));
  });
}

// --- the page around ---------------------------------------------------------------------

function fillLegend() {
  const used = new Set();
  for (const run of data.runs)
    for (let i = 0; i < run.boxes.kind.length; i++) {
      if (run.boxes.end[i] > run.boxes.start[i]) used.add(run.boxes.kind[i]);
      if (run.boxes.again[i] > 0) used.add(data.kinds.findIndex(kind => kind.letter === 'R'));
    }
  const swatch = kind => `<i class="${isExchange(kind) ? 'thin' : ''}" style="background:${theme.boxes[kind][0]}"></i>`;
  const items = [...used].sort((a, b) => a - b)
    .map(kind => `<span>${swatch(kind)}${data.kinds[kind].letter}: ${data.kinds[kind].name}</span>`);
  items.push('<span><i class="idle"></i>idle</span>');
  if (data.runs.some(run => run.chunks > 1)) items.push('<span>lighter: later stages of a rank</span>');
  document.getElementById('legend').innerHTML = items.join('');
}

// One run: its numbers in a line. Two: side by side, with the difference.
function fillNumbers() {
  const rows = [['iteration', run => run.iteration, time]];
  ['makespan', 'overhead', 'span', 'zb_rate'].forEach((name, at) =>
    rows.push([at ? name : 'bubble: makespan', run => run.bubble[at], percent]));
  rows.push(['computing on the critical path', run => run.path[0] + run.path[1], time]);
  rows.push(['messages on it', run => run.path[2] + run.path[3], time]);
  rows.push(['waiting on it', run => run.path[4], time]);
  if (data.runs.every(run => run.holds))
    rows.push(['highest live peak', run => Math.max(...run.peaks), bytes]);
  const ranks = data.runs.length === 2 && data.runs[0].ranks === data.runs[1].ranks ? data.runs[0].ranks : 0;
  const differ = [...Array(ranks).keys()].filter(rank => data.runs[0].busy[rank] !== data.runs[1].busy[rank]);
  for (const rank of differ.slice(0, 8)) rows.push([`rank ${rank} busy`, run => run.busy[rank], time]);
  if (ranks && !differ.length) rows.push(['busy, all ranks', run => run.busy.reduce((sum, busy) => sum + busy), time]);
  const useful = rows.filter(([, value]) => data.runs.some(run => value(run) > 0));
  document.getElementById('numbers').className = data.runs.length === 1 ? 'across' : 'down';
  document.getElementById('numbers').innerHTML = data.runs.length === 1 ? across(useful) : down(useful);
  document.getElementById('difference').innerHTML =
    (data.work ? `<strong>Careful: ${escaped(data.work)}.</strong><br>` : '')
    + (data.difference ? '<b>First difference</b> ' + escaped(data.difference) : '');
  document.getElementById('to-difference').hidden = !data.first;
  document.querySelector('[data-key="m"]').hidden = !data.runs.some(run =>
    run.messages.some((from, at) => at % 4 === 0 && from !== run.messages[at + 1]));
  document.querySelector('[data-key="b"]').hidden = !data.runs.some(run => run.holds);
}

function across(rows) {
  return `<tr>${rows.map(row => `<th>${row[0]}</th>`).join('')}</tr>`
    + `<tr>${rows.map(([, value, write]) => `<td>${write(value(data.runs[0]))}</td>`).join('')}</tr>`;
}

function down(rows) {
  const lines = rows.map(([name, value, write]) => {
    const values = data.runs.map(value), base = values[data.base], other = values[1 - data.base];
    const sign = other < base ? '\u2212' : '+', apart = Math.abs(other - base);
    const change = sign + (write === percent ? `${(100 * apart).toFixed(2)} points`
      : write(apart) + (base > 0 ? ` (${sign}${(100 * apart / base).toFixed(1)} %)` : ''));
    return `<tr><td>${name}</td>${values.map(each => `<td>${write(each)}</td>`).join('')}`
      + `<td>${apart === 0 ? '=' : change}</td></tr>`;
  });
  const less = data.base === 1 ? 'first less second' : 'second less first';
  return `<tr><th></th>${data.runs.map(run => `<th>${escaped(run.name)}</th>`).join('')}<th>${less}</th></tr>`
    + lines.join('');
}

// A link can say how the page begins: #dark&critical&messages&view=FROM,TO&hover=RUN,RANK,NS
function readLink() {
  const link = new URLSearchParams(location.hash.slice(1));
  show.dark = link.has('dark') || (!link.has('light') && matchMedia('(prefers-color-scheme: dark)').matches);
  show.critical = link.has('critical');
  show.messages = link.has('messages');
  show.memory = !link.has('nomemory');
  return link;
}

function followLink(link) {
  if (link.has('view')) look(...link.get('view').split(',').map(Number));
  if (link.has('hover')) {
    const [number, rank, ns] = link.get('hover').split(',').map(Number), panel = panels[number];
    const place = panel.canvas.getBoundingClientRect(), x = panel.x(ns), y = panel.y(rank) + panel.tall(rank) / 4;
    hint(panel.find(x, y), place.left + x, place.top + y);
  }
  if (link.has('frames')) measureFrames(Number(link.get('frames')));
}

// How long it takes to draw a frame, zooming in and out and going along: for whoever wonders.
function measureFrames(count) {
  const times = [], warm = 20;  // frames before the browser has compiled what it runs
  for (let i = -warm; i < count; i++) {
    for (const panel of panels) panel.drawn = '';
    const length = whole * Math.pow(.002, .5 - .5 * Math.cos(2 * Math.PI * i / count));
    look(.5 * whole - length / 2, .5 * whole + length / 2);
    const begin = performance.now();
    drawNow();
    for (const panel of panels) panel.pen.getImageData(0, 0, 1, 1);  // waits until it is drawn
    if (i >= 0) times.push(performance.now() - begin);
  }
  look(-.01 * whole, 1.01 * whole);
  times.sort((a, b) => a - b);
  const at = share => times[Math.min(count - 1, Math.floor(share * count))].toFixed(1);
  document.body.dataset.frames = `median ${at(.5)} ms, 95th percentile ${at(.95)} ms, longest ${at(1)} ms`;
}

function begin() {
  const link = readLink();
  for (const run of data.runs) {
    unpack(run);
    run.chain = [];
    for (let i = 0; i < run.boxes.critical.length; i++) if (run.boxes.critical[i]) run.chain.push(i);
    run.last = run.iteration;
    run.levels = run.levels.map(flat => {
      const times = new Float64Array(flat.length / 2), values = new Float64Array(flat.length / 2);
      for (let i = 0, at = 0; i < times.length; i++) {
        times[i] = at += flat[2 * i];
        values[i] = flat[2 * i + 1];
      }
      return { times, values };
    });
  }
  whole = Math.max(1, ...data.runs.map(run => run.iteration));
  readTheme();
  panels = data.runs.map((run, number) => new Panel(run, number));
  view.from = -.01 * whole;
  view.to = 1.01 * whole;
  fillLegend();
  fillNumbers();
  press();
  layout();
  panels.forEach(listen);
  addEventListener('resize', layout);
  addEventListener('keydown', event => {
    if (!event.ctrlKey && !event.metaKey && !event.altKey && act(event.key)) event.preventDefault();
  });
  for (const button of document.querySelectorAll('button'))
    button.addEventListener('click', () => act(button.dataset.key));
  followLink(link);
  document.body.dataset.state = 'ready';
}

begin();
