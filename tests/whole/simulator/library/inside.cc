// SPDX-License-Identifier: MIT
#include "tests/whole/simulator/library/inside.h"

#include "malloc/malloc.h"
#include "malloc/malloc_form.h"
#include "profile/profiler.h"

using namespace freeway;

namespace {

template <class F> void each_arena(F&& f) {
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

SIM_EXPORT void sim_each_clean(void (*f)(void* context, std::uintptr_t address, std::size_t bytes), void* context) {
  each_arena([&](const Arena<Machine>& arena) {
    const std::size_t frames = arena.committed() / kFrameSize;
    std::size_t begin = 0;  // of the run that is open
    for (std::size_t n = 0; n <= frames; ++n) {
      const std::size_t chunk = n / kChunkFrames;
      const bool clean =
          n < frames &&
          ((arena.used_word(chunk) | arena.dirty_word(chunk) | arena.holes_of(chunk)) >> (n % kChunkFrames) & 1) == 0;
      if (clean) continue;
      if (begin < n) f(context, arena.base() + begin * kFrameSize, (n - begin) * kFrameSize);
      begin = n + 1;
    }
  });
}

SIM_EXPORT std::uint64_t sim_samples() { return profile::figures().samples; }
SIM_EXPORT bool sim_has_form() {
  if (!process_malloc.ready()) return true;
  const bool counts = freeway_hot.frames.load_relaxed() != 0;
  return has_form(freeway_hot, malloc_form(profile::is_on(), counts, freeway_hot.checked != 0));
}
SIM_EXPORT std::uintptr_t sim_hidden_frame() {
  std::uintptr_t found = 0;
  each_arena([&](const Arena<Machine>& arena) {
    for (std::size_t chunk = 0; chunk < arena.hint_.load_relaxed() && found == 0; ++chunk)
      if (~arena.used_word(chunk) != 0) found = arena.base() + chunk * kChunkSize;
  });
  return found;
}

SIM_EXPORT void sim_small_profile() { profile::set_sizes(8192, 128); }
SIM_EXPORT void sim_each_hole(void (*f)(void* context, std::uintptr_t address, std::size_t bytes), void* context) {
  each_arena([&](const Arena<Machine>& arena) {
    arena.range_.each_hole([&](std::size_t from, std::size_t to) { f(context, arena.base() + from, to - from); });
  });
}

SIM_EXPORT std::size_t sim_leaf_bytes() { return PageMap<Machine>::kLeafBytes; }
SIM_EXPORT std::size_t sim_leaves() {
  return process_malloc.substrate().map().leaf_bytes() / PageMap<Machine>::kLeafBytes;
}

SIM_EXPORT std::uint64_t sim_held_frames() { return process_malloc.substrate().frames().limits().held(); }
SIM_EXPORT std::uint64_t sim_hard_limit() { return process_malloc.substrate().frames().limits().hard(); }
SIM_EXPORT std::uint64_t sim_dirty_counted() { return process_malloc.substrate().frames().policy().dirty(); }
SIM_EXPORT std::uint64_t sim_kept_frames() { return process_malloc.substrate().frames().policy().kept(); }
SIM_EXPORT std::uint64_t sim_dirty_found() {
  std::uint64_t frames = 0;
  each_arena([&](const Arena<Machine>& arena) { frames += arena.free_and_dirty(); });
  return frames;
}
}
