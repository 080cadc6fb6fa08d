// SPDX-License-Identifier: MIT
//
// request_heaps: requests that each make --blocks blocks (1000) of 16 to --largest bytes (500) and then end.
//
// --from malloc     malloc, and free one by one
//        heap       a heap of the preloaded allocator, made and destroyed for each request: Freeway's, mimalloc's
//                   (mi_heap_t), or jemalloc's (an arena that is reset, since one costs too much to make)
//        monotonic  std::pmr::monotonic_buffer_resource over malloc
//        pairs      one block at a time, freed at once, in one heap for all requests
// One operation is one block. --requests (2000).
#include <dlfcn.h>

#include <cstdint>
#include <memory_resource>
#include <optional>
#include <string>

#include "support/measure.h"

namespace {

template <class F> F* find(const char* name) { return reinterpret_cast<F*>(dlsym(RTLD_DEFAULT, name)); }

// The heaps of whichever allocator is there.
class Heap {
 public:
  Heap() {
    if (freeway_new != nullptr) heap_ = freeway_new(nullptr, 0);
    else if (mi_new != nullptr) heap_ = mi_new();
    else if (mallctl != nullptr) heap_ = arena();
    if (heap_ == nullptr) bench::die("the allocator has no heaps");
  }
  ~Heap() {
    if (freeway_new != nullptr) freeway_destroy(heap_);
    else if (mi_new != nullptr) mi_destroy(heap_);
    else reset_arena();
  }
  Heap(const Heap&) = delete;
  Heap& operator=(const Heap&) = delete;

  void* allocate(std::size_t bytes) {
    if (freeway_new != nullptr) return freeway_malloc(heap_, bytes);
    if (mi_new != nullptr) return mi_malloc(heap_, bytes);
    return mallocx(bytes, static_cast<int>((number_ + 1) << 20 | 1 << 8));  // MALLOCX_ARENA | MALLOCX_TCACHE_NONE
  }

 private:
  using Mallctl = int(const char*, void*, std::size_t*, void*, std::size_t);
  inline static auto* const freeway_new = find<void*(const void*, std::size_t)>("freeway_heap_new");
  inline static auto* const freeway_malloc = find<void*(void*, std::size_t)>("freeway_heap_malloc");
  inline static auto* const freeway_destroy = find<int(void*)>("freeway_heap_destroy");
  inline static auto* const mi_new = find<void*()>("mi_heap_new");
  inline static auto* const mi_malloc = find<void*(void*, std::size_t)>("mi_heap_malloc");
  inline static auto* const mi_destroy = find<void(void*)>("mi_heap_destroy");
  inline static auto* const mallctl = find<Mallctl>("mallctl");
  inline static auto* const mallocx = find<void*(std::size_t, int)>("mallocx");
  inline static unsigned number_ = 0;

  static void* arena() {
    std::size_t length = sizeof number_;
    if (number_ == 0 && mallctl("arenas.create", &number_, &length, nullptr, 0) != 0) return nullptr;
    return &number_;
  }
  static void reset_arena() {
    static const std::string name = "arena." + std::to_string(number_) + ".reset";
    mallctl(name.c_str(), nullptr, nullptr, nullptr, 0);
  }

  void* heap_ = nullptr;
};

}  // namespace

int main(int argc, char** argv) {
  const std::string from = bench::text_argument(argc, argv, "from", "malloc");
  const auto blocks = static_cast<std::size_t>(bench::number_argument(argc, argv, "blocks", 1000));
  const auto largest = static_cast<std::size_t>(bench::number_argument(argc, argv, "largest", 500));
  const long requests = bench::scaled(argc, argv, bench::number_argument(argc, argv, "requests", 2000));
  bench::MappedArray<std::size_t> sizes(blocks);
  bench::MappedArray<void*> all(blocks);
  bench::Random random(1);
  for (std::size_t& size : sizes) size = random.between(16, largest);
  std::uint64_t checksum = 0;

  // Stamps all blocks, then reads them.
  const auto serve = [&](auto&& allocate) {
    for (std::size_t i = 0; i < blocks; ++i) bench::stamp(all[i] = allocate(sizes[i]), i);
    for (std::size_t i = 0; i < blocks; ++i) checksum += bench::stamp_of(all[i]);
  };
  std::optional<Heap> kept;
  if (from == "pairs") kept.emplace();
  bench::Stopwatch working;
  working.start();
  for (long request = 0; request < requests; ++request) {
    if (from == "malloc") {
      serve([](std::size_t bytes) { return bench::must_malloc(bytes); });
      for (void* block : all) std::free(block);
    } else if (from == "heap") {
      Heap heap;
      serve([&](std::size_t bytes) { return heap.allocate(bytes); });
    } else if (from == "monotonic") {
      std::pmr::monotonic_buffer_resource resource;
      serve([&](std::size_t bytes) { return resource.allocate(bytes, 16); });
    } else if (from == "pairs") {
      for (std::size_t i = 0; i < blocks; ++i) {
        void* block = kept->allocate(sizes[i]);
        bench::stamp(block, i);
        checksum += bench::stamp_of(block);
        std::free(block);
      }
    } else {
      std::fprintf(stderr, "--from wants malloc, heap, monotonic or pairs\n");
      return 2;
    }
  }
  working.stop();
  bench::report("request_heaps", static_cast<double>(requests) * static_cast<double>(blocks), working, checksum, {});
}
