// SPDX-License-Identifier: MIT
// account.cc: what the superblocks hold, and whether it adds up. Nobody is stopped; exact when nobody else allocates.
#include "papers/lfmalloc/engine.h"

namespace freeway::lfmalloc {

namespace {

u32 free_blocks(const Block& s) {
  return local::count(s.local.load_relaxed()) + remote::count(s.remote.load_relaxed());
}

void complain(freeway_audit_t& audit, const Block& s, const char* what) {
  ++audit.errors;
  Line().text("freeway: lfmalloc: superblock ").hex(s.base.load_relaxed()).text(": ").text(what).write();
}

// Walks one of the free lists of `s`: as long as it says, and each block a free one of `s`.
void check_list(freeway_audit_t& audit, const Block& s, const BlockClass& k, u32 head, u32 count) {
  const uptr base = s.base.load_relaxed();
  for (u32 i = 0; i < count; ++i) {
    const uptr block = block_at(base, head);
    if (head == 0 || k.data_of(block - base) != block - base || k.index_of(block - base) >= k.blocks)
      return complain(audit, s, "a free list leads out of the blocks");
    if (Memory::prefix(block).load_relaxed() != (reinterpret_cast<u64>(&s) | prefix::kFree))
      return complain(audit, s, "a block in a free list is not marked free");
    head = static_cast<u32>(Product::link(block).load_relaxed());
  }
  if (head != 0) complain(audit, s, "a free list is longer than it says");
}

void check_superblock(freeway_audit_t& audit, const Block& s, const BlockClass& k) {
  const u64 here = s.local.load_relaxed(), there = s.remote.load_relaxed();
  check_list(audit, s, k, local::head(here), local::count(here));
  check_list(audit, s, k, remote::head(there), remote::count(there));
  const u32 free = free_blocks(s);
  if (free > k.blocks) return complain(audit, s, "more blocks are free than there are");
  const bool off_line = remote::state(there) != remote::kHeld;
  if (off_line && remote::missing(there) != k.blocks - local::count(here))
    complain(audit, s, "its missing blocks are not those that its local list lacks");
  if (off_line && (free == 0) != (remote::state(there) == remote::kFull))
    complain(audit, s, "it is listed without a free block, or not listed with one");
  if (off_line && free == k.blocks) complain(audit, s, "it is entirely free, and was not settled");
}

}  // namespace

void Engine::account(Account& account) {
  memory_.each_header([&](const Block& s) {
    const bool kept = s.remote.load_relaxed() == remote::kKept;
    if (!kept && remote::state(s.remote.load_relaxed()) == remote::kNone) return;
    ++account.superblocks;
    if (kept) {
      account.free_bytes += kSuperblockBytes;
      return;
    }
    const BlockClass& k = kClasses[s.size_class.load_relaxed()];
    const u32 free = static_cast<u32>(clamp(free_blocks(s), 0, k.blocks));
    account.free_bytes += u64{free} * k.data_bytes();
    account.live_blocks += k.blocks - free;
    account.live_bytes += u64{k.blocks - free} * k.data_bytes();
  });
}

void Engine::audit(freeway_audit_t& audit) {
  memory_.each_header([&](const Block& s) {
    const u64 word = s.remote.load_relaxed();
    if (remote::state(word) == remote::kNone) return;
    const BlockClass& k = kClasses[s.size_class.load_relaxed()];
    check_superblock(audit, s, k);
    audit.blocks_live += k.blocks - static_cast<u32>(clamp(free_blocks(s), 0, k.blocks));
    if (remote::state(word) == remote::kHeld) ++audit.superblocks_held;
    if (remote::state(word) == remote::kListed) ++audit.superblocks_listed;
    if (remote::state(word) == remote::kFull) ++audit.superblocks_full;
  });
  heaps_.each([&](LocalHeap<Product>& heap) {
    for (unsigned c = 0; c < kClassCount; ++c) {
      const Block* s = heap.online[c].load_relaxed();
      if (s == nullptr) continue;
      ++audit.superblocks_held_by_slabs;
      if (remote::state(s->remote.load_relaxed()) != remote::kHeld || s->size_class.load_relaxed() != c)
        complain(audit, *s, "it is on line, and does not look like it");
    }
  });
  for (unsigned c = 0; c < kClassCount; ++c)
    global_.each_listed(c, [&](u32 d) {
      const Block& s = memory_.at(d);
      const remote::State state = remote::state(s.remote.load_relaxed());
      const bool listed = state == remote::kListed && s.size_class.load_relaxed() == c;
      if (!listed && s.remote.load_relaxed() != 0) complain(audit, s, "it is in a list where it does not belong");
    });
}

void Engine::write_classes(int fd) const {
  Line().text("  sections   ").number(freeway_lfmalloc_restarts, 10).text(" interrupted and started again").write(fd);
}

bool Engine::owns(u32 value, uptr address) {
  const Block& s = memory_.at(value);
  if (s.base.load_relaxed() != align_down(address, kSuperblockBytes)) return false;
  return remote::state(s.remote.load_relaxed()) != remote::kNone || s.remote.load_relaxed() == remote::kKept;
}

}  // namespace freeway::lfmalloc
