// SPDX-License-Identifier: MIT
// profile_sites_model.cc: src/profile/sites.h, peak.h: the table of what was sampled where.
//
// Promises  samples of one stack are counted at one site, and no others there; what a reader sees of a site is its
//           stack, and not more freed than allocated; none is refused while there is room; who stops for ever loses
//           what it had in hand, and its site is known as soon as somebody else samples there. peak.h: what sites had
//           at the peak is what was live then, but for a block in the hands of each other thread
// Bounds    3 threads of up to 3 moves, 2 sites; weak memory, source-DPOR, exhausted. Stops: each thread for ever at
//           each operation
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "profile/peak.h"
#include "profile/sites.h"
#include "tests/explorer/explorer.h"
#include "tests/explorer/model_env.h"
#include "tests/explorer/scenarios.h"

namespace freeway::model {
namespace {

// Scripts: a to c sample the stack of that name; - frees what the thread sampled last; k keeps a copy of that stack, if
// there is none yet; l looks at all sites.
struct SitesProgram {
  static constexpr int kThreads = 3;
  static constexpr u32 kSites = 2;
  static constexpr u64 kInterval = 512;
  using Sites = profile::Sites<ModelEnv, kSites>;

  const char* script[kThreads];
  int stacks;  // how many different ones there are
  alignas(64) unsigned char memory[Sites::bytes(kSites)] = {};
  Sites sites;
  ModelEnv::Plain<u32> copies[kThreads];  // a copy for each thread: of which stack
  u32 sampled[3] = {}, freed[3] = {};     // by stack, by threads that did not stop meanwhile

  SitesProgram(const char* first, const char* second, const char* third, int different)
      : script{first, second, third}, stacks(different) {
    sites.init(reinterpret_cast<uptr>(memory), kSites);
    model_name(sites, "sites");
    for (int id = 0; id < kThreads; ++id) model_name(copies[id], "copy", id);
  }

  static profile::Stack stack_of(int number) {
    profile::Stack stack;
    stack.depth = 1;
    stack.frames[0] = 100 + static_cast<u64>(number);
    return stack;
  }
  static u64 tag_of(int number) { return 7 + static_cast<u64>(number); }

  void look() {
    bool seen[3] = {};
    for (u32 i = 0; i < kSites; ++i) {
      Sites::View view;
      if (!sites.look(i, view)) continue;
      const u64 number = view.stack.frames[0] - 100;
      model_check(view.stack.depth == 1 && number < 3 && view.tag == tag_of(static_cast<int>(number)) &&
                      view.interval == kInterval,
                  "a site's facts are a stack's");
      model_check(!seen[number], "a stack has one site");
      seen[number] = true;
      model_check(view.counts.freed <= view.counts.allocated, "not more is freed than was allocated");
      if (view.copy != 0) model_check(copies[view.copy - 1].get() == number + 1, "a site's copy is of its stack");
    }
  }

  void thread(int id) {
    u32 last = Sites::kNone;
    int of = 0;
    for (const char* move = script[id]; *move != 0; ++move) {
      if (*move == 'l') {
        look();
      } else if (*move == '-') {
        if (last == Sites::kNone) continue;
        sites.freed(last, 10, 1, 3);
        ++freed[of];
      } else if (*move == 'k') {
        if (last == Sites::kNone || !sites.wants_copy(last)) continue;
        copies[id].set(static_cast<u32>(of) + 1);
        sites.set_copy(last, static_cast<u32>(id));
      } else {
        of = *move - 'a';
        last = sites.at(stack_of(of), tag_of(of), 10, kInterval);
        model_check(last != Sites::kNone || stacks > static_cast<int>(kSites), "there is room");
        if (last == Sites::kNone) continue;
        sites.allocated(last, 10, 1);
        ++sampled[of];
      }
    }
  }

  void finish() {
    look();
    u64 all = 0;
    for (u32 i = 0; i < kSites; ++i) {
      Sites::View view;
      if (!sites.look(i, view)) continue;
      const u64 number = view.stack.frames[0] - 100;
      all += view.counts.allocated;
      if (model_stalled() >= 0) continue;
      model_check(view.counts.allocated == sampled[number] && view.counts.freed == freed[number],
                  "each sample counts once");
      model_check(view.counts.allocated_bytes == 10 * view.counts.allocated, "with its bytes");
    }
    model_observe(all);
  }
};

// The peak. Scripts: a, b count a block of 10 bytes of that site, - and = the end of one of a, of b; l looks at the
// peak. So each time more is live than ever an epoch begins, and its number says how much.
struct PeakProgram {
  static constexpr int kThreads = 3;
  static constexpr u32 kSites = 2;
  static constexpr u64 kInterval = 1, kBytes = 10;
  using Sites = profile::Sites<ModelEnv, kSites>;

  const char* script[kThreads];
  u64 writers = 0;
  alignas(64) unsigned char memory[Sites::bytes(kSites)] = {};
  Sites sites;
  profile::Peak<ModelEnv> peak;
  u32 number[2];

  // `before`: what is done before the threads begin.
  PeakProgram(const char* before, const char* first, const char* second, const char* third)
      : script{first, second, third} {
    for (const char* each : script) writers += *each != 0 && *each != 'l';
    sites.init(reinterpret_cast<uptr>(memory), kSites);
    model_name(sites, "sites");
    model_name(peak, "peak");
    peak.begin(kInterval);
    for (int i = 0; i < 2; ++i) number[i] = sites.at(SitesProgram::stack_of(i), 0, kBytes, kInterval);
    act(before);
  }

  void look() {
    const u64 epoch = peak.epoch(kInterval);
    u64 sum = 0;
    Sites::View view;
    for (u32 i = 0; i < kSites; ++i)
      if (sites.look(i, view, epoch)) sum += view.at_peak;
    peak.less(0);  // moves nothing, but sees the newest word
    if (peak.epoch(kInterval) != epoch) return;
    const u64 truth = kBytes * (epoch - 1), off = sum > truth ? sum - truth : truth - sum;
    model_check(off <= kBytes * (writers - 1), "the peak is right but for the blocks in others' hands");
    model_observe(sum);
  }

  void act(const char* moves) {
    for (const char* move = moves; *move != 0; ++move) {
      if (*move == 'l') {
        look();
      } else if (*move == '-' || *move == '=') {
        const u32 site = number[*move == '='];
        sites.freed(site, kBytes, 1, 3, peak.epoch(sites.interval_of(site)));
        peak.less(kBytes);
      } else {
        const u32 site = number[*move - 'a'];
        sites.allocated(site, kBytes, 1, peak.epoch(kInterval));
        peak.more(kBytes, 1);
      }
    }
  }
  void thread(int id) { act(script[id]); }
  void finish() {
    if (model_stalled() < 0) look();
  }
};

Scenario peak(const char* before, const char* first, const char* second, const char* third = "") {
  return {std::string("peak: ") + before + " and then " + first + " | " + second + " | " + third,
          program_type<PeakProgram>(before, first, second, third)};
}
std::vector<Scenario> peaks() {
  return {peak("", "ab-a-", ""),  peak("", "a", "l"),       peak("", "a-", "l"),
          peak("", "a", "a"),     peak("", "a-", "a"),      peak("a", "-", "b"),
          peak("aaa", "--", "-"), peak("aa", "--", "bbbl"), peak("abbb==", "aa", "a")};
}

Scenario sites(const char* first, const char* second, const char* third = "", int different = 2) {
  return {std::string(first) + " | " + second + " | " + third,
          program_type<SitesProgram>(first, second, third, different)};
}
std::vector<Scenario> scenarios() {
  return {sites("a", "a"),   sites("a", "b"),         sites("a-", "l"),        sites("a", "a", "l"), sites("a-", "a-"),
          sites("ab", "ba"), sites("a", "b", "c", 3), sites("ab", "c", "", 3), sites("a", "b", "a"), sites("ak", "l")};
}

std::vector<Scenario> all_of_them() {
  std::vector<Scenario> all = scenarios(), more = peaks();
  all.insert(all.end(), more.begin(), more.end());
  return all;
}

TEST(ProfileSitesModel, PromisesHold) { expect_hold(all_of_them()); }
TEST(ProfileSitesModel, OthersFinishWhenAThreadStopsForEver) {
  std::vector<Scenario> all = all_of_them();
  for (Scenario& each : all) each.stalls = true;
  expect_hold(all);
}
TEST(ProfileSitesMutants, AreCaught) { expect_mutant_caught(scenarios(), "claimed in two steps"); }
TEST(ProfilePeakMutants, AreCaught) {
  for (const char* mutant : {"kept afterwards", "kept by a store", "grown in two steps", "shrunk in two steps"})
    expect_mutant_caught(peaks(), mutant);
}
TEST(ProfileSitesMutants, EachMemoryOrderIsNeeded) { expect_orders_needed(all_of_them(), "profile/sites.h"); }
TEST(ProfilePeakMutants, EachMemoryOrderIsNeeded) { expect_orders_needed(peaks(), "profile/peak.h"); }

}  // namespace
}  // namespace freeway::model
