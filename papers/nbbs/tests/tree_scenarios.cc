// SPDX-License-Identifier: MIT
// tree_scenarios.cc: see tree_scenarios.h; the letters are explained in tree_program.h.
#include "papers/nbbs/tests/tree_scenarios.h"

#include <cstdlib>
#include <deque>
#include <string>

#include "papers/nbbs/tests/tree_program.h"

namespace freeway::nbbs {

namespace {

using model::ProgramType;
using model::Scenario;

template <unsigned kLevels, bool kUp> ProgramType program(unsigned bunches, const TreeScript& script) {
  if constexpr (kLevels == 1) {
    if (bunches == 4) return model::program_type<StampedProgram<1, kUp, Bunches<1>::words(4)>>(script);
    return model::program_type<StampedProgram<1, kUp, Bunches<1>::words(3)>>(script);
  } else {
    if (bunches == 3)
      return model::program_type<StampedProgram<kLevels, kUp, Bunches<kLevels>::words(3 * kLevels)>>(script);
    return model::program_type<StampedProgram<kLevels, kUp, Bunches<kLevels>::words(2 * kLevels)>>(script);
  }
}

template <bool kUp> ProgramType program(unsigned levels_per_word, unsigned bunches, const TreeScript& script) {
  if (levels_per_word == 1) return program<1, kUp>(bunches, script);
  if (levels_per_word == 3) return program<3, kUp>(bunches, script);
  return program<4, kUp>(bunches, script);
}

struct Situation {
  const char* setup;
  const char* first;  // what the first two threads do before their scripts: free what they have
  const char* second;
};
constexpr Situation kSituations[] = {
    {"", "", ""}, {"ax0", "fx", ""}, {"ax0ay1", "fx", "fy"}, {"ax0az1", "fx", "fz"}, {"aP0", "fP", ""}};

// Programs keep pointers to their scripts.
const char* kept(const std::string& script) {
  static std::deque<std::string> all;
  return all.emplace_back(script).c_str();
}

}  // namespace

Scenario tree_scenario(TreeForm form, const char* setup, const char* first, const char* second, const char* third) {
  const TreeScript script{shape(form.levels_per_word, form.bunches), setup, {first, second, third}};
  const std::string name = std::to_string(form.levels_per_word) + "x" + std::to_string(form.bunches) +
                           (form.up ? " UP" : "") + ": " + setup + ": " + first + " | " + second +
                           (*third ? " | " : "") + third;
  return {name, form.up ? program<true>(form.levels_per_word, form.bunches, script)
                        : program<false>(form.levels_per_word, form.bunches, script)};
}

std::vector<Scenario> fault_scenarios(TreeForm form) {
  return {
      tree_scenario(form, "ax0", "fx", "axfx", "ayaR"),  // the paper's double allocation
      tree_scenario(form, "ax0", "fx", "ayfyay", "aR"),
      tree_scenario(form, "aP0", "fP", "axfx", "aQ"),  // a bigger block, and a claim below it that rolls back
      tree_scenario(form, "aP0", "fP", "axfx",
                    "ay"),                           // a roll back beside another's block; a claim that need not climb
      tree_scenario(form, "aR0", "fR", "ax", "ay"),  // a climb that ends early
      tree_scenario(form, "ax0", "fx", "axfxaxfxaxfxay"),  // four climbs while a clear sleeps
  };
}

std::vector<Scenario> chosen_scenarios(TreeForm form) {
  std::vector<Scenario> all = fault_scenarios(form);
  const std::vector<Scenario> more = {
      tree_scenario(form, "ax0az1", "fx", "axfxfz", "ayaP"), tree_scenario(form, "ax0", "fxaxfx", "ay", "aP"),
      tree_scenario(form, "ax0ay1", "fx", "fy", "aRfR"),     tree_scenario(form, "ax0az1", "fx", "fz", "aQfQ"),
      tree_scenario(form, "aP0", "fPaPfP", "axfx"),          tree_scenario(form, "ax0", "fx", "aPfP", "amfm"),
      tree_scenario(form, "ax0", "fx", "az", "rQaQ"),    // repair by one who wants the node
      tree_scenario(form, "ax0", "fx", "uxay", "uxaP"),  // clears by strangers
  };
  all.insert(all.end(), more.begin(), more.end());
  return all;
}

std::vector<Scenario> stopping_scenarios(TreeForm form) {
  std::vector<Scenario> all = {
      tree_scenario(form, "ax0", "fx", "ayfyaR"),
      tree_scenario(form, "ax0", "fxaxfx", "aP"),
      tree_scenario(form, "aP0", "fP", "axfx", "ay"),
      tree_scenario(form, "ax0az1", "fx", "fz", "aQfQ"),
  };
  for (Scenario& each : all) each.stalls = true;
  return all;
}
std::vector<Scenario> bigger_stopping_scenarios(TreeForm form) {
  std::vector<Scenario> all = {
      tree_scenario(form, "ax0", "fx", "axfx", "ay"),
      tree_scenario(form, "", "axfx", "azfz", "aQfQ"),
  };
  for (Scenario& each : all) each.stalls = true;
  return all;
}

std::vector<Scenario> long_scripts(TreeForm form) {
  std::vector<Scenario> all = {
      tree_scenario(form, "", "axfxayfyaPfPaxfxamfm", "ayfyaxfxazfzaxfxaRfR", "aPfPazfzaxfxayfyaQfQ"),
      tree_scenario(form, "ax0az1", "fxaxfxaxfxayfyaxfx", "fzaxfxazfzaxfxaQfQ", "fPayfyaPfPrQaQfQuxaxfx"),
  };
  const char* seed = std::getenv("FREEWAY_TEST_SEED");
  const char* walks = std::getenv("FREEWAY_MODEL_LIMIT");
  for (Scenario& each : all) {
    each.options.seed = seed ? std::strtoull(seed, nullptr, 10) : 20171025;
    each.options.random_walks = walks ? std::strtoull(walks, nullptr, 10) : 20000;
  }
  return all;
}

std::vector<Scenario> pairs(TreeForm form) {
  constexpr const char* kScripts[] = {"ax", "axfx", "ayfy",   "azfz",   "amfm", "aPfP",
                                      "aQ", "aRfR", "axfxax", "ayfyaP", "rR",   "ux"};
  std::vector<Scenario> all;
  for (const Situation& situation : kSituations)
    for (const char* first : kScripts)
      for (const char* second : kScripts) {
        all.push_back(tree_scenario(form, situation.setup, kept(std::string(situation.first) + first),
                                    kept(std::string(situation.second) + second)));
      }
  return all;
}

std::vector<Scenario> triples(TreeForm form) {
  constexpr const char* kScripts[] = {"axfx", "ayfy", "azfz", "aPfP", "aQfQ", "aR", "ux", "rQaQ"};
  std::vector<Scenario> all;
  for (const char* setup : {"", "ax0"})
    for (const char* first : kScripts)
      for (const char* second : kScripts)
        for (const char* third : kScripts)
          if (second <= third || *setup == 0)
            all.push_back(tree_scenario(form, setup, *setup == 0 ? first : "fxaxfx", second, third));
  return all;
}

}  // namespace freeway::nbbs
