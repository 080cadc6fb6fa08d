// SPDX-License-Identifier: MIT
// pages_metadata_model.cc: src/pages/metadata.h in all executions of small programs: segments published once, pieces
// cut from them, walks beside that, and descriptors that are recycled through a list as the layers above do it.
//
// World     segments of 1 MiB, in which two pieces of 8,000 units have room
// Scripts   t<n> take a piece of n thousand units     m<n> the same, but from the list of recycled ones if there is one
//           f put the oldest piece into that list     w walk over all pieces
// Promises  a piece has one owner, is zero when it is new and accessible to its last byte; who walks touches accessible
//           memory only; at the end pieces lie side by side, each in somebody's hands or in the list, and no address
//           space is reserved that no segment has. With a thread stopped for ever: one piece and one reservation at
//           most are lost
// Bounds    2 or 3 threads, 1 to 3 calls each, up to three segments; weak memory, no other bound
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "pages/metadata.h"
#include "sync/tagged_stack.h"
#include "tests/explorer/scenarios.h"
#include "tests/pages/pages_world.h"

namespace freeway::model {
namespace {

using Memory = Metadata<PagesEnv>;

struct MetadataScript {
  const char* setup;
  const char* thread[3];
  std::size_t most_committed = ~std::size_t{0};
};

struct Piece {
  u32 index, units;
};

struct MetadataProgram {
  static constexpr int kThreads = 3;
  static constexpr u32 kSegments = 3;
  static constexpr u32 kPlaces = 17;  // in a segment, by thousands of units

  // What the owner of the piece that begins there makes of it.
  struct Place {
    ModelEnv::Plain<u32> content;
    ModelEnv::Atomic<u32> units;  // 0 until the piece is filled in
    ModelEnv::Atomic<u32> link;
  };

  MetadataScript script;
  PagesKernel kernel;
  Memory memory;
  TaggedStack<ModelEnv> list;
  Place places[kSegments][kPlaces];
  Belongings<Piece> pieces[kThreads + 1];  // of the threads, and of the setup
  u32 in_hand[kThreads + 1] = {};          // units

  explicit MetadataProgram(const MetadataScript& s) : script(s) {
    PagesEnv::kernel = &kernel;
    model_name(memory, "metadata");
    model_name(list, "list");
    model_name(places, "place");
    memory.init(Memory::kMinSegmentBytes);
    follow(script.setup, kThreads);
    kernel.settle();
    kernel.most_committed = script.most_committed;
  }

  Place& place(u32 index) {
    const u32 unit = index & ((1u << Memory::kSegmentShift) - 1);
    model_check(index >> Memory::kSegmentShift < kSegments && unit / 1000 < kPlaces, "a piece within a segment");
    return places[index >> Memory::kSegmentShift][unit / 1000];
  }
  uptr address(u32 index) { return reinterpret_cast<uptr>(memory.at(index)); }
  auto links() {
    return [this](u32 index) -> auto& { return place(index).link; };
  }

  void thread(int id) { follow(script.thread[id], id); }
  void follow(const char* moves, int id) {
    each_move(moves, [&](Move move) { act(move, pieces[id], in_hand[id]); });
  }

  void act(Move move, Belongings<Piece>& mine, u32& hand) {
    const u32 units = move.number * 1000;
    hand = move.letter == 'w' ? 0 : units;
    switch (move.letter) {
      case 't': take(units, mine); break;
      case 'm':
        if (const u32 index = list.pop(links())) {
          use(index);
          mine.add({index, place(index).units.load_relaxed()});
        } else {
          take(units, mine);
        }
        break;
      case 'f':
        if (mine.any()) {
          const Piece piece = mine.remove();
          hand = piece.units;
          use(piece.index);
          list.push(piece.index, links());
        }
        break;
      case 'w': walk(); break;
      default: model_check(false, "a letter that means something");
    }
    hand = 0;
  }

  void take(u32 units, Belongings<Piece>& mine) {
    const u32 index = memory.take(units);
    if (index == 0) return;
    kernel.touch(address(index));
    kernel.touch(address(index) + units * Memory::kUnit - 1);
    model_check(place(index).content.get() == 0, "a new piece is zero");
    place(index).content.set(1);
    place(index).units.store_relaxed(units);
    mine.add({index, units});
  }
  void use(u32 index) {
    kernel.touch(address(index));
    model_check(place(index).content.get() != 0, "a recycled piece holds what its owner left there");
    place(index).content.set(2);
  }
  // As statistics do: pieces are as their owners leave them, filled in or still zero.
  void walk() {
    constexpr u32 kUnits = 1u << Memory::kSegmentShift;
    const u32 end = memory.end();
    for (u32 index = 1; index < end;) {
      if (index % kUnits * Memory::kUnit >= memory.accessible(index / kUnits)) {
        index = (index / kUnits + 1) * kUnits;
        continue;
      }
      kernel.touch(address(index));
      const u32 units = place(index).units.load_relaxed();
      if (units != 0) kernel.touch(address(index) + units * Memory::kUnit - 1);
      index += 8000;
    }
  }

  void finish() {
    kernel.most_committed = ~std::size_t{0};
    const int stalled = model_stalled();
    u32 begins[kSegments * kPlaces] = {}, units[kSegments * kPlaces] = {}, count = 0, segments = 0;
    auto found = [&](u32 index, u32 length) {
      model_check(count < kSegments * kPlaces, "as many pieces as fit");
      u32 at = count++;
      for (; at > 0 && begins[at - 1] > index; --at) begins[at] = begins[at - 1], units[at] = units[at - 1];
      begins[at] = index;
      units[at] = length;
      model_observe(index);
      if ((index >> Memory::kSegmentShift) + 1 > segments) segments = (index >> Memory::kSegmentShift) + 1;
    };
    for (auto& each : pieces) each.each([&](const Piece& piece) { found(piece.index, piece.units); });
    for (u32 index = list.peek(); index != 0; index = place(index).link.load_relaxed())
      found(index, place(index).units.load_relaxed());
    // One more shows where the cursor is.
    if (const u32 index = memory.take(1000)) found(index, 1000);
    u32 lost = 0, next = 1;
    for (u32 i = 0; i < count; ++i) {
      const u32 segment = begins[i] >> Memory::kSegmentShift;
      if (i == 0 || segment != begins[i - 1] >> Memory::kSegmentShift) next = segment << Memory::kSegmentShift;
      if (next == 0) next = 1;  // index 0 names nothing
      model_check(begins[i] >= next, "a piece has one owner");
      lost += begins[i] - next;
      next = begins[i] + units[i];
    }
    model_check(lost <= (stalled < 0 ? 0 : in_hand[stalled]), "no piece is lost but what a stopped thread has in hand");
    const u32 reserved = popcount(kernel.places_taken());
    model_check(reserved <= segments + (stalled < 0 ? 0 : 1), "no address space is lost");
    walk();
  }
};

Scenario scenario(const char* name, const MetadataScript& script, bool stalls = true) {
  std::string full = name;
  for (int id = 0; id < 3; ++id)
    if (*script.thread[id] != 0) full += (id == 0 ? ": " : " | ") + std::string(script.thread[id]);
  return {full, program_type<MetadataProgram>(script), {}, stalls};
}

std::vector<Scenario> scenarios() {
  return {
      scenario("the first pieces", {"", {"t1", "t1", ""}}),
      scenario("two pieces each", {"t1", {"t1t1", "t8", ""}}),
      scenario("the second segment", {"t8t7", {"t8", "t8", ""}}, false),
      scenario("the rest of a segment, or the next one", {"t8t7", {"t1", "t8", ""}}, false),
      scenario("a third segment", {"t8t8t8", {"t8", "t8", ""}}),
      scenario("a piece, and a walk", {"t8", {"t8", "w", ""}}),
      scenario("a piece of a new segment, and a walk", {"t8t8", {"t8", "w", ""}}),
      scenario("the first piece, and a walk", {"", {"t8", "w", ""}}),
      scenario("memory is refused", {"t8", {"t8", "t4", ""}, 0}),
      scenario("memory is refused in a new segment", {"t8t8", {"t8", "t1", ""}, 0}),
      scenario("long steps are refused", {"t1", {"t1", "t2", ""}, 2 * kFrameSize}),
  };
}

// Left to the long tests.
std::vector<Scenario> larger() {
  return {
      scenario("the second segment", {"t8t7", {"t8", "t8", ""}}),
      scenario("the rest of a segment, or the next one", {"t8t7", {"t1", "t8", ""}}),
      scenario("pieces for three", {"t1", {"t1", "t1", "t8"}}, false),
      scenario("two pieces each, recycled", {"", {"t1f", "m1f", ""}}),
      scenario("pieces of three segments", {"t8t8", {"t8t8", "t8", ""}}, false),
      scenario("recycled by three", {"t1f", {"m1f", "m1f", "m1"}}, false),
  };
}

std::vector<Scenario> recycling() {
  return {
      scenario("put back and taken", {"t1", {"t1f", "m1", ""}}),
      scenario("one is in the list, two want it", {"t1f", {"m1", "m1", ""}}),
      scenario("taken, put back, taken", {"t1f", {"m1f", "m1f", ""}}),
      scenario("two are in the list", {"t1t1ff", {"m1", "m1m1f", ""}}),
      scenario("new ones and old ones, by three", {"t1f", {"m1f", "m1", "m1"}}, false),
  };
}

// For planted faults: nobody stops.
std::vector<Scenario> all_scenarios() {
  std::vector<Scenario> all = scenarios();
  for (Scenario& each : recycling()) all.push_back(each);
  for (Scenario& each : all) each.stalls = false;
  return all;
}

TEST(PagesMetadataModel, PiecesAndSegmentsHaveOneOwnerAlsoWhenAThreadStops) { expect_hold(scenarios()); }
TEST(PagesMetadataModel, DISABLED_AllHoldsInLargerPrograms) { expect_hold(larger()); }
TEST(PagesMetadataModel, RecycledPiecesAreInOnePlaceAlsoWhenAThreadStops) { expect_hold(recycling()); }

TEST(PagesMetadataMutants, PublishingASegmentTwiceIsCaught) {
  expect_mutant_caught(all_scenarios(), "segment overwritten");
}
TEST(PagesMetadataMutants, KeepingTheReservationOfALostRaceIsCaught) {
  expect_mutant_caught(all_scenarios(), "reservation kept");
}
TEST(PagesMetadataMutants, MovingTheCursorBeforeThereIsMemoryIsCaught) {
  expect_mutant_caught(all_scenarios(), "cursor first");
}
TEST(PagesMetadataMutants, UntaggedListsAreCaught) {
  expect_caught(recycling(), "untagged list", [](Options& options) {
    options.memory = MemoryModel::kSequential;
    options.lose_bits.push_back({"list", StackHead::kIndexMask});
  });
}
TEST(PagesMetadataMutants, EachMemoryOrderIsNeeded) {
  // Who lost the race has just given his reservation back, under the kernel's lock: that orders him after the winner.
  expect_orders_needed(all_scenarios(), "pages/metadata.h", {{"[A2] pairs with [R1]", Part::kAcquire}});
}

}  // namespace
}  // namespace freeway::model
