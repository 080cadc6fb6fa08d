// SPDX-License-Identifier: MIT
// map_page.h: the page that `freeway map` writes, but for its data: it needs no other file and no network. What is
// shown of the process goes through textContent, or is numbers.
#pragma once

namespace freeway_command {

inline constexpr const char kMapHead[] = R"page(<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'">
<meta name="viewport" content="width=device-width, initial-scale=1">
<style>
:root { color-scheme: light dark; --page: #fbfbf9; --text: #1c1f23; --soft: #6a7078; --line: #d9dbd6; --empty: #eeeee9; }
@media (prefers-color-scheme: dark) {
  :root { --page: #16181b; --text: #e6e7e3; --soft: #9aa0a6; --line: #34383d; --empty: #24272b; }
}
body { margin: 2rem auto; padding: 0 1.5rem; max-width: 76rem; background: var(--page); color: var(--text);
  font: 15px/1.45 system-ui, sans-serif; }
h1 { font-size: 1.4rem; margin: 0 0 .2rem; } h2 { font-size: 1.05rem; margin: 2rem 0 .5rem; }
p { margin: .2rem 0 .8rem; color: var(--soft); }
#figures { display: flex; flex-wrap: wrap; gap: .4rem 2rem; margin: 1rem 0; }
#figures div { min-width: 7rem; } #figures b { display: block; font-size: 1.15rem; font-variant-numeric: tabular-nums; }
#legend { display: flex; flex-wrap: wrap; gap: .3rem 1.2rem; margin: .6rem 0; color: var(--soft); }
#legend i { display: inline-block; width: .9rem; height: .9rem; margin-right: .35rem; vertical-align: -.1rem; border: 1px solid var(--line); }
canvas { display: block; max-width: 100%; }
#hover { position: fixed; display: none; pointer-events: none; max-width: 26rem; padding: .35rem .6rem; background: var(--text);
  color: var(--page); border-radius: .3rem; font-size: .85rem; white-space: pre-line; z-index: 1; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; }
th, td { text-align: right; padding: .15rem .8rem .15rem 0; } th { color: var(--soft); font-weight: 500; border-bottom: 1px solid var(--line); }
.swatch { display: inline-block; width: .9rem; height: .9rem; vertical-align: -.1rem; }
.tenths { display: inline-flex; align-items: flex-end; height: 1.1rem; gap: 1px; }
.tenths span { width: .55rem; background: #4c8dc9; min-height: 1px; }
</style>
)page";

// `heap` is what map.cc writes: {classes: [size], arenas: [{base, frames, runs: [[frame, frames, kind, ...]]}], huge:
// [...]}. Kinds: 0 free without memory, 1 free with memory, 2 in a thread's hands, 3 not ours, 4 large, 5 superblock:
// class, live, cached, blocks.
inline constexpr const char kMapScript[] = R"page(
const FRAME = 65536, COLUMNS = 64, STRIP = 400;
const dark = matchMedia('(prefers-color-scheme: dark)').matches;
const COLOURS = dark ? ['#202327', '#8a6d1f', '#a33a3a', '#101113', '#56606b'] : ['#e9e9e4', '#e3c35a', '#cf5c5c', '#fbfbf9', '#8d99a6'];
const SAYS = ['free: returned to the OS, or never touched', 'free: not returned to the OS', 'taken by a thread inside malloc or free', 'not Freeway\'s'];
const hue = c => (c * 137.508) % 360;
const bytes = n => { let u = 0; for (; n >= 1024 && u < 4; ++u) n /= 1024; return (u ? n.toFixed(1) : n) + ' ' + ['B', 'KiB', 'MiB', 'GiB', 'TiB'][u]; };
const hover = document.getElementById('hover');
function describe(run, arena, frame) {
  const [first, frames, kind, c, live, cached, blocks] = run;
  const at = '0x' + (BigInt(arena.base) + BigInt(frame) * 65536n).toString(16);
  if (kind === 5) return at + '\nsuperblock of blocks of ' + heap.classes[c] + ' bytes, ' + bytes(frames * FRAME) + '\n' + live + ' live, ' +
    cached + ' cached, ' + (blocks - live - cached) + ' stuck of ' + blocks + ' blocks';
  if (kind === 4) return at + '\nlarge block of ' + bytes(frames * FRAME);
  return at + '\n' + SAYS[kind] + ' (' + frames + (frames === 1 ? ' frame)' : ' frames)');
}
function paint(context, run, x, y, size) {
  const [, , kind, c, live, cached, blocks] = run;
  const cell = size > 4 ? size - 1 : size;
  if (kind !== 5) { context.fillStyle = COLOURS[kind]; context.fillRect(x, y, cell, cell); return; }
  context.fillStyle = `hsl(${hue(c)} 45% ${dark ? 22 : 88}%)`; context.fillRect(x, y, cell, cell);
  const tall = cell * live / blocks, middle = cell * cached / blocks;
  context.fillStyle = `hsl(${hue(c)} 55% ${dark ? 40 : 68}%)`; context.fillRect(x, y + cell - tall - middle, cell, middle);
  context.fillStyle = `hsl(${hue(c)} 70% ${dark ? 58 : 42}%)`; context.fillRect(x, y + cell - tall, cell, tall);
}
function find(arena, frame) {
  let low = 0, high = arena.runs.length - 1;
  while (low < high) { const middle = (low + high + 1) >> 1; if (arena.runs[middle][0] <= frame) low = middle; else high = middle - 1; }
  const run = arena.runs[low];
  return run && frame >= run[0] && frame < run[0] + run[1] ? run : null;
}
for (const arena of heap.arenas) {
  const host = document.getElementById('arenas'), title = document.createElement('h2');
  const rows = Math.ceil(arena.frames / COLUMNS), size = rows > 4000 ? 3 : rows > 600 ? 6 : 15;
  title.textContent = 'Arena at 0x' + BigInt(arena.base).toString(16) + ': ' + bytes(arena.frames * FRAME) + ' accessible, a row is 4 MiB';
  host.append(title);
  for (let top = 0; top < rows; top += STRIP) {
    const canvas = document.createElement('canvas'), high = Math.min(STRIP, rows - top), ratio = devicePixelRatio || 1;
    canvas.width = COLUMNS * size * ratio; canvas.height = high * size * ratio; canvas.style.width = COLUMNS * size + 'px';
    const context = canvas.getContext('2d'); context.scale(ratio, ratio);
    const from = top * COLUMNS, to = Math.min((top + high) * COLUMNS, arena.frames);
    for (let frame = from, run; frame < to; ++frame) {
      if (!run || frame >= run[0] + run[1]) run = find(arena, frame);
      if (run) paint(context, run, frame % COLUMNS * size, (Math.floor(frame / COLUMNS) - top) * size, size);
    }
    canvas.onmousemove = event => {
      const box = canvas.getBoundingClientRect(), scale = COLUMNS * size / box.width;
      const frame = (Math.floor((event.clientY - box.top) * scale / size) + top) * COLUMNS + Math.floor((event.clientX - box.left) * scale / size);
      const run = frame < arena.frames ? find(arena, frame) : null;
      hover.style.display = run ? 'block' : 'none';
      if (!run) return;
      hover.textContent = describe(run, arena, frame);
      hover.style.left = Math.min(event.clientX + 14, innerWidth - 280) + 'px'; hover.style.top = event.clientY + 14 + 'px';
    };
    canvas.onmouseleave = () => { hover.style.display = 'none'; };
    host.append(canvas);
  }
}
for (const swatch of document.querySelectorAll('.swatch'))
  swatch.style.background = `hsl(${hue(swatch.dataset.class)} 70% ${dark ? 58 : 42}%)`;
const legend = document.getElementById('legend');
const item = (colour, text) => { const span = document.createElement('span'), i = document.createElement('i'); i.style.background = colour;
  span.append(i, text); legend.append(span); };
item(`linear-gradient(0deg, hsl(210 70% 42%) 45%, hsl(210 55% 68%) 45% 70%, hsl(210 45% 88%) 70%)`, 'superblock, in the colour of its class (table below): live, cached, stuck');
item(COLOURS[4], 'large block (live)'); item(COLOURS[1], SAYS[1]); item(COLOURS[0], SAYS[0]); item(COLOURS[2], SAYS[2]); item(COLOURS[3], SAYS[3]);
)page";

}  // namespace freeway_command
