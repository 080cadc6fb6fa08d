// SPDX-License-Identifier: MIT
// profile.cc: which blocks a profile samples (profile/README.md), and where they lie.
//
// While a profile is made malloc counts bytes, in the slab of its CPU (arch/*/fast_path.S, *counted*). What it cannot count
// there draws a gap of its own: gaps may be begun anywhere (profile/gap.h).
//
// Words     gap of a slab: profile/gap_word.h. byte_limit, step_limit, malloc_form of freeway_hot: malloc_form.h
// Places    sampled blocks have superblocks of their own, in frames of class 0 for the fast path of free: so their frees come
//           here, and all others know of nothing. They are never in magazines
#include "engine/freeway/heap.h"
#include "engine/freeway/malloc_form.h"
#include "profile/gap.h"
#include "profile/gap_word.h"
#include "profile/profiler.h"

extern "C" FREEWAY_HIDDEN void* freeway_malloc_slow(std::size_t size);

namespace freeway {

namespace {

// While frames is 0 the fast path was not opened: its limits are not, either.
bool counts() { return freeway_hot.frames.load_relaxed() != 0; }
bool checks() { return freeway_hot.checked != 0; }

}  // namespace

void Heap::follow_profile() {
  struct Followed {
    Heap& heap;
    static u64 interval() { return profile::interval(); }
    static u64 confirm() { return profile::confirm_interval(); }
    void begin() {
      heap.each_slab([](Slab& slab, auto) { profile::begin_gap(slab.gap); });
    }
  };
  follow_interval<Machine>(freeway_hot, counts(), checks(), Followed{*this});
}

void Heap::tick_profile() {
  if (profile::follow_listeners() || !has_form(freeway_hot, malloc_form(profile::is_on(), counts(), checks())))
    follow_profile();
}

void* Heap::allocate_sampled(std::size_t bytes) {
  const unsigned c = class_of_size(bytes);
  void* block = nullptr;
  while (const u32 d = sampled_.hold(c)) {
    const unsigned got = sampled_.take(d, 1, &block);
    Machine::step("heap.sampling");
    sampled_.let_go(d);
    if (got == 1) break;
  }
  const auto address = reinterpret_cast<uptr>(block);
  if (block != nullptr && has_births()) birth::begin(birth_of(address, c), address);
  return block;
}

// The block is the caller's, and its birth has ended.
void Heap::free_sampled(unsigned c, uptr block, u32 descriptor) {
  profile::freed(block);
  const SizeClass& k = kSizeClasses[c];
  const u32 index = k.block_at(block);
  const u64 twice = sampled_.free_group(c, descriptor, k.span_of(block), index / 64, u64{1} << (index % 64));
  if (FREEWAY_UNLIKELY(twice != 0)) report_twice(k, k.span_of(block), index / 64, twice);
}

namespace {

// A sampled block; where there is none to be had, another.
FREEWAY_NOINLINE void* allocate_chosen(std::size_t size) {
  void* block = process_heap.engine().allocate_sampled(size);
  if (block == nullptr) return freeway_malloc_slow(size);
  profile::sampled(reinterpret_cast<uptr>(block), size);
  return block;
}

}  // namespace
}  // namespace freeway

// What the counted malloc goes to.
extern "C" {

// The block of so many bytes could not be counted.
FREEWAY_HIDDEN void* freeway_malloc_drawn(std::size_t size) {
  using namespace freeway;
  if (size > kMaxSmall || !profile::is_on()) return freeway_malloc_slow(size);  // large blocks draw where they are made
  if (FREEWAY_UNLIKELY(freeway_hot.byte_limit.load_relaxed() != 0)) process_heap.engine().follow_profile();
  return profile::draws(size) ? allocate_chosen(size) : freeway_malloc_slow(size);
}

// The slab's gap ended in this block, or there was none.
FREEWAY_HIDDEN void* freeway_malloc_chosen(std::size_t size, freeway::Slab* slab) {
  using namespace freeway;
  if (profile::interval() == profile::kEveryBlock) return allocate_chosen(size);
  if (!profile::end_gap<Machine>(slab->gap, size, profile::next_gap)) return freeway_malloc_drawn(size);
  return allocate_chosen(size);
}
}
