// SPDX-License-Identifier: MIT
//
// pages_program.h: Streamflow's page manager in the smallest world around it, and threads that follow scripts.
//
// World     two superpages of two words of two leaves each. Each leaf has contents that its owner writes to, and so
//           does whoever makes a superpage or gives it back: a leaf in two hands, or a superpage given back too early,
//           is a race
// Scripts   one letter an action: 0, 1 take a page block of that order; g give the oldest one
//           in the setup also: A B C give the oldest page block to thread 0, 1, 2
// Promises  checked by finish(): every leaf of a superpage is free or in one pair of hands; a superpage without page
//           blocks has been given back; one with a free buddy is in the set of that order or a higher one. With a
//           thread stopped for ever: nothing is in two hands, and one superpage at most has leaves that nobody can
//           reach
#ifndef FREEWAY_TESTS_ENGINES_STREAMFLOW_PAGES_PROGRAM_H
#define FREEWAY_TESTS_ENGINES_STREAMFLOW_PAGES_PROGRAM_H

#include "papers/streamflow/page_manager.h"
#include "tests/explorer/explorer.h"
#include "tests/explorer/model_env.h"

namespace freeway::model {

constexpr unsigned kModelWords = 2, kModelLeaves = 2;  // a superpage; leaves a word
constexpr u32 kModelSuperpages = 2;

struct ModelSpace {
  static constexpr u32 kMostSuperpages = 64;
  static constexpr unsigned kPieceHeaders = 4;
  using Header = streamflow::Superpage<ModelEnv, kModelWords, kModelLeaves>;
  static constexpr u32 kLeafCount = kModelWords * kModelLeaves;
  static constexpr uptr kBytes = kLeafCount * streamflow::kMinPageBlock;

  ModelEnv::Atomic<u64> used;  // superpages, as bits
  ModelEnv::Plain<u32> content[kModelSuperpages][kLeafCount];
  u32 units = 0;
  ModelEnv::Plain<u32> zeroed[2];  // of each piece of headers: what its maker did to it
  alignas(64) std::byte headers[2 * kPieceHeaders * sizeof(Header)];  // two threads may make the first piece

  u32 take_units(u32 count) {
    const u32 index = units + 1;
    zeroed[units / count].set(1);
    units += count;
    model_check(units * 64 <= sizeof(headers), "two pieces of headers at most");
    return index;
  }
  void* at(u32 index) {
    model_check(index >= 1 && index <= units, "a header that exists");
    zeroed[(index - 1) * 64 / (kPieceHeaders * sizeof(Header))].get();
    return headers + (index - 1) * 64;
  }
  static u32 index_of(uptr address) { return static_cast<u32>(address / kBytes) - 1; }

  uptr take_superpage(std::size_t bytes, u32) {
    model_check(bytes == kBytes, "a superpage");
    u64 seen = used.load_relaxed();
    while (seen != low_bits(kModelSuperpages)) {
      const u32 index = lowest_bit(~seen);
      if (!used.cas_acquire(seen, seen | u64{1} << index)) continue;
      for (auto& leaf : content[index]) leaf.set(1);
      return (index + 1) * kBytes;
    }
    return 0;
  }
  void give_superpage(uptr address, std::size_t) {
    const u32 index = index_of(address);
    for (auto& leaf : content[index]) leaf.set(2);
    const u64 before = used.fetch_and_release(~(u64{1} << index));
    model_check((before >> index & 1) != 0, "a superpage is given back once");
  }
};

struct PagesScript {
  const char* setup;
  const char* thread[3];
};

struct PagesProgram {
  static constexpr int kThreads = 3;
  using Manager = streamflow::PageManager<ModelEnv, ModelSpace, kModelWords, kModelLeaves>;

  struct Held {
    Manager::Taken taken;
    unsigned order;
  };
  struct Hands {
    Held blocks[8];
    int from = 0, to = 0;
  };

  PagesScript script;
  ModelSpace space;
  Manager manager;
  Hands hands[kThreads + 1];

  explicit PagesProgram(PagesScript s) : script(s) {
    manager.init(&space);
    model_name(manager, "manager");
    model_name(space.used, "superpages");
    for (int i = 0; i < static_cast<int>(kModelSuperpages); ++i) model_name(space.content[i], "content", i);
    Hands& setup = hands[kThreads];
    for (const char* move = script.setup; *move != 0; ++move) {
      if (*move >= 'A' && *move <= 'C') {
        Hands& receiver = hands[*move - 'A'];
        receiver.blocks[receiver.to++] = setup.blocks[setup.from++];
      } else {
        act(*move, setup);
      }
    }
    for (u32 n = 1; n <= manager.headers().made(); ++n) {
      const int index = static_cast<int>(n);
      model_name(manager.headers().at(n), "header", index);
      model_name(manager.headers().at(n).free, "free", index);
    }
  }

  void thread(int id) {
    for (const char* move = script.thread[id]; *move != 0; ++move) act(*move, hands[id]);
  }

  void act(char move, Hands& mine) {
    if (move == 'g') {
      if (mine.from < mine.to) give(mine.blocks[mine.from++]);
      return;
    }
    const unsigned order = static_cast<unsigned>(move - '0');
    const auto taken = manager.take(order);
    if (taken.address == 0) return;
    mine.blocks[mine.to++] = {taken, order};
    touch(mine.blocks[mine.to - 1], 3);
  }

  void touch(const Held& held, u32 value) {
    const u32 index = ModelSpace::index_of(held.taken.address);
    model_check(index < kModelSuperpages, "an address in a superpage");
    const u32 first = static_cast<u32>(held.taken.address % ModelSpace::kBytes / streamflow::kMinPageBlock);
    model_check(first == Manager::leaf_of(held.taken.name) && first % (1u << held.order) == 0, "the leaf of that name");
    for (u32 leaf = first; leaf < first + (1u << held.order); ++leaf) space.content[index][leaf].set(value);
  }
  void give(const Held& held) {
    touch(held, 4);
    manager.give(held.taken.name, held.order);
  }

  void finish() {
    u64 held_leaves[kModelSuperpages + 3] = {};  // by number
    for (const Hands& mine : hands)
      for (int i = mine.from; i < mine.to; ++i) {
        const Held& held = mine.blocks[i];
        const u64 leaves = low_bits(1u << held.order) << Manager::leaf_of(held.taken.name);
        u64& all = held_leaves[Manager::number_of(held.taken.name)];
        model_check((all & leaves) == 0, "a leaf in one pair of hands");
        all |= leaves;
      }
    int superpages = 0, whole = 0;
    for (u32 n = 1; n <= manager.headers().made(); ++n) {
      auto& s = manager.headers().at(n);
      const u64 free = s.free[0].load_relaxed() | s.free[1].load_relaxed() << kModelLeaves;
      model_check((free & held_leaves[n]) == 0, "a held leaf is not free");
      model_observe(free);
      superpages += held_leaves[n] != 0;
      whole += held_leaves[n] != 0 && (free | held_leaves[n]) == low_bits(ModelSpace::kLeafCount);
      if (model_stalled() >= 0) continue;
      if (held_leaves[n] == 0) {
        model_check(free == 0, "an empty superpage has gone back");
        continue;
      }
      model_check(free == (low_bits(ModelSpace::kLeafCount) & ~held_leaves[n]), "what nobody holds is free");
      const int order = Manager::largest_free_order(s);
      bool found = order < 0;
      for (int o = order; o >= 0 && o <= Manager::kTop; ++o) found |= manager.is_filed(n, o);
      model_check(found, "a search comes by every free buddy");
    }
    const int used = static_cast<int>(popcount(space.used.load_relaxed()));
    if (model_stalled() < 0) model_check(used == superpages, "no superpage is lost");
    else model_check(used - whole <= 1, "one superpage at most is out of reach");
  }
};

}  // namespace freeway::model

#endif  // FREEWAY_TESTS_ENGINES_STREAMFLOW_PAGES_PROGRAM_H
