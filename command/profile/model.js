// SPDX-License-Identifier: MIT
// model.js: the data, what of it is shown now, and numbers for people.
//
// The data is what write_html.cc writes: functions as [name, file, module]; stacks with functions and lines from the
// outermost on, and values by measure: [alloc_objects, alloc_space, inuse_objects, inuse_space, waste,
// peak_objects, peak_space].
const data = JSON.parse(document.getElementById('data').textContent);
const measures = [
  {id: 6, name: 'Bytes at the peak', isSpace: true, blocks: 5},
  {id: 5, name: 'Blocks at the peak', blocks: 5},
  {id: 3, name: 'Live bytes', isSpace: true, blocks: 2},
  {id: 2, name: 'Live blocks', blocks: 2},
  {id: 1, name: 'Allocated bytes', isSpace: true, blocks: 0},
  {id: 0, name: 'Allocated blocks', blocks: 0},
  {id: 4, name: 'Waste', isSpace: true, blocks: 2},
].filter(({id}) => id < 4 || id === data.measure || data.now[id] || data.before[id]);
const rowHeight = 21, leastWidth = 0.0004, leastPixels = 24, rowsAtOnce = 50;
const state = {
  measure: measures.find(each => each.id === data.measure), view: data.hasBase ? 'change' : 'now',
  order: 'down', table: 'stacks',
  search: '', sort: 'self', rows: rowsAtOnce, zoom: null, tree: null,
};
const modules = [...new Set(data.functions.map(([, , module]) => module))];
const at = id => document.getElementById(id);

// --- Numbers for people ---------------------------------------------------------------------------------------------
function threeDigits(value) {
  const size = Math.abs(value);
  return value.toFixed(size < 9.995 ? 2 : size < 99.95 ? 1 : 0);
}
function bytes(value) {
  const units = ['KiB', 'MiB', 'GiB', 'TiB', 'PiB'];
  if (Math.abs(value) < 999.5) return `${Math.round(value)} B`;
  let unit = 0;
  for (value /= 1024; Math.abs(value) >= 999.5 && unit + 1 < units.length; ++unit) value /= 1024;
  return `${threeDigits(value)} ${units[unit]}`;
}
const count = value => Math.round(value).toLocaleString('en');
const amount = (value, measure = state.measure) => measure.isSpace ? bytes(value) : count(value);
const signed = (value, text) => value > 0 ? `+${text}` : text;
const percent = (part, whole) => whole ? `${threeDigits(100 * part / whole)} %` : '';
function time(ms) {
  if (ms < 999.5) return `${Math.round(ms)} ms`;
  const units = [[60000, 1000, 's'], [3600000, 60000, 'min'], [172800000, 3600000, 'h'], [Infinity, 86400000, 'd']];
  const [, size, name] = units.find(([below]) => ms < below);
  return `${threeDigits(ms / size)} ${name}`;
}
const meanTime = ([sum, weight]) => weight ? time(sum / weight) : '';

// --- What is counted ------------------------------------------------------------------------------------------------
function sums() {
  return {now: 0, before: 0, blocks: 0, blocksBefore: 0, width: 0, time: [0, 0]};
}
function add(to, stack) {
  const {id, blocks} = state.measure;
  const spent = blocks === 5 ? [0, 0] : blocks === 2 ? stack.age : stack.lifetime;
  to.now += stack.now[id];
  to.before += stack.before[id];
  to.blocks += stack.now[blocks];
  to.blocksBefore += stack.before[blocks];
  to.width += widthOf(stack);
  to.time[0] += spent[0];
  to.time[1] += spent[1];
}
function widthOf(stack) {
  const {id} = state.measure;
  return state.view === 'change' ? Math.abs(stack.now[id] - stack.before[id]) : stack.now[id];
}
const isChange = () => state.view === 'change';
const shown = of => isChange() ? of.now - of.before : of.now;

function newNode(fn, parent) {
  return {fn, parent, depth: parent ? parent.depth + 1 : 0, all: sums(), self: sums(), children: new Map()};
}
// Stacks from the outermost call on, or from the allocating one; `note` is told in which node each ends.
function treeOf(functionsOf, note) {
  const root = newNode(-1, null);
  for (const stack of data.stacks) {
    note(stack, null);
    if (widthOf(stack) === 0) continue;
    let node = root;
    add(root.all, stack);
    for (const fn of functionsOf(stack)) {
      if (!node.children.has(fn)) node.children.set(fn, newNode(fn, node));
      node = node.children.get(fn);
      add(node.all, stack);
    }
    add(node.self, stack);
    note(stack, node);
  }
  return root;
}
function buildTree() {
  const down = treeOf(stack => stack.functions, (stack, node) => { stack.node = node; });
  state.tree = state.order === 'down' ? down
    : treeOf(stack => framesToShow(stack).map(i => stack.functions[i]), (stack, node) => { stack.last = node; });
}
const nodeOf = stack => state.order === 'down' ? stack.node : stack.last;
// The innermost first. Of calls within the C++ library only the outermost: what the program called.
function framesToShow(stack) {
  const isOfLibrary = i => i >= 0 && /^(std|__gnu_cxx)::/.test(nameOf(stack.functions[i]));
  return [...stack.functions.keys()].reverse().filter(i => i === 0 || !isOfLibrary(i) || !isOfLibrary(i - 1));
}
function pathOf(node) {
  const path = [];
  for (; node.parent; node = node.parent) path.unshift(node.fn);
  return path;
}
// The same place in a tree that was built anew; as near to it as there is.
function follow(path) {
  let node = state.tree;
  for (const fn of path) {
    if (!node.children.has(fn)) break;
    node = node.children.get(fn);
  }
  return node;
}

const nameOf = fn => fn < 0 ? 'all' : data.functions[fn][0];
function matches(fn) {
  return fn >= 0 && data.functions[fn].some(text => text.toLowerCase().includes(state.search));
}
