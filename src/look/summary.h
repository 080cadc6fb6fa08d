// SPDX-License-Identifier: MIT
// summary.h: the heap's figures, for people and as JSON.
#pragma once

#include "base/integers.h"
#include "freeway/freeway.h"

namespace freeway {

// The figures of the whole heap, to `fd`.
void write_figures(int fd, const char* mode, const freeway_stats_t& stats);
// A size class that has superblocks, which holds blocks of `from` to `size` bytes.
struct ClassFigures {
  u64 from, size;
  u64 superblocks, sampled;  // all of them, and those for blocks that a profile samples
  u64 bytes, live, cached;   // bytes in all of them; those of live blocks, and of blocks in caches
};
// Called for each of them; `to` is its caller's.
using TakeClass = void(void* to, const ClassFigures& figures);

// The JSON's members beside the figures.
struct Setting {
  const char* engine;
  const char* mode;
  const char* rseq_reason;  // why per-CPU slabs are not used, or ""
  u64 retained;             // bytes of address space that were accessible and hold no memory now
};
// The same as the beginning of a JSON object, up to and with ` "classes": [`.
void write_figures_json(int fd, const Setting& setting, const freeway_stats_t& stats);

// At start, where a summary was asked for: keeps a second descriptor of fd 2, which many programs close before they
// end.
void prepare_summary();
// Where to write it at exit: that descriptor if it is still the same file, else 2.
int summary_fd();
// Opens `path`, in which %p stands for the process's number and %% for %; negative, and a line on fd 2, if it cannot.
int open_summary(const char* path);
void close_summary(int fd);

}  // namespace freeway
