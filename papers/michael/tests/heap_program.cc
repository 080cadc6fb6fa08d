// SPDX-License-Identifier: MIT
// heap_program.cc: what the scripts' letters do, and what must hold at the end; see heap_program.h.
#include "heap_program.h"

namespace freeway::model {

namespace active = michael::active;
namespace anchor = michael::anchor;

HeapProgram::HeapProgram(HeapScript s) : script(s) {
  level.maxcount = s.maxcount;
  sc.sz = kBlockBytes;
  sc.maxcount = s.maxcount;
  sc.partial.init(s.list, kDummy);
  heaps.init(&level, s.policy);
  model_name(sc, "list");
  model_name(level.idle, "idle");
  model_name(level.used, "used");
  model_name(mail, "mail");
  for (int h = 0; h < 2; ++h) {
    heap[h].sc = &sc;
    model_name(heap[h].active, "active", h);
    model_name(heap[h].partial, "partial", h);
  }
  for (u32 d = 1; d <= kDummy; ++d) {
    auto& desc = level.descriptors[d];
    const int index = static_cast<int>(d);
    desc.self.set(d);
    desc.node.set(d);
    model_name(desc.anchor, "anchor", index);
    model_name(desc.heap, "heap", index);
    model_name(desc.link, "link", index);
    model_name(desc.value, "value", index);
    model_name(desc.sb, "sb", index);
  }
  for (u32 b = 0; b < kSuperblocks; ++b) {
    model_name(level.memory[b], "block", static_cast<int>(b));
    model_name(level.content[b], "content", static_cast<int>(b));
  }
  level.idle.store_relaxed(low_bits(kDescriptors) << 1);
  unsigned h = 0;
  for (const char* move = script.setup; *move != 0; ++move) {
    if (*move >= '0' && *move <= '2') hands[*move - '0'].add(main.oldest());
    else act(*move, main, h);
  }
}

void HeapProgram::follow(const char* moves, Blocks& mine) {
  unsigned h = 0;
  for (; *moves != 0; ++moves) act(*moves, mine, h);
}

void HeapProgram::act(char move, Blocks& mine, unsigned& h) {
  switch (move) {
    case 'h': h = 1 - h; break;
    case 'm':
      if (const uptr payload = heaps.malloc(heap[h])) {
        const auto [sb, i] = level.place(payload - michael::kPrefix);
        model_check(i < script.maxcount, "a block within its superblock");
        level.content[sb][i].set(2);
        mine.add(payload - michael::kPrefix);
      }
      break;
    case 'f':
      if (mine.any()) release(mine.oldest());
      break;
    case 'F':
      if (mine.any()) release(mine.newest());
      break;
    case 't': heaps.trim(heap[h]); break;
    case 's':
      if (u64 nobody = 0; mine.any()) {
        const uptr block = mine.oldest();
        if (!mail.cas_release(nobody, block)) mine.add(block);
      }
      break;
    case 'r':
      if (u64 block = mail.load_acquire(); block > 1 && mail.cas_acquire(block, 1)) mine.add(block);
      break;
    default: model_check(move == ' ', "a letter that means something");
  }
}

// As a free does: the contents were written, the descriptor is what the prefix leads to.
void HeapProgram::release(uptr block) {
  const auto [sb, i] = level.place(block);
  level.content[sb][i].set(3);
  const u64 prefix = level.memory[sb][i].load_relaxed();
  const uptr first = reinterpret_cast<uptr>(level.descriptors);
  model_check(prefix > first && prefix < first + sizeof(level.descriptors), "the prefix leads to a descriptor");
  auto& desc = *reinterpret_cast<Descriptor<ModelEnv>*>(prefix);
  model_check(desc.sb.get() == reinterpret_cast<uptr>(level.memory[sb]), "the descriptor is its superblock's");
  heaps.free(desc, block);
}

// The end ------------------------------------------------------------------------------------------------------------

u32 HeapProgram::reserved_in_active(const Descriptor<ModelEnv>& desc) {
  u32 credits = 0;
  for (auto& each : heap) {
    const u64 word = each.active.load_relaxed();
    if (active::descriptor_of(word) == reinterpret_cast<u64>(&desc)) credits += active::credits_of(word);
  }
  return credits;
}

void HeapProgram::finish() {
  int places[kDescriptors + 1] = {};
  count_places(places);
  int out_of_reach = 0;
  for (u32 d = 1; d <= kDescriptors; ++d) {
    auto& desc = level.descriptors[d];
    model_observe(desc.anchor.load_relaxed());
    model_check(places[d] <= 1, "a descriptor is in one place only");
    const bool full = anchor::state(desc.anchor.load_relaxed()) == anchor::kFull;
    out_of_reach += places[d] == 0 && !full;
  }
  for (const Blocks& each : hands) each.each([this](uptr block) { model_observe(level.place(block).index); });
  const bool stalled = model_stalled() >= 0;
  model_check(out_of_reach <= (stalled ? 1 : 0), "no descriptor is lost");
  if (!stalled) check_blocks(places);
  drain();
}

void HeapProgram::count_places(int (&places)[kDescriptors + 1]) {
  auto in = [&](const Descriptor<ModelEnv>& desc, bool active) {
    const auto d = static_cast<u32>(&desc - level.descriptors);
    model_check(d >= 1 && d <= kDescriptors, "a descriptor that exists");
    ++places[d];
    const auto state = anchor::state(desc.anchor.load_relaxed());
    model_check(active ? state == anchor::kActive : state == anchor::kPartial || state == anchor::kEmpty,
                "a descriptor is where its state says");
  };
  for (auto& each : heap) {
    const u64 word = each.active.load_relaxed();
    if (word != 0) in(*reinterpret_cast<Descriptor<ModelEnv>*>(active::descriptor_of(word)), true);
    for (u32 i = 0; i < script.policy.slots; ++i)
      if (auto* desc = each.partial[i].load_relaxed()) in(*desc, false);
  }
  int steps = 0;
  sc.partial.each(level.nodes(), [&](Descriptor<ModelEnv>& desc) {
    model_check(++steps <= static_cast<int>(kDescriptors), "the list ends");
    in(desc, false);
  });
  for (u32 d = 1; d <= kDescriptors; ++d) places[d] += (level.idle.load_relaxed() >> d & 1) != 0;
}

// Each block of each live superblock is free or in one thread's hands.
void HeapProgram::check_blocks(const int (&)[kDescriptors + 1]) {
  bool owned[kSuperblocks][kMostBlocks] = {};
  auto own = [&](uptr block) {
    const auto [sb, i] = level.place(block);
    model_check(!owned[sb][i], "a block is in one thread's hands only");
    owned[sb][i] = true;
  };
  for (const Blocks& each : hands) each.each(own);
  main.each(own);
  if (const u64 letter = mail.load_relaxed(); letter > 1) own(letter);
  u32 seen = 0;
  for (u32 d = 1; d <= kDescriptors; ++d) {
    auto& desc = level.descriptors[d];
    const u64 a = desc.anchor.load_relaxed();
    if ((level.idle.load_relaxed() >> d & 1) != 0 || anchor::state(a) == anchor::kEmpty) continue;
    const u32 sb = level.place(desc.sb.get()).first;
    model_check((seen >> sb & 1) == 0 && (level.used.load_relaxed() >> sb & 1) != 0, "a superblock has one descriptor");
    seen |= u32{1} << sb;
    u32 free = anchor::count(a) + reserved_in_active(desc), index = anchor::avail(a);
    const auto form = script.policy.form;
    u32 in_hand = 0;
    for (u32 i = 0; i < script.maxcount; ++i) in_hand += owned[sb][i];
    model_check(free + in_hand == script.maxcount, "no block is lost");
    for (; free > 0; --free) {
      model_check(index < script.maxcount && !owned[sb][index], "a free block is in the list once, and in no hands");
      owned[sb][index] = true;
      const bool written = form == anchor::Form::kLinked || index < anchor::fresh(a);
      index = written ? static_cast<u32>(level.memory[sb][index].load_relaxed()) : index + 1;
    }
  }
  model_check(seen == level.used.load_relaxed(), "each superblock in use has a descriptor");
}

// Everything is freed and trimmed: then all superblocks and descriptors must have come back.
void HeapProgram::drain() {
  for (int id = 0; id < kThreads; ++id) {
    if (id == model_stalled()) continue;
    while (hands[id].any()) release(hands[id].oldest());
  }
  while (main.any()) release(main.oldest());
  if (const u64 letter = mail.load_relaxed(); letter > 1) release(letter);
  for (int round = 0; round < 2; ++round)
    for (auto& each : heap) heaps.trim(each);
  // Nothing is lost to the others: they still get what is left, and give it back.
  const u32 before = level.used.load_relaxed();
  for (int i = 0; i < 2; ++i) {
    Blocks some;
    for (u32 n = 0; n < 2; ++n)
      if (const uptr payload = heaps.malloc(heap[i])) some.add(payload - michael::kPrefix);
    while (some.any()) release(some.oldest());
    heaps.trim(heap[i]);
  }
  if (model_stalled() >= 0) return;
  model_check(before == 0 && level.used.load_relaxed() == 0, "when all is freed every superblock has come back");
  model_check(level.idle.load_relaxed() == low_bits(kDescriptors) << 1,
              "when all is freed every descriptor has come back");
}

}  // namespace freeway::model
