// SPDX-License-Identifier: MIT
// superblock_scenarios.cc: see superblock_scenarios.h; the letters are explained in superblock_program.h.
#include "tests/superblock/superblock_scenarios.h"

#include <cstdlib>
#include <string>

#include "tests/superblock/superblock_program.h"

namespace freeway::model {

namespace {

constexpr u32 kTwoWords = 66;  // blocks in a superblock of class 2: 64 and 2

Scenario scenario(const char* name, u32 blocks, const char* setup, const char* first, const char* second,
                  const char* third = "") {
  std::string full = std::string(name) + ": " + first + " | " + second + (*third ? " | " : "") + third;
  return {full, program_type<SuperblockProgram>(SuperblockScript{blocks, kTwoWords, setup, {first, second, third}})};
}

struct Situation {
  const char* name;
  u32 blocks;
  const char* setup;
};

// "1 of 3" means: of the three blocks of a superblock, one is free.
constexpr Situation kSituations[] = {
    {"nothing", 2, ""},
    {"0 of 2, nobody's", 2, "hTxg01"},
    {"0 of 3, nobody's", 3, "hTxxg012"},
    {"1 of 3, listed", 3, "httg01"},
    {"1 of 2, listed", 2, "htg0"},
    {"1 of 3, held", 3, "httA12"},
    {"0 of 2, held", 2, "hTxA12"},
    {"0 of 2, held, one freer", 2, "hTxA11"},
    {"0 of 1 twice", 1, "hTghTg01"},
    {"held and held", 2, "htAhtB10"},
    {"tombstone listed", 2, "htgf"},
    {"1 of 3, held beside its entry", 3, "httgnA12"},
    {"0 of 3, in a list all the same", 3, "httgntg012"},
    {"0 of 66, nobody's", 2, "chTTg01"},
    {"65 of 66, held", 2, "chtA1"},
};

constexpr const char* kPairScripts[] = {"f",      "ff",   "tg",   "tgf", "yg",  "htg",  "htgf", "atg",
                                        "atgf",   "pg",   "m",    "mf",  "htf", "ftg",  "hTg",  "fhtg",
                                        "fm",     "htsg", "hTgr", "rf",  "cf",  "cg",   "cTg",  "chtg",
                                        "cTTgff", "cpg",  "ntg",  "ng",  "nTg", "ntgf", "fntg", "hntgf"};
// With a second node.
constexpr Situation kNodeSituations[] = {
    {"0 of 2, nobody's", 2, "hTxg01"},
    {"1 of 3, listed", 3, "httg01"},
    {"0 of 1 twice, on two nodes", 1, "hTgohTg01"},
    {"1 of 2 twice, on two nodes", 2, "htgohtg01"},
    {"held and held, on two nodes", 2, "htAohtB10"},
    {"tombstone listed", 2, "htgf"},
};
constexpr const char* kNodeScripts[] = {"f",     "of", "htg", "ohtg", "ohtog", "ohtgf",
                                        "fohtg", "m",  "om",  "ontg", "oatgf"};

constexpr const char* kTripleScripts[] = {"f", "ff", "tg", "htg", "htgf", "atg", "pg", "m", "htf", "ntg", "nTg"};

}  // namespace

std::vector<Scenario> superblock_scenarios() {
  return {
      scenario("free and free to EMPTY", 2, "hTxg01", "f", "f"),
      scenario("free of one word by three", 3, "hTxxg012", "f", "f", "f"),
      scenario("frees of two words", 2, "chTTg01", "f", "f"),
      scenario("frees of two words by three", 2, "chTxTg012", "f", "f", "f"),
      scenario("free, take, let go", 2, "hTxA11", "tg", "ff"),
      scenario("free, take, let go by three", 3, "hTxxA122", "tg", "f", "ff"),
      scenario("free to EMPTY, listing, hold", 2, "hTxg01", "f", "f", "htgf"),
      scenario("a tombstone is adopted", 2, "htg0", "f", "htg"),
      scenario("a tombstone is adopted by one of two", 2, "htg0", "f", "htg", "htg"),
      scenario("adoption and free", 3, "httg01", "f", "atgf"),
      scenario("two adopt, one frees", 3, "httg01", "f", "atg", "atg"),
      scenario("a superblock is born again", 1, "hTg0", "fhtf", "htgf"),
      scenario("a superblock is born again, a freer sleeps", 2, "hTxg01", "f", "f", "hTgfhT"),
      scenario("a freer sleeps through another life", 2, "hTxg01", "f", "fh", "hTgf"),
      scenario("a freer sleeps through another life, and lists above another", 2, "hTxghtg012", "f", "f", "hTghTgxfff"),
      scenario("purge by the holder, and frees", 3, "httA12", "pg", "f", "f"),
      scenario("trimming and frees", 3, "httg01", "m", "ff", "f"),
      scenario("two trim", 3, "httg01", "m", "mf", "f"),
      scenario("a block is sent to another thread", 2, "", "htsg", "rf", "htgf"),
      scenario("two words: take, let go, free", 2, "chTxTA112", "TTg", "ff", "f"),
      scenario("one is held beside its entry, another pops that", 3, "httg01", "ntg", "htg", "f"),
      scenario("held beside its entry to EMPTY, another pops that", 3, "httg00", "ffng", "htg"),
      scenario("held beside its entry while it is being listed", 2, "hTxg01", "f", "ntg", "htgf"),
      scenario("two find it", 3, "httg01", "ntg", "ntgf", "f"),
      scenario("found while a freer sleeps through another life", 1, "hTg0", "fhtf", "ntgf", "htg"),
      scenario("a tombstone is found", 2, "htg0", "f", "ntg", "htg"),
      scenario("found and taken, freed again, and popped", 3, "httg01", "nTg", "f", "htg"),
      scenario("freed on another node, taken on both", 3, "hTxxg01", "of", "htg", "ohtg"),
      scenario("freed on another node to EMPTY", 2, "hTxg01", "of", "f", "ohtg"),
      scenario("a tombstone of another node", 2, "htg0", "f", "ohtg"),
      scenario("born again on another node", 1, "hTg0", "ofhtf", "htgf"),
      scenario("born again on another node, a freer sleeps", 2, "hTxg01", "f", "of", "ohTgfhT"),
      scenario("taken from another node, and let go there", 3, "httghTg011", "ohtog", "fhtg", "of"),
      scenario("trimmed from another node", 3, "httg01", "om", "ff", "of"),
      scenario("beside its entry, on another node", 3, "httg01", "ontg", "htg", "of"),
  };
}

std::vector<Scenario> superblock_pairs() {
  std::vector<Scenario> all;
  for (const Situation& situation : kSituations)
    for (const char* first : kPairScripts)
      for (const char* second : kPairScripts)
        all.push_back(scenario(situation.name, situation.blocks, situation.setup, first, second));
  for (const Situation& situation : kNodeSituations)
    for (const char* first : kNodeScripts)
      for (const char* second : kNodeScripts)
        all.push_back(scenario(situation.name, situation.blocks, situation.setup, first, second));
  return all;
}

std::vector<Scenario> superblock_triples() {
  std::vector<Scenario> all;
  for (const Situation& situation : kSituations)
    for (const char* first : kTripleScripts)
      for (const char* second : kTripleScripts)
        for (const char* third : kTripleScripts)
          all.push_back(scenario(situation.name, situation.blocks, situation.setup, first, second, third));
  return all;
}

std::vector<Scenario> superblock_long_scripts() {
  std::vector<Scenario> all = {
      scenario("all kinds", 3, "httghTg012", "fhtgfmhtsgf", "htgrfhTgfmf", "atgfhTgrfmhtgf"),
      scenario("one block a superblock", 1, "hTghTg01", "fhtgfhtgf", "fhtgfhtgf", "htgfhtgfm"),
      scenario("two words", 2, "chTxTgx012", "cfhTgfTgff", "cfhTTgfmff", "chtgfhTTgfff"),
      scenario("found and popped", 3, "httghTg012", "ntgfhtgfntg", "fhtgmntgf", "nTgfntghtgf"),
      scenario("two classes", 2, "hTxg01", "fchTgfchtgff", "fhtgfchTTgfff", "chtgfchtgf"),
  };
  const char* seed = std::getenv("FREEWAY_TEST_SEED");
  const char* walks = std::getenv("FREEWAY_MODEL_LIMIT");
  for (Scenario& each : all) {
    each.options.seed = seed ? std::strtoull(seed, nullptr, 10) : 20261120;
    each.options.random_walks = walks ? std::strtoull(walks, nullptr, 10) : 250000;
  }
  return all;
}

std::vector<Scenario> purging_without_holding() {
  return {scenario("a purger that does not hold", 2, "chTTxf0fg", "f", "P")};
}

std::vector<Scenario> letting_go_after_one_scan() { return {scenario("let go after one scan", 3, "httA1", "G", "f")}; }

}  // namespace freeway::model
