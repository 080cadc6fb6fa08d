// SPDX-License-Identifier: MIT
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <map>
#include <vector>

#include "write.h"

namespace freeway_profile {
namespace {

// What separates frames, and lines, may not be in a name.
std::string plain(std::string name) {
  std::replace_if(name.begin(), name.end(), [](unsigned char c) { return c == ';' || c < ' '; }, '_');
  return name;
}

}  // namespace

std::string write_collapsed(const Stacks& stacks, Measure measure) {
  std::map<std::vector<std::uint32_t>, double> values;  // lines do not matter here
  for (const Stack& stack : stacks.all()) values[stack.functions] += stack.change(measure);
  std::string text;
  for (const auto& [functions, value] : values) {
    const double rounded = std::round(value);
    if (rounded == 0) continue;
    std::string line;
    for (auto each = functions.rbegin(); each != functions.rend(); ++each)
      line += (line.empty() ? "" : ";") + plain(stacks.functions()[*each].name);
    char number[400];
    std::snprintf(number, sizeof(number), " %.0f\n", rounded);
    text += (line.empty() ? "(no stack)" : line) + number;
  }
  return text;
}

}  // namespace freeway_profile
