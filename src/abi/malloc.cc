// SPDX-License-Identifier: MIT
// malloc.cc: the C family: freeway_… functions, and (unless FREEWAY_PREFIXED) the standard names as aliases of them.
//
// malloc, free, free_sized and vfork are assembly (malloc/*/fast_path.S, vfork.S). errno: free leaves it alone;
// everything else sets ENOMEM or EINVAL when it fails, posix_memalign, as glibc's, only ENOMEM.
#include <errno.h>
#include <stdint.h>

#include "freeway/freeway.h"
#include "malloc/family.h"
#include "os/vm.h"

namespace family = freeway::family;

// The heap's part in the beginning and the end of the process. Here, so that every program that links libfreeway.a has
// it with malloc. The beginning is for a process that has not allocated before its constructors run, or could not read
// the environment until now.
#ifndef FREEWAY_BEGUN_BY_HAND  // tests/whole/machines
__attribute__((constructor)) static void freeway_start() { family::start(); }
__attribute__((destructor)) static void freeway_finish() { family::finish(); }
#endif

#ifdef FREEWAY_PREFIXED
#define FREEWAY_ALIAS(type, name, arguments) static_assert(true)
#else
#define FREEWAY_ALIAS(type, name, arguments) \
  FREEWAY_EXPORT type name arguments noexcept __attribute__((alias("freeway_" #name)))
#endif
#define FREEWAY_CALLER __builtin_return_address(0)

namespace {

bool multiply_overflows(std::size_t a, std::size_t b, std::size_t* product) {
  return __builtin_mul_overflow(a, b, product);
}

// Whether `blocks` can hold `count` pointers.
bool is_array(std::size_t count, void** blocks) {
  return count == 0 || (blocks != nullptr && count <= PTRDIFF_MAX / sizeof(void*));
}

void* fail(int error) {
  errno = error;
  return nullptr;
}

constexpr std::size_t kMaxAlignment = std::size_t{1} << 63;

}  // namespace

extern "C" {

FREEWAY_EXPORT void* freeway_calloc(std::size_t count, std::size_t size) noexcept {
  std::size_t bytes;
  if (multiply_overflows(count, size, &bytes)) return fail(ENOMEM);
  return family::allocate_zeroed(bytes, FREEWAY_CALLER);
}

FREEWAY_EXPORT void* freeway_realloc(void* block, std::size_t size) noexcept {
  return family::reallocate(block, size, FREEWAY_CALLER);
}

FREEWAY_EXPORT void* freeway_reallocarray(void* block, std::size_t count, std::size_t size) noexcept {
  std::size_t bytes;
  if (multiply_overflows(count, size, &bytes)) return fail(ENOMEM);
  return family::reallocate(block, bytes, FREEWAY_CALLER);
}

FREEWAY_EXPORT void* freeway_aligned_alloc(std::size_t alignment, std::size_t size) noexcept {
  if (!freeway::is_power_of_two(alignment)) return fail(EINVAL);
  return family::allocate_aligned(size, alignment, FREEWAY_CALLER);
}

FREEWAY_EXPORT void* freeway_memalign(std::size_t alignment, std::size_t size) noexcept {
  if (alignment > kMaxAlignment) return fail(EINVAL);
  return family::allocate_aligned(size, std::size_t{1} << freeway::log2_ceil(alignment), FREEWAY_CALLER);
}

FREEWAY_EXPORT int freeway_posix_memalign(void** result, std::size_t alignment, std::size_t size) noexcept {
  if (result == nullptr || !freeway::is_power_of_two(alignment) || alignment % sizeof(void*) != 0) return EINVAL;
  void* block = family::allocate_aligned(size, alignment, FREEWAY_CALLER);
  if (block == nullptr) return ENOMEM;
  *result = block;
  return 0;
}

FREEWAY_EXPORT void* freeway_valloc(std::size_t size) noexcept {
  return family::allocate_aligned(size, freeway::vm::page_size(), FREEWAY_CALLER);
}

FREEWAY_EXPORT void* freeway_pvalloc(std::size_t size) noexcept {
  const std::size_t page = freeway::vm::page_size();
  if (size > PTRDIFF_MAX) return fail(ENOMEM);
  return family::allocate_aligned(freeway::align_up(size == 0 ? 1 : size, page), page, FREEWAY_CALLER);
}

FREEWAY_EXPORT freeway_sized_block_t freeway_alloc_at_least(std::size_t size) noexcept {
  return family::allocate_at_least(size, /*alignment=*/1, FREEWAY_CALLER);
}

FREEWAY_EXPORT freeway_sized_block_t freeway_aligned_alloc_at_least(std::size_t alignment, std::size_t size) noexcept {
  if (!freeway::is_power_of_two(alignment)) return {fail(EINVAL), 0};
  return family::allocate_at_least(size, alignment, FREEWAY_CALLER);
}

FREEWAY_EXPORT std::size_t freeway_nallocx(std::size_t size, int flags) noexcept {
  constexpr int kLgAlignment = 0x3f;
  return family::bytes_for(size, std::size_t{1} << (flags & kLgAlignment));
}

FREEWAY_EXPORT std::size_t freeway_malloc_usable_size(void* block) noexcept {
  return family::usable_size(block, FREEWAY_CALLER);
}

FREEWAY_EXPORT std::size_t freeway_malloc_batch(std::size_t size, std::size_t count, void** blocks) noexcept {
  if (!is_array(count, blocks)) {
    errno = EINVAL;
    return 0;
  }
  return family::allocate_batch(size, count, blocks);
}

FREEWAY_EXPORT void freeway_free_batch(std::size_t count, void** blocks) noexcept {
  if (!is_array(count, blocks)) return family::bad_batch(count, blocks, FREEWAY_CALLER);
  for (std::size_t i = 0; i < count; ++i) family::free(blocks[i], FREEWAY_CALLER);
}

FREEWAY_EXPORT void freeway_free_aligned_sized(void* block, std::size_t alignment, std::size_t size) noexcept {
  family::free_sized(block, size, alignment, /*may_be_resized=*/true, FREEWAY_CALLER);
}

FREEWAY_ALIAS(void*, calloc, (std::size_t, std::size_t));
FREEWAY_ALIAS(void*, realloc, (void*, std::size_t));
FREEWAY_ALIAS(void*, reallocarray, (void*, std::size_t, std::size_t));
FREEWAY_ALIAS(void*, aligned_alloc, (std::size_t, std::size_t));
FREEWAY_ALIAS(void*, memalign, (std::size_t, std::size_t));
FREEWAY_ALIAS(int, posix_memalign, (void**, std::size_t, std::size_t));
FREEWAY_ALIAS(void*, valloc, (std::size_t));
FREEWAY_ALIAS(void*, pvalloc, (std::size_t));
FREEWAY_ALIAS(std::size_t, malloc_usable_size, (void*));
FREEWAY_ALIAS(std::size_t, nallocx, (std::size_t, int));
FREEWAY_ALIAS(void, free_aligned_sized, (void*, std::size_t, std::size_t));

}  // extern "C"
