// SPDX-License-Identifier: MIT
// figures.cc: what the malloc holds and did: statistics, audit, the summary at exit.
//
// Everything is read without stopping anybody: exact when nobody else allocates.
#include <string.h>

#include "guard/guarded.h"
#include "look/summary.h"
#include "malloc/family.h"
#include "malloc/heaps.h"
#include "os/report.h"
#include "profile/dumps.h"

namespace freeway::family {

void fill_stats(freeway_stats_t& stats) {
  memset(&stats, 0, sizeof(stats));
  if (!process_malloc.start()) return;
  Substrate& substrate = process_malloc.substrate();
  const ClassAccount small = process_malloc.heap().account_of(0);
  substrate.fill_stats(stats, substrate.span_bytes(), small.live_bytes);
  stats.live_blocks = small.live_blocks + stats.large_blocks;
  stats.cached = small.cached_bytes;
  stats.free_in_superblocks = small.free_bytes;
  stats.metadata += process_malloc.heap().metadata_bytes();
  stats.superblocks = small.superblocks;
  stats.slow_mallocs = small.slow_mallocs;
  stats.slow_frees = small.slow_frees;
  stats.refills = small.refills;
  stats.flushes = small.flushes;
  if (!guard::is_on()) return;
  const guard::Figures guarded = guard::figures();
  stats.guarded = guarded.live_bytes;
  stats.guarded_blocks = guarded.live;
  stats.guard_faults = guarded.faults;
  stats.live += guarded.live_bytes;
  stats.live_blocks += guarded.live;
  stats.mapped += guarded.mapped_bytes;
}

void fill_audit(freeway_audit_t& audit) {
  memset(&audit, 0, sizeof(audit));
  if (!process_malloc.start()) return;
  Heap& heap = process_malloc.heap();
  heap.audit(audit);
  process_malloc.substrate().audit_frames(audit, [&heap](u32 value, uptr address) { return heap.owns(value, address); });
  if (audit.frames_live + audit.frames_cached + audit.frames_held == 0) audit.frames_live = audit.frames_small;
}

u64 huge_blocks() { return process_malloc.substrate().large().huge_count(); }

void each_class(void (*take)(void* to, const ClassRow& row), void* to) {
  if (!process_malloc.start()) return;
  for (unsigned c = 1; c < kClassCount; ++c) {
    const ClassAccount a = process_malloc.heap().account_of(c);
    if (a.superblocks == 0) continue;
    take(to, {c == 1 ? 0 : kSizeClasses[c - 1].size + std::size_t{1}, kSizeClasses[c].size, a.mapped_bytes, a.superblocks,
              a.live_bytes, a.cached_bytes});
  }
}

void write_summary(int fd) {
  freeway_stats_t stats;
  fill_stats(stats);
  write_figures(fd, process_malloc.start() ? process_malloc.heap().mode() : "freeway", stats);
  if (process_malloc.start()) {
    Line line;
    process_malloc.heap().describe(line.text("  path       "));
    line.write(fd);
    process_malloc.heap().write_classes(fd);
  }
  heaps::write(fd);
}

namespace {

void write_summary_json(int fd) {
  freeway_stats_t stats;
  fill_stats(stats);
  Heap& heap = process_malloc.heap();
  write_figures_json(fd, {"freeway", heap.mode(), heap.why_claimed(), process_malloc.substrate().retained_bytes()}, stats);
  heap.write_classes_json(fd);
  heaps::write_json(fd);
  write_all(fd, " ]}\n", 4);
}

}  // namespace

void finish() {
  if (!process_malloc.ready()) return;
  profile::dump_at_exit();
  const Options& options = process_malloc.options();
  if (options.stats) write_summary(summary_fd());
  if (options.stats_path == nullptr) return;
  const int fd = open_summary(options.stats_path);
  if (fd < 0) return;
  options.stats_json ? write_summary_json(fd) : write_summary(fd);
  close_summary(fd);
}

}  // namespace freeway::family
