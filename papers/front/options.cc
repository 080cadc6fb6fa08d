// SPDX-License-Identifier: MIT
#include "papers/front/options.h"

#include <string.h>

#include "base/check.h"

namespace freeway {

namespace {

// Calls f(option) for each option of `engine`.
template <class F> void each_option(const char* engine, F&& f) {
  for (const EngineOption& option : kEngineOptions)
    if (strcmp(option.engine, engine) == 0) f(option);
}

}  // namespace

u64 engine_option(const char* engine, const char* name) {
  u64 value = 0;
  each_option(engine, [&](const EngineOption& option) {
    if (strcmp(option.name, name) != 0) return;
    const char* text = option_text(name);
    if (text == nullptr || !parse_option(option.values, text, &value))
      FREEWAY_CHECK(parse_option(option.values, option.fallback, &value));
  });
  return value;
}

void check_engine_options(const char* engine, bool speak) {
  if (!speak) return;
  each_option(engine, [](const EngineOption& option) {
    u64 value;
    if (const char* text = option_text(option.name); text != nullptr && !parse_option(option.values, text, &value))
      complain_of_option(option.name, text, option.values);
  });
}

}  // namespace freeway
