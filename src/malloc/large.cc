// SPDX-License-Identifier: MIT
#include "malloc/large.h"

#include "malloc/drain.h"
#include "malloc/errors.h"
#include "profile/profiler.h"

namespace freeway {

namespace {

// A large block is new, or as good as that: nobody counted its bytes.
FREEWAY_NOINLINE void profile_large(uptr address, std::size_t bytes) {
  if (profile::draws(bytes)) profile::sampled(address, bytes);
}

void* allocate_once(std::size_t bytes, std::size_t alignment, bool* zero) {
  Substrate& substrate = process_malloc.substrate();
  const auto block = substrate.large().take(clamp(bytes, 1, bytes), alignment);
  if (block.address == 0) return nullptr;
  substrate.count_large(1);
  if (zero != nullptr) *zero = block.zero;
  if (FREEWAY_UNLIKELY(profile::is_on())) profile_large(block.address, bytes);
  return reinterpret_cast<void*>(block.address);
}

}  // namespace

void* allocate_large(std::size_t bytes, std::size_t alignment, bool* zero) {
  if (void* block = allocate_once(bytes, alignment, zero)) return block;
  if (bytes > kMaxFrames * kFrameSize) return nullptr;  // whatever else is free
  scavenge();
  return allocate_once(bytes, alignment, zero);
}

void free_large(uptr address, FrameInfo info, const void* caller) {
  auto* block = reinterpret_cast<void*>(address);
  if (!begins_large(address)) return bad(classify(address, info), "free", block, caller);
  if (FREEWAY_UNLIKELY(profile::has_samples())) profile::freed(address);
  Substrate& substrate = process_malloc.substrate();
  if (!substrate.large().give(address, info, process::coarse_time_ns()))
    return bad(Fault::kDoubleFree, "free", block, caller);
  substrate.count_large(-1);
}

bool resize_large(uptr& address, FrameInfo info, std::size_t bytes) {
  LargeBlocks<Machine>& large = process_malloc.substrate().large();
  const uptr before = address;
  const u64 now = process::coarse_time_ns();
  // Another thread may have the address before move() returns.
  const bool may_be_sampled = FREEWAY_UNLIKELY(profile::has_samples());
  const profile::LiveBlock sample = may_be_sampled ? profile::forget(before) : profile::LiveBlock{};
  if (!large.resize(before, info, bytes, now)) {
    const uptr moved = large.move(before, info, bytes, now);
    if (moved == 0) return profile::put_back(sample), false;
    address = moved;
  }
  if (may_be_sampled) profile::ended(sample);
  if (FREEWAY_UNLIKELY(profile::is_on())) profile_large(address, bytes);
  return true;
}

}  // namespace freeway
