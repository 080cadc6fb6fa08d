// SPDX-License-Identifier: MIT
// page_test.js PAGE MEASURE SUM: runs a page's script over the little of a browser's document that it uses, and looks
// at what it draws: frames as wide as their share, zoom, search, and tables for each measure.
'use strict';
const assert = require('node:assert');
const fs = require('node:fs');
const vm = require('node:vm');

class Element {
  constructor(tag) {
    Object.assign(this, {tag, own: '', children: [], style: {}, dataset: {}, attributes: {}, handlers: {}});
    this.names = new Set();
    this.classList = {add: name => this.names.add(name), contains: name => this.names.has(name)};
    this.clientWidth = 1400;
    this.value = '';
  }
  set className(text) { this.names = new Set(text.split(' ')); }
  set textContent(text) { this.own = String(text); this.children = []; }
  get textContent() { return this.own + this.children.map(each => each.textContent ?? each).join(''); }
  get lastChild() { return this.children[this.children.length - 1]; }
  append(...nodes) { for (const node of nodes) { this.children.push(node); if (node.tag) node.above = this; } }
  replaceChildren(...nodes) { this.own = ''; this.children = []; this.append(...nodes); }
  remove() { this.above.children = this.above.children.filter(each => each !== this); }
  setAttribute(name, value) { this.attributes[name] = value; }
  addEventListener(kind, handler) { this.handlers[kind] = handler; }
  getBoundingClientRect() { return {width: 100, height: 50}; }
  querySelector(tag) {
    for (const child of this.children) {
      const found = child.tag && (child.tag === tag ? child : child.querySelector(tag));
      if (found) return found;
    }
    return null;
  }
  closest(tag) { return this.tag === tag ? this : this.above ? this.above.closest(tag) : null; }
  focus() {}
  fire(kind, event = {}) { this.handlers[kind]({target: this, ...event}); }
}

const [page, measure, sum] = [fs.readFileSync(process.argv[2], 'utf8'), process.argv[3], Number(process.argv[4])];
const [, json, script] = page.match(/<script id="data"[^>]*>([^]*?)<\/script>\s*<script>([^]*?)<\/script>/);
const elements = {data: new Element('script')};
for (const [, id] of page.matchAll(/ id="(\w+)"/g)) elements[id] ??= new Element('div');
elements.data.textContent = json;
const document = {
  getElementById: id => elements[id],
  createElement: tag => new Element(tag),
  documentElement: new Element('html'),
  activeElement: null,
};
const matchMedia = () => ({matches: true});
const context = vm.createContext({document, innerWidth: 1400, innerHeight: 900, matchMedia, addEventListener() {}});
vm.runInContext(`${script}\nthis.state = state; this.data = data; this.shown = shown;`, context);
const {graph, rows, found, search, measures, orders, tables, views, reset, head, tip} = elements;
const {state, data} = context;
const frames = () => graph.children.filter(each => each.node);
const near = (a, b) => assert.ok(Math.abs(a - b) <= Math.max(2, 1e-6 * Math.abs(b)), `${a} is not ${b}`);
const names = ['alloc_objects', 'alloc_space', 'inuse_objects', 'inuse_space', 'waste'];

assert.strictEqual(names[state.measure.id], measure);
near(context.shown(state.tree.all), sum);
assert.strictEqual(document.documentElement.dataset.theme, 'dark');

for (const button of [...measures.children.keys()]) {
  measures.children[button].fire('click');
  let total = 0;
  const {id} = state.measure;
  for (const {now, before} of data.stacks) total += data.hasBase ? Math.abs(now[id] - before[id]) : now[id];
  near(state.tree.all.width, total);
  for (const table of [0, 1]) {
    tables.children[table].fire('click');
    assert.strictEqual(rows.children.length > 0, total > 0);
  }
  tables.children[0].fire('click');
  for (const order of [1, 0]) {
    orders.children[order].fire('click');
    near(state.tree.all.width, total);
    // Those on one level lie side by side, within those above.
    const ends = new Map();
    for (const frame of frames()) {
      const left = parseFloat(frame.style.left), width = parseFloat(frame.style.width);
      assert.ok(left >= (ends.get(frame.node.depth) ?? 0) - 1e-6 && left + width <= 100 + 1e-6);
      near(width * state.tree.all.width / 100, frame.node.all.width);
      ends.set(frame.node.depth, left + width);
    }
    // Bottom-up the functions that allocate are first, each with all that it allocated; top-down those that begin.
    for (const node of state.tree.children.values()) {
      let sum = 0;
      for (const stack of data.stacks) {
        const first = stack.functions.at(order === 1 ? -1 : 0);
        if (first === node.fn) sum += data.hasBase ? Math.abs(stack.now[id] - stack.before[id]) : stack.now[id];
      }
      near(node.all.width, sum);
    }
  }
}

measures.children[0].fire('click');
if (frames().length > 2) {
  const deep = frames().find(each => each.node.depth === 2);
  graph.fire('click', {target: deep});
  assert.strictEqual(state.zoom, deep.node);
  assert.strictEqual(reset.hidden, false);
  assert.deepStrictEqual(frames().slice(0, 3).map(each => each.style.width), ['100%', '100%', '100%']);
  assert.ok(frames()[0].classList.contains('above'));
  reset.fire('click');
  assert.strictEqual(state.zoom, state.tree);

  const [name] = data.functions[deep.node.fn];
  search.value = name.toUpperCase();
  search.fire('input');
  assert.match(found.textContent, /^[\d.]+ % found$/);
  for (const mark of ['found', 'dim']) assert.ok(frames().some(each => each.classList.contains(mark)));
  assert.ok(rows.children.every(row => row.textContent.includes(name) || row.textContent.includes('…')));
  search.value = '';
  search.fire('input');
  assert.strictEqual(found.textContent, '');

  orders.children[1].fire('click');
  rows.children[0].fire('click');
  assert.strictEqual(state.zoom.depth, 1);
  assert.ok(rows.children[0].lastChild.textContent.startsWith(data.functions[state.zoom.fn][0]));
  orders.children[0].fire('click');
  assert.strictEqual(state.zoom, state.tree);
  rows.children[0].fire('click');
  assert.ok(rows.children[0].querySelector('ol').children.length >= 1);
  head.children[0].children[2].children[0].fire('click');
  assert.strictEqual(state.sort, 'blocks');
  graph.fire('mousemove', {target: frames()[1], clientX: 5, clientY: 5});
  assert.ok(!tip.hidden && tip.textContent.includes(data.functions[frames()[1].node.fn][0]));
}
assert.strictEqual(views.children.length, data.hasBase ? 2 : 0);
if (data.hasBase) {
  views.children[1].fire('click');
  near(state.tree.all.width, data.now[state.measure.id]);
}
