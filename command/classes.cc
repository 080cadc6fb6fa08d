// SPDX-License-Identifier: MIT
// classes.cc: `freeway classes`: what each size class holds, and how full its superblocks are.
#include <algorithm>
#include <cinttypes>
#include <cstdio>
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

using Row = std::vector<std::string>;

// All to the right, each column as wide as its longest text.
void print_table(const std::vector<Row>& rows) {
  std::vector<std::size_t> widths(rows[0].size());
  for (const Row& row : rows)
    for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  for (const Row& row : rows) {
    for (std::size_t i = 0; i < row.size(); ++i)
      std::printf("%s%*s", i == 0 ? "" : "  ", static_cast<int>(widths[i]), row[i].c_str());
    std::puts("");
  }
}

void print_text(const Heap& heap, const std::vector<ClassFigures>& all) {
  const std::optional<Contents> resident = resident_of(heap);
  std::vector<Row> rows{{"size", "superblocks", "blocks", look::kLive.name, look::kCached.name, look::kStuck.name}};
  if (resident) rows[0].push_back("resident");
  for (unsigned tenth = 1; tenth <= 10; ++tenth)
    rows[0].push_back((tenth == 10 ? "<=" : "<") + std::to_string(tenth * 10) + "%");
  for (unsigned c = 1; c < all.size(); ++c) {
    const ClassFigures& f = all[c];
    if (f.superblocks == 0) continue;
    Row row;
    for (const uint64_t number :
         {uint64_t{heap.description().size_class(c).size}, f.superblocks, f.blocks, f.live(), f.cached, f.free})
      row.push_back(std::to_string(number));
    if (resident) row.push_back(in_units(resident->by_class[c].all()));
    for (const uint64_t count : f.live_tenths) row.push_back(count == 0 ? "." : std::to_string(count));
    rows.push_back(row);
  }
  print_table(rows);
  std::puts("The last ten columns count superblocks by how many of their blocks are live.");
}

void print_list(const char* name, const uint64_t (&counts)[10]) {
  std::printf(", \"%s\": [", name);
  for (std::size_t i = 0; i < std::size(counts); ++i) std::printf("%s%" PRIu64, i == 0 ? "" : ", ", counts[i]);
  std::printf("]");
}

// By the names, and in the units, of what FREEWAY_STATS=json writes (freeway.h); and what is only known from outside.
void print_json(const Heap& heap, const std::vector<ClassFigures>& all) {
  std::printf("{\"schema\": 1, \"program\": %s, \"pid\": %d, \"time_ns\": %" PRIu64 ", \"classes\": [",
              json_text(heap.memory().program()).c_str(), heap.memory().pid(), now_ns());
  const char* comma = "\n";
  for (unsigned c = 1; c < all.size(); ++c) {
    const ClassFigures& f = all[c];
    if (f.superblocks == 0 && f.slow_mallocs == 0) continue;  // it was never used
    const uint64_t size = heap.description().size_class(c).size;
    const std::pair<const char*, uint64_t> figures[] = {{"superblocks", f.superblocks},
                                                        {"blocks", f.blocks},
                                                        {"live", f.live() * size},
                                                        {"cached", f.cached * size},
                                                        {"free", f.free * size},
                                                        {"waste", f.waste},
                                                        {"bytes", f.bytes},
                                                        {"live_blocks", f.live()},
                                                        {"cached_blocks", f.cached},
                                                        {"free_blocks", f.free},
                                                        {"slow_mallocs", f.slow_mallocs},
                                                        {"slow_frees", f.slow_frees},
                                                        {"refills", f.refills},
                                                        {"flushes", f.flushes}};
    std::printf("%s {\"size\": %" PRIu64, comma, size);
    for (const auto& [name, value] : figures) std::printf(", \"%s\": %" PRIu64, name, value);
    print_list("occupancy", f.occupancy);
    print_list("live_occupancy", f.live_tenths);
    std::printf("}");
    comma = ",\n";
  }
  std::puts("\n]}");
}

}  // namespace

int classes(const Arguments& arguments) {
  const auto memory = memory_of(arguments.others()[0]);
  const Heap heap(*memory);
  warn_of(*memory);
  const auto all = class_figures_of(heap);
  arguments.has("--json") ? print_json(heap, all) : print_text(heap, all);
  return kOk;
}

}  // namespace freeway_command
