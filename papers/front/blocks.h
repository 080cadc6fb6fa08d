// SPDX-License-Identifier: MIT
// blocks.h: the part of Front that makes, resizes and frees blocks. Included by front.h.
#pragma once

namespace freeway {

template <Engine E> bool Front<E>::start() {
  if (FREEWAY_LIKELY(ready_.load_acquire() != 0)) return true;  // [A1] pairs with [R1]
  if (!substrate_.start(nullptr, E::kHugeFrom)) return false;
  // Tables of megabytes of which a small process touches a few pages.
  const uptr begin = align_up(reinterpret_cast<uptr>(this), kFrameSize);
  vm::prefer_small(begin, align_down(reinterpret_cast<uptr>(this + 1), kFrameSize) - begin);
  if (!options_available()) return true;
  substrate_.read_environment(/*speak=*/true);
  check_engine_options(E::kName, /*speak=*/true);
  if (!engine_.start(substrate_)) return false;
  if (substrate_.options().guard_large) substrate_.large().guard_ends(vm::page_size());
  ready_.store_release(1);  // [R1] pairs with [A1]
  if (substrate_.options().stats) prepare_summary();
  return true;
}

template <Engine E> void* Front<E>::allocate(std::size_t bytes) {
  if (FREEWAY_LIKELY(ready_.load_acquire() != 0 && bytes <= E::kMaxSmall))  // [A1] pairs with [R1]
    if (void* block = engine_.allocate(bytes)) return block;
  return allocate_slow(bytes);
}

// The first calls, large blocks, and what the engine did not have.
template <Engine E> FREEWAY_NOINLINE void* Front<E>::allocate_slow(std::size_t bytes) {
  if (FREEWAY_UNLIKELY(ready_.load_acquire() == 0) && !start()) return refused();  // [A1] pairs with [R1]
  if (is_small(bytes) && ready()) {
    if (void* block = engine_.allocate(bytes)) return block;
    if constexpr (
        kThreadHeaps)  // interrupted inside its own heap, a thread has none for the handler: a large one will do
      if (void* block = large_once(bytes, kMinBlock, nullptr)) return block;
    scavenge();
    void* block = engine_.allocate(bytes);
    return block != nullptr ? block : refused();
  }
  if (bytes > kMaxSize) return refused();
  void* block = large(bytes, kMinBlock, nullptr);
  return block != nullptr ? block : refused();
}

template <Engine E> void* Front<E>::large_once(std::size_t bytes, std::size_t alignment, bool* zero) {
  const std::size_t prefix = alignment <= kMinBlock ? E::kLargePrefix : 0;
  const auto block = substrate_.large().take(clamp(bytes, 1, bytes) + prefix, alignment);
  if (block.address == 0) return nullptr;
  substrate_.count_large(1);
  if (zero != nullptr) *zero = block.zero;
  write_prefix(block.address + prefix, bytes);
  return reinterpret_cast<void*>(block.address + prefix);
}

template <Engine E> void* Front<E>::large(std::size_t bytes, std::size_t alignment, bool* zero) {
  if (void* block = large_once(bytes, alignment, zero)) return block;
  if (bytes > kMaxFrames * kFrameSize) return nullptr;  // whatever else is free
  scavenge();
  return large_once(bytes, alignment, zero);
}

template <Engine E> void* Front<E>::allocate_aligned(std::size_t bytes, std::size_t alignment) {
  if (alignment <= kMinBlock) return allocate(bytes);
  if (bytes > kMaxSize || !start()) return refused();
  if (ready() && bytes <= E::kMaxSmall)
    if (void* block = engine_.allocate_aligned(bytes, alignment)) return block;
  void* block = large(bytes, alignment, nullptr);
  return block != nullptr ? block : refused();
}

template <Engine E> void* Front<E>::allocate_zeroed(std::size_t bytes) {
  if (bytes <= E::kMaxSmall) {
    void* block = allocate(bytes);
    return block == nullptr ? nullptr : memset(block, 0, bytes);
  }
  if (bytes > kMaxSize || !start()) return refused();
  bool zero = false;
  void* block = large(bytes, kMinBlock, &zero);
  if (block == nullptr) return refused();
  return zero ? block : memset(block, 0, bytes);
}

template <Engine E> void Front<E>::free(void* block, const void* caller) {
  if (block == nullptr) return;
  const auto address = reinterpret_cast<uptr>(block);
  const FrameInfo info = substrate_.map().get(address);
  if (FREEWAY_LIKELY(info.kind() == FrameInfo::kSmall)) {
    const Verdict verdict = engine_.free(address, info.value());
    if (FREEWAY_UNLIKELY(verdict == Verdict::kInterior)) bad(classify(address, info), "free", block, caller);
    else if (FREEWAY_UNLIKELY(verdict != Verdict::kOk)) bad(verdict, "free", block, caller);
  } else if (info.kind() == FrameInfo::kNothing) {
    bad(classify(address, info), "free", block, caller);
  } else {
    free_large(address, info, caller);
  }
}

template <Engine E> void Front<E>::free_large(uptr address, FrameInfo info, const void* caller) {
  auto* block = reinterpret_cast<void*>(address);
  if (!begins_large(address)) return bad(classify(address, info), "free", block, caller);
  if (!substrate_.large().give(address - prefix_of(address), info, process::coarse_time_ns()))
    return bad(Fault::kDoubleFree, "free", block, caller);
  substrate_.count_large(-1);
}

template <Engine E> std::size_t Front<E>::usable_size(const void* block, const void* caller) {
  if (block == nullptr) return 0;
  const auto address = reinterpret_cast<uptr>(block);
  const FrameInfo info = substrate_.map().get(address);
  if (info.kind() == FrameInfo::kSmall) {
    if (const std::size_t bytes = engine_.usable(address, info.value())) return bytes;
  } else if (info.kind() != FrameInfo::kNothing && begins_large(address)) {
    return large_bytes(address, info);
  }
  bad(classify(address, info), "malloc_usable_size", block, caller);
  return 0;
}

template <Engine E> void* Front<E>::reallocate(void* block, std::size_t bytes, const void* caller) {
  if (block == nullptr) return allocate(bytes);
  if (bytes == 0) {
    free(block, caller);
    return nullptr;
  }
  if (bytes > kMaxSize || !start()) return refused();
  auto address = reinterpret_cast<uptr>(block);
  const FrameInfo info = substrate_.map().get(address);
  if (info.kind() == FrameInfo::kSmall) {
    if (const std::size_t old_bytes = engine_.usable(address, info.value())) {
      // Keep the block unless it is too small, or more than half of it would be wasted.
      if (bytes <= old_bytes && (bytes > old_bytes / 2 || old_bytes <= kMinBlock)) return block;
      return move_block(block, old_bytes, bytes, caller);
    }
  } else if (info.kind() != FrameInfo::kNothing && begins_large(address)) {
    const std::size_t old_bytes = large_bytes(address, info);
    if (bytes > E::kMaxSmall && resize_large(address, info, bytes)) return reinterpret_cast<void*>(address);
    return move_block(block, old_bytes, bytes, caller);
  }
  bad(classify(address, info), "realloc", block, caller);
  return refused();
}

// Resizes the large block in place, or moves its pages and changes `address`; false: it is as it was.
template <Engine E> bool Front<E>::resize_large(uptr& address, FrameInfo info, std::size_t bytes) {
  LargeBlocks<Machine>& large = substrate_.large();
  const std::size_t prefix = prefix_of(address);
  const u64 now = process::coarse_time_ns();
  if (!large.resize(address - prefix, info, bytes + prefix, now)) {
    const uptr moved = large.move(address - prefix, info, bytes + prefix, now);
    if (moved == 0) return false;
    address = moved + prefix;
  }
  write_prefix(address, bytes);
  return true;
}

template <Engine E>
void* Front<E>::move_block(void* block, std::size_t old_bytes, std::size_t bytes, const void* caller) {
  void* other = allocate(bytes);
  if (other == nullptr) return nullptr;
  memcpy(other, block, bytes < old_bytes ? bytes : old_bytes);
  free(block, caller);
  return other;
}

// Memory was refused: gives back all that can be.
template <Engine E> void Front<E>::scavenge() {
  if (ready()) engine_.trim();
  substrate_.frames().purge_to(0);
}

template <Engine E> std::size_t Front<E>::trim(std::size_t keep) {
  if (!open()) return 0;
  const PurgePolicy<Machine>& policy = substrate_.frames().policy();
  const u64 before = policy.purged_bytes();
  engine_.trim();
  substrate_.purge_beyond(keep);
  return policy.purged_bytes() - before;
}

// What `address`, where no live block begins, is. Reads only our own maps.
template <Engine E> Fault Front<E>::classify(uptr address, FrameInfo info) {
  if (info.kind() == FrameInfo::kNothing) return substrate_.classify_outside(address);
  if (info.kind() == FrameInfo::kSmall && engine_.begins_block(address, info.value()))
    return Fault::kDoubleFree;  // a block, but a free one
  return address % kMinBlock != 0 ? Fault::kMisaligned : Fault::kInterior;
}

}  // namespace freeway
