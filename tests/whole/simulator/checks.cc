// SPDX-License-Identifier: MIT
//
// checks.cc: what must hold.
#include <cstdio>

#include "tests/whole/simulator/kernel.h"
#include "tests/whole/simulator/library/inside.h"
#include "tests/whole/simulator/state.h"
#include "tests/whole/simulator/world.h"

namespace freeway::sim {
namespace {

void audit(freeway_audit_t& found) {
  if (freeway_audit(&found, sizeof(found)) != 0) world.fail("the audit finds errors");
}

void check_clean() {
  sim_each_clean(
      [](void*, std::uintptr_t address, std::size_t bytes) {
        if (const Address page = Kernel::first_filled(address, bytes))
          failed("a free frame that is said to be zero is not", {page, kFrame, 0, -1, 0, false, 0});
      },
      nullptr);
}

void equal(const char* what, std::uint64_t found, std::uint64_t wanted) {
  if (found == wanted) return;
  char text[160];
  snprintf(text, sizeof(text), "%s: %llu, not %llu", what, static_cast<unsigned long long>(found),
           static_cast<unsigned long long>(wanted));
  world.fail(text);
}
void at_most(const char* what, std::uint64_t found, std::uint64_t most) {
  if (found <= most) return;
  char text[160];
  snprintf(text, sizeof(text), "%s: %llu, more than %llu", what, static_cast<unsigned long long>(found),
           static_cast<unsigned long long>(most));
  world.fail(text);
}

// All calls have come back.
void check_sums(const freeway_audit_t& found) {
  std::size_t small = 0, of_heap[kMostHeaps] = {};
  for (const Block& b : state.blocks) {
    if (b.heap >= 0) ++of_heap[b.heap];
    else if (b.size <= 40 * 1024)
      small += freeway_explain(reinterpret_cast<void*>(b.address), nullptr, 0) == FREEWAY_SMALL_BLOCK;
  }
  equal("live blocks", found.blocks_live, small);
  if (kernel.refusals == 0) equal("frames that belong to nothing", found.frames_stranded, 0);
  equal("frames in hand", found.frames_held, 0);
  equal("superblocks that no list has", found.superblocks_adrift, 0);
  equal("superblocks in hand", found.superblocks_held, found.superblocks_held_by_slabs);
  equal("slabs in hand", found.slabs_held, 0);
  equal("free blocks in hand", found.bytes_held, 0);
  equal("frames charged", sim_held_frames(), found.frames_charged);
  equal("dirty frames counted", sim_dirty_counted(), sim_dirty_found());
  if (!sim_has_form()) world.fail("malloc has not the form that the profile asks for");
  if (const Address frame = sim_hidden_frame())
    failed("a free frame that no search finds", {frame, kFrame, 0, -1, 0, false, 0});
  for (int n = 0; n < kMostHeaps; ++n) {
    const OwnHeap& heap = state.heaps[n];
    if (heap.handle == nullptr || heap.ends) continue;
    freeway_heap_stats_t stats = {};
    if (freeway_heap_stats(heap.handle, &stats, sizeof(stats)) != 0) world.fail("a heap is unknown");
    equal("live blocks of a heap", stats.live_blocks, of_heap[n]);
    if (stats.limit != 0) at_most("bytes that a heap holds", stats.held, stats.limit);
  }
}

void check_samples() {
  if (state.no_block && state.profile_changes == 0)
    equal("samples of a profile that takes one byte in 2^40", sim_samples(), state.samples);
  std::map<Address, std::size_t> sampled;
  sim_each_sampled([](void* to, SimSampled one) { (*static_cast<decltype(sampled)*>(to))[one.address] = one.bytes; },
                   &sampled);
  std::map<Address, const Block*> live;
  for (const Block& b : state.blocks) live[b.address] = &b;
  if (world.lost_calls == 0)
    for (const auto& [address, bytes] : sampled) {
      if (address == reinterpret_cast<Address>(state.ballast)) continue;
      const auto at = live.find(address);
      if (at == live.end()) failed("the profile follows what is not live", {address, bytes, 0, -1, 0, false, 0});
      if (at->second->asked != kUnknown && bytes != at->second->asked)
        failed("the profile has another size", *at->second);
    }
  if (sim_lost_samples() != 0 || world.lost_calls != 0 || may_fail()) return;  // without memory a block is not sampled
  for (const Block& b : state.blocks)
    if (b.sampled && sampled.count(b.address) == 0) failed("the profile of every block has not this one", b);
}

}  // namespace

// Between two looks the heap does not grow beyond its limit. If it was beyond it when the limit was set, it does not
// grow.
void check_limit() {
  if (!state.plan.limits) return;
  const World::Quiet quiet;
  const std::uint64_t hard = sim_hard_limit(), held = sim_held_frames();
  if (hard != 0 && hard == state.last_hard && held > hard && held > state.last_held) {
    char text[100];
    snprintf(text, sizeof(text), "%llu frames are held, the limit is %llu", static_cast<unsigned long long>(held),
             static_cast<unsigned long long>(hard));
    world.fail(text);
  }
  state.last_hard = hard;
  state.last_held = held;
}

void look() {
  freeway_audit_t found;
  audit(found);
  for (int i = 0; i < 3 && !state.blocks.empty(); ++i) {
    const Block& b = state.blocks[state.random.below(state.blocks.size())];
    verify(b, b.size, b.address);
  }
  if (state.random.one_in(8)) check_clean();
}

void check_when_alone() {
  if (world.lost_calls != 0 || !is_alone() || !state.random.one_in(24)) return;
  const World::Quiet quiet;
  freeway_audit_t found;
  audit(found);
  check_sums(found);
}

void finish(int) {
  const World::Quiet quiet;
  freeway_audit_t found;
  audit(found);
  for (const Block& b : state.blocks) verify(b, b.size, b.address);
  for (const Block& b : state.blocks)
    if (freeway_malloc_usable_size(reinterpret_cast<void*>(b.address)) < b.size)
      failed("usable size below what was asked for", b);
  check_clean();
  check_samples();
  const unsigned lost = world.lost_calls;
  if (lost == 0) check_sums(found);
  while (!state.blocks.empty()) {
    const Block b = leave(state.blocks.size() - 1);
    freeway_free(reinterpret_cast<void*>(b.address));
  }
  freeway_free(state.ballast);
  state.ballast = nullptr;
  for (OwnHeap& heap : state.heaps)
    if (heap.handle != nullptr && !heap.ends && freeway_heap_destroy(heap.handle) != 0)
      world.fail("a heap cannot be destroyed");
  freeway_profile_stop();
  freeway_trim(0);
  freeway_trim(0);
  audit(found);
  check_samples();
  if (lost == 0) {
    // A frame that is one page is lost with its guard, where that cannot be opened (pages/large.h).
    at_most("frames that belong to nothing at the end", found.frames_stranded,
            state.plan.guarded && kernel.page == kFrame ? kernel.refusals : 0);
    equal("live blocks at the end", found.blocks_live, 0);
    equal("cached blocks at the end", found.blocks_cached, 0);
    equal("frames of superblocks at the end", found.frames_small, 0);
    equal("frames of large blocks at the end", found.frames_large, 0);
    equal("frames of huge blocks at the end", found.frames_huge, 0);
    at_most("dirty frames at the end", found.frames_dirty, sim_kept_frames());
    equal("frames charged at the end", sim_held_frames(), found.frames_charged);
    if (kernel.refusals != 0) return;
    if (kernel.drawn <= 1)  // the window is where the kernel expects it
      at_most("mappings as long as a leaf of the page map", kernel.count_accessible(sim_leaf_bytes()), sim_leaves());
    sim_each_hole(
        [](void*, std::uintptr_t address, std::size_t bytes) {
          if (kernel.has_own(address, bytes))
            failed("a piece was kept in a hole", {address, bytes, 0, -1, 0, false, 0});
        },
        nullptr);
    // Of what is used a part is accessible.
    equal("reservations that were kept", kernel.count_reserved(), 0);
    return;
  }
  // What calls that never came back may take along: GUARANTEES.md; tests/whole/signal/support/loss_account.h says the
  // same of the product.
  constexpr std::size_t kMostOfSlab = std::size_t{19} << 20, kLargestSuperblock = 1 << 20, kMostPurged = 4 << 20;
  constexpr unsigned kBlocksOfOne = 4096;  // of a superblock
  const std::uint64_t held = found.superblocks_held - found.superblocks_held_by_slabs;
  // Who purges a superblock has the blocks of whole pages in hand: up to all of them.
  at_most("blocks that are lost", found.blocks_live, lost * 96 + held * kBlocksOfOne);
  at_most("superblocks that are lost", held, world.lost_superblocks);
  at_most("superblocks that no list has", found.superblocks_adrift, world.lost_superblocks);
  at_most("slabs that are lost", found.slabs_held, 3 * lost);
  at_most("bytes of free blocks that are lost", found.bytes_held,
          found.slabs_held * kMostOfSlab + world.lost_superblocks * kLargestSuperblock);
  at_most("frames that are lost", found.frames_stranded + found.frames_large,
          (world.lost_bytes + lost * (kMostPurged + kLargestSuperblock)) / kFrame +
              (state.plan.guarded ? kernel.refusals : 0));
  at_most("dirty frames at the end", found.frames_dirty, sim_kept_frames() + lost * kMostPurged / kFrame);
  at_most("frames charged too little", found.frames_charged, sim_held_frames() + found.frames_stranded);
}

}  // namespace freeway::sim
