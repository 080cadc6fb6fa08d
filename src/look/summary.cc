// SPDX-License-Identifier: MIT
#include "look/summary.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#include "harden/guarded.h"
#include "look/words.h"
#include "os/memory_size.h"
#include "os/output_file.h"
#include "os/process.h"
#include "os/report.h"
#include "os/syscall.h"
#include "os/vm.h"

namespace freeway {
namespace {

// The names of the figures, in the order in which the structure has them: each with a 0 behind it, then another one.
constexpr char kNames[] =
#define FREEWAY_FIGURE(name, ...) #name "\0"
#include "look/figures.def"
    ;
#define FREEWAY_FIGURE(name, ...) +1
constexpr std::size_t kFigures = 0
#include "look/figures.def"
    ;
static_assert(sizeof(freeway_stats_t) == kFigures * sizeof(u64) && sizeof(std::size_t) == sizeof(u64));

// Calls f(name, value) for every figure of the whole heap.
template <class F> void each_figure(const freeway_stats_t& stats, F&& f) {
  const auto* figure = reinterpret_cast<const u64*>(&stats);
  for (const char* name = kNames; *name != 0; name += strlen(name) + 1) f(name, *figure++);
}

// "  live         48.9 MiB  ": as `freeway stat` has it.
Line& begin(Line& line, const char* name, u64 bytes) {
  line.text("  ").text(name);
  while (line.size() < 13) line.text(" ");
  return line.bytes(bytes, 10).text("  ");
}

}  // namespace

// clang-format off: lines of text stay lines
void write_figures(int fd, const char* mode, const freeway_stats_t& stats) {
  Line().text("freeway: what the heap did (").text(mode).text(") in ").quoted(process::program_name(), 60)
      .text(", process ").number(process::id()).text("; sizes, resident or not").write(fd);
  Line line;
  begin(line, look::kLive.name, stats.live).text("in ").number(stats.live_blocks).text(" blocks").write(fd);
  begin(line, look::kCached.name, stats.cached).text(look::kCached.meaning).write(fd);
  begin(line, look::kStuck.name, stats.free_in_superblocks).text(look::kStuck.meaning).write(fd);
  begin(line, look::kFree.name, stats.dirty).text(look::kFree.meaning).write(fd);
  begin(line, look::kMetadata.name, stats.metadata).text(look::kMetadata.meaning).write(fd);
  begin(line, "mapped", stats.mapped).bytes(stats.huge).text(" of it huge blocks; ").number(stats.superblocks)
      .text(" superblocks").write(fd);
  begin(line, "large", stats.large).text("in runs of frames; ").number(stats.large_blocks)
      .text(" blocks, huge ones included").write(fd);
  if (guard::is_on())
    begin(line, "guarded", stats.guarded).text("in ").number(stats.guarded_blocks).text(" blocks, ")
        .number(stats.guard_faults).text(" faults").write(fd);
  if (stats.soft_limit != 0 || stats.hard_limit != 0)
    begin(line, "held", stats.held).text("counts against limits: soft ").bytes(stats.soft_limit).text(", hard ")
        .bytes(stats.hard_limit).text("; caches taken apart ").number(stats.limit_pressures).text(" times, ")
        .number(stats.limit_refusals).text(" refusals").write(fd);
  begin(line, look::kReturned.name, stats.purged).text("in ").number(stats.purges).text(" calls").write(fd);
  line.text("  slow path  ").number(stats.slow_mallocs, 10).text("  mallocs, ").number(stats.slow_frees)
      .text(" frees; batches: ").number(stats.refills).text(" from superblocks, ").number(stats.flushes)
      .text(" back").write(fd);
}
// clang-format on

namespace {

constexpr u64 kSchema = 1;  // grows when a name goes or its meaning changes, not when one is added

// Calls f(name, value) for the names under which dashboards know an allocator's figures (jemalloc's stats.*).
template <class F> void each_known_figure(const freeway_stats_t& s, u64 retained, F&& f) {
  f("allocated", s.live);
  f("active", s.mapped - s.dirty);
  f("resident", resident_pages() * vm::page_size());
  f("retained", retained);
}

}  // namespace

// clang-format off: lines of text stay lines
void write_figures_json(int fd, const Setting& setting, const freeway_stats_t& stats) {
  Line().text("{\"schema\": ").number(kSchema).text(", \"version\": \"").text(freeway_version())
      .text("\", \"engine\": \"").text(setting.engine).text("\", \"mode\": \"").text(setting.mode).text("\",")
      .write(fd);
  Line().text(" \"rseq_reason\": ").string(setting.rseq_reason).text(",").write(fd);
  Line().text(" \"program\": ").string(process::program_name()).text(", \"pid\": ").number(process::id()).text(",")
      .write(fd);
  Line().text(" \"time_ns\": ").number(process::wall_time_ns()).text(", \"page_size\": ").number(vm::page_size())
      .text(",").write(fd);
  const auto write = [fd](const char* name, u64 value) {
    Line().text(" \"").text(name).text("\": ").number(value).text(",").write(fd);
  };
  each_known_figure(stats, setting.retained, write);
  each_figure(stats, write);
  Line().text(" \"classes\": [").write(fd);
}
// clang-format on

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

constexpr std::size_t kLongestPath = 4096;  // PATH_MAX

constinit FREEWAY_LARGE char expanded[kLongestPath];  // only used when the process ends

// Puts `path` with %p and %% replaced into `expanded`; false if it gets too long.
bool expand(const char* path) {
  std::size_t length = 0;
  const auto put = [&](char c) {
    if (length < kLongestPath) expanded[length++] = c;
  };
  for (; *path != 0; ++path) {
    const bool escape = *path == '%' && (path[1] == 'p' || path[1] == '%');
    if (escape && *++path == 'p') {
      Line number;
      number.number(process::id());
      for (std::size_t i = 0; i < number.size(); ++i) put(number.data()[i]);
    } else {
      put(*path);
    }
  }
  put(0);
  return expanded[length - 1] == 0;
}

}  // namespace

void prepare_summary() {
  constexpr u64 kLowest = 200;
  if (kept.fd >= 0 || !identify(2, kept.device, kept.inode)) return;
  kept.fd = static_cast<int>(raw_syscall(SYS_fcntl, 2, F_DUPFD_CLOEXEC, kLowest));
}

int summary_fd() {
  u64 device, inode;
  const bool same = kept.fd >= 0 && identify(kept.fd, device, inode) && device == kept.device && inode == kept.inode;
  return same ? kept.fd : 2;
}

int open_summary(const char* path) {
  const long fd = expand(path) ? output_file::open_chosen(expanded, output_file::kForAll) : -ENAMETOOLONG;
  if (fd < 0)
    Line()
        .text("freeway: cannot write statistics to ")
        .quoted(path, 200)
        .text(": error ")
        .number(static_cast<u64>(-fd))
        .write();
  return static_cast<int>(fd);
}

void close_summary(int fd) { raw_syscall(SYS_close, static_cast<u64>(fd)); }

}  // namespace freeway
