// SPDX-License-Identifier: MIT
// figures.cc: figures of the malloc: statistics, audit, the summary at exit.
//
// Everything is read without stopping anybody: exact when nobody else allocates.
#include <string.h>

#include "look/summary.h"
#include "malloc/family.h"
#include "malloc/heaps.h"
#include "malloc/walk.h"
#include "os/report.h"
#include "profile/dumps.h"

namespace freeway::family {

void fill_stats(freeway_stats_t& stats) {
  memset(&stats, 0, sizeof(stats));
  if (!process_malloc.start()) return;
  look::add_up(own_walk(), stats);
}

void fill_audit(freeway_audit_t& audit) {
  memset(&audit, 0, sizeof(audit));
  if (!process_malloc.start()) return;
  Heap& heap = process_malloc.heap();
  audit_small(heap, audit);
  process_malloc.substrate().audit_frames(audit, [&heap](u32 value, uptr address) { return owns(heap, value, address); });
  if (audit.frames_live + audit.frames_cached + audit.frames_held == 0) audit.frames_live = audit.frames_small;
}

u64 huge_blocks() { return process_malloc.substrate().large().huge_count(); }

void each_class(TakeClass* take, void* to) {
  if (!process_malloc.start()) return;
  each_account([&](unsigned c, const look::ClassAccount& a) {
    if (a.superblocks == 0) return;
    const SizeClass& k = kSizeClasses[c];
    take(to, {c == 1 ? 0 : u64{kSizeClasses[c - 1].size} + 1, k.size, a.superblocks, a.sampled, a.superblocks * k.span_bytes(),
              a.live() * k.size, a.cached * k.size});
  });
}

void write_summary(int fd) {
  freeway_stats_t stats;
  fill_stats(stats);
  write_figures(fd, process_malloc.start() ? look::mode_of(own_walk()) : "freeway", stats);
  if (process_malloc.start()) {
    Line line;
    line.text(process_malloc.heap().is_careful() ? "  path       hardened: " : "  path       ");
    process_malloc.heap().slabs.describe(line);
    line.write(fd);
    write_classes(fd);
  }
  heaps::write(fd);
}

namespace {

void write_summary_json(int fd) {
  freeway_stats_t stats;
  fill_stats(stats);
  const OwnWalk walk = own_walk();
  const char* why_spare = process_malloc.heap().slabs.why_spare();
  write_figures_json(fd, {"freeway", look::mode_of(walk), why_spare, look::retained_bytes(walk)}, stats);
  write_classes_json(fd);
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
