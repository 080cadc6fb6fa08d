// SPDX-License-Identifier: MIT
//
// workload.js: objects, strings, JSON, compression and hashing in node's thread pool, and worker threads that send
// buffers to each other. Prints the same every time. Argument: scale.
'use strict';
const { Worker, isMainThread, parentPort, workerData } = require('node:worker_threads');
const { createHash, pbkdf2 } = require('node:crypto');
const { promisify } = require('node:util');
const zlib = require('node:zlib');

function* numbers(seed) {
  for (;;) yield (seed = (Math.imul(seed, 1664525) + 1013904223) >>> 0);
}

const digest = (bytes) => createHash('sha256').update(bytes).digest('hex').slice(0, 16);

function makeRows(seed, count) {
  const source = numbers(seed);
  return Array.from({ length: count }, (_, i) => ({
    id: i,
    key: source.next().value.toString(36),
    text: 'x'.repeat(source.next().value % 200),
    parts: [source.next().value % 10, { deep: i }],
  }));
}

if (!isMainThread) {
  parentPort.on('message', ({ buffer, round }) => {
    const bytes = new Uint8Array(buffer);
    for (let i = 0; i < bytes.length; ++i) bytes[i] = (bytes[i] * 7 + workerData + round) & 255;
    const rows = JSON.parse(JSON.stringify(makeRows(workerData + round, 2000)));
    parentPort.postMessage({ buffer, rows: rows.length, round }, [buffer]);
  });
} else {
  (async () => {
    const scale = Number(process.argv[2] || 1);
    const rows = makeRows(2004, 20000 * scale);
    const text = JSON.stringify(rows);
    console.log('json', digest(text), JSON.parse(text).length);
    const sorted = rows.toSorted ? rows.toSorted((a, b) => (a.key < b.key ? -1 : 1)) : [...rows].sort((a, b) => (a.key < b.key ? -1 : 1));
    console.log('sorted', sorted[0].key, new Map(sorted.map((row) => [row.key, row])).size);

    // zlib's and OpenSSL's blocks come from the thread pool.
    const input = Buffer.from(text);
    const packed = await Promise.all([1, 3, 6, 9].map((level) => promisify(zlib.deflate)(input, { level })));
    for (const bytes of packed) console.log('inflated', digest(await promisify(zlib.inflate)(bytes)));
    const brotli = promisify(zlib.brotliCompress);
    const brotlied = await brotli(input, { params: { [zlib.constants.BROTLI_PARAM_QUALITY]: 4 } });
    console.log('brotli', digest(await promisify(zlib.brotliDecompress)(brotlied)));
    const keys = await Promise.all([1, 2, 3, 4].map((i) => promisify(pbkdf2)('secret', `salt${i}`, 2000, 64, 'sha512')));
    console.log('keys', keys.map(digest).join(' '));

    const workers = [1, 2, 3, 4].map((n) => new Worker(__filename, { workerData: n }));
    const answers = await Promise.all(
      workers.map((worker, n) => new Promise((resolve, reject) => {
        let round = 0;
        const send = (buffer) => worker.postMessage({ buffer, round: round++ }, [buffer]);
        worker.on('error', reject);
        worker.on('message', ({ buffer, rows: count }) => {
          if (round < 10 * scale) send(buffer);
          else resolve(`${count} ${digest(new Uint8Array(buffer))}`);
        });
        send(new ArrayBuffer(100000 * (n + 1)));
      })));
    console.log('workers', answers.join(', '));
    await Promise.all(workers.map((worker) => worker.terminate()));
  })();
}
