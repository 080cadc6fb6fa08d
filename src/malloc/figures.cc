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

namespace freeway {

// --- This heap, read in place. ---------------------------------------------------------------------------------------

u64 OwnMemory::View::any_word(u64 offset, u32 bytes) const {
  switch (bytes) {
    case 1: return load<u8>(offset);
    case 2: return load<u16>(offset);
    case 4: return load<u32>(offset);
    default: return load<u64>(offset);
  }
}

template class look::Walk<OwnMemory>;

// Not all classes at once, since handlers' stacks are small; not one by one, since each walk goes through the whole
// heap.
void each_account(FunctionRef<void(unsigned c, const look::ClassAccount& account)> f) {
  constexpr unsigned kAtATime = 2;
  const OwnWalk walk = own_walk();
  for (unsigned first = 1; first < kClassCount; first += kAtATime) {
    look::ClassAccount accounts[kAtATime] = {};
    walk.each_superblock([&](const OwnWalk::Descriptor& each) {
      if (each.size_class() - first < kAtATime) accounts[each.size_class() - first].add(each);
    });
    walk.each_slab([&](const char*, u32, const OwnMemory::View& slab) {
      for (unsigned i = 0; i < kAtATime && first + i < kClassCount; ++i) {
        accounts[i].cached += look::cached_blocks(walk, slab, first + i);
        accounts[i].add_counters(walk, slab, first + i);
      }
    });
    for (unsigned i = 0; i < kAtATime; ++i)
      if (accounts[i].superblocks + accounts[i].slow_mallocs + accounts[i].slow_frees != 0) f(first + i, accounts[i]);
  }
}

// --- What each size class did, for people and as JSON. ---------------------------------------------------------------

// clang-format off: lines of text stay lines
void write_classes(int fd) {
  Line().text("   size  superblocks       live     cached      stuck  slow mallocs  slow frees    refills    flushes")
      .write(fd);
  each_account([&](unsigned c, const look::ClassAccount& a) {
    const SizeClass& k = kSizeClasses[c];
    Line().number(k.size, 7).number(a.superblocks, 13).bytes(a.live() * k.size, 11).bytes(a.cached * k.size, 11)
        .bytes(a.free * k.size, 11).number(a.slow_mallocs, 14).number(a.slow_frees, 12).number(a.refills, 11)
        .number(a.flushes, 11).write(fd);
  });
}

void write_classes_json(int fd) {
  bool first = true;
  each_account([&](unsigned c, const look::ClassAccount& a) {
    const SizeClass& k = kSizeClasses[c];
    const u64 live = a.live() * k.size;
    Line line;
    line.text(first ? "  " : "  ,").text("{\"size\": ").number(k.size).text(", \"superblocks\": ").number(a.superblocks)
        .text(", \"live\": ").number(live).text(", \"cached\": ").number(a.cached * k.size)
        .text(", \"free\": ").number(a.free * k.size).write(fd);
    line.text("   , \"blocks\": ").number(a.blocks).text(", \"waste\": ").number(a.superblocks * k.span_bytes() - live)
        .text(", \"occupancy\": [");
    for (unsigned i = 0; i < occupancy::kTenths; ++i) line.text(i == 0 ? "" : ", ").number(a.occupancy[i]);
    line.text("]").write(fd);
    line.text("   , \"slow_mallocs\": ").number(a.slow_mallocs).text(", \"slow_frees\": ").number(a.slow_frees)
        .text(", \"refills\": ").number(a.refills).text(", \"flushes\": ").number(a.flushes).text("}").write(fd);
    first = false;
  });
}
// clang-format on

// --- The whole. ------------------------------------------------------------------------------------------------------

namespace family {

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
  process_malloc.substrate().audit_frames(audit,
                                          [&heap](u32 value, uptr address) { return owns(heap, value, address); });
  if (audit.frames_live + audit.frames_cached + audit.frames_held == 0) audit.frames_live = audit.frames_small;
}

u64 huge_blocks() { return process_malloc.substrate().large().huge_count(); }

void each_class(TakeClass* take, void* to) {
  if (!process_malloc.start()) return;
  each_account([&](unsigned c, const look::ClassAccount& a) {
    if (a.superblocks == 0) return;
    const SizeClass& k = kSizeClasses[c];
    take(to, {c == 1 ? 0 : u64{kSizeClasses[c - 1].size} + 1, k.size, a.superblocks, a.sampled,
              a.superblocks * k.span_bytes(), a.live() * k.size, a.cached * k.size});
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

}  // namespace family
}  // namespace freeway
