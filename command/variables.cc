// SPDX-License-Identifier: MIT
#include "variables.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <numeric>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "os/option_table.h"
#include "papers/front/options.h"

namespace freeway_command {
namespace {

constexpr std::string_view kPrefix = "FREEWAY_";
// What this command, and Freeway's own build and tests, have there.
constexpr std::string_view kOthers[] = {"LIB",      "COMMAND",    "BUILD_DIR", "SOURCE_DIR",
                                        "JEMALLOC", "NO_INSTALL", "PYTHON"};
constexpr std::string_view kTests = "TEST_";

std::vector<std::string_view> options() {
  std::vector<std::string_view> names;
  for (const freeway::OptionDescription& each : freeway::kOptionTable) names.push_back(each.name);
  for (const freeway::EngineOption& each : freeway::kEngineOptions) names.push_back(each.name);
  return names;
}

// How many letters one has to put in, take out or change.
std::size_t distance(std::string_view from, std::string_view to) {
  std::vector<std::size_t> row(to.size() + 1);
  std::iota(row.begin(), row.end(), 0);
  for (std::size_t i = 1; i <= from.size(); ++i) {
    std::size_t before = std::exchange(row[0], i);
    for (std::size_t k = 1; k <= to.size(); ++k) {
      const std::size_t changed = before + (from[i - 1] != to[k - 1]);
      before = std::exchange(row[k], std::min({changed, row[k] + 1, row[k - 1] + 1}));
    }
  }
  return row[to.size()];
}

// The option that may be meant; empty: none is like it.
std::string_view similar(std::string_view name, const std::vector<std::string_view>& all) {
  const auto near = std::min_element(all.begin(), all.end(), [&](std::string_view a, std::string_view b) {
    return distance(name, a) < distance(name, b);
  });
  return distance(name, *near) <= (near->size() + 1) / 3 ? *near : std::string_view();
}

}  // namespace

void name_unknown_variables() {
  const std::vector<std::string_view> known = options();
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string_view variable(*entry, std::string_view(*entry).find('='));
    if (!variable.starts_with(kPrefix)) continue;
    const std::string_view name = variable.substr(kPrefix.size());
    const auto is_name = [&](std::string_view each) { return each == name; };
    if (name.starts_with(kTests) || std::ranges::any_of(known, is_name) || std::ranges::any_of(kOthers, is_name))
      continue;
    const std::string meant(similar(name, known));
    std::fprintf(stderr, "freeway: %.*s in the environment is no option%s%s (see `freeway options`)\n",
                 static_cast<int>(variable.size()), variable.data(), meant.empty() ? "" : ": is it FREEWAY_",
                 meant.empty() ? "" : (meant + "?").c_str());
  }
}

}  // namespace freeway_command
