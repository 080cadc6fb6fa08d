// SPDX-License-Identifier: MIT
// superblock_relacy.cc: a second opinion on src/superblock/superblocks.h and the anchor: superblocks of two or three
// blocks that two or three threads free, list and hold.
//
// World     two descriptors, two spans, one size class of two or three blocks. Each block has contents that its owner
//           writes to: a block in two hands, or a span given back under its owner, is a race
// Scripts   as in tests/superblock/superblock_program.h: h hold, g let go, t take a block, f free the oldest; in the
//           setup digits give the oldest block, A B C what is held, to a thread
#include "superblock/superblocks.h"
#include "tests/explorer/relacy/relacy_test.h"

namespace freeway::model {
namespace {

constexpr u32 kMade = 2, kSpans = 2, kMostBlocks = 3, kBlockBytes = 16;
constexpr uptr kFirstSpan = 0x100000;

struct Backing {
  SizeClass classes[2];
  RelacyEnv::Atomic<u32> made;
  RelacyEnv::Atomic<u32> used;  // spans, as bits
  RelacyEnv::Atomic<u32> map[kSpans];
  RelacyEnv::Plain<u32> content[kSpans][kMostBlocks];
  Descriptor<RelacyEnv> descriptors[kMade + 1];

  const SizeClass& size_class(unsigned c) const { return classes[c]; }
  Descriptor<RelacyEnv>& descriptor(u32 index) {
    RL_ASSERT(index >= 1 && index <= kMade);
    return descriptors[index];
  }
  u32 make_descriptor(unsigned c) {
    const u32 index = made.fetch_add_relaxed(1) + 1;
    if (index > kMade) return 0;
    descriptor(index).size_class.store_relaxed(c);
    return index;
  }
  uptr take_span(unsigned, u32 d) {
    u32 seen = used.load_relaxed();
    while (seen != low_bits(kSpans)) {
      const u32 span = lowest_bit(~seen);
      if (!used.cas_acquire(seen, seen | u32{1} << span)) continue;
      touch(span);
      map[span].store_release(d);
      return kFirstSpan + span * kFrameSize;
    }
    return 0;
  }
  u32 descriptor_at(uptr, unsigned) { return 0; }
  static unsigned node() { return 0; }
  void give_span(uptr address, unsigned) {
    const u32 span = static_cast<u32>((address - kFirstSpan) / kFrameSize);
    RL_ASSERT(span < kSpans);
    touch(span);
    map[span].store_relaxed(0);
    RL_ASSERT((used.fetch_and_release(~(u32{1} << span)) >> span & 1) != 0);
  }
  // Whoever has the span to himself may write all over it.
  void touch(u32 span) {
    for (auto& block : content[span]) block.set(1);
  }
};

struct SuperblockInRelacy : rl::test_suite<SuperblockInRelacy, 3> {
  static inline u32 blocks = 2;  // in a superblock
  static inline const char* setup = "";
  static inline const char* scripts[3] = {"", "", ""};

  struct Hands {
    u32 held = 0;
    u32 blocks[8] = {};  // span * kMostBlocks + block
    int from = 0, to = 0;
  };

  Backing backing;
  Superblocks<RelacyEnv, Backing> heap;
  Hands hands[4];  // the last ones: the setup's

  void before() {
    SizeClass& k = backing.classes[1];
    k = SizeClass{};
    k.size = kBlockBytes;
    k.blocks = blocks;
    k.words = 1;
    k.span_frames = 1;
    k.last_word = low_bits(blocks);
    heap.init(&backing);
    for (const char* move = setup; *move != 0; ++move) {
      if (*move >= '0' && *move <= '2')
        hands[*move - '0'].blocks[hands[*move - '0'].to++] = hands[3].blocks[hands[3].from++];
      else if (*move >= 'A' && *move <= 'C') hands[*move - 'A'].held = std::exchange(hands[3].held, 0);
      else act(*move, hands[3]);
    }
  }
  void thread(unsigned id) {
    for (const char* move = scripts[id]; *move != 0; ++move) act(*move, hands[id]);
  }
  void act(char move, Hands& mine) {
    void* block = nullptr;
    switch (move) {
      case 'h':
        if (mine.held == 0) mine.held = heap.hold(1);
        break;
      case 'g':
        if (mine.held != 0) heap.let_go(std::exchange(mine.held, 0));
        break;
      case 't':
        if (mine.held != 0 && heap.take(mine.held, 1, &block) == 1) received(mine, reinterpret_cast<uptr>(block));
        break;
      case 'f':
        if (mine.from < mine.to) release(mine.blocks[mine.from++]);
        break;
      default: RL_ASSERT(false);
    }
  }
  void received(Hands& mine, uptr address) {
    const u32 span = static_cast<u32>((address - kFirstSpan) / kFrameSize);
    const u32 block = static_cast<u32>((address - kFirstSpan) % kFrameSize / kBlockBytes);
    RL_ASSERT(span < kSpans && block < blocks);
    backing.content[span][block].set(2);
    mine.blocks[mine.to++] = span * kMostBlocks + block;
  }
  void release(u32 which) {
    const u32 span = which / kMostBlocks;
    backing.content[span][which % kMostBlocks].set(3);
    heap.free_group(1, backing.map[span].load_relaxed(), kFirstSpan + span * kFrameSize, 0,
                    u64{1} << (which % kMostBlocks));
  }
  // When all is freed and let go, every span has been given back.
  void after() {
    for (Hands& each : hands) {
      if (each.held != 0) heap.let_go(std::exchange(each.held, 0));
      while (each.from < each.to) release(each.blocks[each.from++]);
    }
    RL_ASSERT(backing.used.load_relaxed() == 0);
  }
};

RelacyResult run(u32 blocks, const char* setup, const char* first, const char* second, const char* third = "") {
  SuperblockInRelacy::blocks = blocks;
  SuperblockInRelacy::setup = setup;
  SuperblockInRelacy::scripts[0] = first;
  SuperblockInRelacy::scripts[1] = second;
  SuperblockInRelacy::scripts[2] = third;
  return run_in_relacy<SuperblockInRelacy>(10000);
}

class AnchorInRelacy : public RelacyTest {
 protected:
  AnchorInRelacy() : RelacyTest("superblock words and anchor, in Relacy") {}
};

RelacyResult freed_by_two() { return run(2, "httg01", "f", "f"); }
RelacyResult freed_by_three() { return run(3, "htttg012", "f", "f", "f"); }
RelacyResult freed_while_held() { return run(2, "httA11", "tg", "ff"); }
RelacyResult freed_while_held_by_another() { return run(3, "htttA1", "g", "fht", "ht"); }
RelacyResult tombstone() { return run(2, "htg0", "f", "htg", "htg"); }

TEST_F(AnchorInRelacy, HoldsAtRandom) {
  expect_holds(freed_by_two(), false);
  expect_holds(freed_by_three(), false);
  expect_holds(freed_while_held(), false);
  expect_holds(freed_while_held_by_another(), false);
  expect_holds(tombstone(), false);
  expect_holds(run(2, "httg01", "f", "f", "htgf"), false);  // emptied, or held by a third before that
}
TEST_F(AnchorInRelacy, PlantedFaultsAreCaught) {
  RelacyEnv::planted = "owed forgotten";
  expect_found(freed_while_held(), "owed forgotten");
  RelacyEnv::planted = "list without U";
  expect_found(freed_while_held_by_another(), "list without U");
  RelacyEnv::planted = "no tombstone test";
  expect_found(tombstone(), "no tombstone test");
}
TEST_F(AnchorInRelacy, MissingReleasesAreCaught) {
  RelacyEnv::releases = false;
  expect_found(freed_by_two(), "no releases");
}

}  // namespace
}  // namespace freeway::model
