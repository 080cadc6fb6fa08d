// SPDX-License-Identifier: MIT
//
// liblive.so: glibc's malloc, which also says how many bytes were live at most. `bench/lab fragmentation` divides the
// memory that other allocators take for the same program by that.
//
// Counted are blocks as glibc rounds them, at most 23 bytes above what was asked for. The peak of the process that had
// most is in the 8 bytes of LIVE_FILE, which all processes map: it outlives those that are killed. A child of fork goes
// on from what its parent had.
#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>

#define EXPORT extern "C" __attribute__((visibility("default")))

extern "C" {
void* __libc_malloc(size_t);
void* __libc_calloc(size_t, size_t);
void* __libc_realloc(void*, size_t);
void* __libc_memalign(size_t, size_t);
void __libc_free(void*);
}

namespace {

std::atomic<uint64_t> own_peak;  // up to when the file is mapped
std::atomic<uint64_t>* peak = &own_peak;
std::atomic<uint64_t> live;

void raise_peak(uint64_t now) {
  uint64_t before = peak->load(std::memory_order_relaxed);
  while (before < now && !peak->compare_exchange_weak(before, now, std::memory_order_relaxed)) {}
}

// Of a block, or null.
void* counted(void* block) {
  const size_t bytes = malloc_usable_size(block);
  if (bytes != 0) raise_peak(live.fetch_add(bytes, std::memory_order_relaxed) + bytes);
  return block;
}
void forget(void* block) { live.fetch_sub(malloc_usable_size(block), std::memory_order_relaxed); }

__attribute__((constructor)) void map_file() {
  const char* name = getenv("LIVE_FILE");
  const int file = name == nullptr ? -1 : open(name, O_RDWR | O_CLOEXEC);
  if (file < 0) return;
  void* words = mmap(nullptr, sizeof(*peak), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  close(file);
  if (words == MAP_FAILED) return;
  peak = static_cast<std::atomic<uint64_t>*>(words);
  raise_peak(own_peak);
}

}  // namespace

EXPORT void* malloc(size_t bytes) { return counted(__libc_malloc(bytes)); }
EXPORT void* calloc(size_t count, size_t bytes) { return counted(__libc_calloc(count, bytes)); }
EXPORT void* memalign(size_t alignment, size_t bytes) { return counted(__libc_memalign(alignment, bytes)); }
EXPORT void* aligned_alloc(size_t alignment, size_t bytes) { return memalign(alignment, bytes); }
EXPORT void* valloc(size_t bytes) { return memalign(static_cast<size_t>(getpagesize()), bytes); }

EXPORT int posix_memalign(void** block, size_t alignment, size_t bytes) {
  if (alignment < sizeof(void*) || (alignment & (alignment - 1)) != 0) return EINVAL;
  const int before = errno;
  void* const made = memalign(alignment, bytes);
  errno = before;
  if (made == nullptr) return ENOMEM;
  *block = made;
  return 0;
}

EXPORT void free(void* block) {
  forget(block);
  __libc_free(block);
}

EXPORT void* realloc(void* block, size_t bytes) {
  const size_t before = malloc_usable_size(block);
  void* const made = __libc_realloc(block, bytes);
  if (made == nullptr && bytes != 0) return nullptr;  // the block stays
  live.fetch_sub(before, std::memory_order_relaxed);
  return counted(made);
}
