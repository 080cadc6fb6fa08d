// SPDX-License-Identifier: MIT
// family.cc: malloc, free and the malloc family (malloc/family.h) of a paper's library. Compiled for each, with
// FREEWAY_PAPER the header of its engine, which declares `process_heap`.
#include FREEWAY_PAPER
#include "malloc/family.h"
#include "freeway/heap.h"

#include <new>

using freeway::process_heap;

namespace freeway::family {

bool start() { return process_heap.start(); }
void finish() { process_heap.finish(); }

void* allocate_aligned(std::size_t bytes, std::size_t alignment, const void*) {
  return process_heap.allocate_aligned(bytes, alignment);
}
void* allocate_zeroed(std::size_t bytes, const void*) { return process_heap.allocate_zeroed(bytes); }
freeway_sized_block_t allocate_at_least(std::size_t bytes, std::size_t alignment, const void* caller) {
  void* block = process_heap.allocate_aligned(bytes, alignment);
  if (block == nullptr) return {nullptr, 0};
  return {block, process_heap.usable_size(block, caller)};
}
// Each engine's sizes are its own: a block is made and asked.
std::size_t bytes_for(std::size_t bytes, std::size_t alignment) {
  const freeway_sized_block_t asked = allocate_at_least(bytes, alignment, nullptr);
  process_heap.free(asked.ptr, nullptr);
  return asked.size;
}
void* reallocate(void* block, std::size_t bytes, const void* caller) {
  return process_heap.reallocate(block, bytes, caller);
}
void free(void* block, const void* caller) { process_heap.free(block, caller); }
void free_sized(void* block, std::size_t, std::size_t, bool, const void* caller) { process_heap.free(block, caller); }
std::size_t usable_size(const void* block, const void* caller) { return process_heap.usable_size(block, caller); }
std::size_t allocate_batch(std::size_t bytes, std::size_t count, void** blocks) {
  std::size_t got = 0;
  for (; got < count; ++got)
    if ((blocks[got] = process_heap.allocate(bytes)) == nullptr) break;
  return got;
}
void bad_batch(std::size_t count, const void* blocks, const void* caller) {
  report_batch(count, blocks, caller, process_heap.substrate().options().report_only);
}

std::size_t trim(std::size_t keep) { return process_heap.trim(keep); }
std::size_t trim_step(std::size_t) { return process_heap.trim(0); }
void idle() {
  if (process_heap.open()) process_heap.substrate().frames().tick(process::coarse_time_ns());
}
std::size_t reserve(std::size_t, std::size_t) { return 0; }
int set_limit(std::size_t soft, std::size_t hard) {
  return process_heap.start() ? process_heap.substrate().limit(soft, hard), 0 : ENOMEM;
}
void keep_freed(bool keep) { process_heap.substrate().frames().policy().never(PurgePolicy<Machine>::kProgram, keep); }

int begin_profile(u64) { return ENOTSUP; }
void end_profile() {}

void fill_stats(freeway_stats_t& stats) { process_heap.fill_stats(stats); }
void fill_audit(freeway_audit_t& audit) { process_heap.fill_audit(audit); }
u64 huge_blocks() { return process_heap.substrate().large().huge_count(); }
void explain(uptr address, freeway_explanation_t& found) { process_heap.explain(address, found); }
void block_info(uptr address, freeway_block_info_t& info) { process_heap.block_info(address, info); }
bool should_move(uptr) { return false; }
void write_summary(int fd) { process_heap.write_summary(fd); }
void each_class(TakeClass*, void*) {}

}  // namespace freeway::family

extern "C" {

FREEWAY_EXPORT void* freeway_malloc(std::size_t size) noexcept { return process_heap.allocate(size); }
FREEWAY_EXPORT void freeway_free(void* block) noexcept { process_heap.free(block, __builtin_return_address(0)); }
FREEWAY_EXPORT void freeway_free_sized(void* block, std::size_t) noexcept {
  process_heap.free(block, __builtin_return_address(0));
}
#ifndef FREEWAY_PREFIXED
FREEWAY_EXPORT void* malloc(std::size_t) noexcept __attribute__((alias("freeway_malloc")));
FREEWAY_EXPORT void free(void*) noexcept __attribute__((alias("freeway_free")));
FREEWAY_EXPORT void cfree(void*) noexcept __attribute__((alias("freeway_free")));
FREEWAY_EXPORT void free_sized(void*, std::size_t) noexcept __attribute__((alias("freeway_free_sized")));

// The basic forms of operator new and delete, in assembly elsewhere.
FREEWAY_HIDDEN void* freeway_new_slow(std::size_t size);
FREEWAY_HIDDEN void* freeway_own_new(std::size_t size) {
  void* block = process_heap.allocate(size);
  return FREEWAY_LIKELY(block != nullptr) ? block : freeway_new_slow(size);
}
FREEWAY_HIDDEN void* freeway_aligned_new_slow(std::size_t size, std::align_val_t alignment);
FREEWAY_HIDDEN void* freeway_own_aligned_new(std::size_t size, std::align_val_t alignment) {
  return freeway_aligned_new_slow(size, alignment);
}
FREEWAY_HIDDEN void freeway_own_delete(void* block) noexcept { process_heap.free(block, __builtin_return_address(0)); }
FREEWAY_HIDDEN void freeway_own_aligned_delete(void* block, std::align_val_t) noexcept {
  process_heap.free(block, __builtin_return_address(0));
}
FREEWAY_HIDDEN void freeway_delete_slow(void* block, std::size_t size) noexcept;
FREEWAY_HIDDEN void freeway_delete_array_slow(void* block, std::size_t size) noexcept;
#endif

// What the papers' libraries do not have: heaps. Programs that were linked with libfreeway.so still load.
FREEWAY_EXPORT freeway_heap_t freeway_heap_new(const freeway_heap_options_t*, std::size_t) noexcept {
  return errno = ENOTSUP, nullptr;
}
FREEWAY_EXPORT int freeway_heap_destroy(freeway_heap_t) noexcept { return ENOTSUP; }
FREEWAY_EXPORT void* freeway_heap_malloc(freeway_heap_t, std::size_t) noexcept { return errno = ENOTSUP, nullptr; }
FREEWAY_EXPORT void* freeway_heap_calloc(freeway_heap_t, std::size_t, std::size_t) noexcept {
  return errno = ENOTSUP, nullptr;
}
FREEWAY_EXPORT void* freeway_heap_aligned_alloc(freeway_heap_t, std::size_t, std::size_t) noexcept {
  return errno = ENOTSUP, nullptr;
}
FREEWAY_EXPORT void* freeway_heap_realloc(freeway_heap_t, void*, std::size_t) noexcept {
  return errno = ENOTSUP, nullptr;
}
FREEWAY_EXPORT std::size_t freeway_heap_trim(freeway_heap_t) noexcept { return 0; }
FREEWAY_EXPORT int freeway_heap_stats(freeway_heap_t, freeway_heap_stats_t*, std::size_t) noexcept { return ENOTSUP; }
}

#ifndef FREEWAY_PREFIXED
#pragma GCC diagnostic ignored "-Wsized-deallocation"  // that of arrays is in src/malloc/new.cc
FREEWAY_EXPORT void* operator new(std::size_t) __attribute__((alias("freeway_own_new")));
FREEWAY_EXPORT void* operator new(std::size_t, std::align_val_t) __attribute__((alias("freeway_own_aligned_new")));
FREEWAY_EXPORT void operator delete(void*) noexcept __attribute__((alias("freeway_own_delete")));
FREEWAY_EXPORT void operator delete(void*, std::align_val_t) noexcept
    __attribute__((alias("freeway_own_aligned_delete")));
FREEWAY_EXPORT void operator delete(void* block, std::size_t size) noexcept { freeway_delete_slow(block, size); }
FREEWAY_EXPORT void operator delete[](void* block, std::size_t size) noexcept {
  freeway_delete_array_slow(block, size);
}
#endif
