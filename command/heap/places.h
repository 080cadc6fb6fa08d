// SPDX-License-Identifier: MIT
// places.h: where in which file an address of code lies.
#pragma once

#include <cinttypes>
#include <cstdio>
#include <string>

#include "heap/memory.h"

namespace freeway_command {

// "libfoo.so+0x1234": from where the file's first page would lie; "0x7f..." if it is in no file.
inline std::string place_of(const std::vector<Mapping>& mappings, std::uint64_t address) {
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
