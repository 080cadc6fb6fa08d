// SPDX-License-Identifier: MIT
#include "look.h"

#include <cstdio>
#include <ctime>

namespace freeway_command {

void warn_of(const Memory& memory) {
  if (!memory.warning().empty())
    std::fprintf(stderr, "freeway: %s; what follows is from the rest\n", memory.warning().c_str());
}

std::string json_text(const std::string& text) {
  std::string json = "\"";
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      json += {'\\', c};
    } else if (byte < 0x20 || byte >= 0x7f) {  // other bytes than ASCII's as the characters of the same number
      char escape[8];
      std::snprintf(escape, sizeof(escape), "\\u%04x", byte);
      json += escape;
    } else {
      json += c;
    }
  }
  return json + "\"";
}

std::string in_units(std::uint64_t bytes) {
  constexpr const char* kUnits[] = {"B", "KiB", "MiB", "GiB", "TiB"};
  auto size = static_cast<double>(bytes);
  unsigned unit = 0;
  for (; size >= 1024 && unit < 4; ++unit) size /= 1024;
  char text[32];
  std::snprintf(text, sizeof(text), unit == 0 ? "%.0f %s" : "%.1f %s", size, kUnits[unit]);
  return text;
}

std::uint64_t now_ns() {
  timespec time = {};
  clock_gettime(CLOCK_REALTIME, &time);
  return static_cast<std::uint64_t>(time.tv_sec) * 1'000'000'000 + static_cast<std::uint64_t>(time.tv_nsec);
}

}  // namespace freeway_command
