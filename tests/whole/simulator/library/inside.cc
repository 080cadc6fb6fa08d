// SPDX-License-Identifier: MIT
#include "whole/simulator/library/inside.h"

#include "malloc/malloc.h"
#include "profile/profiler.h"

using namespace freeway;

namespace {

template <class F>
void each_arena(F&& f) {
  process_malloc.substrate().frames().each_arena([&](Arena<Machine>& arena) { return f(arena), true; });
}

}  // namespace

#define SIM_EXPORT __attribute__((visibility("default")))

extern "C" {

SIM_EXPORT void sim_each_sampled(void (*f)(void* context, SimSampled sampled), void* context) {
  profile::process_profile.blocks.each([&](const profile::LiveBlock& b) { f(context, {b.address, b.bytes}); });
}
SIM_EXPORT std::uint64_t sim_lost_samples() {
  const profile::Figures figures = profile::figures();
  return figures.lost_stacks + figures.lost_blocks;
}

SIM_EXPORT std::uintptr_t sim_find_false_zero() {
  std::uintptr_t found = 0;
  each_arena([&](const Arena<Machine>& arena) {
    const std::size_t frames = arena.committed() / kFrameSize;
    for (std::size_t n = 0; n < frames && found == 0; ++n) {
      const std::size_t chunk = n / kChunkFrames;
      if (((arena.used_word(chunk) | arena.dirty_word(chunk) | arena.holes_of(chunk)) >> (n % kChunkFrames) & 1) != 0) continue;
      const uptr frame = arena.base() + n * kFrameSize;
      for (uptr page = frame; page < frame + kFrameSize; page += vm::page_size())
        if (vm::resident(page, vm::page_size()) != 0) found = page;
    }
  });
  return found;
}

SIM_EXPORT std::uint64_t sim_held_frames() { return process_malloc.substrate().frames().limits().held(); }
SIM_EXPORT std::uint64_t sim_hard_limit() { return process_malloc.substrate().frames().limits().hard(); }
SIM_EXPORT std::uint64_t sim_dirty_counted() { return process_malloc.substrate().frames().policy().dirty(); }
SIM_EXPORT std::uint64_t sim_dirty_found() {
  std::uint64_t frames = 0;
  each_arena([&](const Arena<Machine>& arena) { frames += arena.free_and_dirty(); });
  return frames;
}
}
