// The search: all words of the query have to occur in a section; headings count most. The sections are loaded when they are needed.

'use strict';

const root = document.currentScript.dataset.root;
const most = 30; // results that are shown
const around = 120; // characters of a result's text before and after the first word

const form = document.getElementById('search');
const input = document.getElementById('query');
const results = document.getElementById('results');
const article = document.querySelector('article');
let loaded = null; // a promise of the sections

function load() {
  loaded = loaded || new Promise((done, failed) => {
    const script = document.createElement('script');
    script.src = root + 'sections.js';
    script.onload = () => done(sections.map((s) => ({...s, low: s.text.toLowerCase(), lowTitle: s.title.toLowerCase(), lowPage: s.page.toLowerCase()})));
    script.onerror = () => failed(new Error('sections.js cannot be loaded'));
    document.head.append(script);
  });
  return loaded;
}

// score is how well a section matches; 0: some word does not occur.
function score(s, words) {
  let sum = 0;
  for (const w of words) {
    let n = 0;
    if (s.lowTitle.includes(w)) n += s.lowTitle === w ? 20 : 10;
    if (s.lowPage.includes(w)) n += 4;
    const at = s.low.indexOf(w);
    if (at >= 0) n += at < 400 ? 3 : 2;
    if (n === 0) return 0;
    sum += n;
  }
  return s.url.includes('/lab/') || s.url.includes('conformance') ? sum / 4 : sum;
}

function element(name, text) {
  const e = document.createElement(name);
  if (text) e.textContent = text;
  return e;
}

// excerpt is the text around the first word, with all words marked.
function excerpt(s, words) {
  const p = element('p');
  const at = Math.max(0, Math.min(...words.map((w) => s.low.indexOf(w)).filter((i) => i >= 0), s.text.length) - around);
  let text = s.text.slice(at, at + 2 * around);
  if (at > 0) text = '… ' + text;
  if (at + 2 * around < s.text.length) text += ' …';
  const pattern = new RegExp('(' + words.map((w) => w.replace(/[.*+?^${}()|[\]\\]/g, '\\$&')).join('|') + ')', 'gi');
  text.split(pattern).forEach((part, i) => p.append(i % 2 ? element('mark', part) : part));
  return p;
}

async function search() {
  const query = input.value.trim();
  const words = query.toLowerCase().split(/\s+/).filter(Boolean);
  results.hidden = words.length === 0;
  article.hidden = !results.hidden;
  if (results.hidden) return;
  const found = (await load()).map((s) => [score(s, words), s]).filter(([n]) => n > 0).sort((a, b) => b[0] - a[0]);
  if (query !== input.value.trim()) return; // another search has begun
  const list = element('ol');
  for (const [, s] of found.slice(0, most)) {
    const li = element('li');
    const a = element('a', s.title || s.page);
    a.href = root + s.url;
    a.addEventListener('click', () => { results.hidden = true; article.hidden = false; });
    li.append(a, ' ', element('small', s.page), excerpt(s, words));
    list.append(li);
  }
  const count = found.length === 1 ? '1 section' : found.length + ' sections';
  results.replaceChildren(element('h1', count + ' for “' + query + '”'), list);
}

const pages = document.querySelector('nav details');
const here = pages.querySelector('[aria-current]');
if (here) pages.scrollTop = here.offsetTop - pages.clientHeight / 2;
if (window.matchMedia('(max-width: 50rem)').matches) pages.open = false;
form.hidden = false;
input.addEventListener('focus', load);
input.addEventListener('input', search);
form.addEventListener('submit', (e) => { e.preventDefault(); search(); });
document.addEventListener('keydown', (e) => {
  if (e.key === '/' && document.activeElement !== input) { e.preventDefault(); input.focus(); }
  if (e.key === 'Escape' && !results.hidden) { input.value = ''; search(); }
});
const asked = new URLSearchParams(location.search).get('q');
if (asked) { input.value = asked; search(); }
