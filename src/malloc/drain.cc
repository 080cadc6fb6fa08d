// SPDX-License-Identifier: MIT
// drain.cc: taking caches apart: for malloc_trim, and when memory is refused.
//
// Another CPU's slab is taken out (its slab_of entry leads to the null slab), all restartable sections that may have
// read the old entry are interrupted (membarrier), then it is this thread's alone, is emptied, and put back. Meanwhile
// that CPU's threads use spare slabs. Where the kernel refuses membarrier the slabs stay as they are, but for the
// current CPU's, which is emptied batch by batch in sections.
#include "malloc/drain.h"
#include "malloc/family.h"
#include "malloc/heaps.h"
#include "malloc/malloc.h"
#include "os/process.h"

namespace freeway {

void Heap::empty(Slab& slab) {
  magazines_.empty(slab);
  if (is_careful()) quarantine_.empty(slab);
}

void Heap::empty_in_sections() {
  const SlabInHand access;
  for (unsigned c = 1; c < kClassCount; ++c) {
    void* blocks[kBatchMax];
    for (u32 tries = 0; tries < kMagazines[c].big / kBatchMax + 2; ++tries) {
      const unsigned n = access.pop_batch(c, blocks, kBatchMax);
      if (n == 0) break;
      slots::to_blocks(blocks, n);
      Machine::step("drain.own");
      magazines_.flush(c, blocks, n);
    }
    if (is_careful()) quarantine_.empty_class(access, c);
    if (const u32 d = access.take_current(c)) superblocks_.let_go(d);
  }
}

bool drain(Heap& heap) {
  const bool complete = heap.slabs.drain(Slabs::any, [&](Slab& slab) { heap.empty(slab); });
  if (!complete) heap.empty_in_sections();
  return complete;
}

namespace {

bool purge_listed(Heap& heap, Superblocks<Machine, Backing>& superblocks, unsigned c, std::size_t& effort) {
  constexpr std::size_t kLook = kFrameSize / 2;  // bytes that are given back in about the same time
  PurgePolicy<Machine>& policy = heap.substrate().frames().policy();
  if (policy.kept() != 0) return true;  // memory was made ready: it lies in superblocks, too
  const std::size_t page = vm::page_size();
  bool more = true;
  for (std::size_t left = policy.live(); more && left > 0 && effort > 0; --left) {  // no class has more superblocks
    more = false;
    superblocks.each_listed(c, 1, [&](u32 d) {
      more = true;
      const std::size_t bytes = superblocks.purge(d, page);
      if (bytes != 0) policy.on_purge_bytes(bytes);
      effort -= clamp(bytes + kLook, 0, effort);
    });
  }
  return !more || effort > 0;
}

}  // namespace

bool purge_class(Heap& heap, unsigned c, std::size_t& effort) {
  bool done = true;
  heap.each_superblocks([&](auto& superblocks) { done = done && purge_listed(heap, superblocks, c, effort); });
  return done;
}

void purge_superblocks(Heap& heap) {
  heap.each_superblocks([](auto& superblocks) { superblocks.flip_lists(); });
  for (unsigned c = 1; c < kClassCount; ++c) {
    std::size_t effort = ~std::size_t{0};
    purge_class(heap, c, effort);
  }
}

void trim(Heap& heap) {
  drain(heap);
  purge_superblocks(heap);
  std::size_t effort = ~std::size_t{0};
  heaps::trim_some(0, effort);
}

void scavenge() {
  drain(process_malloc.heap());
  heaps::collect_all();
  process_malloc.substrate().frames().purge_to(0);
}

namespace family {

std::size_t trim(std::size_t keep) {
  if (!process_malloc.open()) return 0;
  const PurgePolicy<Machine>& policy = process_malloc.substrate().frames().policy();
  const u64 before = policy.purged_bytes();
  freeway::trim(process_malloc.heap());
  process_malloc.substrate().purge_beyond(keep);
  return policy.purged_bytes() - before;
}

namespace {
constinit Atomic<u32> barren_parts;  // that trim_step did without finding anything, one after the other: a hint
}

// Free frames first, they cost least; then a part of the heap after the other, and the frames that it has set free.
std::size_t trim_step(std::size_t most) {
  if (!process_malloc.open()) return 0;
  Heap& heap = process_malloc.heap();
  Frames<Machine>& frames = process_malloc.substrate().frames();
  const PurgePolicy<Machine>& policy = frames.policy();
  std::size_t effort = most < kFrameSize ? kFrameSize : most;
  const auto purge = [&] {
    const u64 before = policy.purged_bytes();
    frames.purge_some(ceil_div(effort, kFrameSize), policy.kept());
    const std::size_t bytes = policy.purged_bytes() - before;
    effort -= clamp(bytes, 0, effort);
    return bytes;
  };
  std::size_t given = purge();
  if (effort > 0) process_malloc.substrate().large().release_kept();
  while (effort > 0) {
    const u64 before = policy.purged_bytes();
    const bool done = trim_part(heap, effort);
    purge();
    const std::size_t bytes = policy.purged_bytes() - before;
    given += bytes;
    const u32 barren = bytes != 0 ? 0 : barren_parts.load_relaxed() + (done ? 1 : 0);
    const bool is_all = barren > trim_parts(heap);
    barren_parts.store_relaxed(is_all ? 0 : barren);
    if (is_all) return given;
  }
  return given != 0 ? given : 1;
}

int set_limit(std::size_t soft, std::size_t hard) {
  return process_malloc.start() ? process_malloc.substrate().limit(soft, hard), 0 : ENOMEM;
}

}  // namespace family
}  // namespace freeway
