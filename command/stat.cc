// SPDX-License-Identifier: MIT
// stat.cc: `freeway stat`: the figures of freeway_stats, from outside.
#include <cinttypes>
#include <cstdio>
#include <string>

#include "heap/figures.h"
#include "look.h"
#include "report.h"
#include "subcommands.h"

namespace freeway_command {
namespace {

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

// By the names that dashboards know; `mapped` and `metadata` are among the own ones.
std::vector<Figure> known_figures(const Walk& walk, const freeway_stats_t& s) {
  using enum Kind;
  std::vector<Figure> all = {
      {"allocated", kBytes, "Blocks in the program's hands: live.", s.live},
      {"active", kBytes, "Superblocks, large, huge and guarded blocks: mapped without what is dirty.",
       s.mapped > s.dirty ? s.mapped - s.dirty : 0},
      {"retained", kBytes, "Address space of free frames without memory.", freeway::look::retained_bytes(walk)},
  };
  if (const auto resident = resident_bytes(walk.reader().memory()))
    all.push_back({"resident", kBytes, "Memory of the whole process, of other origin too.", *resident});
  return all;
}

void print_json(const Walk& walk, const freeway_stats_t& stats) {
  const freeway_debug_t& d = walk.reader().layout();
  std::printf("{\"schema\": 1, \"version\": %s, \"engine\": %s, \"mode\": %s,\n", json_text(d.library).c_str(),
              json_text(d.engine).c_str(), json_text(freeway::look::mode_of(walk)).c_str());
  std::printf(" \"rseq_reason\": %s,\n", json_text(rseq_reason_of(walk)).c_str());
  std::printf(" \"program\": %s, \"pid\": %d, \"time_ns\": %" PRIu64 ", \"page_size\": %zu",
              json_text(walk.reader().memory().program()).c_str(), walk.reader().memory().pid(), now_ns(),
              walk.reader().memory().page_size());
  for (const Figure& each : known_figures(walk, stats)) std::printf(",\n \"%s\": %" PRIu64, each.name, each.value);
  if (!walk.reader().memory().is_live()) std::printf(",\n \"resident\": null");
  for (const Figure& each : own_figures(stats)) std::printf(",\n \"%s\": %" PRIu64, each.name, each.value);
  std::puts("}");
}

// A label's value: what is no printable ASCII is '_'.
std::string label(const std::string& text) {
  std::string safe;
  for (const char c : text) safe += c == '"' || c == '\\' || c < 0x20 || c >= 0x7f ? '_' : c;
  return safe;
}

void print_prometheus(const Walk& walk, const freeway_stats_t& stats) {
  const std::string labels = "{pid=\"" + std::to_string(walk.reader().memory().pid()) + "\",program=\"" +
                             label(walk.reader().memory().program()) + "\"}";
  std::vector<Figure> all = known_figures(walk, stats);
  for (const Figure& each : own_figures(stats)) all.push_back(each);
  for (const Figure& each : all) {
    const bool total = each.kind == Kind::kTotal || each.kind == Kind::kTotalBytes;
    const bool bytes = each.kind == Kind::kBytes || each.kind == Kind::kTotalBytes;
    const std::string name = std::string("freeway_") + each.name + (bytes ? "_bytes" : "") + (total ? "_total" : "");
    std::printf("# HELP %s %s\n# TYPE %s %s\n%s%s %" PRIu64 "\n", name.c_str(), each.help, name.c_str(),
                total ? "counter" : "gauge", name.c_str(), labels.c_str(), each.value);
  }
}

void print_text(const Walk& walk, const freeway_stats_t& s) {
  const auto line = [](const char* name, uint64_t bytes, const std::string& rest) {
    std::printf("  %-10s %10s%s\n", name, in_units(bytes).c_str(), rest.c_str());
  };
  const auto count = [](uint64_t n) { return std::to_string(n); };
  std::printf("%s (%d): Freeway %s, %s\n", walk.reader().memory().program().c_str(), walk.reader().memory().pid(),
              walk.reader().layout().library, freeway::look::mode_of(walk));
  if (const auto resident = resident_bytes(walk.reader().memory()))
    line("resident", *resident, " of the whole process");
  line("live", s.live, " in " + count(s.live_blocks) + " blocks");
  line("cached", s.cached,
       " in magazines; " + in_units(s.free_in_superblocks) + " free in " + count(s.superblocks) + " superblocks");
  line("dirty", s.dirty,
       " in free frames; " + in_units(freeway::look::retained_bytes(walk)) + " of address space without memory");
  line("mapped", s.mapped, ", " + in_units(s.huge) + " of it huge; metadata " + in_units(s.metadata));
  line("large", s.large, " in runs of frames; " + count(s.large_blocks) + " blocks, huge ones included");
  if (s.guarded_blocks != 0 || walk.guard_bytes() != 0)
    line("guarded", s.guarded, " in " + count(s.guarded_blocks) + " blocks, " + count(s.guard_faults) + " faults");
  line("held", s.held,
       s.soft_limit == 0 && s.hard_limit == 0
           ? "; no limits"
           : "; limits: soft " + in_units(s.soft_limit) + ", hard " + in_units(s.hard_limit) + "; " +
                 count(s.limit_refusals) + " refusals");
  std::printf("  slow path  %zu mallocs, %zu frees; %zu batches in, %zu out\n",
              static_cast<std::size_t>(s.slow_mallocs), static_cast<std::size_t>(s.slow_frees),
              static_cast<std::size_t>(s.refills), static_cast<std::size_t>(s.flushes));
  line("given back", s.purged, " in " + count(s.purges) + " purges");
}

}  // namespace

int stat(const Arguments& arguments) {
  const bool json = arguments.has("--json"), prometheus = arguments.has("--prometheus");
  if (json && prometheus) arguments.refuse("--json or --prometheus?");
  const auto memory = memory_of(arguments.others()[0]);
  const Description description(*memory);
  const Walk walk(description);
  const freeway_stats_t stats = stats_of(walk);
  warn_of(*memory);
  json ? print_json(walk, stats) : prometheus ? print_prometheus(walk, stats) : print_text(walk, stats);
  return kOk;
}

}  // namespace freeway_command
