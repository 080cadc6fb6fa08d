// SPDX-License-Identifier: MIT
// model_scenarios.cc: see model_scenarios.h. In setups everything happens on heap 0.
#include "papers/lfmalloc/tests/model_scenarios.h"

#include <cstdlib>

namespace freeway::lfmalloc::test {

namespace {

const char* name_of(Kind kind) { return kind == Kind::kSections ? "sections" : kind == Kind::kCas ? "cas" : "mixed"; }

Scenario scenario(Kind kind, const char* name, u32 blocks, u32 limit, const char* setup, const char* first,
                  const char* second, const char* third = "") {
  std::string full =
      std::string(name_of(kind)) + ": " + name + ": " + first + " | " + second + (*third ? " | " : "") + third;
  const Script script{kind, {blocks, blocks == 2 ? 3u : 2u}, limit, setup, {first, second, third}};
  return {full,
          kind == Kind::kSections ? program_type<Program<SectionEnv>>(script) : program_type<Program<CasEnv>>(script)};
}

struct Situation {
  const char* name;
  u32 blocks, limit;
  const char* setup;
};

// "0 of 2" means: of the two blocks of a superblock, none is free.
constexpr Situation kSituations[] = {
    {"nothing", 2, 1, ""},
    {"0 of 2 on line", 2, 1, "mm01"},
    {"1 of 2 on line", 2, 0, "mm01f"},
    {"0 of 2 full", 2, 0, "mmt01"},
    {"1 of 3 listed", 3, 1, "mmt01"},
    {"2 of 3 listed", 3, 0, "mt1"},
    {"0 of 2 full, 2 of 2 kept", 2, 1, "mmtcmftc01"},
};
constexpr const char* kPairScripts[] = {"m",  "f",   "mf",  "fm",   "t",   "ft", "mt",
                                        "cm", "fcm", "mmf", "w mf", "f<m", "f>m"};

}  // namespace

std::vector<Scenario> section_scenarios() {
  constexpr Kind k = Kind::kSections;
  return {
      scenario(k, "two mallocs on a CPU", 2, 1, "", "m", "", "m"),
      scenario(k, "two frees on a CPU", 2, 1, "mm02", "f", "", "f"),
      scenario(k, "local and remote free", 2, 1, "mm01", "f", "f"),
      scenario(k, "local and remote free, malloc", 3, 1, "mmm012", "f", "f", "fm"),
      scenario(k, "going off line, remote free", 2, 1, "mm11", "m", "ff"),
      scenario(k, "going off line, local free", 2, 1, "mm02", "m", "", "f"),
      scenario(k, "going off line, local and remote free", 2, 1, "mm12", "m", "f", "f"),
      scenario(k, "full, freed by two", 2, 1, "mmt01", "f", "f"),
      scenario(k, "full, freed by two, taken by a third", 2, 0, "mmt01", "f", "f", "m"),
      scenario(k, "full, freed by three", 3, 0, "mmmt012", "f", "f", "f"),
      scenario(k, "listed, freed to the last, taken", 2, 0, "mmtf0", "f", "m"),
      scenario(k, "listed, freed to the last, taken, another class", 2, 1, "mmtf0", "f", "m", "cm"),
      scenario(k, "listed, freed, taken by one of two", 3, 1, "mmt01", "f", "m", "m"),
      scenario(k, "two install on one CPU", 2, 1, "mm00", "m", "", "m"),
      scenario(k, "installing and wandering", 2, 1, "mm11", "wm", "fm"),
      scenario(k, "two wander", 2, 1, "mm01", "wm", "wf"),
      scenario(k, "reformatted while another frees", 2, 1, "mmt01", "f", "f", "cmm"),
      scenario(k, "given away and had again", 2, 0, "mmt01", "f", "fm", "cm"),
      scenario(k, "off line and on line again, local list kept", 3, 1, "mmm012t", "f", "fm", "f"),
      scenario(k, "on line elsewhere while another frees", 2, 1, "mm01t", "f", "m", "m"),
      scenario(k, "freed where it was on line a moment ago", 2, 1, "mm02", "f", "", "tcm"),
      scenario(k, "a block is sent to another CPU", 2, 1, "", "ms", "rf", "mf"),
      scenario(k, "trim and free", 3, 0, "mm01", "t", "f", "f"),
      scenario(k, "trim and malloc", 2, 0, "mf", "t", "m", "m"),
      scenario(k, "two trim, one superblock is listed", 3, 1, "mmt01", "t", "t", "f"),
      scenario(k, "two trim, one superblock is taken", 3, 0, "mmt01", "tm", "t"),
      scenario(k, "a tombstone is adopted by one of two", 2, 0, "mmtf0", "f", "m", "m"),
  };
}

std::vector<Scenario> cas_scenarios() {
  constexpr Kind k = Kind::kCas;
  return {
      scenario(k, "two mallocs in a heap", 2, 1, "", "<m", "<m"),
      scenario(k, "malloc and free in a heap", 2, 1, "mm01f", "<m", "<f"),
      scenario(k, "pop sleeps while blocks come and go", 3, 1, "mf", "<m", "<mmff"),
      scenario(k, "pop sleeps, two in the order of the list", 3, 1, "mf", "<m", "<mmf"),
      scenario(k, "pop sleeps, and the list looks the same again", 4, 1, "mmmm1fff", "<m", "<mmff"),
      scenario(k, "put on line by one, taken off line by another", 2, 1, "", "<m", "<t"),
      scenario(k, "pop and going off line", 2, 0, "mm0f", "<m", "<t"),
      scenario(k, "pop, going off line, on line elsewhere", 2, 0, "mf", "<m", "<t>m"),
      scenario(k, "pop, going off line, another class", 2, 1, "mf", "<m", "<tc>m"),
      scenario(k, "push and going off line", 2, 0, "mm01", "<f", "<t"),
      scenario(k, "push, going off line, remote free", 2, 0, "mm01", "<f", "<tf"),
      scenario(k, "push, going off line, on line elsewhere", 3, 0, "mm01", "<f", "<t>mf"),
      scenario(k, "two install in a heap", 2, 1, "mm00", "<m", "<m"),
      scenario(k, "free and free to the last", 2, 0, "mmt01", "f", "f"),
      scenario(k, "free and free to the last, taken", 2, 0, "mmtf0", "f", "m"),
      scenario(k, "local list and remote list", 2, 1, "mm01", "<f", "f>m"),
      scenario(k, "on line there, its last block freed here", 2, 0, "mm1f", "<m", "f"),
      scenario(k, "off line, its last block freed, and taken", 2, 0, "mm1ft", "<m", "f"),
  };
}

std::vector<Scenario> mixed_scenarios() {
  constexpr Kind k = Kind::kMixed;
  return {
      scenario(k, "remote frees of each other", 2, 1, "mm01", "fm", "f"),
      scenario(k, "a CPU's superblock goes to a hashed heap", 2, 0, "mm01", "tf", "m"),
      scenario(k, "pop sleeps, its superblock goes on line on a CPU", 2, 1, ">mf<", "m", "m", "t"),
      scenario(k, "push sleeps, its superblock goes on line on a CPU", 3, 1, ">mm12<", "m", "f", "t"),
      scenario(k, "pop sleeps, its superblock goes to a CPU with a block in use", 3, 1, ">m0<", "m", "m", "t"),
      scenario(k, "both heaps empty", 2, 1, "", "m", "mf"),
  };
}

std::vector<Scenario> printed_free_of_a_superblock_on_line() {
  return {scenario(Kind::kCas, "on line there, its last block freed here", 2, 0, "mm1f", "<m", "d")};
}
std::vector<Scenario> printed_free_of_a_superblock_off_line() {
  return {scenario(Kind::kCas, "off line, its last block freed, and taken", 2, 0, "mm1ft", "<m", "d")};
}

std::vector<Scenario> all_scenarios() {
  std::vector<Scenario> all = section_scenarios();
  for (Scenario& each : cas_scenarios()) all.push_back(each);
  for (Scenario& each : mixed_scenarios()) all.push_back(each);
  return all;
}

std::vector<Scenario> pairs(Kind kind) {
  std::vector<Scenario> all;
  for (const Situation& s : kSituations)
    for (const char* first : kPairScripts)
      for (const char* second : kPairScripts)
        all.push_back(scenario(kind, s.name, s.blocks, s.limit, s.setup, first, second));
  return all;
}

std::vector<Scenario> long_scripts(std::uint64_t walks) {
  std::vector<Scenario> all;
  for (const Kind kind : {Kind::kSections, Kind::kCas}) {
    all.push_back(scenario(kind, "all kinds", 3, 1, "mmm012", "wmfmftcmfcmf", "wmsfmtfcmmff", "wrfmmftfcmftf"));
    all.push_back(scenario(kind, "two blocks", 2, 0, "mm01", "wfmfmtfmcmff", "wfmmftfmfcmf", "wmfmftcmff"));
  }
  all.push_back(scenario(Kind::kMixed, "all kinds", 2, 1, "mm01", "fmfmtfmcmff", "fmmftfmfcmf", "mfmftcmff"));
  const char* seed = std::getenv("FREEWAY_TEST_SEED");
  for (Scenario& each : all) {
    each.options.seed = seed ? std::strtoull(seed, nullptr, 10) : 20020620;
    each.options.random_walks = walks;
  }
  return all;
}

}  // namespace freeway::lfmalloc::test
