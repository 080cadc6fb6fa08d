// SPDX-License-Identifier: MIT
#include "variables.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <string_view>
#include <vector>

#include "os/option_table.h"
#include "papers/front/options.h"
#include "profile/settings.h"
#include "report.h"
#include "usage.h"

namespace freeway_command {
namespace {

constexpr std::string_view kPrefix = "FREEWAY_";
// What this command, and Freeway's own build and tests, have there.
constexpr std::string_view kOthers[] = {"LIB",      "COMMAND",    "BUILD_DIR", "SOURCE_DIR",
                                        "JEMALLOC", "NO_INSTALL", "PYTHON"};
constexpr std::string_view kTests = "TEST_";

const freeway::OptionDescription* find_option(const std::string& name) {
  for (const freeway::OptionDescription& each : freeway::kOptionTable)
    if (name == each.name) return &each;
  return nullptr;
}

const freeway::EngineOption* find_engine_option(const std::string& engine, const std::string& name) {
  for (const freeway::EngineOption& each : freeway::kEngineOptions)
    if (engine == each.engine && name == each.name) return &each;
  return nullptr;
}

std::vector<std::string_view> names() {
  std::vector<std::string_view> all;
  for (const freeway::OptionDescription& each : freeway::kOptionTable) all.emplace_back(each.name);
  for (const freeway::EngineOption& each : freeway::kEngineOptions) all.emplace_back(each.name);
  return all;
}

void check_value(const std::string& name, const std::string& value, const std::string& engine) {
  freeway::u64 number;
  const freeway::EngineOption* const option = find_engine_option(engine, name);
  const bool good = option != nullptr ? freeway::parse_option(option->values, value.c_str(), &number)
                                      : find_option(name) == nullptr || is_understood(name, value);
  if (!good)
    throw Failure(kWrongUsage, "FREEWAY_" + name + "=" + value + " in the environment is not understood" +
                                   (option != nullptr ? std::string(" (") + option->values + ")" : values_of(name)));
}

void check_name(const std::string& name) {
  const std::vector<std::string_view> known = names();
  if (name.starts_with(kTests) || std::ranges::find(known, name) != known.end() ||
      std::ranges::find(kOthers, std::string_view(name)) != std::end(kOthers))
    return;
  const std::string variable = "FREEWAY_" + name;
  if (const std::string meant(similar_to(name, known)); !meant.empty())
    throw Failure(kWrongUsage, variable + " in the environment is no option: did you mean FREEWAY_" + meant +
                                   "? (see `freeway options`; if it is the program's own: freeway run -- env " +
                                   variable + "=... program)");
  std::fprintf(stderr, "freeway: %s in the environment is no option (see `freeway options`)\n", variable.c_str());
}

}  // namespace

bool is_understood(const std::string& name, const std::string& value) {
  freeway::profile::Settings settings;
  if (value.empty()) return false;
  return name == "PROFILE" ? freeway::profile::parse_settings(value.c_str(), &settings)
                           : freeway::takes_value(name.c_str(), value.c_str());
}

std::string values_of(const std::string& name) {
  const freeway::OptionDescription* const option = find_option(name);
  return option == nullptr ? "" : std::string(" (") + option->values + ")";
}

void check_variables(const std::string& engine) {
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string_view text = *entry;
    const std::size_t equals = text.find('=');
    if (!text.starts_with(kPrefix) || equals == std::string_view::npos) continue;
    const std::string name(text.substr(kPrefix.size(), equals - kPrefix.size()));
    check_name(name);
    if (equals + 1 < text.size()) check_value(name, std::string(text.substr(equals + 1)), engine);
  }
}

}  // namespace freeway_command
