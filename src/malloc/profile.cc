// SPDX-License-Identifier: MIT
// profile.cc: which blocks a profile samples (profile/README.md), and where they lie.
//
// While a profile is made malloc counts bytes, in the slab of its CPU (malloc/*/fast_path.S, *counted*). A call that
// cannot count draws a gap of its own: gaps may be begun anywhere (profile/gap.h).
//
// Words     gap of a slab: profile/gap_word.h. byte_limit, step_limit, malloc_form of freeway_hot: malloc_form.h
// Places    sampled blocks have superblocks of their own, in frames of class 0 for the fast path of free: so their
//           frees come here, and all others know of nothing. They are never in magazines
#include "malloc/profile.h"

#include <errno.h>

#include "malloc/errors.h"
#include "malloc/family.h"
#include "malloc/malloc.h"
#include "malloc/malloc_form.h"
#include "profile/dump.h"
#include "profile/gap.h"
#include "profile/gap_word.h"
#include "profile/profiler.h"

extern "C" FREEWAY_HIDDEN void* freeway_malloc_slow(std::size_t size);

namespace freeway {

namespace {

using Desc = Descriptor<Machine>;
using bitmap::free_blocks;

const Desc& descriptor(u32 index) { return process_malloc.heap().descriptor(index); }

u32 frame_number(uptr address) { return static_cast<u32>(address >> kFrameShift); }

// The place of a sampled block: the frame of the block that malloc would have given instead. Where so many are sampled
// that the others say little, its own; 0: not known.
u32 place_of(uptr block, std::size_t bytes, uptr instead) {
  return frame_number(bytes >= profile::interval() / 2 ? block : instead);
}

// The class of a sampled block of so many bytes. Of an aligned one it is a longer one than theirs, and its superblock
// says which; unless it has gone meanwhile.
unsigned class_of_sampled(uptr block, u64 bytes) {
  const FrameInfo info = process_malloc.map().get_unowned(block);  // OPTIMISTIC: pins
  const unsigned c = info.kind() != FrameInfo::kSmall ? 0 : descriptor(info.value()).size_class.load_relaxed();
  return c != 0 ? c : class_of_size(clamp(bytes, 0, kMaxSmall));
}

// All live blocks of a superblock have the same share of its waste. The sampled block counts as one of its former
// neighbours; if they are gone, it would be the last.
profile::Pin pinned(uptr block, u32 place, u64 bytes) {
  const unsigned c = class_of_sampled(block, bytes);
  const SizeClass& k = kSizeClasses[c];
  const FrameInfo info = process_malloc.map().get_unowned(uptr{place} << kFrameShift);  // OPTIMISTIC: pins
  u64 live = 1;
  if (info.kind() == FrameInfo::kSmall) {
    const Desc& d = descriptor(info.value());
    if (d.size_class.load_relaxed() == c && anchor::is_in_use(d.anchor.load_relaxed(), c, k.words))
      live = clamp(k.blocks - free_blocks(d, k) + (place != frame_number(block)), 1, k.blocks);
  }
  return {(k.span_bytes() - live * k.size) / live, k.size};
}

constexpr profile::Superblocks kSuperblocks = {family::each_class, pinned};

// While frames is 0 the fast path was not opened: its limits are not, either.
bool counts() { return freeway_hot.frames.load_relaxed() != 0; }
bool checks() { return freeway_hot.checked != 0; }

}  // namespace

void follow_profile(Heap& heap) {
  profile::know_superblocks(&kSuperblocks);
  struct Followed {
    Heap& heap;
    static u64 interval() { return profile::interval(); }
    static u64 confirm() { return profile::confirm_interval(); }
    void begin() {
      heap.slabs.each([](Slab& slab, auto) { profile::begin_gap(slab.gap); });
    }
  };
  follow_interval<Machine>(freeway_hot, counts(), checks(), Followed{heap});
}

void tick_profile(Heap& heap) {
  if (profile::follow_listeners() || !has_form(freeway_hot, malloc_form(profile::is_on(), counts(), checks())))
    follow_profile(heap);
}

// The block is the caller's, and its birth has ended.
void free_sampled(Heap& heap, unsigned c, uptr block, u32 descriptor) {
  profile::freed(block);
  const SizeClass& k = kSizeClasses[c];
  const u32 index = k.block_at(block);
  const u64 bit = u64{1} << (index % 64);
  const uptr span = k.span_of(block);
  const u64 twice = heap.sampled_superblocks().free_group(c, descriptor, span, index / 64, bit);
  if (FREEWAY_UNLIKELY(twice != 0)) report_twice(span, k.size, index / 64, twice, process_malloc.options().report_only);
}

namespace {

// A block that is sampled; null: it cannot be, or there is no memory.
void* allocate_sampled(Heap& heap, unsigned c) {
  auto& superblocks = heap.sampled_superblocks();
  void* const block = take_one(superblocks, c, [&](u32 d, void** one) {
    const unsigned got = superblocks.take(d, 1, one);
    Machine::step("heap.sampling");
    return got;
  });
  const auto address = reinterpret_cast<uptr>(block);
  if (block != nullptr && heap.births.are_kept()) birth::begin(heap.birth_of(address, c), address);
  return block;
}

// A sampled block of `size` bytes, of which the program has asked for `asked`; where there is none to be had, another.
FREEWAY_NOINLINE void* allocate_chosen(std::size_t size, std::size_t asked) {
  Heap& heap = process_malloc.heap();
  const unsigned c = class_of_size(size);
  const uptr instead = heap.slabs.on_top(c);
  void* block = allocate_sampled(heap, c);
  if (block == nullptr) return freeway_malloc_slow(size);
  const auto address = reinterpret_cast<uptr>(block);
  profile::sampled(address, asked, place_of(address, asked, instead));
  return block;
}

// A block whose bytes nobody counted.
void* allocate_drawn(std::size_t size, std::size_t asked) {
  if (FREEWAY_UNLIKELY(freeway_hot.byte_limit.load_relaxed() != 0)) follow_profile(process_malloc.heap());
  return profile::draws(asked) ? allocate_chosen(size, asked) : freeway_malloc_slow(size);
}

}  // namespace

// As the counted malloc does, in its slab.
bool is_chosen(std::size_t bytes) {
  if (profile::interval() == profile::kEveryBlock) return true;
  if (Slab* slab = process_malloc.heap().slabs.of_cpu()) {
    const u64 left = slab->gap.load_relaxed();
    if (left > bytes && RseqSlabs().replace(offsetof(Slab, gap), left, left - bytes)) return false;
    if (profile::end_gap<Machine>(slab->gap, bytes, profile::next_gap)) return true;
  }
  return profile::draws(bytes);
}

// malloc of the class's size gives a block of the class; but a profile counts the bytes that the program asked for.
void* allocate_small_aligned(std::size_t bytes, std::size_t alignment) {
  const unsigned c = class_of_aligned(bytes, alignment);
  if (c == 0) return nullptr;
  const std::size_t size = kSizeClasses[c].size;
  return FREEWAY_UNLIKELY(profile::is_on()) ? allocate_drawn(size, bytes) : freeway_malloc(size);
}

int family::begin_profile(u64 interval) {
  if (!process_malloc.open()) return ENOMEM;
  const int error = profile::start(interval);
  follow_profile(process_malloc.heap());
  return error;
}

void family::end_profile() {
  if (!process_malloc.ready()) return;
  profile::stop();
  follow_profile(process_malloc.heap());
}

}  // namespace freeway

// For the counted malloc.
extern "C" {

// The block of so many bytes could not be counted.
FREEWAY_HIDDEN void* freeway_malloc_drawn(std::size_t size) {
  using namespace freeway;
  if (size > kMaxSmall || !profile::is_on()) return freeway_malloc_slow(size);  // large blocks draw where they are made
  return allocate_drawn(size, size);
}

// The slab's gap ended in this block, or there was none.
FREEWAY_HIDDEN void* freeway_malloc_chosen(std::size_t size, freeway::Slab* slab) {
  using namespace freeway;
  if (profile::interval() == profile::kEveryBlock) return allocate_chosen(size, size);
  if (!profile::end_gap<Machine>(slab->gap, size, profile::next_gap)) return freeway_malloc_drawn(size);
  return allocate_chosen(size, size);
}
}
