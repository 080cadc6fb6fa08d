// SPDX-License-Identifier: MIT
#include "engine/freeway/summary.h"

#include <fcntl.h>
#include <sys/stat.h>

#include "engine/freeway/account.h"
#include "os/report.h"
#include "os/syscall.h"

namespace freeway {
namespace {

// Calls f(name, value, is_bytes) for every figure of the whole heap, in the order of freeway_stats_t.
template <class F>
void each_figure(const freeway_stats_t& s, F&& f) {
  f("live", s.live, true);
  f("cached", s.cached, true);
  f("free_in_superblocks", s.free_in_superblocks, true);
  f("mapped", s.mapped, true);
  f("dirty", s.dirty, true);
  f("metadata", s.metadata, true);
  f("huge", s.huge, true);
  f("superblocks", s.superblocks, false);
  f("live_blocks", s.live_blocks, false);
  f("slow_mallocs", s.slow_mallocs, false);
  f("slow_frees", s.slow_frees, false);
  f("refills", s.refills, false);
  f("flushes", s.flushes, false);
  f("purges", s.purges, false);
  f("purged", s.purged, true);
  f("large", s.large, true);
  f("large_blocks", s.large_blocks, false);
}

template <class F>
void each_used_class(Heap& owner, F&& f) {
  for (unsigned c = 1; c < kClassCount; ++c) {
    const ClassAccount a = account_of(owner, c);
    if (a.superblocks + a.slow_mallocs + a.slow_frees != 0) f(kSizeClasses[c].size, a);
  }
}

const char* mode_name(Heap& owner) {
  if (owner.options().harden) return "hardened";
  return owner.uses_rseq() ? "rseq" : "claimed";
}

}  // namespace

void write_summary(Heap& owner, int fd) {
  freeway_stats_t stats;
  fill_stats(owner, stats);
  Line().text("freeway: what the heap did (").text(mode_name(owner)).text(")").write(fd);
  Line().text("  live       ").bytes(stats.live, 10).text(" in ").number(stats.live_blocks).text(" blocks").write(fd);
  Line().text("  cached     ").bytes(stats.cached, 10).text(" in magazines, ").bytes(stats.free_in_superblocks)
      .text(" free in ").number(stats.superblocks).text(" superblocks, ").bytes(stats.dirty).text(" in dirty frames")
      .write(fd);
  Line().text("  mapped     ").bytes(stats.mapped, 10).text(", ").bytes(stats.huge).text(" of it huge; metadata ")
      .bytes(stats.metadata).write(fd);
  Line().text("  large      ").bytes(stats.large, 10).text(" in runs of frames; ").number(stats.large_blocks)
      .text(" blocks, huge ones included").write(fd);
  Line().text("  slow path  ").number(stats.slow_mallocs, 10).text(" mallocs, ").number(stats.slow_frees)
      .text(" frees; ").number(stats.refills).text(" batches in, ").number(stats.flushes).text(" out").write(fd);
  Line().text("  given back ").bytes(stats.purged, 10).text(" in ").number(stats.purges).text(" purges").write(fd);
  Line().text("   size  superblocks       live     cached       free  slow mallocs  slow frees    refills    flushes")
      .write(fd);
  each_used_class(owner, [&](u64 size, const ClassAccount& a) {
    Line().number(size, 7).number(a.superblocks, 13).bytes(a.live_bytes, 11).bytes(a.cached_bytes, 11)
        .bytes(a.free_bytes, 11).number(a.slow_mallocs, 14).number(a.slow_frees, 12).number(a.refills, 11)
        .number(a.flushes, 11).write(fd);
  });
}

void write_summary_json(Heap& owner, int fd) {
  freeway_stats_t stats;
  fill_stats(owner, stats);
  Line().text("{\"version\": \"").text(freeway_version()).text("\", \"mode\": \"").text(mode_name(owner)).text("\",")
      .write(fd);
  each_figure(stats, [&](const char* name, u64 value, bool) {
    Line().text(" \"").text(name).text("\": ").number(value).text(",").write(fd);
  });
  Line().text(" \"classes\": [").write(fd);
  bool first = true;
  each_used_class(owner, [&](u64 size, const ClassAccount& a) {
    Line line;
    line.text(first ? "  " : "  ,").text("{\"size\": ").number(size).text(", \"superblocks\": ").number(a.superblocks)
        .text(", \"live\": ").number(a.live_bytes).text(", \"cached\": ").number(a.cached_bytes)
        .text(", \"free\": ").number(a.free_bytes).write(fd);
    line.text("   , \"slow_mallocs\": ").number(a.slow_mallocs).text(", \"slow_frees\": ").number(a.slow_frees)
        .text(", \"refills\": ").number(a.refills).text(", \"flushes\": ").number(a.flushes).text("}").write(fd);
    first = false;
  });
  Line().text(" ]}").write(fd);
}

namespace {

// A descriptor beyond those that programs use, and the file that it must still be at exit.
struct Kept {
  int fd = -1;
  u64 device = 0, inode = 0;
};
constinit Kept kept;

bool identify(int fd, u64& device, u64& inode) {
  struct stat status;
  if (raw_syscall(SYS_fstat, static_cast<u64>(fd), reinterpret_cast<u64>(&status)) != 0) return false;
  device = status.st_dev;
  inode = status.st_ino;
  return true;
}

}  // namespace

void prepare_summary() {
  constexpr u64 kLowest = 200;
  if (kept.fd >= 0 || !identify(2, kept.device, kept.inode)) return;
  kept.fd = static_cast<int>(raw_syscall(SYS_fcntl, 2, F_DUPFD_CLOEXEC, kLowest));
}

void write_requested_summary(Heap& owner) {
  if (!owner.ready()) return;
  const Options& options = owner.options();
  if (options.stats) {
    u64 device, inode;
    const bool same = kept.fd >= 0 && identify(kept.fd, device, inode) && device == kept.device && inode == kept.inode;
    write_summary(owner, same ? kept.fd : 2);
  }
  if (options.stats_json == nullptr) return;
  const long fd = raw_syscall(SYS_openat, static_cast<u64>(AT_FDCWD), reinterpret_cast<u64>(options.stats_json),
                              O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  if (fd < 0) {
    Line().text("freeway: cannot write statistics to ").text(options.stats_json).write();
    return;
  }
  write_summary_json(owner, static_cast<int>(fd));
  raw_syscall(SYS_close, static_cast<u64>(fd));
}

}  // namespace freeway
