// SPDX-License-Identifier: MIT
// stat.cc: `freeway stat`: how much of a process's memory is the heap's; the figures of freeway_stats, from outside.
#include <cinttypes>
#include <cstdio>
#include <optional>
#include <string>

#include "heap/figures.h"
#include "heap/resident.h"
#include "look.h"
#include "look/words.h"
#include "report.h"
#include "subcommands.h"

namespace freeway_command {
namespace {

namespace look = freeway::look;
using std::uint64_t;

enum class Kind { kBytes, kCount, kTotal, kTotalBytes };  // the latter two only grow

struct Figure {
  const char* name;
  Kind kind;
  const char* help;
  uint64_t value;
};

std::vector<Figure> own_figures(const freeway_stats_t& s) {
  using enum Kind;
  return {
#define FREEWAY_FIGURE(name, kind, help, ...) {#name, kind, help, s.name},
#include "look/figures.def"
  };
}

// What the figures are of.
struct Subject {
  const Heap& heap;
  freeway_stats_t stats;
  std::optional<uint64_t> process;   // bytes of all of it that are in memory
  std::optional<Contents> resident;  // of its heap
};

// By the names that dashboards know; `mapped` and `metadata` are among the own ones. And what is in memory.
std::vector<Figure> known_figures(const Subject& subject) {
  using enum Kind;
  const freeway_stats_t& s = subject.stats;
  std::vector<Figure> all = {
      {"allocated", kBytes, "Blocks in the program's hands: live.", s.live},
      {"active", kBytes, "Superblocks, large, huge and guarded blocks: mapped without what is dirty.",
       s.mapped > s.dirty ? s.mapped - s.dirty : 0},
      {"retained", kBytes, "Address space of free frames without memory.", look::retained_bytes(subject.heap.walk())},
  };
  if (subject.process)
    all.push_back({"resident", kBytes, "Memory of the whole process, of other origin too.", *subject.process});
  if (const auto& r = subject.resident) {
    all.push_back({"resident_heap", kBytes, "Memory of the heap: the five that follow.", r->all()});
    all.push_back({"resident_live", kBytes, "Memory of live blocks.", r->live});
    all.push_back({"resident_cached", kBytes, "Memory of free blocks in per-CPU caches, ready for malloc.", r->cached});
    all.push_back({"resident_stuck", kBytes, "Memory of other free blocks, beside live ones.", r->stuck});
    all.push_back({"resident_free", kBytes, "Memory that holds no block: what trimming returns to the OS.", r->free});
    all.push_back({"resident_metadata", kBytes, "Memory of descriptors, slabs and maps.", r->metadata});
  }
  return all;
}

void print_json(const Subject& subject) {
  const Walk& walk = subject.heap.walk();
  const freeway_debug_t& d = walk.reader().layout();
  std::printf("{\"schema\": 1, \"version\": %s, \"engine\": %s, \"mode\": %s,\n", json_text(d.library).c_str(),
              json_text(d.engine).c_str(), json_text(look::mode_of(walk)).c_str());
  std::printf(" \"rseq_reason\": %s,\n", json_text(rseq_reason_of(walk)).c_str());
  std::printf(" \"program\": %s, \"pid\": %d, \"time_ns\": %" PRIu64 ", \"page_size\": %zu",
              json_text(walk.reader().memory().program()).c_str(), walk.reader().memory().pid(), now_ns(),
              walk.reader().memory().page_size());
  for (const Figure& each : known_figures(subject)) std::printf(",\n \"%s\": %" PRIu64, each.name, each.value);
  if (!walk.reader().memory().is_live()) std::printf(",\n \"resident\": null");
  for (const Figure& each : own_figures(subject.stats)) std::printf(",\n \"%s\": %" PRIu64, each.name, each.value);
  std::puts("}");
}

// A label's value: what is no printable ASCII is '_'.
std::string label(const std::string& text) {
  std::string safe;
  for (const char c : text) safe += c == '"' || c == '\\' || c < 0x20 || c >= 0x7f ? '_' : c;
  return safe;
}

void print_prometheus(const Subject& subject) {
  const Walk& walk = subject.heap.walk();
  const std::string labels = "{pid=\"" + std::to_string(walk.reader().memory().pid()) + "\",program=\"" +
                             label(walk.reader().memory().program()) + "\"}";
  std::vector<Figure> all = known_figures(subject);
  for (const Figure& each : own_figures(subject.stats)) all.push_back(each);
  for (const Figure& each : all) {
    const bool total = each.kind == Kind::kTotal || each.kind == Kind::kTotalBytes;
    const bool bytes = each.kind == Kind::kBytes || each.kind == Kind::kTotalBytes;
    const std::string name = std::string("freeway_") + each.name + (bytes ? "_bytes" : "") + (total ? "_total" : "");
    std::printf("# HELP %s %s\n# TYPE %s %s\n%s%s %" PRIu64 "\n", name.c_str(), each.help, name.c_str(),
                total ? "counter" : "gauge", name.c_str(), labels.c_str(), each.value);
  }
}

void line(const char* name, uint64_t bytes, const std::string& rest) {
  std::printf("  %-10s %10s  %s\n", name, in_units(bytes).c_str(), rest.c_str());
}
void line(const look::Word& word, uint64_t bytes, const std::string& rest) { line(word.name, bytes, rest); }
std::string count(uint64_t n) { return std::to_string(n); }

void print_others(const Contents& of) {
  line(look::kCached, of.cached, look::kCached.meaning);
  line(look::kStuck, of.stuck, look::kStuck.meaning);
  line(look::kFree, of.free, look::kFree.meaning);
  line(look::kMetadata, of.metadata, look::kMetadata.meaning);
}

std::string share(uint64_t part, uint64_t whole) {
  return whole == 0 ? "0 %" : std::to_string((part * 100 + whole / 2) / whole) + " %";
}

// One sentence, and where the heap's memory is. Of a core file, which does not say what was in memory, its sizes.
void print_summary(const Subject& subject) {
  const freeway_stats_t& s = subject.stats;
  const std::string blocks = "in " + count(s.live_blocks) + (s.live_blocks == 1 ? " block" : " blocks");
  if (const auto& r = subject.resident) {
    std::printf("%s resident, %s of it the heap's, of which %s is live\n",
                in_units(subject.process.value_or(0)).c_str(), in_units(r->all()).c_str(),
                share(r->live, r->all()).c_str());
    line(look::kLive, r->live,
         blocks + (s.live > r->live ? "; " + in_units(s.live - r->live) + " more not touched" : ""));
    print_others(*r);
  } else {
    std::printf("%s live; sizes, since a core file does not say what was resident\n", in_units(s.live).c_str());
    line(look::kLive, s.live, blocks);
    print_others(sizes_of(subject.heap));
  }
  if (s.soft_limit != 0 || s.hard_limit != 0)
    line("limit", s.hard_limit != 0 ? s.hard_limit : s.soft_limit,
         in_units(s.held) + " count against it; " + count(s.limit_refusals) + " refusals");
  if (s.guard_faults != 0) line("guarded", s.guarded, count(s.guard_faults) + " faults at guarded blocks");
}

void print_verbose(const Subject& subject) {
  const freeway_stats_t& s = subject.stats;
  const Walk& walk = subject.heap.walk();
  std::puts("\naddress space, resident or not:");
  line("mapped", s.mapped,
       in_units(s.huge) + " of it huge blocks; " + in_units(look::retained_bytes(walk)) + " more without memory");
  line("large", s.large, "in runs of frames; " + count(s.large_blocks) + " blocks, huge ones included");
  line(look::kStuck, s.free_in_superblocks, "in " + count(s.superblocks) + " superblocks");
  line(look::kFree, s.dirty, "not returned to the OS: may be resident");
  if (s.guarded_blocks != 0 || walk.guard_bytes() != 0)
    line("guarded", s.guarded, "in " + count(s.guarded_blocks) + " blocks, " + count(s.guard_faults) + " faults");
  line("held", s.held,
       s.soft_limit == 0 && s.hard_limit == 0
           ? "counts against limits; there are none"
           : "counts against limits: soft " + in_units(s.soft_limit) + ", hard " + in_units(s.hard_limit) + "; " +
                 count(s.limit_refusals) + " refusals");
  std::puts("since the start:");
  line(look::kReturned, s.purged, "in " + count(s.purges) + " calls");
  std::printf("  %-10s %10s  mallocs, %s frees; batches: %s from superblocks, %s back\n", "slow path",
              count(s.slow_mallocs).c_str(), count(s.slow_frees).c_str(), count(s.refills).c_str(),
              count(s.flushes).c_str());
}

void print_text(const Subject& subject, bool verbose) {
  const Memory& memory = subject.heap.memory();
  std::printf("%s (%d), Freeway %s, %s\n", memory.program().c_str(), memory.pid(), subject.heap.layout().library,
              look::mode_of(subject.heap.walk()));
  print_summary(subject);
  if (verbose) print_verbose(subject);
  else std::puts("more: --verbose; what is normal: docs/reading-stat.md");
}

}  // namespace

int stat(const Arguments& arguments) {
  const bool json = arguments.has("--json"), prometheus = arguments.has("--prometheus");
  if (json && prometheus) arguments.refuse("--json or --prometheus?");
  const auto memory = memory_of(arguments.others()[0]);
  const Heap heap(*memory);
  const Subject subject{heap, stats_of(heap.walk()), resident_bytes(*memory), resident_of(heap)};
  warn_of(*memory);
  json ? print_json(subject) : prometheus ? print_prometheus(subject) : print_text(subject, arguments.has("--verbose"));
  return kOk;
}

}  // namespace freeway_command
