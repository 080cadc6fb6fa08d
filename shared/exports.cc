// SPDX-License-Identifier: MIT
// shared.cc: the heap that processes share, as freeway/shared.h has it. Nothing here has to do with malloc's heap.
#include "freeway/shared.h"

#include <errno.h>
#include <string.h>

#include "shared/attachment.h"

using freeway::shared::Attachment;
using freeway::shared::Audit;
using freeway::shared::Roots;

struct freeway_shared : Attachment {};

namespace {

constexpr std::size_t kDefaultCapacity = freeway::kGiB;
constexpr std::size_t kLeastCapacity = std::size_t{freeway::shared::kFewestFrames} << freeway::kFrameShift;
constexpr std::size_t kMostCapacity = std::size_t{freeway::shared::kMostFrames} << freeway::kFrameShift;

// Sets errno, if there is one.
template <class T> T failed(int error, T value) {
  errno = error;
  return value;
}

freeway_shared_t* attached(long error, Attachment* attachment) {
  return error == 0 ? static_cast<freeway_shared_t*>(attachment)
                    : failed<freeway_shared_t*>(static_cast<int>(-error), nullptr);
}

void* block(const freeway_shared_t* heap, const Attachment::Answer& answer) {
  return answer.error == 0 ? heap->address_of(answer.value) : failed<void*>(answer.error, nullptr);
}

int done(int error) { return error == 0 ? 0 : failed(error, -1); }

bool is_alignment(std::size_t alignment) {
  return freeway::is_power_of_two(alignment) && alignment <= freeway::kFrameSize;
}

template <class T> void copy_out(T* to, const T& from, std::size_t size) {
  if (to != nullptr) memcpy(to, &from, size < sizeof(from) ? size : sizeof(from));
}

}  // namespace

extern "C" {

FREEWAY_EXPORT freeway_shared_t* freeway_shared_create(int fd, const freeway_shared_options_t* options,
                                                       std::size_t size) noexcept {
  freeway_shared_options_t mine = {};
  if (options != nullptr) memcpy(&mine, options, size < sizeof(mine) ? size : sizeof(mine));
  if (mine.capacity == 0) mine.capacity = kDefaultCapacity;
  if (mine.seats == 0) mine.seats = freeway::shared::kMaxSeats;
  if (mine.capacity < kLeastCapacity || mine.capacity > kMostCapacity || mine.seats < freeway::shared::kFewestSeats ||
      mine.seats > freeway::shared::kMaxSeats)
    return failed<freeway_shared_t*>(EINVAL, nullptr);
  Attachment* made = nullptr;
  const long error = Attachment::create(fd, mine.capacity, mine.seats, made);
  return attached(error, made);
}

FREEWAY_EXPORT freeway_shared_t* freeway_shared_attach(int fd) noexcept {
  Attachment* made = nullptr;
  const long error = Attachment::attach(fd, made);
  return attached(error, made);
}

FREEWAY_EXPORT int freeway_shared_detach(freeway_shared_t* heap) noexcept {
  if (heap != nullptr) heap->detach();
  return 0;
}

FREEWAY_EXPORT void* freeway_shared_malloc(freeway_shared_t* heap, std::size_t size) noexcept {
  if (heap == nullptr) return failed<void*>(EINVAL, nullptr);
  return block(heap, heap->allocate(size, freeway::kMinBlock));
}

FREEWAY_EXPORT void* freeway_shared_calloc(freeway_shared_t* heap, std::size_t count, std::size_t size) noexcept {
  std::size_t bytes;
  if (__builtin_mul_overflow(count, size, &bytes)) return failed<void*>(ENOMEM, nullptr);
  void* zeroed = freeway_shared_malloc(heap, bytes);
  return zeroed == nullptr ? nullptr : memset(zeroed, 0, bytes);
}

FREEWAY_EXPORT void* freeway_shared_aligned_alloc(freeway_shared_t* heap, std::size_t alignment,
                                                  std::size_t size) noexcept {
  if (heap == nullptr || !is_alignment(alignment)) return failed<void*>(EINVAL, nullptr);
  return block(heap, heap->allocate(size, alignment));
}

FREEWAY_EXPORT int freeway_shared_free(freeway_shared_t* heap, void* block) noexcept {
  if (block == nullptr) return 0;
  const freeway::u64 offset = heap == nullptr ? 0 : heap->offset_of(block);
  return done(offset == 0 ? EINVAL : heap->free(offset));
}

FREEWAY_EXPORT std::size_t freeway_shared_usable_size(freeway_shared_t* heap, const void* block) noexcept {
  if (block == nullptr) return 0;
  const freeway::u64 offset = heap == nullptr ? 0 : heap->offset_of(block);
  const std::size_t bytes = offset == 0 ? 0 : heap->usable(offset);
  return bytes != 0 ? bytes : failed<std::size_t>(EINVAL, 0);
}

FREEWAY_EXPORT std::uint64_t freeway_shared_offset(freeway_shared_t* heap, const void* address) noexcept {
  if (address == nullptr) return 0;
  const freeway::u64 offset = heap == nullptr ? 0 : heap->offset_of(address);
  return offset != 0 ? offset : failed<std::uint64_t>(EINVAL, 0);
}

FREEWAY_EXPORT void* freeway_shared_pointer(freeway_shared_t* heap, std::uint64_t offset) noexcept {
  if (offset == 0) return nullptr;
  if (heap == nullptr || !heap->is_in_data(offset)) return failed<void*>(EINVAL, nullptr);
  return heap->address_of(offset);
}

FREEWAY_EXPORT void* freeway_shared_alloc_into(freeway_shared_t* heap, std::uint64_t* slot, std::size_t size) noexcept {
  const freeway::u64 offset = heap == nullptr || slot == nullptr ? 0 : heap->offset_of(slot);
  if (offset == 0) return failed<void*>(EINVAL, nullptr);
  return block(heap, heap->allocate_into(offset, size));
}

FREEWAY_EXPORT int freeway_shared_free_from(freeway_shared_t* heap, std::uint64_t* slot) noexcept {
  const freeway::u64 offset = heap == nullptr || slot == nullptr ? 0 : heap->offset_of(slot);
  return done(offset == 0 ? EINVAL : heap->free_from(offset));
}

FREEWAY_EXPORT std::uint64_t freeway_shared_root_find(freeway_shared_t* heap, const char* name) noexcept {
  freeway::shared::NameWords words;
  if (heap == nullptr || name == nullptr || !freeway::shared::pack_name(name, words))
    return failed<std::uint64_t>(EINVAL, 0);
  return heap->roots().find(words.words);
}

FREEWAY_EXPORT int freeway_shared_root_replace(freeway_shared_t* heap, const char* name, std::uint64_t expected,
                                               std::uint64_t replacement) noexcept {
  using Replaced = Roots<freeway::Machine>::Replaced;
  freeway::shared::NameWords words;
  if (heap == nullptr || name == nullptr || !freeway::shared::pack_name(name, words)) return done(EINVAL);
  const Replaced result = heap->roots().replace(words.words, expected, replacement);
  return done(result == Replaced::kDone ? 0 : result == Replaced::kOther ? EBUSY : ENOSPC);
}

FREEWAY_EXPORT int freeway_shared_recover(freeway_shared_t* heap) noexcept {
  if (heap == nullptr) return done(EINVAL);
  const Attachment::Answer answer = heap->recover();
  return answer.error != 0 ? done(answer.error) : static_cast<int>(answer.value);
}

FREEWAY_EXPORT std::size_t freeway_shared_trim(freeway_shared_t* heap) noexcept {
  if (heap == nullptr) return failed<std::size_t>(EINVAL, 0);
  const Attachment::Answer answer = heap->trim();
  return answer.error != 0 ? failed<std::size_t>(answer.error, 0) : answer.value;
}

FREEWAY_EXPORT int freeway_shared_stats(freeway_shared_t* heap, freeway_shared_stats_t* stats,
                                        std::size_t size) noexcept {
  if (heap == nullptr || stats == nullptr) return done(EINVAL);
  const Audit audit = heap->audit();
  const Attachment::Counts counts = heap->count();
  freeway_shared_stats_t mine = {};
  mine.capacity = freeway::u64{heap->tables().capacity} << freeway::kFrameShift;
  mine.live = audit.live_bytes;
  mine.blocks = audit.live_blocks;
  mine.cached = audit.cached_bytes;
  mine.superblocks = audit.small_frames << freeway::kFrameShift;
  mine.large = audit.large_frames << freeway::kFrameShift;
  mine.backed = counts.backed;
  mine.seats = counts.seats;
  mine.seats_dead = counts.seats_dead;
  mine.attached = counts.attached;
  copy_out(stats, mine, size);
  return 0;
}

FREEWAY_EXPORT std::size_t freeway_shared_audit(freeway_shared_t* heap, freeway_shared_audit_t* audit,
                                                std::size_t size) noexcept {
  if (heap == nullptr) return failed<std::size_t>(EINVAL, SIZE_MAX);
  const Audit found = heap->audit();
  freeway_shared_audit_t mine = {};
  mine.errors = found.unnoticed;
  mine.lost = (found.lost_frames << freeway::kFrameShift) + found.lost_bytes;
  mine.live = found.live_bytes;
  mine.blocks = found.live_blocks;
  mine.cached = found.cached_bytes;
  mine.left_behind = found.left_behind;
  copy_out(audit, mine, size);
  return mine.errors + mine.lost + mine.left_behind;
}

}  // extern "C"
