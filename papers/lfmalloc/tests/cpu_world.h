// SPDX-License-Identifier: MIT
//
// cpu_world.h: superblocks and a local heap for each CPU, for tests of the sections on the real machine.
#pragma once

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <cstdlib>
#include <cstring>
#include <memory>
#include <vector>

#include "os/process.h"
#include "papers/lfmalloc/memory.h"
#include "papers/lfmalloc/rseq_place.h"
#include "papers/lfmalloc/sections.h"
#include "tests/support/cpu_affinity.h"

namespace freeway::lfmalloc::test {

constexpr unsigned kClass = 3;

// A superblock of class kClass, with all or none of its blocks in its local list.
class OneSuperblock {
 public:
  explicit OneSuperblock(bool full_list = true)
      : base_(reinterpret_cast<uptr>(std::aligned_alloc(kSuperblockBytes, kSuperblockBytes))) {
    const BlockClass& k = kClasses[kClass];
    std::memset(reinterpret_cast<void*>(base_), 0, kSuperblockBytes);
    header.base.store_relaxed(base_);
    header.size_class.store_relaxed(kClass);
    for (u32 i = 0; i < k.blocks; ++i)
      Product::link(block(i)).store_relaxed(i + 1 == k.blocks ? 0 : unit_of(block(i + 1)));
    if (full_list) header.local.store_relaxed(local::with_list(0, unit_of(block(0)), k.blocks));
  }
  ~OneSuperblock() { std::free(reinterpret_cast<void*>(base_)); }
  OneSuperblock(const OneSuperblock&) = delete;
  OneSuperblock& operator=(const OneSuperblock&) = delete;

  uptr block(u32 i) const { return base_ + kFirstData + u64{i} * kClasses[kClass].stride; }
  u32 count() const { return local::count(header.local.load_relaxed()); }
  uptr top() const { return block_at(base_, local::head(header.local.load_relaxed())); }
  uptr base() const { return base_; }

  Block header;

 private:
  uptr base_;
};

inline bool find_rseq_or_say_so() {
  find_rseq(true, false);
  return rseq_in_use;
}

using freeway_test::stay_on;

// How often this thread lost its CPU.
inline long switches() {
  rusage usage{};
  ::getrusage(RUSAGE_THREAD, &usage);
  return usage.ru_nvcsw + usage.ru_nivcsw;
}

class CpuWorld : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!find_rseq_or_say_so()) GTEST_SKIP() << "no rseq here";
    cpus = freeway_test::usable_cpus();
    heaps.resize(RSEQ_IDS);
    superblocks.resize(RSEQ_IDS);
    for (const int cpu : cpus) {
      heaps[static_cast<std::size_t>(cpu)] = std::make_unique<LocalHeap<Product>>();
      superblocks[static_cast<std::size_t>(cpu)] = std::make_unique<OneSuperblock>();
      heap(cpu).online[kClass].store_relaxed(&superblock(cpu).header);
      freeway_lfmalloc_heaps[cpu] = &heap(cpu);
    }
    ASSERT_TRUE(stay_on(cpus[0]));
  }
  void TearDown() override {
    if (cpus.empty()) return;
    for (const int cpu : cpus) freeway_lfmalloc_heaps[cpu] = nullptr;
    stay_on(cpus);
  }

  LocalHeap<Product>& heap(int cpu) { return *heaps[static_cast<std::size_t>(cpu)]; }
  OneSuperblock& superblock(int cpu) { return *superblocks[static_cast<std::size_t>(cpu)]; }
  OneSuperblock& here() { return superblock(cpus[0]); }

  std::vector<int> cpus;
  std::vector<std::unique_ptr<LocalHeap<Product>>> heaps;
  std::vector<std::unique_ptr<OneSuperblock>> superblocks;
};

}  // namespace freeway::lfmalloc::test
