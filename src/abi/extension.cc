// SPDX-License-Identifier: MIT
// extension.cc: the contents of the heap in figures: glibc's mallinfo family and Freeway's own calls.
#undef _FORTIFY_SOURCE  // its fprintf is glibc's alone, and the library loads with others, too
#include <errno.h>
#include <malloc.h>
#include <stdio.h>
#include <string.h>

#include "freeway/freeway.h"
#include "look/explanation.h"
#include "malloc/family.h"
#include "profile/dump.h"
#include "profile/profiler.h"
#include "size/size_classes.h"

namespace family = freeway::family;

#define FREEWAY_STRING2(x) #x
#define FREEWAY_STRING(x) FREEWAY_STRING2(x)

extern "C" {

FREEWAY_EXPORT const char* freeway_version() noexcept {
  return FREEWAY_STRING(FREEWAY_VERSION_MAJOR) "." FREEWAY_STRING(FREEWAY_VERSION_MINOR) "." FREEWAY_STRING(
      FREEWAY_VERSION_PATCH);
}

FREEWAY_EXPORT void freeway_stats(freeway_stats_t* stats, std::size_t size) noexcept {
  if (stats == nullptr) return;
  freeway_stats_t mine;
  family::fill_stats(mine);
  memcpy(stats, &mine, size < sizeof(mine) ? size : sizeof(mine));
}

FREEWAY_EXPORT std::size_t freeway_trim(std::size_t keep) noexcept { return family::trim(keep); }

FREEWAY_EXPORT std::size_t freeway_reserve(std::size_t size, std::size_t count) noexcept {
  return family::reserve(size, count);
}

FREEWAY_EXPORT int freeway_set_limit(std::size_t soft, std::size_t hard) noexcept {
  const auto is_limit = [](std::size_t bytes) { return bytes == 0 || bytes >= freeway::kFrameSize; };
  if (!is_limit(soft) || !is_limit(hard) || (hard != 0 && soft > hard)) return EINVAL;
  return family::set_limit(soft, hard);
}

FREEWAY_EXPORT std::size_t freeway_trim_step(std::size_t max_bytes) noexcept { return family::trim_step(max_bytes); }

FREEWAY_EXPORT void freeway_idle() noexcept { family::idle(); }

FREEWAY_EXPORT std::size_t freeway_audit(freeway_audit_t* audit, std::size_t size) noexcept {
  freeway_audit_t mine;
  family::fill_audit(mine);
  if (audit != nullptr) memcpy(audit, &mine, size < sizeof(mine) ? size : sizeof(mine));
  return mine.errors;
}

FREEWAY_EXPORT freeway_kind_t freeway_explain(const void* address, freeway_explanation_t* explanation,
                                              std::size_t size) noexcept {
  freeway_explanation_t mine;
  family::explain(reinterpret_cast<freeway::uptr>(address), mine);
  if (explanation != nullptr) memcpy(explanation, &mine, size < sizeof(mine) ? size : sizeof(mine));
  return mine.kind;
}

FREEWAY_EXPORT void freeway_explain_to(int fd, const void* address) noexcept {
  freeway_explanation_t mine;
  family::explain(reinterpret_cast<freeway::uptr>(address), mine);
  freeway::write_explanation(fd, address, mine);
}

FREEWAY_EXPORT std::size_t freeway_block_info(const void* block, freeway_block_info_t* info,
                                              std::size_t size) noexcept {
  freeway_block_info_t mine;
  family::block_info(reinterpret_cast<freeway::uptr>(block), mine);
  if (info != nullptr) memcpy(info, &mine, size < sizeof(mine) ? size : sizeof(mine));
  return mine.size;
}

FREEWAY_EXPORT int freeway_should_move(const void* block) noexcept {
  return family::should_move(reinterpret_cast<freeway::uptr>(block)) ? 1 : 0;
}

FREEWAY_EXPORT int freeway_profile_start(std::size_t interval) noexcept { return family::begin_profile(interval); }

FREEWAY_EXPORT void freeway_profile_stop() noexcept { family::end_profile(); }

FREEWAY_EXPORT int freeway_profile_dump(int fd) noexcept { return freeway::profile::dump(fd); }

FREEWAY_EXPORT std::uint64_t freeway_tag(std::uint64_t tag) noexcept { return freeway::profile::tag(tag); }

// 1 if memory was given back. Signal-safe; makes system calls.
FREEWAY_EXPORT int freeway_malloc_trim(std::size_t pad) noexcept { return family::trim(pad) != 0 ? 1 : 0; }

// A negative M_TRIM_THRESHOLD keeps what is freed, any other one ends that. Of glibc's other parameters none has a
// meaning here; M_MMAP_MAX neither: at 0 glibc takes large blocks from its heap, which it trims all the same. As there,
// 0 for a value that glibc would not take, 1 otherwise, also for parameters it does not know.
FREEWAY_EXPORT int freeway_mallopt(int parameter, int value) noexcept {
  constexpr int kMaxFast = 80 * static_cast<int>(sizeof(std::size_t)) / 4;
  constexpr int kMaxMmapThreshold = 32 * 1024 * 1024;
  if (parameter == M_MXFAST) return value >= 0 && value <= kMaxFast;
  if (parameter == M_MMAP_THRESHOLD) return value >= 0 && value <= kMaxMmapThreshold;
  if (parameter == M_TRIM_THRESHOLD) family::keep_freed(value < 0);
  return 1;
}

// arena: bytes in superblocks, large blocks and dirty frames; hblkhd: huge blocks; uordblks: live but for huge blocks;
// fordblks: free but kept (magazines, superblocks, dirty frames); keepcost: malloc_trim certainly gives it back (dirty
// frames).
FREEWAY_EXPORT struct mallinfo2 freeway_mallinfo2() noexcept {
  freeway_stats_t stats;
  family::fill_stats(stats);
  struct mallinfo2 info = {};
  info.arena = stats.mapped - stats.huge;
  info.ordblks = stats.superblocks;
  info.hblkhd = stats.huge;
  info.hblks = family::huge_blocks();
  info.fsmblks = stats.cached;
  info.uordblks = stats.live - stats.huge;
  info.fordblks = stats.cached + stats.free_in_superblocks + stats.dirty;
  info.keepcost = stats.dirty;
  return info;
}

// The same in ints, which wrap beyond 2 GiB: the old interface.
FREEWAY_EXPORT struct mallinfo freeway_mallinfo() noexcept {
  const struct mallinfo2 wide = freeway_mallinfo2();
  struct mallinfo info = {};
  info.arena = static_cast<int>(wide.arena);
  info.ordblks = static_cast<int>(wide.ordblks);
  info.hblks = static_cast<int>(wide.hblks);
  info.hblkhd = static_cast<int>(wide.hblkhd);
  info.fsmblks = static_cast<int>(wide.fsmblks);
  info.uordblks = static_cast<int>(wide.uordblks);
  info.fordblks = static_cast<int>(wide.fordblks);
  info.keepcost = static_cast<int>(wide.keepcost);
  return info;
}

FREEWAY_EXPORT void freeway_malloc_stats() noexcept { family::write_summary(2); }

// Writes XML to `stream`. Takes stdio's lock: not signal-safe. EINVAL for options other than 0 and a null stream, EIO
// when writing fails.
FREEWAY_EXPORT int freeway_malloc_info(int options, FILE* stream) noexcept {
  if (options != 0 || stream == nullptr) return EINVAL;
  freeway_stats_t stats;
  family::fill_stats(stats);
  int written = fprintf(stream, "<malloc version=\"freeway-%s\">\n<heap nr=\"0\">\n<sizes>\n", freeway_version());
  struct Output {
    FILE* stream;
    int written;
  } output{stream, written};
  const auto write_class = [](void* to, const freeway::ClassFigures& each) {
    auto& out = *static_cast<Output*>(to);
    if (out.written >= 0)
      out.written = fprintf(out.stream,
                            "<size from=\"%zu\" to=\"%zu\" total=\"%zu\" count=\"%zu\" live=\"%zu\" cached=\"%zu\"/>\n",
                            each.from, each.size, each.bytes, each.superblocks, each.live, each.cached);
  };
  family::each_class(write_class, &output);
  written = output.written;
  if (written >= 0)
    written = fprintf(stream,
                      "</sizes>\n</heap>\n<total type=\"live\" count=\"%zu\" size=\"%zu\"/>\n"
                      "<total type=\"rest\" count=\"%zu\" size=\"%zu\"/>\n<system type=\"current\" size=\"%zu\"/>\n"
                      "<aspace type=\"total\" size=\"%zu\"/>\n</malloc>\n",
                      stats.live_blocks, stats.live, stats.superblocks,
                      stats.cached + stats.free_in_superblocks + stats.dirty, stats.mapped, stats.mapped);
  return written < 0 ? EIO : 0;
}

#ifndef FREEWAY_PREFIXED
FREEWAY_EXPORT int malloc_trim(std::size_t) noexcept __attribute__((alias("freeway_malloc_trim")));
FREEWAY_EXPORT int mallopt(int, int) noexcept __attribute__((alias("freeway_mallopt")));
FREEWAY_EXPORT struct mallinfo2 mallinfo2() noexcept __attribute__((alias("freeway_mallinfo2")));
FREEWAY_EXPORT struct mallinfo mallinfo() noexcept __attribute__((alias("freeway_mallinfo")));
FREEWAY_EXPORT void malloc_stats() noexcept __attribute__((alias("freeway_malloc_stats")));
FREEWAY_EXPORT int malloc_info(int, FILE*) noexcept __attribute__((alias("freeway_malloc_info")));
#endif
}
