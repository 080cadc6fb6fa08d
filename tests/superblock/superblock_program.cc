// SPDX-License-Identifier: MIT
// superblock_program.cc: what the scripts' letters do, and what must hold at the end; see superblock_program.h.
#include "tests/superblock/superblock_program.h"

#include <utility>

namespace freeway::model {

SuperblockProgram::SuperblockProgram(SuperblockScript s) : script(s) {
  heap.init(&backing, script.nodes());
  backing.classes[1] = model_class(script.blocks);
  backing.classes[2] = model_class(script.blocks2);
  model_name(heap, "heap");
  model_name(backing.used, "spans");
  model_name(mail, "mail");
  for (u32 span = 0; span < kSpans; ++span) {
    model_name(backing.map[span], "map", static_cast<int>(span));
    model_name(backing.content[span], "content", static_cast<int>(span));
  }
  for (u32 d = 1; d <= kDescriptors; ++d) {
    auto& descriptor = backing.descriptor(d);
    const int index = static_cast<int>(d);
    model_name(backing.descriptors[d], "words", index);
    model_name(descriptor.anchor, "anchor", index);
    model_name(descriptor.span, "span", index);
    model_name(descriptor.link, "link", index);
    model_name(descriptor.size_class, "class", index);
    model_name(descriptor.owed, "owed", index);
    model_name(descriptor.next_word, "next_word", index);
    model_name(descriptor.node, "node", index);
  }
  ModelEnv::on_purge(this, [](void* self, uptr address, std::size_t bytes) {
    return static_cast<SuperblockProgram*>(self)->backing.purge(address, bytes);
  });
  unsigned c = 1;
  for (const char* move = script.setup; *move != 0; ++move) {
    if (*move >= '0' && *move <= '2') hands[*move - '0'].add(main.remove());
    else if (*move >= 'A' && *move <= 'C') hands[*move - 'A'].held = std::exchange(main.held, 0);
    else act(*move, main, c);
  }
  know();
}

// What the setup has left.
void SuperblockProgram::know() {
  const auto has = [this](int owner, const Hands& each) {
    each.each([&](const Group& group) { ghosts[group.d].blocks[owner][group.word] |= group.mask; });
    if (each.held != 0) ghosts[each.held].holder = owner;
  };
  for (int id = 0; id < kThreads; ++id) has(id, hands[id]);
  has(SuperblockGhost::kMain, main);
  find_places();
  for (u32 d = 1; d <= kDescriptors; ++d) {
    const auto& descriptor = backing.descriptor(d);
    ghosts[d].anchor = descriptor.anchor.load_relaxed();
    if (anchor::is_held(ghosts[d].anchor) && ghosts[d].holder == SuperblockGhost::kNobody)
      ghosts[d].holder = SuperblockGhost::kMain;  // it lies on the shelf of direct.h
    ghosts[d].owed = ghosts[d].holder != SuperblockGhost::kNobody ? descriptor.owed.get() : 0;
    ghosts[d].place = places_[d];
    for (u32 word = 0; word < kMostWords; ++word) ghosts[d].words[word] = descriptor.words[word].load_relaxed();
  }
}

// Where each descriptor is listed.
void SuperblockProgram::find_places() {
  for (auto& place : places_) place = SuperblockGhost::Place::kNone;
  for (unsigned c = 1; c <= 2; ++c) {
    heap.each_in_lists(c, [this](u32 d, bool pool) {
      const bool again = places_[d] != SuperblockGhost::Place::kNone;
      places_[d] = pool ? SuperblockGhost::Place::kPool : SuperblockGhost::Place::kList;
      return !again;
    });
  }
}

const char* SuperblockProgram::stepped(int id) {
  find_places();
  for (u32 d = 1; d <= kDescriptors; ++d) {
    SuperblockGhost& ghost = ghosts[d];
    const auto& descriptor = backing.descriptor(d);
    const unsigned c = descriptor.size_class.load_relaxed();
    if (c == 0) continue;  // not made yet
    const SizeClass& k = backing.classes[c];
    const char* broken = nullptr;
    for (u32 word = 0; word < k.words && broken == nullptr; ++word)
      if (const u64 now = descriptor.words[word].load_relaxed(); now != ghost.words[word])
        broken = SuperblockInvariant::word_changed(ghost, k, word, now, id, purged[id] == d);
    if (const u64 now = descriptor.anchor.load_relaxed(); broken == nullptr && now != ghost.anchor)
      broken = SuperblockInvariant::anchor_changed(ghost, c, k, now, id);
    if (broken == nullptr && places_[d] != ghost.place)
      broken = SuperblockInvariant::place_changed(ghost, places_[d], id);
    if (broken == nullptr && ghost.anchor != 0) broken = SuperblockInvariant::R(ghost, c, k);
    if (broken != nullptr) return broken;
  }
  return nullptr;
}

void SuperblockProgram::purge(u32 d) {
  if (model_thread() >= 0) purged[model_thread()] = d;
  heap.purge(d, kBlockBytes);
}

void SuperblockProgram::hand_over(const Group& group, int from, int to) {
  ghosts[group.d].blocks[from][group.word] &= ~group.mask;
  ghosts[group.d].blocks[to][group.word] |= group.mask;
}

void SuperblockProgram::take_over(u32 d) {
  if (model_thread() >= 0) ghosts[d].holder = model_thread();
}

void SuperblockProgram::follow(const char* moves, Hands& mine) {
  unsigned c = 1;
  for (; *moves != 0; ++moves) act(*moves, mine, c);
}

namespace {
// Places "at random": from the beginning.
struct FirstOnes {
  u32 below(u64) const { return 0; }
  u64 some_of(u64 bits, unsigned n) const { return lowest_set_bits(bits, n); }
};
}  // namespace

void SuperblockProgram::act(char move, Hands& mine, unsigned& c) {
  FirstOnes first_ones;
  void* blocks[kMostBlocks];
  switch (move) {
    case 'c': c = 3 - c; break;
    case 'h':
      if (mine.held == 0) mine.held = heap.hold(c);
      break;
    case 'a':
      if (mine.held == 0) mine.held = heap.adopt(c);
      break;
    case 'n':
      if (mine.held == 0) mine.held = heap.take_behind(c, kFirstSpan - kFrameSize);
      break;
    case 'g':
    case 'G':
      if (mine.held == 0) break;
      if (u32 d = std::exchange(mine.held, 0); move == 'g') heap.let_go(d);
      else let_go_after_one_scan(d, mine);
      break;
    case 't':
    case 'T':
      if (mine.held == 0) break;
      received(mine, mine.held, blocks, heap.take(mine.held, move == 't' ? 1 : 64, blocks));
      break;
    case 'y':
      if (mine.held == 0) break;
      received(mine, mine.held, blocks, heap.take_scattered(mine.held, 1, blocks, first_ones));
      break;
    case 'k': {
      u32 of = 0;
      void* block = take_one(heap, c, [&](u32 d, void** out) { return heap.take(of = d, 1, out); });
      if (block != nullptr) received(mine, of, &block, 1);
      break;
    }
    case 'u':
    case 'U': refill(mine, c, move == 'u' ? 1 : 64); break;
    case 'f':
      if (mine.any()) release(mine.remove());
      break;
    case 'l':
      if (mine.any()) release(mine.remove_newest());
      break;
    case 'x':
      if (mine.any()) {
        Group rest = mine.newest();
        mine.newest().mask = rest.mask & -rest.mask;
        rest.mask &= rest.mask - 1;
        if (rest.mask != 0) mine.add(rest);
      }
      break;
    case 's':
      if (u32 nobody = 0; mine.any() && mail.cas_acquire(nobody, 1)) {
        letter_seal.set(1);
        letter = mine.remove();
        hand_over(letter, model_thread(), SuperblockGhost::kLetter);
        mail.store_release(2);
      }
      break;
    case 'r':
      if (u32 sent = 2; mail.cas_acquire(sent, 3)) {
        letter_seal.set(2);
        mine.add(letter);
        hand_over(letter, SuperblockGhost::kLetter, model_thread());
        letter = {};
        mail.store_release(0);
      }
      break;
    case 'p':
      if (mine.held != 0) purge(mine.held);
      break;
    case 'm':
      heap.flip_lists();
      heap.each_listed(c, kDescriptors, [this](u32 d) { purge(d); });
      break;
    case 'o': backing.here() = 1 - backing.here(); break;
    case 'd': allocate_direct(mine, c); break;
    case 'e': direct.empty(*this, c); break;
    case 'P': purge_without_holding(0); break;
    default: model_check(move == ' ', "a letter that means something");
  }
}

// As a magazine's refill does.
void SuperblockProgram::refill(Hands& mine, unsigned c, unsigned want) {
  void* blocks[kMostBlocks];
  for (int tried = 0; tried < 2; ++tried) {
    if (mine.held == 0) mine.held = heap.hold_behind(c, kFirstSpan - kFrameSize);
    if (mine.held == 0) return;
    if (const unsigned got = heap.take(mine.held, want, blocks); got != 0)
      return received(mine, mine.held, blocks, got);
    heap.let_go(std::exchange(mine.held, 0));
  }
}

void SuperblockProgram::allocate_direct(Hands& mine, unsigned c) {
  u32 of = 0;
  void* block = direct.allocate(*this, c, [&](u32 d, void** out) {
    take_over(d);
    return heap.take(of = d, 1, out) == 1;
  });
  if (block != nullptr) received(mine, of, &block, 1);
}

void SuperblockProgram::received(Hands& mine, u32 d, void* const* blocks, unsigned count) {
  Group group{d, 0, 0, 0, 0};
  for (unsigned i = 0; i < count; ++i) {
    const uptr address = reinterpret_cast<uptr>(blocks[i]);
    const u32 span = ModelBacking::span_index(address);
    const u32 block = static_cast<u32>((address - kFirstSpan) % kFrameSize / kBlockBytes);
    group.c = backing.class_of_span[span];
    model_check(block < backing.classes[group.c].blocks, "a block within its superblock");
    backing.content[span][block].set(3);
    if (group.mask != 0 && (group.word != block / 64 || group.span != span)) {
      mine.add(group);
      group.mask = 0;
    }
    group.span = span;
    group.word = block / 64;
    group.mask |= u64{1} << (block % 64);
  }
  if (group.mask != 0) mine.add(group);
}

// As a free does: the descriptor is found through the map, the contents were written before.
void SuperblockProgram::release(const Group& group) {
  for (u64 rest = group.mask; rest != 0; rest &= rest - 1)
    backing.content[group.span][group.word * 64 + lowest_bit(rest)].set(4);
  const u32 d = backing.map[group.span].load_relaxed();
  model_check(d == group.d, "the map leads a block's owner to its descriptor");
  if (model_thread() >= 0) purged[model_thread()] = 0;
  const u64 twice = heap.free_group(group.c, d, kFirstSpan + group.span * kFrameSize, group.word, group.mask);
  model_check(twice == 0, "a block that was handed out is not free");
}

// The purger of an earlier form of the protocol: takes a bit although it is not the holder, frees it like any block,
// and takes what it owes from the anchor later than that.
void SuperblockProgram::purge_without_holding(u32 span) {
  const u32 d = backing.map[span].load_relaxed();
  if (d == 0) return;
  const unsigned c = backing.class_of_span[span];
  const u64 full = backing.classes[c].full_mask(0);
  const u64 old = backing.descriptor(d).words[0].fetch_and_acquire(~u64{1});
  if ((old & 1) == 0) return;
  heap.free_group(c, d, kFirstSpan + span * kFrameSize, 0, 1);
  backing.descriptor(d).anchor.fetch_sub_acq_rel(anchor::minus(old, 1, full));
}

// The end of taking in an earlier form: one pass takes what it sees, and if then the anchor is still what it was
// before the pass, nothing is taken to be left.
void SuperblockProgram::let_go_after_one_scan(u32 d, Hands& mine) {
  auto& descriptor = backing.descriptor(d);
  const SizeClass& k = backing.size_class(descriptor.size_class.load_relaxed());
  const u32 span = ModelBacking::span_index(descriptor.span.load_relaxed());
  u64 seen = descriptor.anchor.load_relaxed();
  u64 owed = descriptor.owed.get();
  for (unsigned word = 0; word < k.words; ++word) {
    const u64 mask = descriptor.words[word].load_relaxed();
    if (mask == 0) continue;
    owed += anchor::minus(descriptor.words[word].fetch_and_acquire(~mask), mask, k.full_mask(word));
    mine.add({d, span, word, backing.class_of_span[span], mask});
  }
  descriptor.owed.set(0);
  if (descriptor.anchor.cas_acq_rel(seen, (seen - owed - anchor::kHeld) | anchor::kUnlisted)) return;
  descriptor.owed.set(owed);
  heap.let_go(d);
}

// The end ------------------------------------------------------------------------------------------------------------

void SuperblockProgram::finish() {
  for (unsigned c = 1; script.is_direct() && c <= 2; ++c) direct.empty(*this, c);
  int places[kDescriptors + 1] = {};
  count_places(places);
  int out_of_reach = 0;
  const u32 made = clamp(backing.made.load_relaxed(), 0, kDescriptors);
  for (u32 d = 1; d <= made; ++d) {
    model_check(places[d] <= 1, "a descriptor is in one place only");
    out_of_reach += places[d] == 0;
  }
  for (u32 d = 1; d <= kDescriptors; ++d) {
    auto& descriptor = backing.descriptor(d);
    model_observe(descriptor.anchor.load_relaxed());
    model_observe(descriptor.words[0].load_relaxed());
    model_observe(descriptor.link.load_relaxed());
    model_observe(descriptor.span.load_relaxed());
  }
  for (const Hands& each : hands) {
    model_observe(each.held);
    each.each([](const Group& group) { model_observe(group.mask + group.span); });
  }
  const bool stalled = model_stalled() >= 0;
  model_check(out_of_reach <= (stalled ? 1 : 0), "no descriptor is lost");
  if (!stalled) check_blocks(places);
  if (!stalled && script.nodes() > 1) check_reach();
  drain();
}

// In a list, in a pool, in a thread's hands (and perhaps a list), or unlisted with nothing free.
void SuperblockProgram::count_places(int (&places)[kDescriptors + 1]) {
  int entries[kDescriptors + 1] = {};
  for (unsigned c = 1; c <= 2; ++c) {
    heap.each_in_lists(c, [&](u32 d, bool pool) {
      model_check(d >= 1 && d <= kDescriptors && ++entries[d] == 1, "a descriptor is in one list, once");
      const u64 anchor = backing.descriptor(d).anchor.load_relaxed();
      const bool empty = anchor::is_empty(anchor, c, backing.classes[c].words);
      model_check(!anchor::is_unlisted(anchor), "what is listed is not unlisted");
      model_check(anchor::is_held(anchor) == anchor::has_entry(anchor), "what is listed and held knows of its entry");
      if (!anchor::is_held(anchor)) ++places[d];
      model_check(backing.descriptor(d).size_class.load_relaxed() == c, "a descriptor is in its class's lists");
      model_check(empty || anchor == 0 || !pool, "a descriptor in a pool has no superblock");
      return true;
    });
  }
  for (const Hands& each : hands)
    if (each.held != 0) ++places[each.held];
  if (main.held != 0) ++places[main.held];
  for (u32 d = 1; d <= kDescriptors; ++d)
    if (anchor::is_unlisted(backing.descriptor(d).anchor.load_relaxed())) ++places[d];
}

// Each block of each live superblock is free, or in one thread's hands; and nothing free is out of reach.
void SuperblockProgram::check_blocks(const int (&places)[kDescriptors + 1]) {
  u64 owned[kDescriptors + 1][2] = {};
  auto own = [&](const Group& group) {
    model_check((owned[group.d][group.word] & group.mask) == 0, "a block is in one thread's hands only");
    owned[group.d][group.word] |= group.mask;
  };
  for (const Hands& each : hands) each.each(own);
  main.each(own);
  if (letter.mask != 0) own(letter);
  for (u32 d = 1; d <= kDescriptors; ++d) {
    auto& descriptor = backing.descriptor(d);
    const unsigned c = descriptor.size_class.load_relaxed();
    const u64 anchor = descriptor.anchor.load_relaxed();
    if (places[d] == 0 || anchor == 0 || anchor::is_empty(anchor, c, backing.classes[c].words)) continue;
    const u32 span = ModelBacking::span_index(descriptor.span.load_relaxed());
    model_check(backing.map[span].load_relaxed() == d, "the map knows each live superblock");
    u64 counted = 0;
    for (unsigned word = 0; word < backing.classes[c].words; ++word) {
      const u64 full = backing.classes[c].full_mask(word);
      const u64 free = descriptor.words[word].load_relaxed();
      model_check((free & owned[d][word]) == 0, "a block in a thread's hands is not free");
      model_check((free | owned[d][word]) == full, "no block is lost");
      counted += anchor::plus(0, free, full) - (free == 0 ? anchor::kNonZero : 0);
    }
    if (!anchor::is_held(anchor)) {
      model_check((anchor & ~anchor::kUnlisted) == (u64{c} << anchor::kClassShift) + counted,
                  "the anchor of a superblock that nobody holds counts its words");
      model_check(!anchor::wants_listing(anchor), "what has free blocks is listed");
    }
  }
}

// From each node: when no span is left, hold() finds whatever is listed; afterwards it is let go again.
void SuperblockProgram::check_reach() {
  for (unsigned node = 0; node < script.nodes(); ++node) {
    backing.here() = node;
    u32 found[kDescriptors] = {};
    unsigned count = 0;
    for (unsigned c = 1; c <= 2; ++c) {
      while (const u32 d = heap.hold(c)) found[count++] = d;
      heap.each_in_lists(c, [&](u32, bool pool) {
        model_check(pool, "what is listed is within reach of every node");
        return true;
      });
    }
    while (count > 0) heap.let_go(found[--count]);
  }
}

// Everything is freed and let go: then every span must have been given back.
void SuperblockProgram::drain() {
  for (int id = 0; id < kThreads; ++id) {
    if (id == model_stalled()) continue;
    while (hands[id].any()) release(hands[id].remove());
    if (hands[id].held != 0) heap.let_go(std::exchange(hands[id].held, 0));
  }
  while (main.any()) release(main.remove());
  if (main.held != 0) heap.let_go(std::exchange(main.held, 0));
  if (model_stalled() >= 0) return;
  if (letter.mask != 0) release(letter);
  model_check(backing.used.load_relaxed() == 0, "when all is freed every span has been given back");
  int after[kDescriptors + 1] = {};
  count_places(after);
  for (u32 d = 1; d <= clamp(backing.made.load_relaxed(), 0, kDescriptors); ++d)
    model_check(after[d] == 1, "when all is freed every descriptor is in a pool, or a tombstone in a list");
}

}  // namespace freeway::model
