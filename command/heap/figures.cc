// SPDX-License-Identifier: MIT
#include "heap/figures.h"

#include <algorithm>
#include <fstream>

namespace freeway_command {

using std::uint32_t, std::uint64_t;

freeway_stats_t stats_of(const Walk& walk) {
  freeway_stats_t stats = {};
  freeway::look::add_up(walk, stats);
  return stats;
}

std::vector<ClassFigures> class_figures_of(const Heap& heap) {
  std::vector<ClassFigures> all;
  for (const auto& each : heap.accounts()) all.push_back({each});
  for (const Superblock& each : heap.superblocks()) {
    const uint32_t blocks = heap.description().size_class(each.size_class).blocks;
    ++all[each.size_class].live_tenths[freeway::occupancy::tenth_of(blocks - each.free - each.cached, blocks)];
  }
  for (unsigned c = 1; c < all.size(); ++c) {
    ClassFigures& figures = all[c];
    const freeway::SizeClass& k = heap.description().size_class(c);
    figures.cached = std::min(figures.cached, figures.blocks - figures.free);
    figures.bytes = figures.superblocks * k.span_bytes();
    figures.waste = figures.bytes - figures.live() * k.size;
  }
  return all;
}

std::optional<uint64_t> resident_bytes(const Memory& memory) {
  if (!memory.is_live()) return {};
  std::ifstream file("/proc/" + std::to_string(memory.pid()) + "/statm");
  uint64_t all = 0, pages = 0;
  if (!(file >> all >> pages)) return {};
  return pages * memory.page_size();
}

std::string rseq_reason_of(const Walk& walk) {
  constexpr std::size_t kLongest = 200;
  if (walk.word(walk.reader().layout().heap_mode) != freeway::look::kSpareMode) return "";
  const uint64_t address = walk.word(walk.reader().layout().heap_why_spare);
  std::string text;
  for (char c; address != 0 && text.size() < kLongest; text += c)
    if (!walk.reader().memory().read(address + text.size(), &c, 1) || c == 0) break;
  return text;
}

}  // namespace freeway_command
