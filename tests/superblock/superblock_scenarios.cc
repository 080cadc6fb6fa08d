// SPDX-License-Identifier: MIT
// superblock_scenarios.cc: see superblock_scenarios.h; the letters are explained in superblock_program.h.
#include "tests/superblock/superblock_scenarios.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <set>
#include <string>
#include <utility>

#include "tests/superblock/superblock_program.h"

namespace freeway::model {

namespace {

constexpr u32 kTwoWords = 66;  // blocks in a superblock of class 2: 64 and 2

Scenario scenario(const char* name, u32 blocks, const char* setup, const char* first, const char* second,
                  const char* third = "") {
  std::string full = std::string(name) + ": " + first + " | " + second + (*third ? " | " : "") + third;
  return {full, program_type<SuperblockProgram>(SuperblockScript{blocks, kTwoWords, setup, {first, second, third}})};
}

// The calls of a client, each with its script.
struct Call {
  char name;
  const char* script;
};
constexpr Call kCalls[] = {
    {'k', "k"},    // malloc by a thread without a slab
    {'K', "ckc"},  // the same, of the other class
    {'u', "u"},    // malloc by a thread that keeps its superblock
    {'U', "U"},    // the same of a batch
    {'g', "g"},    // lets go of the superblock that it keeps
    {'p', "p"},    // gives that superblock's free pages back
    {'f', "f"},    // free of its oldest block, or batch
    {'l', "l"},    // free of its newest one
    {'s', "s"},    // hands its oldest one over
    {'r', "rf"},   // frees one that was handed over
    {'m', "m"},    // trim
    {'o', "o"},    // begins on the other node
};

struct Situation {
  const char* name;
  u32 blocks;
  const char* setup;
  const char* calls = "kuUgpflsrm";
  bool alike = true;   // threads that were given as much are interchangeable
  bool two = false;    // threads use class 2
  bool nodes = false;  // each thread begins on either node
};

// "1 of 3" means: of the three blocks of a superblock, one is free.
constexpr Situation kSituations[] = {
    {"nothing, 2 a superblock", 2, ""},
    {"nothing, 1 a superblock", 1, "", "kuUgflsrm"},
    {"nothing, two classes", 1, "", "kKfm"},
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
    {"0 of 66, nobody's", 2, "chTTg01", "kuUgpflsrm", false, true},
    {"65 of 66, held", 2, "chtA1", "kuUgpflsrm", true, true},
    {"0 of 2, nobody's, two nodes", 2, "hTxg01", "kgflm", true, false, true},
    {"1 of 3, listed, two nodes", 3, "httg01", "kgflm", true, false, true},
    {"0 of 1 twice, on two nodes", 1, "hTgohTg01", "kgflm", false, false, true},
    {"1 of 2 twice, on two nodes", 2, "htgohtg01", "kgflm", false, false, true},
    {"held and held, on two nodes", 2, "htAohtB10", "ugflm", false, false, true},
    {"tombstone listed, two nodes", 2, "htgf", "kugflm", true, false, true},
};

using Calls = std::array<std::string, SuperblockProgram::kThreads>;

// The sequences of `count` calls that a thread can make which has so many blocks, or batches, and keeps a superblock.
void add_sequences(const Situation& situation, const std::string& done, int count, int has, bool keeps,
                   std::vector<std::string>& all) {
  if (count == 0) return all.push_back(done);
  for (const char* call = situation.calls; *call != 0; ++call) {
    const bool takes = std::strchr("kKuU", *call) != nullptr, gives = std::strchr("fls", *call) != nullptr;
    if ((gives && has < (*call == 'l' ? 2 : 1)) || (std::strchr("gp", *call) != nullptr && !keeps)) continue;
    const bool keeps_then = std::strchr("uU", *call) != nullptr || (keeps && *call != 'g');
    add_sequences(situation, done + *call, count - 1, has + takes - gives, keeps_then, all);
  }
}

std::pair<int, bool> given(const Situation& situation, int thread) {
  const std::string setup = situation.setup;
  return {static_cast<int>(std::count(setup.begin(), setup.end(), '0' + thread)),
          setup.find(static_cast<char>('A' + thread)) != std::string::npos};
}

// What one thread hands over another one frees: without that, the calls are those of a smaller program.
bool hands_over(const Calls& calls) {
  int sent = 0, received = 0;
  bool to_another = false;
  for (const std::string& mine : calls) {
    const auto sends = std::count(mine.begin(), mine.end(), 's');
    sent += static_cast<int>(sends);
    received += static_cast<int>(std::count(mine.begin(), mine.end(), 'r'));
    for (const std::string& other : calls) to_another |= sends != 0 && &other != &mine && other.find('r') != other.npos;
  }
  return sent == received && (sent == 0 || to_another);
}

bool is_canonical(const Situation& situation, const Calls& calls) {
  for (int first = 0; first < SuperblockProgram::kThreads; ++first)
    for (int second = first + 1; second < SuperblockProgram::kThreads; ++second)
      if (situation.alike && given(situation, first) == given(situation, second) && calls[first] < calls[second])
        return false;
  return hands_over(calls);
}

Scenario client(const Situation& situation, const Calls& calls) {
  static std::set<std::string> scripts;  // which programs point to
  SuperblockScript script{situation.blocks, kTwoWords, situation.setup, {}};
  std::string name = situation.name;
  for (std::size_t thread = 0; thread < calls.size(); ++thread) {
    std::string moves = situation.two ? "c" : "";
    for (const char each : calls[thread])
      moves += std::find_if(std::begin(kCalls), std::end(kCalls), [=](Call call) { return call.name == each; })->script;
    script.thread[thread] = scripts.insert(moves).first->c_str();
    name += (thread == 0 ? ": " : " | ") + calls[thread];
  }
  return {name, program_type<SuperblockProgram>(script)};
}

void add_clients(const Situation& situation, int threads, int calls, std::vector<Scenario>& all) {
  for (int first = 0; first <= calls; ++first) {
    for (int second = 0; first + second <= calls; ++second) {
      const int counts[] = {first, second, calls - first - second};
      if (std::count(std::begin(counts), std::end(counts), 0) != SuperblockProgram::kThreads - threads) continue;
      std::vector<std::string> of[SuperblockProgram::kThreads];
      for (int thread = 0; thread < SuperblockProgram::kThreads; ++thread) {
        const auto [has, keeps] = given(situation, thread);
        add_sequences(situation, "", counts[thread], has, keeps, of[thread]);
        if (situation.nodes && counts[thread] != 0)
          add_sequences(situation, "o", counts[thread], has, keeps, of[thread]);
      }
      for (const std::string& a : of[0])
        for (const std::string& b : of[1])
          for (const std::string& c : of[2])
            if (const Calls each{a, b, c}; is_canonical(situation, each)) all.push_back(client(situation, each));
    }
  }
}

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
      scenario("found while it is born again", 2, "htg0", "fhtg", "ng"),
      scenario("found while it is listed and taken", 2, "hTxg01", "fhtg", "ng"),
      scenario("beside its entry, on another node", 3, "httg01", "ontg", "htg", "of"),
  };
}

std::vector<Scenario> superblock_clients(int threads, int calls) {
  std::vector<Scenario> all;
  for (const Situation& situation : kSituations) add_clients(situation, threads, calls, all);
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
