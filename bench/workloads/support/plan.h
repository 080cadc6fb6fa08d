// SPDX-License-Identifier: MIT
//
// plan.h: a program's parameters as a table with a row for each paper. The same name means different programs in
// different papers, so each of them has a preset: `--preset michael`; single parameters override it: `--preset michael
// --size 16`.
//
//   struct Plan { long threads, size; };
//   constexpr bench::Preset<Plan> kPresets[] = {{"michael", {.threads = 16, .size = 8}}, …};
//   constexpr bench::Parameter<Plan> kParameters[] = {{"threads", &Plan::threads}, {"size", &Plan::size}};
//   const Plan plan = bench::plan_argument(argc, argv, kPresets, kParameters);
//
// The first preset is the default. `--parameters` prints the parameters in effect and ends: tests compare them with the
// papers. An argument that is no parameter is refused: a misspelt one would measure something else.
#ifndef FREEWAY_BENCH_SUPPORT_PLAN_H
#define FREEWAY_BENCH_SUPPORT_PLAN_H

#include "support/measure.h"

namespace bench {

template <class Plan> struct Preset {
  const char* name;
  Plan plan;
};

template <class Plan> struct Parameter {
  const char* name;
  long Plan::* value;
  long least = 1;  // 0 for switches and for what may be left out
};

namespace plan_detail {

// Arguments that every program may have beside its own, and whether a value follows.
struct Common {
  const char* name;
  bool has_value;
};
inline constexpr Common kCommon[] = {{"preset", true}, {"shrink", true},   {"seconds", true},
                                     {"route", true},  {"profile", false}, {"parameters", false}};

[[noreturn]] inline void refuse(const char* what, const char* text) {
  std::fprintf(stderr, "%s '%s'\n", what, text);
  std::exit(2);
}

inline long whole_number(const char* name, const char* text, long least) {
  char* end = nullptr;
  const long value = std::strtol(text, &end, 10);
  if (end == text || *end != '\0' || value < least) {
    std::fprintf(stderr, "--%s wants a whole number from %ld up, not '%s'\n", name, least, text);
    std::exit(2);
  }
  return value;
}

// How many arguments a common one takes up; 0 if `text` is none.
inline int length_of_common(const char* text) {
  for (const Common& common : kCommon)
    if (std::strcmp(text, common.name) == 0) return common.has_value ? 2 : 1;
  return 0;
}

}  // namespace plan_detail

template <class Plan, std::size_t Presets>
const Preset<Plan>& preset_argument(int argc, char** argv, const Preset<Plan> (&presets)[Presets]) {
  const char* name = text_argument(argc, argv, "preset", presets[0].name);
  for (const auto& preset : presets)
    if (std::strcmp(preset.name, name) == 0) return preset;
  std::fprintf(stderr, "no preset '%s'; there are:", name);
  for (const auto& preset : presets) std::fprintf(stderr, " %s", preset.name);
  std::fputs("\n", stderr);
  std::exit(2);
}

template <class Plan, std::size_t Presets, std::size_t Parameters>
Plan plan_argument(int argc, char** argv, const Preset<Plan> (&presets)[Presets],
                   const Parameter<Plan> (&parameters)[Parameters]) {
  const Preset<Plan>& preset = preset_argument(argc, argv, presets);
  Plan plan = preset.plan;
  bool print = false;
  for (int i = 1; i < argc;) {
    if (std::strncmp(argv[i], "--", 2) != 0) plan_detail::refuse("not an argument:", argv[i]);
    const char* name = argv[i] + 2;
    int length = plan_detail::length_of_common(name);
    for (const auto& parameter : parameters)
      if (length == 0 && std::strcmp(parameter.name, name) == 0) {
        if (i + 1 == argc) plan_detail::refuse("no value for", argv[i]);
        plan.*parameter.value = plan_detail::whole_number(name, argv[i + 1], parameter.least);
        length = 2;
      }
    if (length == 0) plan_detail::refuse("unknown argument", argv[i]);
    if (std::strcmp(name, "parameters") == 0) print = true;
    i += length;
  }
  if (print) {
    std::printf("{\"preset\": \"%s\"", preset.name);
    for (const auto& parameter : parameters) std::printf(", \"%s\": %ld", parameter.name, plan.*parameter.value);
    std::printf("}\n");
    std::exit(0);
  }
  return plan;
}

}  // namespace bench

#endif  // FREEWAY_BENCH_SUPPORT_PLAN_H
