// SPDX-License-Identifier: MIT
// mapping.h: a line of /proc/self/maps: "7f…-7f… r-xp 00001000 fe:01 1234   /usr/lib/libfoo.so". Signal-safe.
#pragma once

#include "base/integers.h"

namespace freeway {

struct Mapping {
  u64 begin = 0, end = 0, offset = 0;
  bool is_code = false;
  const char* file = "";  // in the line; empty: of none, or the line is cut off before it
};

namespace mapping_detail {

constexpr u64 take_hex(const char*& at) {
  u64 value = 0;
  for (;; ++at) {
    if (*at >= '0' && *at <= '9') value = value * 16 + static_cast<u64>(*at - '0');
    else if (*at >= 'a' && *at <= 'f') value = value * 16 + static_cast<u64>(*at - 'a' + 10);
    else return value;
  }
}

constexpr const char* past_blanks(const char* at) {
  while (*at == ' ') ++at;
  return at;
}
constexpr const char* past_word(const char* at) {
  while (*at != 0 && *at != ' ') ++at;
  return past_blanks(at);
}

}  // namespace mapping_detail

// The line may be cut off anywhere: what comes later is not known then. What is no such line is an empty mapping.
constexpr Mapping parse_mapping(const char* line) {
  using namespace mapping_detail;
  Mapping mapping;
  mapping.begin = take_hex(line);
  if (*line++ != '-') return {};
  mapping.end = take_hex(line);
  line = past_blanks(line);
  mapping.is_code = line[0] != 0 && line[1] != 0 && line[2] == 'x';
  line = past_word(line);
  mapping.offset = take_hex(line);
  line = past_word(past_word(past_blanks(line)));  // device, inode
  if (*line == '/') mapping.file = line;
  return mapping;
}

}  // namespace freeway
