// SPDX-License-Identifier: MIT
//
// estimates_test.cc: what a sampled profile says of each workload is, but for chance, the truth: blocks and bytes, live and
// allocated, of blocks that never leave a magazine, that stay, that are large, and of many threads.
//
// Chance     an estimate is a sum of independent samples, whose variance is known. One of 400 lies beyond 3 standard deviations;
//            a workload that has one is done again, and five times in a row are not chance. Nor are 6 (one in a billion)
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <thread>
#include <vector>

#include "abi/abi_test.h"
#include "differential/random.h"
#include "profile/dump_reader.h"

namespace freeway::test {
namespace {

constexpr uint64_t kInterval = 8192;

// What is expected of a workload's estimates.
struct Truth {
  double blocks = 0, bytes = 0, blocks_variance = 0, bytes_variance = 0;
  void add(size_t size, double count = 1) {
    const double s = static_cast<double>(size), p = 1 - std::exp(-s / kInterval);
    blocks += count, bytes += count * s;
    blocks_variance += count * (1 - p) / p, bytes_variance += count * s * s * (1 - p) / p;
  }
};

class Estimates : public testing::Test {
 protected:
  Estimates() { EXPECT_EQ(freeway_profile_start(kInterval), 0); }
  ~Estimates() override { freeway_profile_stop(); }

  // Does a workload, which looks at estimates under a tag of its own, until all of them lie within 3 standard deviations.
  template <class F>
  void estimate(const char* what, F&& workload) {
    for (int tries = 0; tries < 5; ++tries) {
      beyond_.clear();
      workload(++tag_);
      if (beyond_.empty() || HasFailure()) return;
    }
    ADD_FAILURE() << what << ": each time beyond 3 standard deviations, at last " << beyond_;
  }

  void look(uint64_t tag, const Truth& live, const Truth& allocated) {
    const Dump dump = take_dump();
    ASSERT_EQ(dump.facts.at("lost_stacks") + dump.facts.at("lost_blocks"), 0u);
    compare("live bytes", dump.live_of_tag(tag).bytes, live.bytes, live.bytes_variance);
    compare("allocated bytes", dump.allocated_of_tag(tag).bytes, allocated.bytes, allocated.bytes_variance);
    compare("live blocks", dump.live_of_tag(tag).blocks, live.blocks, live.blocks_variance);
    compare("allocated blocks", dump.allocated_of_tag(tag).blocks, allocated.blocks, allocated.blocks_variance);
  }

 private:
  void compare(const char* what, double estimate, double truth, double variance) {
    // Sizes of one site are taken for their mean: less than a hundredth of an eighth.
    const double off = std::fabs(estimate - truth), sigma = std::sqrt(variance) + 0.002 * truth + 1e-9;
    EXPECT_LE(off, 6 * sigma) << what << ": " << estimate << " for " << truth;
    if (off > 3 * sigma) beyond_ += std::string(what) + ": " + std::to_string(estimate) + " for " + std::to_string(truth) + "; ";
  }

  static inline uint64_t tag_ = 100;  // sites stay, also those of tests before
  std::string beyond_;
};

TEST_F(Estimates, PairsThatNeverLeaveAMagazine) {
  for (const size_t size : {size_t{1}, size_t{16}, size_t{48}, size_t{100}, size_t{1000}, size_t{8192}, 32 * kKiB}) {
    const int count = size < 100 ? 2000000 : 200000;
    Truth allocated;
    allocated.add(size, count);
    estimate("pairs", [&](uint64_t tag) {
      {
        Tagged tagged(tag);
        for (int i = 0; i < count; ++i) free(hide(malloc(size)));
      }
      look(tag, {}, allocated);
    });
  }
}

TEST_F(Estimates, BlocksThatStayAndBlocksThatWent) {
  Random random(test_seed());
  for (const size_t most : {size_t{64}, size_t{500}, size_t{5000}, 100 * kKiB})
    estimate("blocks that stay, or went", [&](uint64_t tag) {
      std::vector<void*> blocks(20000);
      Truth live, allocated;
      {
        Tagged tagged(tag);
        for (void*& block : blocks) {
          const size_t size = 1 + random.next() % most;
          block = hide(malloc(size));
          allocated.add(size);
          if (random.next() % 2 == 0) {
            free(block);
            block = nullptr;
          } else {
            live.add(size);
          }
        }
      }
      look(tag, live, allocated);
      for (void* block : blocks) free(block);
      look(tag, {}, allocated);
    });
}

TEST_F(Estimates, EveryWayToABlock) {
  const auto check = [&](const char* what, size_t size, auto&& get) {
    estimate(what, [&](uint64_t tag) {
      std::vector<void*> blocks(3000);
      Truth live;
      {
        Tagged tagged(tag);
        for (void*& block : blocks) {
          block = get(size);
          live.add(size);
        }
      }
      look(tag, live, live);
      for (void* block : blocks) free(block);
    });
  };
  for (const size_t size : {size_t{256}, 48 * kKiB}) {
    check("calloc", size, [](size_t n) { return hide(calloc(1, n)); });
    check("realloc", size, [](size_t n) { return hide(realloc(nullptr, n)); });
    check("aligned_alloc", size, [](size_t n) { return hide(aligned_alloc(256, n)); });
    check("new", size, [](size_t n) { return ::operator new(n); });
  }
  // Classes that are aligned so are longer.
  for (const size_t size : {size_t{100}, size_t{300}, size_t{1100}, size_t{9000}})
    for (const size_t alignment : {64, 512, 4096}) {
      check("aligned_alloc", size, [=](size_t n) { return hide(aligned_alloc(alignment, n)); });
      check("new, aligned", size, [=](size_t n) { return ::operator new(n, std::align_val_t{alignment}); });
    }
}

TEST_F(Estimates, ManyThreadsOnAllCpus) {
  constexpr int kThreads = 8, kPairs = 300000;
  Truth allocated;
  allocated.add(80, kThreads * kPairs);
  estimate("threads", [&](uint64_t tag) {
    std::vector<std::thread> threads;
    for (int t = 0; t < kThreads; ++t)
      threads.emplace_back([tag] {
        Tagged tagged(tag);
        for (int i = 0; i < kPairs; ++i) free(hide(malloc(80)));
      });
    for (std::thread& each : threads) each.join();
    look(tag, {}, allocated);
  });
}

// Each profile begins where nothing was counted: no gap is left of the last one, or of none.
TEST_F(Estimates, ProfilesThatBeginAndEndAllTheTime) {
  constexpr int kTimes = 3000, kPairs = 20;
  Truth allocated;
  allocated.add(100, kTimes * kPairs);
  estimate("begun and ended", [&](uint64_t tag) {
    for (int i = 0; i < kTimes; ++i) {
      freeway_profile_stop();
      free(hide(malloc(1000)));
      ASSERT_EQ(freeway_profile_start(kInterval), 0);
      Tagged tagged(tag);
      for (int k = 0; k < kPairs; ++k) free(hide(malloc(100)));
    }
    look(tag, {}, allocated);
  });
}

}  // namespace
}  // namespace freeway::test
