// SPDX-License-Identifier: MIT
#include "perf_map.h"

#include <fstream>
#include <optional>

#include "words.h"

namespace freeway_profile {

PerfMap::PerfMap(std::uint64_t pid) {
  constexpr std::size_t kMostLines = 4 << 20;
  if (pid == 0) return;
  std::ifstream file("/tmp/perf-" + std::to_string(pid) + ".map");
  std::string line;
  for (std::size_t i = 0; i < kMostLines && std::getline(file, line); ++i) {
    Words words(line);
    const std::optional<std::uint64_t> start = words.take_number(16);
    words.skip_blanks();
    const std::optional<std::uint64_t> length = words.take_number(16);
    words.skip_blanks();
    if (start && length && *length != 0 && !words.at_end())
      by_start_[*start] = {*start + *length, std::string(words.rest())};
  }
}

std::string PerfMap::name_at(std::uint64_t address) const {
  const auto behind = by_start_.upper_bound(address);
  if (behind == by_start_.begin()) return {};
  const Code& code = std::prev(behind)->second;
  return address < code.end ? code.name : "";
}

}  // namespace freeway_profile
