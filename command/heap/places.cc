// SPDX-License-Identifier: MIT
#include "heap/places.h"

#include <cinttypes>
#include <cstdio>

namespace freeway_command {

std::string place_of(const std::vector<Mapping>& mappings, std::uint64_t address) {
  char text[24];
  for (const Mapping& each : mappings) {
    if (address < each.begin || address >= each.end || each.file.empty()) continue;
    std::uint64_t first = each.begin - each.offset;
    for (const Mapping& other : mappings)
      if (other.file == each.file && other.offset == 0 && other.begin <= each.begin) first = other.begin;
    std::snprintf(text, sizeof(text), "+0x%" PRIx64, address - first);
    return each.file.substr(each.file.rfind('/') + 1) + text;
  }
  std::snprintf(text, sizeof(text), "0x%" PRIx64, address);
  return text;
}

}  // namespace freeway_command
