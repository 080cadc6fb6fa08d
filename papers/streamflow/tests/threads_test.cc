// SPDX-License-Identifier: MIT
// threads_test.cc: the allocator over the page manager under real threads that free each other's objects and end now
// and then; contents are checked. Under the thread sanitizer the headers' plain fields are checked for races, too.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <random>
#include <thread>
#include <vector>

#include "papers/streamflow/tests/world.h"

namespace freeway::streamflow {
namespace {

using test::TestEnv;
using test::World;

template <Build kWhich> class Storm {
 public:
  using W = World<TestEnv, kWhich>;
  using Object = typename W::Object;
  static constexpr unsigned kThreads = 4, kSlots = 64;

  explicit Storm(unsigned seed) : seed_(seed) {}

  void run(unsigned steps) {
    std::vector<std::thread> threads;
    for (unsigned id = 0; id < kThreads; ++id) threads.emplace_back([this, id, steps] { work(id, steps); });
    for (std::thread& each : threads) each.join();
    ASSERT_EQ(damaged_.load(), 0u);
    // Whatever is left is freed by turns with and without a heap; then nothing may be kept.
    for (auto& slot : slots_) release(slot.load(), slot.load() == nullptr ? nullptr : &w_.heaps[0]);
    for (unsigned id = 0; id < kThreads; ++id) w_.allocator->retire(w_.heaps[id]);
    w_.allocator->trim(nullptr);
    EXPECT_EQ(w_.footprint(), 0u);
  }

 private:
  // What lies in an object: where it is, and its size, at the beginning and at the end.
  struct Note {
    Object object;
    u32 bytes;
  };
  static char* start(const Object& object) { return reinterpret_cast<char*>(object.block->address() + object.offset); }

  Note* make(unsigned id, u32 bytes) {
    const Object object = w_.allocator->allocate(w_.heaps[id], W::Classes::class_of(bytes));
    if (object.block == nullptr) return nullptr;
    auto* note = reinterpret_cast<Note*>(start(object));
    *note = {object, bytes};
    std::fill(start(object) + sizeof(Note), start(object) + bytes, static_cast<char>(bytes));
    return note;
  }
  void release(Note* note, typename W::Heap* heap) {
    if (note == nullptr) return;
    const Note copy = *note;
    const char* at = start(copy.object);
    const bool intact =
        std::all_of(at + sizeof(Note), at + copy.bytes, [&](char c) { return c == static_cast<char>(copy.bytes); });
    if (!intact || reinterpret_cast<const char*>(note) != at) ++damaged_;
    w_.allocator->free(heap, *copy.object.block, copy.object.offset);
  }

  void work(unsigned id, unsigned steps) {
    std::mt19937 random(seed_ + id);
    for (unsigned i = 0; i < steps; ++i) {
      Note* mine = make(id, static_cast<u32>(sizeof(Note) + random() % (random() % 8 == 0 ? 2000 : 100)));
      // What is put out is taken, and freed, by anybody: most objects are freed remotely.
      release(slots_[random() % kSlots].exchange(mine), random() % 16 == 0 ? nullptr : &w_.heaps[id]);
      if (random() % 2000 == 0) w_.allocator->retire(w_.heaps[id]);  // the heap is the next thread's at once
      if (random() % 3000 == 0) w_.allocator->trim(&w_.heaps[id]);
    }
  }

  W w_;
  unsigned seed_;
  std::atomic<Note*> slots_[kSlots] = {};
  std::atomic<unsigned> damaged_{0};
};

TEST(StreamflowThreads, LoseAndMixUpNothing) {
  const unsigned seed = test::test_seed();
  Storm<kHeaderless>(seed).run(40000);
  Storm<kSuperpages>(seed + 100).run(40000);
}

}  // namespace
}  // namespace freeway::streamflow
