// SPDX-License-Identifier: MIT
// page.js: drawing: the graph, what is under the pointer, the tables.

function element(tag, text, name) {
  const made = document.createElement(tag);
  if (text !== undefined) made.textContent = text;
  if (name) made.className = name;
  return made;
}

// --- The graph ------------------------------------------------------------------------------------------------------
function hash(text) {
  let value = 7;
  for (let i = 0; i < text.length; ++i) value = (value * 31 + text.charCodeAt(i)) >>> 0;
  return value;
}
function colour(node) {
  if (node.fn < 0) return 'hsl(215 12% var(--flame))';
  if (data.hasBase) {
    const change = node.all.now - node.all.before;
    const share = change / Math.max(1, isChange() ? node.all.width : Math.max(node.all.now, node.all.before));
    if (Math.abs(share) < 0.005) return 'hsl(215 8% var(--flame))';
    return `hsl(${share > 0 ? 4 : 212} ${Math.round(28 + 57 * Math.min(1, Math.abs(share)))}% var(--flame))`;
  }
  // A hue for each program or library, and around it one for each function.
  const [name, , module] = data.functions[node.fn];
  return `hsl(${(30 + 67 * modules.indexOf(module) + hash(name) % 37 - 18 + 360) % 360} 66% var(--flame))`;
}
function frame(node, left, width) {
  const hasRoom = width * at('graph').clientWidth >= leastPixels;
  const made = element('div', hasRoom ? nameOf(node.fn) : '', hasRoom ? 'frame' : 'frame thin');
  made.style.left = `${100 * left}%`;
  made.style.width = `${100 * width}%`;
  made.style.top = `${rowHeight * node.depth}px`;
  made.style.background = colour(node);
  if (state.search) made.classList.add(matches(node.fn) ? 'found' : 'dim');
  made.node = node;
  return made;
}
function drawBelow(node, left, width, out) {
  out.push(frame(node, left, width));
  let deepest = node.depth;
  const children = [...node.children.values()].sort((a, b) => b.all.width - a.all.width);
  for (const child of children) {
    const share = width * child.all.width / node.all.width;
    if (share < leastWidth) break;
    deepest = Math.max(deepest, drawBelow(child, left, share, out));
    left += share;
  }
  return deepest;
}
function drawGraph() {
  const graph = at('graph'), out = [];
  at('reset').hidden = !state.zoom.parent;
  if (state.tree.all.width === 0) {
    graph.replaceChildren(element('div', isChange() ? 'Nothing has changed.' : 'Nothing was sampled.', 'nothing'));
    graph.style.height = '';
    return;
  }
  for (let above = state.zoom.parent; above; above = above.parent) {
    out.push(frame(above, 0, 1));
    out[out.length - 1].classList.add('above');
  }
  const deepest = drawBelow(state.zoom, 0, 1, out);
  graph.replaceChildren(...out);
  graph.style.height = `${rowHeight * (deepest + 1)}px`;
}
function drawFound() {
  let sum = 0;
  for (const stack of data.stacks)
    if (state.search && stack.node && stack.functions.some(matches)) sum += widthOf(stack);
  at('found').textContent = state.search ? `${percent(sum, state.tree.all.width) || '0 %'} found` : '';
}
function zoomTo(node) {
  state.zoom = node;
  drawGraph();
}

// --- What is under the pointer --------------------------------------------------------------------------------------
function facts(node) {
  const {all, self} = node, list = [];
  if (data.hasBase) {
    const change = all.now - all.before;
    list.push(['change', signed(change, amount(change))], ['now', amount(all.now)], ['before', amount(all.before)]);
  } else {
    list.push([state.measure.name.toLowerCase(), `${amount(all.now)} (${percent(all.now, state.tree.all.now)})`]);
    if (self.now && state.order === 'down') list.push(['itself', amount(self.now)]);
  }
  if (state.measure.isSpace) list.push(['blocks', count(all.blocks)]);
  const spent = meanTime(all.time);
  if (spent) list.push([state.measure.blocks === 2 ? 'mean age' : 'mean lifetime', spent]);
  return list;
}
function showTip(event) {
  const node = event.target.node, tip = at('tip');
  tip.hidden = !node;
  if (!node) return;
  const list = element('dl');
  for (const [name, value] of facts(node)) list.append(element('dt', name), element('dd', value));
  const [, file, module] = node.fn < 0 ? ['', '', ''] : data.functions[node.fn];
  const place = [file, module].filter(text => text).join(' · ');
  tip.replaceChildren(element('b', nameOf(node.fn)), element('div', place, 'place'), list);
  const box = tip.getBoundingClientRect();
  tip.style.left = `${Math.max(4, Math.min(event.clientX + 14, innerWidth - box.width - 8))}px`;
  const below = event.clientY + 18;
  tip.style.top = `${below + box.height < innerHeight ? below : Math.max(4, event.clientY - box.height - 12)}px`;
}

// --- The table ------------------------------------------------------------------------------------------------------
function rowsOfStacks() {
  return data.stacks.filter(stack => stack.node).map(stack => {
    const self = sums();
    add(self, stack);
    return {stack, fn: stack.functions.at(-1) ?? -1, self, all: stack.node.all};
  });
}
function rowsOfFunctions() {
  const rows = new Map();
  const row = fn => rows.get(fn) || rows.set(fn, {fn, self: sums(), all: sums()}).get(fn);
  for (const stack of data.stacks.filter(each => each.node)) {
    for (const fn of new Set(stack.functions)) add(row(fn).all, stack);
    if (stack.functions.length) add(row(stack.functions.at(-1)).self, stack);
  }
  return [...rows.values()];
}
const columns = {
  self: {name: () => isChange() ? 'Change' : 'Self', value: row => shown(row.self), text: value => amount(value)},
  all: {
    name: () => isChange() ? 'With callees' : 'Cumulative', value: row => shown(row.all), text: value => amount(value),
  },
  blocks: {
    name: () => 'Blocks', text: count,
    value: row => isChange() ? row.self.blocks - row.self.blocksBefore : row.self.blocks,
  },
  time: {
    name: () => state.measure.blocks === 0 ? 'Mean lifetime' : 'Mean age',
    value: row => row.self.time[1] ? row.self.time[0] / row.self.time[1] : 0, text: value => value ? time(value) : '',
  },
};
function cell(key, row) {
  const {value, text} = columns[key], number = value(row);
  const made = element('td', isChange() && key !== 'time' ? signed(number, text(number)) : text(number));
  if (isChange() && key !== 'time' && number) made.className = number > 0 ? 'grown' : 'shrunk';
  if (key === 'self') {
    const bar = element('div', undefined, 'bar'), part = element('i');
    part.style.width = `${Math.min(100, 100 * row.self.width / state.tree.all.width)}%`;
    bar.append(part);
    made.append(bar);
  }
  return made;
}
function placeOf(fn, line) {
  const [, file, module] = data.functions[fn];
  const name = file.slice(file.lastIndexOf('/') + 1);
  return name ? `${name}${line ? `:${line}` : ''}` : module;
}
function where(row) {
  const made = element('td');
  if (row.fn < 0) return element('td', '(no stack)');
  const {stack} = row;
  if (!stack) {
    made.append(`${nameOf(row.fn)} `, element('span', placeOf(row.fn, 0), 'place'));
    return made;
  }
  const [first, ...callers] = framesToShow(stack);
  const place = placeOf(stack.functions[first], stack.lines[first]);
  made.append(`${nameOf(stack.functions[first])} `, element('span', place, 'place'));
  const names = callers.slice(0, 4).map(i => nameOf(stack.functions[i])).join(' ← ');
  if (callers.length) made.append(element('div', `← ${names}${callers.length > 4 ? ' …' : ''}`, 'place'));
  return made;
}
function wholeStack(stack) {
  const list = element('ol');
  for (let i = stack.functions.length; i-- > 0;) {
    const item = element('li', `${nameOf(stack.functions[i])} `);
    item.append(element('span', placeOf(stack.functions[i], stack.lines[i]), 'place'));
    list.append(item);
  }
  return list;
}
function chooseRow(row, line) {
  if (!row.stack) {
    at('search').value = nameOf(row.fn);
    search();
    return;
  }
  const open = line.querySelector('ol');
  if (open) open.remove();
  else line.lastChild.append(wholeStack(row.stack));
  const node = nodeOf(row.stack);
  zoomTo(state.order === 'down' ? node.parent || node : follow(pathOf(node).slice(0, 1)));
}
function drawTable() {
  const heads = Object.entries(columns).map(([key, column]) => {
    const made = element('th'), button = element('button', column.name());
    if (state.sort === key) made.setAttribute('aria-sort', 'descending');
    button.addEventListener('click', () => { state.sort = key; drawTable(); });
    made.append(button);
    return made;
  });
  const line = element('tr');
  line.append(...heads, element('th', 'Where'));
  at('head').replaceChildren(line);
  const value = columns[state.sort].value;
  const rows = state.table === 'stacks' ? rowsOfStacks() : rowsOfFunctions();
  const wanted = rows.filter(row => !state.search || (row.stack ? row.stack.functions.some(matches) : matches(row.fn)));
  wanted.sort((a, b) => Math.abs(value(b)) - Math.abs(value(a)));
  at('rows').replaceChildren(...wanted.slice(0, state.rows).map(row => {
    const made = element('tr');
    made.append(...Object.keys(columns).map(key => cell(key, row)), where(row));
    made.addEventListener('click', event => event.target.closest('ol') || chooseRow(row, made));
    return made;
  }));
  at('more').hidden = wanted.length <= state.rows;
}

// --- The page -------------------------------------------------------------------------------------------------------
function choice(id, options, chosen, choose) {
  at(id).replaceChildren(...options.map(({key, name}) => {
    const made = element('button', name);
    made.type = 'button';
    made.setAttribute('aria-pressed', String(key === chosen()));
    made.addEventListener('click', () => { choose(key); draw(); });
    return made;
  }));
}
function drawTotals() {
  at('totals').replaceChildren(...measures.map(measure => {
    const made = element('div', undefined, 'total');
    const change = data.now[measure.id] - data.before[measure.id];
    made.append(element('span', measure.name), element('b', amount(data.now[measure.id], measure)));
    if (data.hasBase)
      made.append(element('span', signed(change, amount(change, measure)), change > 0 ? 'grown' : 'shrunk'));
    else if (measure.isSpace) made.append(element('span', `± ${bytes(data.deviation[measure.id])}, estimated`));
    else made.append(element('span', 'estimated'));
    return made;
  }));
}
function drawLegend() {
  const marks = data.hasBase ? [[4, 'grown'], [212, 'shrunk']] : [];
  at('legend').replaceChildren(...marks.flatMap(([hue, name]) => {
    const mark = element('i');
    mark.style.background = `hsl(${hue} 80% var(--flame-strong))`;
    return [mark, name];
  }));
}
function draw() {
  choice('measures', measures.map(each => ({key: each, name: each.name})), () => state.measure,
    key => { state.measure = key; });
  choice('views', data.hasBase ? [{key: 'change', name: 'Change'}, {key: 'now', name: 'Now'}] : [], () => state.view,
    key => { state.view = key; });
  choice('orders', [{key: 'down', name: 'Top-down'}, {key: 'up', name: 'Bottom-up'}], () => state.order,
    key => { state.order = key; state.zoom = null; });
  choice('tables', [{key: 'stacks', name: 'Largest stacks'}, {key: 'functions', name: 'Functions'}], () => state.table,
    key => { state.table = key; state.rows = rowsAtOnce; });
  const path = state.zoom ? pathOf(state.zoom) : [];
  buildTree();
  zoomTo(follow(path));
  drawFound();
  drawTable();
}
function search() {
  state.search = at('search').value.trim().toLowerCase();
  drawGraph();
  drawFound();
  drawTable();
}
function setTheme(name) {
  document.documentElement.dataset.theme = name;
}
document.title = data.title;
at('title').textContent = data.title;
at('about').textContent = data.about;
setTheme(matchMedia('(prefers-color-scheme: dark)').matches ? 'dark' : 'light');
at('theme').addEventListener('click', () => {
  setTheme(document.documentElement.dataset.theme === 'dark' ? 'light' : 'dark');
});
at('search').addEventListener('input', search);
at('reset').addEventListener('click', () => zoomTo(state.tree));
at('more').addEventListener('click', () => { state.rows += 200; drawTable(); });
at('graph').addEventListener('click', event => event.target.node && zoomTo(event.target.node));
at('graph').addEventListener('mousemove', showTip);
at('graph').addEventListener('mouseleave', () => { at('tip').hidden = true; });
addEventListener('resize', drawGraph);
addEventListener('keydown', event => {
  if (event.key === 'Escape') zoomTo(state.tree);
  if (event.key !== '/' || document.activeElement === at('search')) return;
  event.preventDefault();
  at('search').focus();
});
drawTotals();
drawLegend();
draw();
