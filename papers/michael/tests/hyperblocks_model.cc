// SPDX-License-Identifier: MIT
// hyperblocks_model.cc: papers/michael/hyperblocks.h with two or three superblocks in a hyperblock, all executions
// of small programs, and the faults they must show.
//
// Scripts   t take a superblock, g give the oldest one back, m trim, w walk over the hyperblocks. In the setup digits
//           give the oldest to that thread
// Promises  a superblock is in one pair of hands, and while it is, its hyperblock says where it is and whose; a
//           hyperblock goes back once, when nobody has a superblock of it; a walk meets the hyperblocks that the walker
//           has superblocks of; when all is given back and trimmed, every hyperblock has gone back and no new
//           descriptor is needed for the next. With a thread stopped for ever: one hyperblock at most is out of reach,
//           besides those it has superblocks of
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <string>

#include "papers/michael/hyperblocks.h"
#include "tests/explorer/explorer.h"
#include "tests/explorer/model_env.h"
#include "tests/explorer/scenarios.h"

namespace freeway::model {
namespace {

using michael::kHyperblockBytes;
using michael::kPrefix;
using michael::kSuperblockStride;
using michael::ListKind;
constexpr u32 kSpans = 3;

// Where hyperblocks are: the model's words in them are zero before each execution, whatever earlier ones did.
uptr arena() {
  static const uptr address = [] {
    void* memory = ::mmap(nullptr, (kSpans + 1) * kHyperblockBytes, PROT_READ | PROT_WRITE,
                          MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    return memory == MAP_FAILED ? 0 : align_up(reinterpret_cast<uptr>(memory), kHyperblockBytes);
  }();
  return address;
}

template <u32 kCount> struct ModelOs {
  static constexpr u32 kUnits = 64;
  ModelEnv::Atomic<u32> used;   // spans, as bits
  ModelEnv::Atomic<u32> taken;  // units
  alignas(64) std::byte memory[kUnits][64];

  u32 units(u32 n) {
    const u32 first = taken.fetch_add_relaxed(n) + 1;
    return first + n <= kUnits ? first : 0;
  }
  void* at(u32 index) {
    model_check(index >= 1 && index < kUnits, "units that exist");
    return memory[index];
  }
  uptr take_span(u32) {
    u32 seen = used.load_relaxed();
    while (seen != low_bits(kSpans)) {
      const u32 span = lowest_bit(~seen);
      if (!used.cas_acquire(seen, seen | u32{1} << span)) continue;
      touch_all(span);
      return arena() + span * kHyperblockBytes;
    }
    return 0;
  }
  void give_span(uptr base) {
    const u32 span = static_cast<u32>((base - arena()) / kHyperblockBytes);
    model_check(span < kSpans && base % kHyperblockBytes == 0, "a hyperblock's address");
    touch_all(span);
    model_check((used.fetch_and_release(~(u32{1} << span)) >> span & 1) != 0, "a hyperblock goes back once");
  }
  // Whoever has all of it may write all over it.
  static void touch_all(u32 span) {
    for (u32 i = 0; i < kCount; ++i) content(arena() + span * kHyperblockBytes + i * kSuperblockStride).set(1);
  }
  static ModelEnv::Plain<u32>& content(uptr superblock) {
    return *reinterpret_cast<ModelEnv::Plain<u32>*>(align_down(superblock, kSuperblockStride) + 64);
  }
};

template <u32 kCount> struct HyperProgram {
  static constexpr int kThreads = 3;
  using Os = ModelOs<kCount>;
  using Hyperblocks = michael::Hyperblocks<ModelEnv, Os, kCount>;
  using Hyper = Hyperblocks::Hyper;

  struct Hands {
    uptr superblocks[8];
    int from, to;
    bool any() const { return from < to; }
  };

  const char* script[kThreads];
  Os os;
  Hyperblocks hyper;
  michael::Descriptor<ModelEnv> owner[kThreads + 1];  // the last ones: the setup's
  Hands hands[kThreads + 1] = {};

  HyperProgram(ListKind list, const char* setup, const char* first, const char* second, const char* third)
      : script{first, second, third} {
    model_name(hyper, "heap");
    model_name(os.used, "spans");
    model_name(os.memory, "units");
    hyper.init(&os, list, os.units(sizeof(michael::Descriptor<ModelEnv>) / 64));
    for (const char* move = setup; *move != 0; ++move) {
      Hands& main = hands[kThreads];
      if (*move >= '0' && *move <= '2') {
        Hands& to = hands[*move - '0'];
        to.superblocks[to.to++] = main.superblocks[main.from++];
        hyper_of(to.superblocks[to.to - 1])
            .superblock[Hyper::place_of(to.superblocks[to.to - 1])]
            .store_relaxed(&owner[*move - '0']);
      } else {
        act(*move, kThreads);
      }
    }
  }

  void thread(int id) {
    for (const char* move = script[id]; *move != 0; ++move) act(*move, id);
  }

  void act(char move, int id) {
    Hands& mine = hands[id];
    switch (move) {
      case 't':
        if (const uptr sb = hyper.take(owner[id])) {
          mine.superblocks[mine.to++] = sb;
          look(sb, id);
        }
        break;
      case 'g':
        if (!mine.any()) break;
        look(mine.superblocks[mine.from], id);
        hyper.give(mine.superblocks[mine.from++]);
        break;
      case 'm': hyper.trim(); break;
      case 'w': walk(id); break;
      default: model_check(false, "a letter that means something");
    }
  }

  Hyper& hyper_of(uptr sb) {
    const u64 prefix = michael::prefix_at<ModelEnv>(sb - kPrefix).load_relaxed();
    model_check(
        prefix >= reinterpret_cast<uptr>(os.memory) && prefix < reinterpret_cast<uptr>(os.memory) + sizeof(os.memory),
        "the prefix leads to a hyperblock's descriptor");
    return *static_cast<Hyper*>(reinterpret_cast<michael::Descriptor<ModelEnv>*>(prefix));
  }
  void look(uptr sb, int id) {
    Os::content(sb).set(2);
    Hyper& h = hyper_of(sb);
    model_check(h.base.load_relaxed() == align_down(sb, kHyperblockBytes), "the hyperblock says where it is");
    model_check(h.superblock[Hyper::place_of(sb)].load_relaxed() == &owner[id], "and whose the superblock is");
  }
  void walk(int id) {
    u32 met = 0;
    hyper.each([&](Hyper& h) {
      for (int i = hands[id].from; i < hands[id].to; ++i) met += &hyper_of(hands[id].superblocks[i]) == &h;
    });
    model_check(met == static_cast<u32>(hands[id].to - hands[id].from),
                "a walk meets the hyperblocks one has a part of");
  }

  void finish() {
    const int stalled = model_stalled();
    model_observe(os.used.load_relaxed());
    u32 held = 0;  // hyperblocks that the stopped thread has superblocks of
    for (int id = 0; id <= kThreads; ++id) {
      Hands& mine = hands[id];
      for (int i = mine.from; i < mine.to; ++i) {
        model_observe(mine.superblocks[i] - arena());
        if (id != stalled) look(mine.superblocks[i], id);
        if (id == stalled) held |= u32{1} << ((mine.superblocks[i] - arena()) / kHyperblockBytes);
      }
      while (id != stalled && mine.any()) hyper.give(mine.superblocks[mine.from++]);
    }
    for (int round = 0; round < 2; ++round) hyper.trim();
    const u32 left = os.used.load_relaxed() & ~held;
    model_check(popcount(left) <= (stalled >= 0 ? 1U : 0U), "no hyperblock is lost");
    const bool ever = os.taken.load_relaxed() != 0;
    u32 units = 0;
    for (int round = 0; round < 3; ++round) {  // what is deferred comes back with the next that is retired
      units = os.taken.load_relaxed();
      const uptr sb = hyper.take(owner[kThreads]);
      model_check(sb != 0 || stalled >= 0, "there is memory for the next");
      if (sb == 0) continue;
      look(sb, kThreads);
      hyper.give(sb);
      hyper.trim();
    }
    model_check(stalled >= 0 || !ever || os.taken.load_relaxed() == units, "no descriptor is lost");
  }
};

template <u32 kCount>
Scenario scenario(const char* setup, const char* first, const char* second, const char* third = "",
                  ListKind list = ListKind::kFifo) {
  return {std::to_string(kCount) + " in one: " + setup + ": " + first + " | " + second + (*third ? " | " : "") + third,
          program_type<HyperProgram<kCount>>(list, setup, first, second, third)};
}

std::vector<Scenario> scenarios() {
  return {
      scenario<2>("", "t", "t"),  // two make the first
      scenario<2>("", "tw", "t"),
      scenario<2>("t0", "g", "t"),    // the last one goes while another takes
      scenario<2>("tt01", "g", "g"),  // two give the last ones
      scenario<2>("tt01", "gm", "gm"),
      scenario<2>("tt01", "g", "tg"),
      scenario<2>("tt0", "g", "tw"),
      scenario<2>("t0", "gt", "t"),
      scenario<2>("t0", "gm", "t"),
      scenario<2>("ttt01", "gm", "g"),  // a FULL one, and an active one
      scenario<2>("tttt0011", "gg", "gg", "", ListKind::kLifo),
      scenario<3>("tt01", "t", "g"),
      scenario<3>("ttt012", "g", "g", "g"),
      scenario<3>("tt01", "gt", "gt"),
      scenario<2>("tt01", "g", "g", "t"),
  };
}
// For a descriptor's next life while its last one still ends.
std::vector<Scenario> next_lives() {
  return {scenario<2>("tt01", "g", "gmtw"), scenario<2>("tt01", "g", "gtw"), scenario<2>("tt0", "g", "mtg")};
}
std::vector<Scenario> all_scenarios() {
  std::vector<Scenario> all = scenarios();
  for (Scenario& each : next_lives()) all.push_back(each);
  return all;
}

std::vector<Scenario> fault_scenarios() { return {scenario<2>("t0", "g", "t"), scenario<2>("tt01", "g", "g", "t")}; }

TEST(MichaelHyperblocksModel, PromisesHold) { expect_hold(limited(all_scenarios(), 2000)); }

TEST(MichaelHyperblocksModel, OthersFinishWhenAThreadStopsForEver) {
  std::vector<Scenario> all = limited(all_scenarios(), 15);  // with each stall; more: the long test
  for (Scenario& each : all) each.stalls = true;
  expect_all_hold(all);
}

TEST(MichaelHyperblocksModel, ClearingTheOwnerLateIsCaught) {
  expect_mutant_caught(fault_scenarios(), "owner cleared late");
}
TEST(MichaelHyperblocksModel, ClearingTheBaseLateIsCaught) {
  expect_mutant_caught(fault_scenarios(), "base cleared late");
}
TEST(MichaelHyperblocksModel, ClearingTheBaseBlindlyIsCaught) {
  expect_mutant_caught(fault_scenarios(), "base cleared blindly");
}

TEST(MichaelHyperblocksModel, EachMemoryOrderIsNeeded) {
  expect_orders_needed(limited(all_scenarios(), 500), "michael/hyperblocks.h");
}

TEST(MichaelHyperblocksModel, DISABLED_PromisesHoldForLonger) { expect_hold(limited(all_scenarios(), 50000)); }
TEST(MichaelHyperblocksModel, DISABLED_OthersFinishWhereverAThreadStopsForEver) {
  std::vector<Scenario> all = limited(all_scenarios(), 500);
  for (Scenario& each : all) each.stalls = true;
  expect_all_hold(all);
}

}  // namespace
}  // namespace freeway::model
