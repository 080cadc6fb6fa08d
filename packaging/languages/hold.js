// SPDX-License-Identifier: MIT
// hold.js: hold.c in JavaScript, for Node: buffers are not in V8's heap.
const held = Array.from({ length: 8000 }, () => Buffer.alloc(1000, 1));
console.log(`held ${process.pid}`);
process.stdin.resume();
process.stdin.on('end', () => { held.length = 0; });
