// SPDX-License-Identifier: MIT
//
// heap.cc: see heap.h.
#include "buddy/heap.h"

#include <dlfcn.h>
#include <sys/mman.h>

#include "support/measure.h"

namespace bench {

namespace {

// Not populated: of gigabytes of metadata and memory only what is used is to be resident.
void* map_shared(std::size_t bytes) {
  void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) die("mmap");
  return memory;
}

template <class Function> bool look_up(void* handle, const char* name, Function& function) {
  function = reinterpret_cast<Function>(dlsym(handle, name));
  return function != nullptr;
}

}  // namespace

bool BuddyLibrary::find(const char* path) {
  void* handle = RTLD_DEFAULT;
  if (path != nullptr) {
    handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (handle == nullptr) {
      std::fprintf(stderr, "%s\n", dlerror());
      return false;
    }
  }
  return look_up(handle, "freeway_buddy_metadata_size", metadata_size) &&
         look_up(handle, "freeway_buddy_create", create) && look_up(handle, "freeway_buddy_alloc", alloc) &&
         look_up(handle, "freeway_buddy_free", free) && look_up(handle, "freeway_buddy_stats", stats) &&
         look_up(handle, "freeway_buddy_scatter", scatter);
}

Heap::Heap(const BuddyLibrary& library, const Configuration& configuration, unsigned tree, unsigned flags)
    : library_(library) {
  const freeway_buddy_options_t options = {configuration.levels, tree, configuration.min_block,
                                           configuration.max_block(), flags | FREEWAY_BUDDY_ZEROED};
  metadata_bytes_ = library_.metadata_size(&options);
  if (metadata_bytes_ == 0) die("freeway_buddy_metadata_size");
  void* metadata = map_shared(metadata_bytes_);
  buddy_ = library_.create(metadata, metadata_bytes_, map_shared(configuration.managed()), &options);
  if (buddy_ == nullptr) die("freeway_buddy_create");
}

void* Heap::alloc(std::size_t bytes) const {
  return buddy_ != nullptr ? library_.alloc(buddy_, bytes) : std::malloc(bytes);
}

bool Heap::free(void* block) const {
  if (buddy_ != nullptr) return library_.free(buddy_, block) == 0;
  std::free(block);
  return true;
}

void Heap::begin(unsigned long worker) const {
  if (buddy_ != nullptr) library_.scatter(worker);
}

freeway_buddy_stats_t Heap::stats() const {
  freeway_buddy_stats_t answer{};
  if (buddy_ != nullptr) library_.stats(buddy_, &answer);
  return answer;
}

}  // namespace bench
