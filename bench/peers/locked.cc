// SPDX-License-Identifier: MIT
//
// liblocked.so: a malloc as the C libraries of the nineties had it: boundary tags, segregated free lists, one mutex
// around everything. It stands for the libc columns of the papers' tables, which cannot be had any more (AIX 5.1,
// Solaris with one mutex). It is meant to be a fair one of its kind: search in constant time, neighbours joined at
// once, blocks grown in place. It lacks what came later: caches for threads, several heaps, giving back.
//
// Chunk     16 bytes of header (size of the chunk before, own size and the bit "in use"), then the block. Sizes are
//           multiples of 16, at least 32. A free chunk's block holds its two links.
// Bins      exact ones for chunks below 1 KiB, four for each power of two above; a bitmap says which have chunks. A big
//           bin is searched for a few steps; then the first chunk of the next bin up is taken, which always fits.
// Region    memory from sbrk, or from mmap where that refuses; ends with a fence, a chunk in use without a block. A
//           region that the next sbrk continues grows. Nothing is ever given back.
// Lock      one mutex. A thread that forks holds it meanwhile, and may allocate in other atfork handlers.
#include <errno.h>
#include <malloc.h>
#include <pthread.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define EXPORT extern "C" __attribute__((visibility("default")))

namespace {

constexpr size_t kGranule = 16;
constexpr size_t kHeader = 16;
constexpr size_t kLeastChunk = 32;
constexpr size_t kInUse = 1;
constexpr size_t kGrowth = size_t{256} << 10;  // bytes asked from the kernel at least
constexpr size_t kMostRequest = PTRDIFF_MAX - (size_t{1} << 20);
constexpr size_t kExactBelow = 1024;
constexpr unsigned kExactBins = kExactBelow / kGranule;  // 64, the first two are never used
constexpr unsigned kBins = kExactBins + 4 * (48 - 10);
constexpr int kSearched = 16;  // chunks of a big bin

struct Chunk {
  size_t before;  // size of the chunk before; 0 for the first of a region
  size_t word;    // own size | kInUse
  Chunk* next;    // from here on only in free chunks
  Chunk* previous;

  size_t size() const { return word & ~kInUse; }
  bool in_use() const { return (word & kInUse) != 0; }
  Chunk* right() { return at(this, size()); }
  Chunk* left() { return before == 0 ? nullptr : at(this, 0 - before); }
  void* block() { return reinterpret_cast<char*>(this) + kHeader; }
  static Chunk* at(void* base, size_t offset) { return reinterpret_cast<Chunk*>(static_cast<char*>(base) + offset); }
  static Chunk* of(void* block) { return at(block, 0 - kHeader); }
};

// --- The lock --------------------------------------------------------------------------------------------------------

pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
__attribute__((tls_model("initial-exec"))) thread_local bool forking;

class Locked {
 public:
  Locked() : taken_(!forking) {
    if (taken_) pthread_mutex_lock(&mutex);
  }
  ~Locked() {
    if (taken_) pthread_mutex_unlock(&mutex);
  }

 private:
  bool taken_;
};

void before_fork() {
  pthread_mutex_lock(&mutex);
  forking = true;
}
void after_fork_in_parent() {
  forking = false;
  pthread_mutex_unlock(&mutex);
}
void after_fork_in_child() {
  forking = false;
  mutex = PTHREAD_MUTEX_INITIALIZER;
}
__attribute__((constructor)) void prepare() { pthread_atfork(before_fork, after_fork_in_parent, after_fork_in_child); }

// --- Bins ------------------------------------------------------------------------------------------------------------

Chunk* bins[kBins];
uint64_t filled[(kBins + 63) / 64];

unsigned bin_of(size_t size) {
  if (size < kExactBelow) return static_cast<unsigned>(size / kGranule);
  const unsigned log = 63 - static_cast<unsigned>(__builtin_clzl(size));
  const unsigned quarter = static_cast<unsigned>(size >> (log - 2)) & 3;
  const unsigned bin = kExactBins + 4 * (log - 10) + quarter;
  return bin < kBins ? bin : kBins - 1;
}

void insert(Chunk* chunk) {
  const unsigned bin = bin_of(chunk->size());
  chunk->previous = nullptr;
  chunk->next = bins[bin];
  if (chunk->next != nullptr) chunk->next->previous = chunk;
  bins[bin] = chunk;
  filled[bin / 64] |= uint64_t{1} << (bin % 64);
}

void remove(Chunk* chunk) {
  const unsigned bin = bin_of(chunk->size());
  if (chunk->next != nullptr) chunk->next->previous = chunk->previous;
  if (chunk->previous != nullptr) {
    chunk->previous->next = chunk->next;
    return;
  }
  bins[bin] = chunk->next;
  if (bins[bin] == nullptr) filled[bin / 64] &= ~(uint64_t{1} << (bin % 64));
}

// A free chunk of at least `size`, still in its bin; null if there is none.
Chunk* find(size_t size) {
  const unsigned bin = bin_of(size);
  // The last bin has no upper end: it alone is searched to its end.
  int steps = bin == kBins - 1 ? -1 : kSearched;
  for (Chunk* chunk = bins[bin]; chunk != nullptr && steps != 0; chunk = chunk->next, --steps)
    if (chunk->size() >= size) return chunk;
  for (unsigned next = bin + 1; next < kBins;) {
    const uint64_t word = filled[next / 64] >> (next % 64);
    if (word != 0) return bins[next + static_cast<unsigned>(__builtin_ctzl(word))];
    next = (next / 64 + 1) * 64;
  }
  return nullptr;
}

// --- Chunks ----------------------------------------------------------------------------------------------------------

void set_size(Chunk* chunk, size_t size, size_t in_use) {
  chunk->word = size | in_use;
  chunk->right()->before = size;
}

// Joins a chunk that is in no bin with its free neighbours, and puts it into its bin.
void release(Chunk* chunk) {
  size_t size = chunk->size();
  Chunk* const right = chunk->right();
  if (!right->in_use()) {
    remove(right);
    size += right->size();
  }
  Chunk* const left = chunk->left();
  if (left != nullptr && !left->in_use()) {
    remove(left);
    size += left->size();
    chunk = left;
  }
  set_size(chunk, size, 0);
  insert(chunk);
}

// Makes the chunk, in use and in no bin, `size` bytes long; the rest, if it can be a chunk, becomes free.
void cut(Chunk* chunk, size_t size) {
  const size_t rest = chunk->size() - size;
  if (rest < kLeastChunk) return;
  set_size(chunk, size, kInUse);
  Chunk* const tail = chunk->right();
  set_size(tail, rest, kInUse);
  release(tail);
}

char* region_end;  // of the region that sbrk may continue

// Adds memory for a chunk of `size` to the bins; false if the kernel refuses.
bool grow(size_t size) {
  const size_t wanted = (size + 2 * kHeader + kGrowth - 1) / kGrowth * kGrowth;
  size_t skipped = 0;
  char* memory = static_cast<char*>(sbrk(static_cast<intptr_t>(wanted)));
  if (memory == reinterpret_cast<char*>(-1)) {
    memory = static_cast<char*>(mmap(nullptr, wanted, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    if (memory == MAP_FAILED) return false;
  } else if (memory == region_end) {
    // The fence becomes a chunk with all of the new memory but the new fence.
    Chunk* const chunk = Chunk::at(memory, 0 - kHeader);
    region_end = memory + wanted;
    Chunk::at(region_end, 0 - kHeader)->word = kInUse;
    set_size(chunk, wanted, kInUse);
    release(chunk);
    return true;
  } else {
    skipped = -reinterpret_cast<uintptr_t>(memory) % kGranule;
    region_end = memory + (wanted - skipped) / kGranule * kGranule + skipped;
  }
  const size_t usable = (wanted - skipped) / kGranule * kGranule;
  Chunk* const chunk = Chunk::at(memory, skipped);
  Chunk::at(chunk, usable - kHeader)->word = kInUse;
  chunk->before = 0;
  set_size(chunk, usable - kHeader, kInUse);
  release(chunk);
  return true;
}

size_t chunk_size(size_t request) {
  const size_t size = (request + kHeader + kGranule - 1) / kGranule * kGranule;
  return size < kLeastChunk ? kLeastChunk : size;
}

// A chunk in use of at least `size`; null if memory is refused.
Chunk* take(size_t size) {
  Chunk* chunk = find(size);
  if (chunk == nullptr) {
    if (!grow(size)) return nullptr;
    chunk = find(size);
  }
  remove(chunk);
  chunk->word |= kInUse;
  cut(chunk, size);
  return chunk;
}

void* refuse() {
  errno = ENOMEM;
  return nullptr;
}

void* allocate(size_t request) {
  if (request > kMostRequest) return refuse();
  const Locked locked;
  Chunk* const chunk = take(chunk_size(request));
  return chunk == nullptr ? refuse() : chunk->block();
}

// `alignment`: a power of two. Takes more than asked for and frees what lies before and behind.
void* allocate_aligned(size_t alignment, size_t request) {
  if (alignment <= kGranule) return allocate(request);
  if (request > kMostRequest || alignment > kMostRequest - request) return refuse();
  const size_t size = chunk_size(request);
  const Locked locked;
  Chunk* chunk = take(size + alignment + kLeastChunk);
  if (chunk == nullptr) return refuse();
  const uintptr_t block = reinterpret_cast<uintptr_t>(chunk->block());
  size_t lead = -block & (alignment - 1);
  if (lead != 0) {
    if (lead < kLeastChunk) lead += alignment;
    const size_t rest = chunk->size() - lead;
    set_size(chunk, lead, kInUse);
    Chunk* const aligned = chunk->right();
    set_size(aligned, rest, kInUse);
    release(chunk);
    chunk = aligned;
  }
  cut(chunk, size);
  return chunk->block();
}

// True if the block could be made `request` bytes long where it is.
bool resize_in_place(Chunk* chunk, size_t request) {
  const size_t size = chunk_size(request);
  const Locked locked;
  Chunk* const right = chunk->right();
  if (chunk->size() < size && !right->in_use() && chunk->size() + right->size() >= size) {
    remove(right);
    set_size(chunk, chunk->size() + right->size(), kInUse);
  }
  if (chunk->size() < size) return false;
  cut(chunk, size);
  return true;
}

bool power_of_two(size_t value) { return value != 0 && (value & (value - 1)) == 0; }

}  // namespace

// --- The interface of malloc -----------------------------------------------------------------------------------------

EXPORT void* malloc(size_t size) { return allocate(size); }

EXPORT void free(void* block) {
  if (block == nullptr) return;
  Chunk* const chunk = Chunk::of(block);
  const Locked locked;
  if (!chunk->in_use()) abort();  // freed twice, or never ours
  release(chunk);
}

EXPORT void* calloc(size_t count, size_t each) {
  size_t size;
  if (__builtin_mul_overflow(count, each, &size)) return refuse();
  void* const block = allocate(size);
  return block == nullptr ? nullptr : memset(block, 0, size);
}

EXPORT size_t malloc_usable_size(void* block) { return block == nullptr ? 0 : Chunk::of(block)->size() - kHeader; }

EXPORT void* realloc(void* block, size_t size) {
  if (block == nullptr) return malloc(size);
  if (size == 0) {
    free(block);
    return nullptr;
  }
  if (size > kMostRequest) return refuse();
  if (resize_in_place(Chunk::of(block), size)) return block;
  void* const other = allocate(size);
  if (other == nullptr) return nullptr;
  memcpy(other, block, malloc_usable_size(block));
  free(block);
  return other;
}

EXPORT void* reallocarray(void* block, size_t count, size_t each) {
  size_t size;
  if (__builtin_mul_overflow(count, each, &size)) return refuse();
  return realloc(block, size);
}

EXPORT void* aligned_alloc(size_t alignment, size_t size) {
  if (power_of_two(alignment)) return allocate_aligned(alignment, size);
  errno = EINVAL;
  return nullptr;
}
EXPORT void* memalign(size_t alignment, size_t size) { return aligned_alloc(alignment, size); }

EXPORT int posix_memalign(void** result, size_t alignment, size_t size) {
  if (!power_of_two(alignment) || alignment % sizeof(void*) != 0) return EINVAL;
  const int saved = errno;
  void* const block = allocate_aligned(alignment, size);
  errno = saved;
  if (block == nullptr) return ENOMEM;
  *result = block;
  return 0;
}

EXPORT void* valloc(size_t size) { return allocate_aligned(4096, size); }
EXPORT void* pvalloc(size_t size) { return size > kMostRequest ? refuse() : valloc((size + 4095) / 4096 * 4096); }
EXPORT void free_sized(void* block, size_t) { free(block); }
EXPORT void free_aligned_sized(void* block, size_t, size_t) { free(block); }
EXPORT void cfree(void* block) { free(block); }
EXPORT int malloc_trim(size_t) { return 0; }
