// The live part of the page of figures: asks for them, computes rates, fills the tables in and draws the charts.

'use strict';

const interval = 2000;  // ms between two questions
const patience = 10000; // ms that one question is given
const shown = 300000;   // ms that a chart goes back
const maxLines = 6;     // of a chart
const width = 320, height = 110, head = 14;

let before = null;  // the figures of the last answer
let samples = [];   // {at, values}, the oldest first; values is null where the server did not answer
let goneSince = null;
let gap = '';       // what there is to say of the last time it did not answer,
let restart = '';   // and of the last time it was started again

const clock = (ms) => new Date(ms).toLocaleTimeString();
const rowName = (row) => row.keys.join(' ');

// quantile is the time that a share of the calls of some classes took at most, as the server computes it.
function quantile(classes, share) {
  const last = classes.length - 1;
  if (last < 1 || !(classes[last].calls > 0)) return null;
  const rank = share * classes[last].calls;
  let from = {seconds: 0, calls: 0};
  for (const to of classes.slice(0, last)) {
    if (to.calls >= rank && to.calls > from.calls) {
      return from.seconds + (to.seconds - from.seconds) * (rank - from.calls) / (to.calls - from.calls);
    }
    from = to;
  }
  return from.seconds;
}

// liveCell is what one figure has done since the last answer; null: nobody knows.
function liveCell(kind, cell, old, seconds) {
  if (!cell) return null;
  if (kind === 'gauge') return cell.value;
  if (!(seconds > 0)) return null;
  if (kind === 'counter') {
    const grown = cell.value - (old ? old.value : 0);
    return grown >= 0 ? grown / seconds : null;
  }
  const was = old && old.classes || [];
  const classes = (cell.classes || []).map((c, i) => ({seconds: c.seconds, calls: c.calls - (was[i] ? was[i].calls : 0)}));
  return quantile(classes, kind === 'p99' ? 0.99 : 0.5);
}

// live computes all of them: by table, by row, a list by column. Another start of the server has counters of its own.
function live(figures) {
  const same = before && before.started_unix_nanoseconds === figures.started_unix_nanoseconds;
  const seconds = same ? figures.up_seconds - before.up_seconds : 0;
  const all = new Map();
  for (const table of figures.tables) {
    const old = new Map();
    const oldTable = same && before.tables.find((t) => t.id === table.id);
    for (const row of oldTable ? oldTable.rows : []) old.set(rowName(row), row);
    const rows = new Map();
    for (const row of table.rows) {
      const was = old.get(rowName(row));
      rows.set(rowName(row), table.columns.map((c, i) => liveCell(c.kind, row.cells[i], was && was.cells[i], seconds)));
    }
    all.set(table.id, rows);
  }
  return all;
}

function digits(v) {
  return v === 0 ? '0' : v >= 100 ? v.toFixed(0) : v >= 1 ? v.toFixed(1) : v.toPrecision(2);
}

// write puts a number and its unit into words.
function write(v, column) {
  if (v === null || v === undefined) return '–';
  const per = column.kind === 'counter' ? '/s' : '';
  if (column.unit === 'bytes') {
    return column.kind === 'counter' ? digits(v / 1048576) + ' MiB/s'
      : v >= 1048576 ? digits(v / 1048576) + ' MiB' : digits(v / 1024) + ' KiB';
  }
  if (column.unit === 'seconds' && column.kind !== 'counter') {
    return v >= 1 ? digits(v) + ' s' : v >= 0.001 ? digits(v * 1e3) + ' ms' : digits(v * 1e6) + ' µs';
  }
  return digits(v) + (column.unit === 'seconds' ? '' : per); // seconds per second are processors
}

function element(name, className, text) {
  const e = document.createElement(name);
  if (className) e.className = className;
  if (text !== undefined) e.textContent = text;
  return e;
}

function svg(name, attributes, text) {
  const e = document.createElementNS('http://www.w3.org/2000/svg', name);
  for (const [key, value] of Object.entries(attributes)) e.setAttribute(key, value);
  if (text !== undefined) e.textContent = text;
  return e;
}

function set(e, text) {
  if (e.textContent !== text) e.textContent = text;
}

// fill brings a table's rows in step with the figures. Rows that are there stay what they are, so that a selection lives.
function fill(section, table, values) {
  const body = section.querySelector('tbody');
  table.rows.forEach((row, n) => {
    let tr = body.rows[n];
    if (!tr || tr.dataset.name !== rowName(row)) {
      tr = body.insertBefore(element('tr'), tr || null);
      tr.dataset.name = rowName(row);
      for (const key of row.keys) tr.append(element('th', '', key));
      tr.querySelectorAll('th').forEach((th) => { th.scope = 'row'; });
      for (const column of table.columns) {
        tr.append(element('td', 'number'));
        if (column.kind !== 'gauge') tr.append(element('td', 'number live'));
      }
    }
    let at = row.keys.length;
    table.columns.forEach((column, i) => {
      set(tr.cells[at++], row.cells[i] ? row.cells[i].text : '–');
      if (column.kind !== 'gauge') set(tr.cells[at++], write(values.get(rowName(row))[i], column));
    });
  });
  while (body.rows.length > table.rows.length) body.rows[table.rows.length].remove();
  section.querySelector('.none').hidden = table.rows.length > 0;
  section.querySelector('.wide').hidden = table.rows.length === 0;
}

// linesOf are the rows of a chart that did most in its time, each with its points; a point without a value ends a stroke.
function linesOf(table, column) {
  const lines = table.rows.map((row) => {
    const name = rowName(row);
    const points = samples.map((s) => {
      const values = s.values && s.values.get(table.id).get(name);
      return {at: s.at, value: values ? values[column] : null};
    });
    return {name: name || 'now', points, sum: points.reduce((sum, p) => sum + (p.value || 0), 0), now: points[points.length - 1].value};
  });
  return lines.filter((l) => l.sum > 0).sort((a, b) => b.sum - a.sum).slice(0, maxLines);
}

function path(points, most, now) {
  let d = '', drawing = false;
  for (const p of points) {
    if (p.value === null) {
      drawing = false;
      continue;
    }
    const x = width * (1 - (now - p.at) / shown), y = height - (height - head) * p.value / most;
    d += (drawing ? 'L' : 'M') + x.toFixed(1) + ' ' + y.toFixed(1) + (drawing ? '' : 'h1');
    drawing = true;
  }
  return d;
}

// draw makes the chart of one column anew.
function draw(table, i) {
  const column = table.columns[i], lines = linesOf(table, i), now = samples[samples.length - 1].at;
  const most = Math.max(...lines.flatMap((l) => l.points.map((p) => p.value || 0)), 1e-9);
  const figure = element('figure');
  figure.dataset.column = i;
  figure.append(element('figcaption', '', column.chart));
  if (!lines.length) {
    figure.append(element('p', 'none', 'Nothing in the last five minutes.'));
    return figure;
  }
  const words = lines.map((l) => l.name + ' ' + write(l.now, column)).join(', ');
  const picture = svg('svg', {viewBox: `0 0 ${width} ${height + 1}`, role: 'img', 'aria-label': `${column.chart}: ${words}`});
  picture.append(svg('path', {class: 'frame', d: `M0 ${head}H${width}M0 ${height}H${width}`}));
  picture.append(svg('text', {x: 0, y: 10}, write(most, column)));
  picture.append(svg('text', {x: width, y: 10, 'text-anchor': 'end'}, 'last 5 minutes'));
  const list = element('ul');
  lines.forEach((l, n) => {
    picture.append(svg('path', {class: 'plot c' + n, d: path(l.points, most, now)}));
    const item = element('li'), key = svg('svg', {class: 'key', viewBox: '0 0 26 8', 'aria-hidden': 'true'});
    key.append(svg('path', {class: 'plot c' + n, d: 'M0 4H26'}));
    item.append(key, `${l.name}: ${write(l.now, column)}`);
    list.append(item);
  });
  figure.append(picture, list);
  return figure;
}

// charts draws those of one table; they are as they were while nothing has been done in it.
function charts(section, table) {
  section.querySelector('.charts').replaceChildren(...table.columns.flatMap((c, i) => c.chart && table.rows.length ? [draw(table, i)] : []));
}

function remember(values) {
  const at = Date.now();
  samples.push({at, values});
  samples = samples.filter((s) => at - s.at <= shown);
}

function say(words, gone) {
  const state = document.getElementById('state');
  state.classList.toggle('gone', gone);
  set(state, words);
}

// show takes figures in; null: the server did not answer.
function show(figures) {
  if (!figures) {
    goneSince = goneSince || Date.now();
    remember(null);
    say(`The server has not answered since ${clock(goneSince)}. These are the last figures; the page goes on when it answers.`, true);
    return;
  }
  if (goneSince) gap = ` The server did not answer from ${clock(goneSince)} to ${clock(Date.now())}.`;
  if (before && before.started_unix_nanoseconds !== figures.started_unix_nanoseconds) restart = ` It was started again before ${clock(Date.now())}.`;
  goneSince = null;
  const values = live(figures);
  remember(values);
  for (const table of figures.tables) {
    const section = document.getElementById(table.id);
    if (!section) continue; // of a newer version of the server than this page
    fill(section, table, values.get(table.id));
    charts(section, table);
  }
  set(document.getElementById('as-of'), clock(Date.now()));
  before = figures;
  say('Live, every two seconds.' + gap + restart, false);
}

async function poll() {
  let figures = null;
  try {
    const answer = await fetch('figures.json', {signal: AbortSignal.timeout(patience)});
    if (answer.ok) figures = await answer.json();
  } catch (e) {
    figures = null; // what is to be said of it, show says
  }
  try {
    show(figures);
  } finally {
    setTimeout(poll, interval);
  }
}

document.documentElement.classList.add('running');
poll();
