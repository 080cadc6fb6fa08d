// SPDX-License-Identifier: MIT
// model_world.cc: what the scripts' letters do, and what must hold at the end; see model_world.h.
#include "papers/lfmalloc/tests/model_world.h"

namespace freeway::lfmalloc::test {

template <class Env> Program<Env>::Program(Script s) : script(s) {
  links_of_program = links;
  memory.blocks_of[0] = script.blocks[0];
  memory.blocks_of[1] = script.blocks[1];
  heaps.kind = script.kind;
  global.init(&memory, script.limit);
  for (int id = 0; id <= kThreads; ++id) {
    view[id].all = &heaps;
    view[id].here = script.kind == Kind::kMixed ? id != 0 && id != kThreads : static_cast<u32>(id % 2);
    allocator[id].init(&view[id], &global);
  }
  view[kThreads].here = 0;
  model_name(global, "global");
  model_name(links, "link");
  model_name(mail, "mail");
  model_name(memory.used, "used");
  for (int cpu = 0; cpu < 2; ++cpu) {
    model_name(heaps.heaps[cpu].online[0], "online0", cpu);
    model_name(heaps.heaps[cpu].online[1], "online1", cpu);
    model_name(heaps.turn[cpu], "turn", cpu);
  }
  for (u32 d = 1; d <= kHeaders; ++d) {
    auto& h = memory.headers[d];
    const int index = static_cast<int>(d);
    model_name(h.local, "local", index);
    model_name(h.remote, "remote", index);
    model_name(h.base, "base", index);
    model_name(h.size_class, "class", index);
    model_name(h.link, "next", index);
  }
  for (u32 frame = 0; frame < kFrames; ++frame) {
    model_name(memory.map[frame], "map", static_cast<int>(frame));
    model_name(memory.content[frame], "content", static_cast<int>(frame));
  }
  for (const char* move = script.setup; *move != 0; ++move) {
    if (*move >= '0' && *move <= '2') hands[*move - '0'].add(hands[kThreads].remove());
    else act(*move, kThreads);
  }
}

template <class Env> void Program<Env>::follow(const char* moves, int id) {
  for (; *moves != 0; ++moves) act(*moves, id);
}

template <class Env> void Program<Env>::act(char move, int id) {
  Hands& mine = hands[id];
  switch (move) {
    case 'm': return allocate(id);
    case 'f':
      if (mine.any()) release(id, mine.remove());
      return;
    case 'd':
      if (mine.any()) release_as_printed(mine.remove());
      return;
    case 'c': mine.c = 1 - mine.c; return;
    case '<': view[id].here = 0; return;
    case '>': view[id].here = 1; return;
    case 'w': view[id].moves = 1; return;
    case 't': allocator[id].trim(); return;
    case 's':
      if (u32 nobody = 0; mine.any() && mail.cas_relaxed(nobody, 1)) {
        letter = mine.remove();
        mail.store_release(2);
      }
      return;
    case 'r':
      if (u32 sent = 2; mail.cas_acquire(sent, 3)) {
        mine.add(letter);
        letter = {};
      }
      return;
    default: model_check(move == ' ', "a letter that means something");
  }
}

template <class Env> void Program<Env>::allocate(int id) {
  const unsigned c = hands[id].c;
  const uptr block = allocator[id].malloc(c);
  if (block == 0) return;
  const u32 frame = frame_of(block), unit = unit_of(block);
  model_check(unit >= 1 && unit <= memory.blocks(c), "a block within its superblock");
  memory.content[frame][unit - 1].set(3);
  hands[id].add({block, memory.map[frame].load_relaxed(), c});
}

// As a free does: the header is found by what the block says, the contents were written before.
template <class Env> void Program<Env>::release(int id, const Held& one) {
  const u32 frame = frame_of(one.block);
  memory.content[frame][unit_of(one.block) - 1].set(4);
  model_check(memory.map[frame].load_relaxed() == one.d, "a block's superblock keeps its header");
  allocator[id].free(&memory.at(one.d), one.d, one.c, one.block);
}

// Lines [10]-[17] of the paper's free, with a limit that is always exceeded: the block is added to the remote list (one
// step, as under the superblock's lock); then, the lock released, "if the number of in use blocks reaches 0 … destroy
// the superblock", wherever it is.
template <class Env> void Program<Env>::release_as_printed(const Held& one) {
  const u32 frame = frame_of(one.block);
  memory.content[frame][unit_of(one.block) - 1].set(4);
  auto& s = memory.at(one.d);
  u64 word = s.remote.load_relaxed(), next;
  do {
    Env::link(one.block).store_relaxed(remote::head(word));
    next = remote::make(remote::state(word), remote::missing(word), unit_of(one.block), remote::count(word) + 1);
  } while (!s.remote.cas_acq_rel(word, next));
  const u32 free = local::count(s.local.load_relaxed()) + remote::count(next);
  if (free == memory.blocks(one.c)) memory.give_memory(kFirstFrame + frame * kSuperblockBytes);
}

// The end ------------------------------------------------------------------------------------------------------------

template <class Env> void Program<Env>::finish() {
  int places[kHeaders + 1] = {};
  count_places(places);
  const bool stalled = model_stalled() >= 0;
  int out_of_reach = 0;
  for (u32 d = 1; d <= clamp(memory.made.load_relaxed(), 0, kHeaders); ++d) {
    model_check(places[d] <= 1, "a header is in one place only");
    out_of_reach += places[d] == 0;
    model_observe(memory.headers[d].remote.load_relaxed());
    model_observe(memory.headers[d].local.load_relaxed() & local::kListMask);
    model_observe(memory.headers[d].base.load_relaxed());
  }
  // A thread may have stopped with a header in hand, and another one on its way (the memory of a tombstone it renamed).
  model_check(out_of_reach <= (stalled ? 1 : 0), "no superblock is lost");
  if (stalled) return;
  u64 owned[kFrames] = {};
  auto own = [&](const Held& one) {
    const u64 bit = u64{1} << unit_of(one.block);
    model_check((owned[frame_of(one.block)] & bit) == 0, "a block is in one thread's hands only");
    owned[frame_of(one.block)] |= bit;
    model_observe(one.block);
  };
  for (const Hands& mine : hands)
    for (int i = mine.from; i < mine.to; ++i) own(mine.held[i]);
  if (letter.block != 0) own(letter);
  for (u32 d = 1; d <= clamp(memory.made.load_relaxed(), 0, kHeaders); ++d) check_superblock(d, owned);
  drain();
}

// In a list, in the pool, kept, on line, or full.
template <class Env> void Program<Env>::count_places(int (&places)[kHeaders + 1]) {
  auto count = [&](u32 d) {
    model_check(d >= 1 && d <= kHeaders && ++places[d] == 1, "a header is in one list, once");
  };
  for (unsigned c = 0; c < 2; ++c)
    global.each_listed(c, [&](u32 d) {
      count(d);
      auto& s = memory.at(d);
      const u64 word = s.remote.load_relaxed();
      model_check(word == 0 || (remote::state(word) == remote::kListed && s.size_class.load_relaxed() == c),
                  "in a class's list: superblocks of the class with free blocks, and tombstones");
    });
  global.each_empty([&](u32 d) {
    count(d);
    model_check(memory.at(d).remote.load_relaxed() == remote::kKept, "what is kept says so");
  });
  global.each_in_pool([&](u32 d) {
    count(d);
    model_check(memory.at(d).remote.load_relaxed() == 0, "a header in the pool has no superblock");
  });
  for (LocalHeap<Env>& heap : heaps.heaps)
    for (unsigned c = 0; c < 2; ++c)
      if (auto* s = heap.online[c].load_relaxed()) {
        count(s->index.load_relaxed());
        model_check(remote::state(s->remote.load_relaxed()) == remote::kHeld && s->size_class.load_relaxed() == c,
                    "what is on line is held, and of its class");
      }
  for (u32 d = 1; d <= kHeaders; ++d)
    if (remote::state(memory.headers[d].remote.load_relaxed()) == remote::kFull) ++places[d];
}

// The blocks of a free list, as bits.
template <class Env> u64 Program<Env>::walk(u32 d, u32 head, u32 count) {
  u64 seen = 0;
  for (u32 i = 0; i < count; ++i) {
    model_check(head >= 1 && head <= kMostBlocks && (seen >> head & 1) == 0, "a free list has each block once");
    seen |= u64{1} << head;
    head = static_cast<u32>(Env::link(block_at(memory.at(d).base.load_relaxed(), head)).load_relaxed());
  }
  model_check(head == 0, "a free list is as long as it says");
  return seen;
}

template <class Env> void Program<Env>::check_superblock(u32 d, const u64 (&owned)[kFrames]) {
  auto& s = memory.at(d);
  const u64 here = s.local.load_relaxed(), there = s.remote.load_relaxed();
  if (remote::state(there) == remote::kNone) return;
  const u32 blocks = memory.blocks(s.size_class.load_relaxed());
  const u32 frame = frame_of(s.base.load_relaxed());
  model_check(memory.map[frame].load_relaxed() == d, "the map knows each live superblock");
  const u64 local = walk(d, local::head(here), local::count(here));
  const u64 remote = walk(d, remote::head(there), remote::count(there));
  model_check((local & remote) == 0, "a block is in one free list only");
  model_check(((local | remote) & owned[frame]) == 0, "a block in a thread's hands is not free");
  model_check((local | remote | owned[frame]) == low_bits(blocks + 1) - 1, "no block is lost");
  if (remote::state(there) == remote::kHeld) return;
  model_check(remote::missing(there) == blocks - local::count(here), "off line, what is missing is known");
  model_check(((local | remote) != 0) == (remote::state(there) == remote::kListed), "what has free blocks is listed");
  model_check(owned[frame] != 0, "what is entirely free has been settled");
}

// Everything is freed, everything goes off line: then all memory must have been given back.
template <class Env> void Program<Env>::drain() {
  for (int id = 0; id <= kThreads; ++id)
    while (hands[id].any()) release(id, hands[id].remove());
  if (letter.block != 0) release(0, letter);
  for (u32 cpu = 0; cpu < 2; ++cpu) {
    view[kThreads].here = cpu;
    view[kThreads].moves = 0;
    allocator[kThreads].trim();
  }
  model_check(memory.used.load_relaxed() == 0, "when all is freed all memory can be given back");
  int after[kHeaders + 1] = {};
  count_places(after);
  for (u32 d = 1; d <= clamp(memory.made.load_relaxed(), 0, kHeaders); ++d)
    model_check(after[d] == 1, "when all is freed every header is in the pool, or a tombstone in a list");
}

template struct Program<SectionEnv>;
template struct Program<CasEnv>;

}  // namespace freeway::lfmalloc::test
