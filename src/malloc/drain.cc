// SPDX-License-Identifier: MIT
// drain.cc: taking caches apart: for malloc_trim, and when memory is refused.
//
// Another CPU's slab is taken out (its slab_of entry leads to the null slab), all restartable sections that may have
// read the old entry are interrupted (membarrier), then it is this thread's alone, is emptied, and put back. Meanwhile
// that CPU's threads use the claimed slabs. Where the kernel refuses membarrier the slabs stay as they are, but for the
// current CPU's, which is emptied batch by batch in sections.
#include "malloc/family.h"
#include "malloc/malloc.h"
#include "os/process.h"

namespace freeway {

// Empties a slab that the caller has to himself.
void Heap::empty(Slab& slab) {
  magazines_.empty(slab);
  if (is_careful()) quarantine_.empty(slab);
}

// Empties what caches can be had. False if other CPUs' slabs could not be.
bool Heap::drain() {
  const process::Claimant who = process::claimant();
  bool complete = true;
  if (uses_rseq()) {
    // One slab at a time: a thread that stops here strands one.
    for (u32 id = 0; id < ids_; ++id) {
      const auto end = cpu_slabs_.drain(id, who, process::interrupt_sections, [this](Slab& slab) { empty(slab); });
      complete = end != CpuSlabs<Machine>::Drained::kRefused;
      if (!complete) break;
    }
    if (!complete) drain_own();
  }
  drain_owned(who);
  for (unsigned n = 0; n < claimed_.kSlabs; ++n) {
    Slab* slab = claimed_.slab(n);
    if (slab == nullptr || !claimed_.take(n, who)) continue;
    empty(*slab);
    claimed_.release(n);
  }
  return complete;
}

// Empties the slab of the CPU that each section happens to run on.
void Heap::drain_own() {
  const RseqSlabs access;
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

// Gives back pages under free blocks of the class's superblocks that were listed when lists were flipped last, until that is
// all or the effort is spent: what is given back, and something for each look. False if the effort ended it.
// Where memory was made ready nothing is: it lies in superblocks, too.
bool Heap::purge_class(unsigned c, std::size_t& effort) {
  return purge_class_of(superblocks_, c, effort) && purge_class_of(sampled_, c, effort);
}
bool Heap::purge_class_of(Superblocks<Machine, Backing>& superblocks, unsigned c, std::size_t& effort) {
  constexpr std::size_t kLook = kFrameSize / 2;  // bytes that are given back in about the same time
  PurgePolicy<Machine>& policy = substrate_->frames().policy();
  if (policy.kept() != 0) return true;
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

void Heap::purge_superblocks() {
  superblocks_.flip_lists();
  sampled_.flip_lists();
  for (unsigned c = 1; c < kClassCount; ++c) {
    std::size_t effort = ~std::size_t{0};
    purge_class(c, effort);
  }
  if (substrate_->frames().policy().kept() == 0) own_heaps_.purge_records(vm::page_size());
}

void Heap::trim() {
  drain();
  purge_superblocks();
}

void scavenge() {
  process_malloc.heap().drain();
  process_malloc.substrate().frames().purge_to(0);
}

namespace family {

std::size_t trim(std::size_t keep) {
  if (!process_malloc.start() || !process_malloc.ready()) return 0;
  const PurgePolicy<Machine>& policy = process_malloc.substrate().frames().policy();
  const u64 before = policy.purged_bytes();
  process_malloc.heap().trim();
  process_malloc.substrate().purge_beyond(keep);
  return policy.purged_bytes() - before;
}

namespace {
constinit Atomic<u32> barren_parts;  // that trim_step did without finding anything, one after the other: a hint
}

// Free frames first, they cost least; then a part of the heap after the other, and the frames that it has set free.
std::size_t trim_step(std::size_t most) {
  if (!process_malloc.start() || !process_malloc.ready()) return 0;
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
    const bool done = heap.trim_part(effort);
    purge();
    const std::size_t bytes = policy.purged_bytes() - before;
    given += bytes;
    const u32 barren = bytes != 0 ? 0 : barren_parts.load_relaxed() + (done ? 1 : 0);
    const bool is_all = barren > heap.trim_parts();
    barren_parts.store_relaxed(is_all ? 0 : barren);
    if (is_all) return given;
  }
  return given != 0 ? given : 1;
}

int set_limit(std::size_t soft, std::size_t hard) {
  const auto is_limit = [](std::size_t bytes) { return bytes == 0 || bytes >= kFrameSize; };
  if (!is_limit(soft) || !is_limit(hard) || (hard != 0 && soft > hard)) return EINVAL;
  if (!process_malloc.start()) return ENOMEM;
  Frames<Machine>& frames = process_malloc.substrate().frames();
  frames.limit(soft, hard);
  frames.tick(process::coarse_time_ns());
  return 0;
}

}  // namespace family
}  // namespace freeway
