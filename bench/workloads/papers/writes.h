// SPDX-License-Identifier: MIT
//
// writes.h: what active_false and passive_false do to their blocks: write every byte of them many times, so that two
// threads whose blocks share a cache line get in each other's way.
#ifndef FREEWAY_BENCH_PAPERS_WRITES_H
#define FREEWAY_BENCH_PAPERS_WRITES_H

#include <cstddef>
#include <cstdint>

namespace bench {

// Writes each byte `times` times, and reads it each time before it is written again. Returns the sum of what it read,
// which depends on the arguments only, unless somebody else has the same block: his writes are seen whenever they come.
inline std::uint64_t write_bytes(void* block, std::size_t size, long times, std::uint64_t mark) {
  auto* bytes = static_cast<volatile unsigned char*>(block);
  const auto value = [mark](std::size_t i, long turn) {
    return static_cast<unsigned char>(mark + i + static_cast<std::uint64_t>(turn));
  };
  for (std::size_t i = 0; i < size; ++i) bytes[i] = value(i, 0);
  std::uint64_t sum = 0;
  for (long turn = 1; turn < times; ++turn)
    for (std::size_t i = 0; i < size; ++i) {
      sum += bytes[i];
      bytes[i] = value(i, turn);
    }
  for (std::size_t i = 0; i < size; ++i) sum += bytes[i];
  return sum;
}

// Every thread's blocks get other bytes.
inline std::uint64_t mark_of(std::size_t thread, long pair) {
  return (thread + 1) * 37 + static_cast<std::uint64_t>(pair) % 7;
}

}  // namespace bench

#endif  // FREEWAY_BENCH_PAPERS_WRITES_H
