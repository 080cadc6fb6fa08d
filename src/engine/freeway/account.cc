// SPDX-License-Identifier: MIT
// account.cc: counting what the heap holds, and auditing that it adds up.
//
// Both walk the metadata without stopping anybody. Figures are exact when nobody else allocates.
#include "engine/freeway/heap.h"
#include "os/report.h"

namespace freeway {
namespace {

using Desc = Descriptor<Machine>;

// Whether the descriptor describes a superblock now (it is not in a pool, and not a tombstone).
bool is_in_use(const Desc& d, unsigned c) {
  const u64 a = d.anchor.load_relaxed();
  return anchor::is_held(a) || !anchor::is_empty(a, c, kSizeClasses[c].words);
}

u32 free_blocks(const Desc& d, const SizeClass& k) {
  u32 blocks = 0;
  for (unsigned w = 0; w < k.words; ++w) blocks += popcount(d.words[w].load_relaxed());
  return blocks;
}

// Calls f(index, descriptor, class) for every descriptor that was ever made and has been used.
template <class F>
void each_descriptor(Heap& owner, F&& f) {
  owner.metadata().walk([&](u32 index) -> u32 {
    auto& d = *static_cast<Desc*>(owner.metadata().at(index));
    const unsigned c = d.size_class.load_relaxed();
    if (c == 0 || c >= kClassCount) return 0;
    if (d.anchor.load_relaxed() != 0) f(index, d, c);
    return static_cast<u32>(Desc::bytes(kSizeClasses[c].words) / Metadata<Machine>::kUnit);
  });
}

u32 magazine_blocks(const Slab& slab, unsigned c) {
  u32 blocks = 0;
  for (u64 at = slab.top[c].load_relaxed() - 8; slab_ops::slot(at)->load_relaxed() != 0; at -= 8) ++blocks;
  return blocks;
}

}  // namespace

ClassAccount Heap::account_of(unsigned only) {
  ClassAccount total{};
  u64 taken_bytes = 0, taken_blocks = 0;
  each_descriptor(*this, [&](u32, const Desc& d, unsigned c) {
    if ((only != 0 && c != only) || !is_in_use(d, c)) return;
    const SizeClass& k = kSizeClasses[c];
    const u32 free = free_blocks(d, k);
    ++total.superblocks;
    total.mapped_bytes += k.span_bytes();
    total.free_bytes += u64{free} * k.size;
    taken_bytes += u64{k.blocks - free} * k.size;
    taken_blocks += k.blocks - free;
  });
  each_slab([&](Slab& slab) {
    for (unsigned c = 1; c < kClassCount; ++c) {
      if (only != 0 && c != only) continue;
      const u32 blocks = magazine_blocks(slab, c);
      total.cached_blocks += blocks;
      total.cached_bytes += u64{blocks} * kSizeClasses[c].size;
      total.slow_mallocs += slab.counters[c].slow_mallocs;
      total.slow_frees += slab.counters[c].slow_frees;
      total.refills += slab.counters[c].refills;
      total.flushes += slab.counters[c].flushes;
    }
  });
  // While others allocate, a block may be counted as cached and, a moment later, as free.
  total.live_bytes = taken_bytes > total.cached_bytes ? taken_bytes - total.cached_bytes : 0;
  total.live_blocks = taken_blocks > total.cached_blocks ? taken_blocks - total.cached_blocks : 0;
  return total;
}

void Heap::account(Account& account) {
  const ClassAccount small = account_of(0);
  account.live_bytes = small.live_bytes;
  account.live_blocks = small.live_blocks;
  account.cached_bytes = small.cached_bytes;
  account.cached_blocks = small.cached_blocks;
  account.free_bytes = small.free_bytes;
  account.superblocks = small.superblocks;
  account.slow_mallocs = small.slow_mallocs;
  account.slow_frees = small.slow_frees;
  account.refills = small.refills;
  account.flushes = small.flushes;
  each_slab([&](Slab&) { account.metadata_bytes += align_up(sizeof(Slab), kFrameSize); });
}

bool Heap::owns(u32 descriptor, uptr address) {
  auto& d = *static_cast<Desc*>(metadata().at(descriptor));
  const unsigned c = d.size_class.load_relaxed();
  return is_in_use(d, c) && address - d.span.load_relaxed() < kSizeClasses[c].span_bytes();
}

namespace {

// The auditor: one walk over descriptors, lists and slabs, each checked against the others.
class Auditor {
 public:
  Auditor(Heap& owner, freeway_audit_t& audit) : heap_(owner), audit_(audit) {}

  void run() {
    each_descriptor(heap_, [&](u32 index, const Desc& d, unsigned c) { descriptor(index, d, c); });
    for (unsigned c = 1; c < kClassCount; ++c)
      heap_.superblocks().each_in_lists(c, [&](u32 index, bool pooled) { listed(index, c, pooled); });
    heap_.each_slab([&](Slab& each) { slab(each); });
    audit_.blocks_live = audit_.blocks_live > audit_.blocks_cached ? audit_.blocks_live - audit_.blocks_cached : 0;
  }

 private:
  void error(const char* what, u64 value) {
    if (audit_.errors++ < 20) Line().text("freeway: audit: ").text(what).text(" ").hex(value).write();
  }

  void descriptor(u32 index, const Desc& d, unsigned c) {
    if (!is_in_use(d, c)) return;
    const SizeClass& k = kSizeClasses[c];
    const u64 a = d.anchor.load_relaxed();
    if (anchor::class_of(a) != c) error("anchor of another class, descriptor", index);
    int non_zero = 0;
    for (unsigned w = 0; w < k.words; ++w) {
      const u64 bits = d.words[w].load_relaxed();
      non_zero += bits != 0;
      if ((bits & ~k.full_mask(w)) != 0) error("free bits of blocks that do not exist, descriptor", index);
    }
    if (anchor::is_held(a))
      ++audit_.superblocks_held;
    else if (anchor::is_unlisted(a))
      ++audit_.superblocks_full;
    // A killed freer leaves the count too low; too high would be a lie.
    if (!anchor::is_held(a) && anchor::non_zero_words(a) > non_zero) error("more words counted than free, descriptor", index);
    const uptr span = d.span.load_relaxed();
    if (span % k.span_bytes() != 0) error("span out of place, descriptor", index);
    for (u32 f = 0; f < k.span_frames; ++f)
      if (heap_.substrate().map().get(span + f * kFrameSize).bits != FrameInfo::small(index).bits)
        error("frame that its superblock does not own, address", span + f * kFrameSize);
    audit_.blocks_live += k.blocks - free_blocks(d, k);
  }

  void listed(u32 index, unsigned c, bool pooled) {
    auto& d = *static_cast<Desc*>(heap_.metadata().at(index));
    const u64 a = d.anchor.load_relaxed();
    if (d.size_class.load_relaxed() != c) error("descriptor in another class's list", index);
    if (pooled) {
      if (a != 0 && is_in_use(d, c)) error("superblock in use in a pool, descriptor", index);
    } else if (anchor::is_held(a)) {
      if (!anchor::has_entry(a)) error("listed superblock is held, descriptor", index);
    } else if (is_in_use(d, c)) {
      ++audit_.superblocks_listed;
      if (anchor::is_unlisted(a)) error("listed superblock is unlisted, descriptor", index);
    }
  }

  void slab(Slab& each) {
    for (unsigned c = 1; c < kClassCount; ++c) {
      audit_.blocks_cached += magazine_blocks(each, c);
      if (u64 d = each.current[c].load_relaxed()) {
        ++audit_.superblocks_held_by_slabs;
        auto& held = *static_cast<Desc*>(heap_.metadata().at(static_cast<u32>(d)));
        if (!anchor::is_held(held.anchor.load_relaxed())) error("slab's superblock is not held, descriptor", d);
      }
      for (u64 at = each.top[c].load_relaxed() - 8; u64 block = slab_ops::slot(at)->load_relaxed(); at -= 8)
        cached(c, block);
    }
  }

  void cached(unsigned c, u64 block) {
    const SizeClass& k = kSizeClasses[c];
    const FrameInfo info = heap_.substrate().map().get(block);
    if (info.kind() != FrameInfo::kSmall) return error("cached block that is none", block);
    auto& d = *static_cast<Desc*>(heap_.metadata().at(info.value()));
    const u32 index = k.block_at(block);
    if (d.size_class.load_relaxed() != c || index == SizeClass::kNoBlock)
      return error("cached block of another class, or inside a block", block);
    if ((d.words[index / 64].load_relaxed() >> (index % 64) & 1) != 0) error("cached block that is free as well", block);
  }

  Heap& heap_;
  freeway_audit_t& audit_;
};

}  // namespace

void Heap::audit(freeway_audit_t& audit) { Auditor(*this, audit).run(); }

}  // namespace freeway
