// SPDX-License-Identifier: MIT
//
// Every form of LFMalloc that form.h has (the paper's Table 3 and its locks, and ours), in one program: threads that
// allocate, free, and free each other's blocks, with contents checked; at the end all memory can be given back.
#include <gtest/gtest.h>
#include <sched.h>

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <random>
#include <thread>
#include <vector>

#include "papers/lfmalloc/allocator.h"
#include "papers/lfmalloc/cpu_heaps.h"
#include "papers/lfmalloc/memory.h"
#include "papers/lfmalloc/rseq_place.h"

namespace freeway::lfmalloc {
namespace {

// Superblocks from aligned_alloc; a table leads from their addresses to their headers.
class TestMemory : public CpuSlots {
 public:
  static constexpr u32 kHeaders = 4096;
  Block& at(u32 index) { return headers_[index]; }
  static constexpr unsigned classes() { return kClassCount; }
  static constexpr u32 most_swept() { return 4; }
  static u32 blocks(unsigned c) { return kClasses[c].blocks; }
  static u32 stride(unsigned c) { return kClasses[c].stride; }
  void cut_prefix(u32 index, uptr block) { Memory::prefix(block).store_relaxed(index); }
  u32 make_header() {
    const u32 index = made_.fetch_add(1) + 1;
    if (index >= kHeaders) return 0;
    headers_[index].index.store_relaxed(index);
    return index;
  }
  LocalHeap<Product>* make_heap() { return new (std::nothrow) LocalHeap<Product>(); }
  uptr take_memory(u32) {
    used.fetch_add(1);
    return reinterpret_cast<uptr>(std::aligned_alloc(kSuperblockBytes, kSuperblockBytes));
  }
  // Kept to the end: under CAS a pop that comes too late may still read a link there.
  void give_memory(uptr base) {
    used.fetch_sub(1);
    const u32 place = given_.fetch_add(1);
    if (place < kHeaders) gone_[place] = base;
  }
  static bool rename(uptr, u32) { return true; }  // in the product, the page map's entry
  ~TestMemory() {
    for (u32 i = 0; i < given_.load() && i < kHeaders; ++i) std::free(reinterpret_cast<void*>(gone_[i]));
  }
  std::atomic<int> used{0};

 private:
  Block headers_[kHeaders];
  std::atomic<u32> made_{0}, given_{0};
  uptr gone_[kHeaders] = {};
};

class World {
 public:
  using Heaps = LocalHeaps<Product, TestMemory>;
  using Global = GlobalHeap<Product, TestMemory, RemoteAsTold, ListAsTold>;

  World() {
    heaps_.init(&memory_, 2);
    global_.init(&memory_, 4);
    allocator_.init(&heaps_, &global_);
  }

  void run(unsigned seed) {
    std::vector<std::thread> threads;
    for (unsigned id = 0; id < 4; ++id) threads.emplace_back([this, seed, id] { live(seed + id, id); });
    for (std::thread& each : threads) each.join();
    for (auto& slot : exchange_)
      if (Owned* one = slot.exchange(nullptr)) release(one);
    EXPECT_EQ(damaged_.load(), 0);
    // Everything off line: whatever CPU or thread it belonged to.
    heaps_.each([&](LocalHeap<Product>& heap) {
      for (auto& slot : heap.online) {
        Block* s = slot.load_relaxed();
        if (s == nullptr) continue;
        slot.store_relaxed(nullptr);
        global_.put(s->index.load_relaxed());
      }
    });
    global_.trim(0);
    EXPECT_EQ(memory_.used.load(), 0) << "all was freed: all memory can be given back";
  }

 private:
  // A block's first words, its owner's.
  struct Owned {
    u64 link;
    u64 seal;
    u32 d, c;
  };
  static u64 seal_of(const Owned* one) { return reinterpret_cast<u64>(one) * 0x9e3779b97f4a7c15; }

  Owned* obtain(unsigned c) {
    const uptr block = allocator_.malloc(c);
    if (block == 0) return nullptr;
    auto* one = reinterpret_cast<Owned*>(block);
    one->d = static_cast<u32>(Memory::prefix(block).load_relaxed());
    one->c = c;
    one->seal = seal_of(one);
    return one;
  }
  void release(Owned* one) {
    if (one->seal != seal_of(one)) damaged_.fetch_add(1);
    one->seal = 0;
    allocator_.free(&memory_.at(one->d), one->d, one->c, reinterpret_cast<uptr>(one));
  }
  void live(unsigned seed, unsigned id) {
    std::mt19937 random(seed);
    std::vector<Owned*> mine;
    for (int step = 0; step < 100000; ++step) {
      if (random() % 2 == 0 && mine.size() < 3000) {
        if (Owned* one = obtain(2 + random() % 3 * 12)) mine.push_back(one);
      } else if (!mine.empty()) {
        const std::size_t which = random() % mine.size();
        Owned* one = mine[which];
        mine[which] = mine.back();
        mine.pop_back();
        if (random() % 3 == 0) one = exchange_[random() % 64].exchange(one);  // another thread will free it
        if (one != nullptr) release(one);
      }
      if (step % 4096 == 4095 && id == 0) allocator_.trim();
    }
    for (Owned* one : mine) release(one);
  }

  TestMemory memory_;
  Heaps heaps_;
  Global global_;
  Allocator<Product, Heaps, Global> allocator_;
  std::atomic<Owned*> exchange_[64] = {};
  std::atomic<int> damaged_{0};
};

class Variants : public ::testing::Test {
 protected:
  void SetUp() override {
    find_rseq(true, false);
    const char* given = std::getenv("FREEWAY_TEST_SEED");
    seed = given ? static_cast<unsigned>(std::strtoul(given, nullptr, 10)) : std::random_device{}();
    std::printf("FREEWAY_TEST_SEED=%u\n", seed);
  }
  void TearDown() override { form = Form(); }
  void run(u64 protection, bool remote_mutex = false, bool global_mutex = false) {
    form = make_form(protection, remote_mutex, global_mutex);
    std::memset(freeway_lfmalloc_heaps, 0, sizeof freeway_lfmalloc_heaps);  // this world's memory makes them
    std::make_unique<World>()->run(seed);
  }
  unsigned seed = 0;
};

// As in the option's list.
enum : u64 { kSections, kCasCpu, kCasThread, kMutexCpu, kMutexThread, kSpinCpu, kSpinThread };

TEST_F(Variants, SectionsOfCpus) { run(kSections); }
TEST_F(Variants, SectionsOfCpusWithThePapersLocks) { run(kSections, true, true); }
TEST_F(Variants, SectionsOfCpusWithRemoteMutex) { run(kSections, true, false); }
TEST_F(Variants, SectionsOfCpusWithGlobalMutex) { run(kSections, false, true); }
TEST_F(Variants, MutexOfCpus) { run(kMutexCpu); }
TEST_F(Variants, MutexOfThreads) { run(kMutexThread); }
TEST_F(Variants, SpinOfCpus) { run(kSpinCpu); }
TEST_F(Variants, SpinOfThreads) { run(kSpinThread); }
TEST_F(Variants, CasOfCpus) { run(kCasCpu); }
TEST_F(Variants, CasOfThreads) { run(kCasThread); }

// Threads that lose their registration and get it back: at home in the hashed heaps meanwhile.
TEST_F(Variants, SectionsAndThreadsWithoutRseqTogether) {
  if (!rseq_in_use) GTEST_SKIP() << "no rseq here";
  alignas(32) static thread_local int decoy[8] = {0, -1};
  const u64 place = freeway_rseq.area;
  const u64 nowhere = reinterpret_cast<u64>(&decoy) - reinterpret_cast<u64>(__builtin_thread_pointer());
  std::atomic<bool> end{false};
  std::thread changing([&] {
    while (!end.load()) {
      __atomic_store_n(&freeway_rseq.area, nowhere, __ATOMIC_RELAXED);
      ::sched_yield();
      __atomic_store_n(&freeway_rseq.area, place, __ATOMIC_RELAXED);
      ::sched_yield();
    }
  });
  run(kSections);
  end.store(true);
  changing.join();
  freeway_rseq.area = place;
}

}  // namespace
}  // namespace freeway::lfmalloc
