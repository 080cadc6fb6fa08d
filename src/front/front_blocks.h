// SPDX-License-Identifier: MIT
// front_blocks.h: the part of Front that makes, resizes and frees blocks. Included by front.h.
#pragma once

extern "C" void* freeway_malloc(std::size_t) noexcept;
extern "C" void freeway_free(void*) noexcept;

namespace freeway {

template <Engine E>
bool Front<E>::start() {
  if (FREEWAY_LIKELY(ready_.load_acquire() != 0)) return true;  // [A1] pairs with [R1]
  typename Substrate::ClassByte* classes = nullptr;
  if constexpr (requires { E::class_bytes(); }) classes = E::class_bytes();
  if (!substrate_.start(E::kName, classes, E::kHugeFrom)) return false;
  // Tables of megabytes of which a small process touches a few pages.
  const uptr begin = align_up(reinterpret_cast<uptr>(this), kFrameSize);
  vm::prefer_small(begin, align_down(reinterpret_cast<uptr>(this + 1), kFrameSize) - begin);
  const bool known = options_available();
  if (known) substrate_.read_environment(/*speak=*/true);
  if (!known && !kStartsEarly) return true;
  if (!engine_.start(substrate_)) return false;
  if (!known) return true;
  if constexpr (kOwnEntry) guard::start(substrate_.options().guard);
  if (substrate_.options().guard_large) guard_large();
  ready_.store_release(1);  // [R1] pairs with [A1]
  if constexpr (kOwnEntry) profile_as_asked();
  if constexpr (requires { engine_.prefault(u64{}); }) engine_.prefault(substrate_.options().prefault);
  if (substrate_.options().stats) prepare_summary();
  return true;
}

// What FREEWAY_PROFILE asks for.
template <Engine E>
void Front<E>::profile_as_asked() {
  if (const u64 interval = profile::read_setting()) begin_profile(interval);
}

template <Engine E>
int Front<E>::begin_profile(u64 interval) {
  if constexpr (requires { engine_.follow_profile(); }) {
    if (!start() || !ready()) return ENOMEM;
    const int error = profile::start(interval);
    engine_.follow_profile();
    return error;
  }
  return ENOTSUP;
}

template <Engine E>
void Front<E>::end_profile() {
  if constexpr (requires { engine_.follow_profile(); }) {
    if (!ready()) return;
    profile::stop();
    engine_.follow_profile();
  }
}

// Before the first block that leaves here: all know how long theirs is by its own entry.
template <Engine E>
void Front<E>::guard_large() {
  substrate_.large().guard_ends(vm::page_size());
  guard::know_ends(this, [](void* front, uptr address, guard::Near& near) {
    freeway_explanation_t found;
    static_cast<Front*>(front)->explain(address, found);
    const auto size = static_cast<ptrdiff_t>(found.size);
    if (found.kind != FREEWAY_LARGE_BLOCK || found.offset < size) return false;
    near.kind = guard::Near::kAfter;
    near.live = true;
    near.distance = static_cast<u64>(found.offset - size) + 1;
    near.birth.address = reinterpret_cast<u64>(found.begin);
    near.birth.size = found.size;
    return true;
  });
}

template <Engine E>
void* Front<E>::obtain(std::size_t bytes) {
  if constexpr (kOwnEntry) return freeway_malloc(bytes);
  return allocate(bytes);
}

template <Engine E>
void Front<E>::release(void* block, const void* caller) {
  if constexpr (kOwnEntry)
    if (!guard::owns(reinterpret_cast<uptr>(block))) return freeway_free(block);
  free(block, caller);
}

template <Engine E>
void* Front<E>::allocate(std::size_t bytes) {
  if (FREEWAY_LIKELY(ready_.load_acquire() != 0 && bytes <= E::kMaxSmall))  // [A1] pairs with [R1]
    if (void* block = engine_.allocate(bytes)) return block;
  return allocate_slow(bytes);
}

// The first calls, large blocks, and what the engine did not have.
template <Engine E>
FREEWAY_NOINLINE void* Front<E>::allocate_slow(std::size_t bytes) {
  if (FREEWAY_UNLIKELY(ready_.load_acquire() == 0) && !start()) return refused();  // [A1] pairs with [R1]
  if (is_small(bytes) && (kStartsEarly || ready())) {
    if (void* block = engine_.allocate(bytes)) return block;
    if constexpr (kThreadHeaps)  // interrupted inside its own heap, a thread has none for the handler: a large one will do
      if (void* block = large_once(bytes, kMinBlock, nullptr)) return block;
    scavenge();
    void* block = engine_.allocate(bytes);
    return block != nullptr ? block : refused();
  }
  if (bytes > kMaxSize) return refused();
  void* block = large(bytes, kMinBlock, nullptr);
  return block != nullptr ? block : refused();
}

template <Engine E>
void* Front<E>::large_once(std::size_t bytes, std::size_t alignment, bool* zero) {
  const std::size_t prefix = alignment <= kMinBlock ? E::kLargePrefix : 0;
  const auto block = substrate_.large().take(clamp(bytes, 1, bytes) + prefix, alignment);
  if (block.address == 0) return nullptr;
  substrate_.count_large(1);
  if (zero != nullptr) *zero = block.zero;
  write_prefix(block.address + prefix, bytes);
  if (FREEWAY_UNLIKELY(profile::is_on())) profile_large(block.address + prefix, bytes);
  return reinterpret_cast<void*>(block.address + prefix);
}

// A large block is new, or as good as that: nobody counted its bytes.
template <Engine E>
FREEWAY_NOINLINE void Front<E>::profile_large(uptr address, std::size_t bytes) {
  if (profile::draws(bytes)) profile::sampled(address, bytes);
}

template <Engine E>
void* Front<E>::large(std::size_t bytes, std::size_t alignment, bool* zero) {
  if (void* block = large_once(bytes, alignment, zero)) return block;
  if (bytes > kMaxFrames * kFrameSize) return nullptr;  // whatever else is free
  scavenge();
  return large_once(bytes, alignment, zero);
}

template <Engine E>
void* Front<E>::allocate_aligned(std::size_t bytes, std::size_t alignment) {
  if (alignment <= kMinBlock) return obtain(bytes);
  if (bytes > kMaxSize || !start()) return refused();
  if ((kStartsEarly || ready()) && bytes <= E::kMaxSmall)
    if (void* block = engine_.allocate_aligned(bytes, alignment)) return block;
  void* block = large(bytes, alignment, nullptr);
  return block != nullptr ? block : refused();
}

template <Engine E>
void* Front<E>::allocate_zeroed(std::size_t bytes) {
  if (bytes <= E::kMaxSmall) {
    void* block = obtain(bytes);
    return block == nullptr ? nullptr : memset(block, 0, bytes);
  }
  if (bytes > kMaxSize || !start()) return refused();
  bool zero = false;
  void* block = large(bytes, kMinBlock, &zero);
  if (block == nullptr) return refused();
  return zero ? block : memset(block, 0, bytes);
}

template <Engine E>
void Front<E>::free(void* block, const void* caller) {
  if (block == nullptr) return;
  const auto address = reinterpret_cast<uptr>(block);
  const FrameInfo info = substrate_.map().get(address);
  if (FREEWAY_LIKELY(info.kind() == FrameInfo::kSmall)) {
    const Verdict verdict = engine_.free(address, info.value());
    if (FREEWAY_UNLIKELY(verdict == Verdict::kInterior))
      bad(classify(address, info), "free", block, caller);
    else if (FREEWAY_UNLIKELY(verdict != Verdict::kOk))
      bad(verdict, "free", block, caller);
  } else if (info.kind() == FrameInfo::kNothing) {
    if (info.is_of_heap()) return free_of_heap(address, info, caller);
    if (guard::owns(address)) return free_guarded(address, caller);
    bad(classify(address, info), "free", block, caller);
  } else {
    free_large(address, info, caller);
  }
}

inline Fault guarded_fault(guard::Freed freed, uptr address) {
  if (freed == guard::Freed::kTwice) return Fault::kDoubleFree;
  if (freed == guard::Freed::kForeign) return Fault::kForeign;
  return address % kMinBlock != 0 ? Fault::kMisaligned : Fault::kInterior;
}

// What is wrong is told with the block's history, which is known here.
template <Engine E>
FREEWAY_NOINLINE void Front<E>::free_guarded(uptr address, const void* caller) {
  const guard::Freed freed = guard::give(address, caller);
  if (freed == guard::Freed::kOk) return;
  const auto* block = reinterpret_cast<const void*>(address);
  if (freed == guard::Freed::kOverrun)
    Line().text("freeway: overflow: the bytes past the end of ").hex(address).text(" were written before it was freed by ")
        .hex(reinterpret_cast<u64>(caller)).write();
  else
    report(guarded_fault(freed, address), "free", block, caller, /*go_on=*/true);
  guard::write_history(guard::near(address));
  if (!substrate_.options().report_only) die();
}

template <Engine E>
void Front<E>::free_large(uptr address, FrameInfo info, const void* caller) {
  auto* block = reinterpret_cast<void*>(address);
  if (!begins_large(address)) return bad(classify(address, info), "free", block, caller);
  if (FREEWAY_UNLIKELY(profile::has_samples())) profile::freed(address);
  if (!substrate_.large().give(address - prefix_of(address), info, process::coarse_time_ns()))
    return bad(Fault::kDoubleFree, "free", block, caller);
  substrate_.count_large(-1);
}

template <Engine E>
std::size_t Front<E>::usable_size(const void* block, const void* caller) {
  if (block == nullptr) return 0;
  const auto address = reinterpret_cast<uptr>(block);
  const FrameInfo info = substrate_.map().get(address);
  if (info.kind() == FrameInfo::kSmall) {
    if (const std::size_t bytes = engine_.usable(address, info.value())) return bytes;
  } else if (info.kind() != FrameInfo::kNothing && begins_large(address)) {
    return substrate_.large().bytes_of(info) - prefix_of(address);
  } else if (info.is_of_heap()) {
    if (const std::size_t bytes = usable_of_heap(address, info)) return bytes;
  } else if (guard::owns(address)) {
    if (const std::size_t bytes = guard::usable(address)) return bytes;
  }
  bad(classify(address, info), "malloc_usable_size", block, caller);
  return 0;
}

template <Engine E>
void* Front<E>::reallocate(void* block, std::size_t bytes, const void* caller) {
  if (block == nullptr) return obtain(bytes);
  if (bytes == 0) {
    release(block, caller);
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
    const std::size_t old_bytes = substrate_.large().bytes_of(info) - prefix_of(address);
    if (bytes > E::kMaxSmall && resize_large(address, info, bytes)) return reinterpret_cast<void*>(address);
    return move_block(block, old_bytes, bytes, caller);
  } else if (info.is_of_heap()) {
    return reallocate_of_heap(address, info, bytes, caller);
  } else if (guard::owns(address)) {
    if (const std::size_t old_bytes = guard::usable(address))
      return bytes == old_bytes ? block : move_block(block, old_bytes, bytes, caller);
  }
  bad(classify(address, info), "realloc", block, caller);
  return refused();
}

// Resizes the large block in place, or moves its pages and changes `address`; false: it is as it was.
template <Engine E>
bool Front<E>::resize_large(uptr& address, FrameInfo info, std::size_t bytes) {
  LargeBlocks<Machine>& large = substrate_.large();
  const std::size_t prefix = prefix_of(address);
  const uptr base = address - prefix;
  const u64 now = process::coarse_time_ns();
  if (!large.resize(base, info, bytes + prefix, now)) {
    const uptr moved = large.move(base, info, bytes + prefix, now);
    if (moved == 0) return false;
    address = moved + prefix;
  }
  write_prefix(address, bytes);
  if (FREEWAY_UNLIKELY(profile::has_samples())) profile::freed(base + prefix);
  if (FREEWAY_UNLIKELY(profile::is_on())) profile_large(address, bytes);
  return true;
}

template <Engine E>
void* Front<E>::move_block(void* block, std::size_t old_bytes, std::size_t bytes, const void* caller) {
  void* other = obtain(bytes);
  if (other == nullptr) return nullptr;
  using Large = LargeBlocks<Machine>;
  const std::size_t kept = bytes < old_bytes ? bytes : old_bytes;
  const auto from = reinterpret_cast<uptr>(block);
  const auto to = reinterpret_cast<uptr>(other);
  LargeBlocks<Machine>& large = substrate_.large();
  // A long one's pages could not be moved. A shorter one leaves its memory where it has got new memory (decision 048).
  if (from % kFrameSize == 0 && (kept >= Large::kLiftFrames * kFrameSize || large.is_new(to, kept)))
    large.carry(from, to, kept);
  else
    memcpy(other, block, kept);
  release(block, caller);
  return other;
}

template <Engine E>
std::size_t Front<E>::allocate_batch(std::size_t bytes, std::size_t count, void** blocks) {
  std::size_t got = 0;
  for (; got < count; ++got)
    if ((blocks[got] = obtain(bytes)) == nullptr) break;
  return got;
}

// Memory was refused: gives back all that can be.
template <Engine E>
void Front<E>::scavenge() {
  if (kStartsEarly || ready()) {
    if constexpr (requires { engine_.drain(); })
      engine_.drain();
    else
      engine_.trim();
  }
  substrate_.frames().purge_to(0);
}

template <Engine E>
std::size_t Front<E>::trim(std::size_t keep) {
  if (!start() || !ready()) return 0;
  const u64 before = substrate_.frames().policy().purged_bytes();
  engine_.trim();
  substrate_.large().release_kept();
  const std::size_t least = substrate_.frames().policy().kept(), wanted = keep / kFrameSize;
  substrate_.frames().purge_to(wanted > least ? wanted : least);
  return substrate_.frames().policy().purged_bytes() - before;
}

template <Engine E>
int Front<E>::set_limit(std::size_t soft, std::size_t hard) {
  const auto is_limit = [](std::size_t bytes) { return bytes == 0 || bytes >= kFrameSize; };
  if (!is_limit(soft) || !is_limit(hard) || (hard != 0 && soft > hard)) return EINVAL;
  if (!start()) return ENOMEM;
  substrate_.frames().limit(soft, hard);
  substrate_.frames().tick(process::coarse_time_ns());
  return 0;
}

template <Engine E>
std::size_t Front<E>::reserve(std::size_t bytes, std::size_t count) {
  if constexpr (requires { engine_.reserve(bytes, count); })
    if (start() && ready()) return engine_.reserve(bytes, count);
  return 0;
}

// Free frames first, they cost least; then a part of the heap after the other, and the frames that it has set free.
template <Engine E>
std::size_t Front<E>::trim_step(std::size_t most) {
  if (!start() || !ready()) return 0;
  if constexpr (requires { engine_.trim_part(most); }) {
    const PurgePolicy<Machine>& policy = substrate_.frames().policy();
    std::size_t effort = most < kFrameSize ? kFrameSize : most;
    std::size_t given = 0;
    const auto purge = [&] {
      const u64 before = policy.purged_bytes();
      substrate_.frames().purge_some(ceil_div(effort, kFrameSize), policy.kept());
      const std::size_t bytes = policy.purged_bytes() - before;
      effort -= clamp(bytes, 0, effort);
      return bytes;
    };
    given = purge();
    if (effort > 0) substrate_.large().release_kept();
    while (effort > 0) {
      const u64 before = policy.purged_bytes();
      const bool done = engine_.trim_part(effort);
      purge();
      const std::size_t bytes = policy.purged_bytes() - before;
      given += bytes;
      const u32 barren = bytes != 0 ? 0 : barren_parts_.load_relaxed() + (done ? 1 : 0);
      const bool is_all = barren > engine_.trim_parts();
      barren_parts_.store_relaxed(is_all ? 0 : barren);
      if (is_all) return given;
    }
    return given != 0 ? given : 1;
  } else {
    return trim(0);
  }
}

template <Engine E>
void Front<E>::idle() {
  if (!start() || !ready()) return;
  const u64 now = process::coarse_time_ns();
  if constexpr (requires { engine_.idle(now); })
    if (!substrate_.frames().policy().is_never()) engine_.idle(now);
  substrate_.frames().tick(now);
}

// What `address`, where no live block begins, is. Reads only our own maps.
template <Engine E>
Fault Front<E>::classify(uptr address, FrameInfo info) {
  if (info.kind() == FrameInfo::kNothing && guard::owns(address)) return guarded_fault(guard::classify(address), address);
  if (info.kind() == FrameInfo::kNothing) return substrate_.classify_outside(address);
  if (info.kind() == FrameInfo::kSmall && engine_.begins_block(address, info.value()))
    return Fault::kDoubleFree;  // a block, but a free one
  return address % kMinBlock != 0 ? Fault::kMisaligned : Fault::kInterior;
}

}  // namespace freeway
