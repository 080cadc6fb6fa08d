// SPDX-License-Identifier: MIT
//
// estimates_test.cc: what a sampled profile says of each workload is, but for chance, the truth: blocks and bytes, live
// and allocated, of blocks that never leave a magazine, that stay, that are large, and of many threads.
//
// Chance     an estimate is a sum of independent samples: a block of s bytes is sampled with p = 1 - exp(-s / interval)
//            and then counts for 1/p blocks. Small blocks that are seldom sampled count for thousands then, so that the
//            sum is not normal: Chernoff's bound of it is. A workload beyond 1 of 400 is done again, five times in a
//            row are not chance; nor is 1 of a billion.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <thread>
#include <vector>

#include "tests/abi/abi_test.h"
#include "tests/profile/dump_reader.h"
#include "tests/support/random.h"

namespace freeway::test {
namespace {

constexpr uint64_t kInterval = 8192;

// The blocks of a workload, and how likely an estimate of them is.
class Truth {
 public:
  void add(size_t size, double count = 1) {
    count_of_[size] += count;
  }  // allocates nothing: it may be called under a tag

  [[nodiscard]] double blocks() const {
    return sum([](double) { return 1.0; });
  }
  [[nodiscard]] double bytes() const {
    return sum([](double size) { return size; });
  }

  // At least the chance of an estimate as far from the truth as this one, on its side: the least of E(exp(t (X -
  // estimate))) over t.
  [[nodiscard]] double chance_of_blocks(double estimate) const {
    return chance(estimate, blocks(), [](double) { return 1.0; });
  }
  [[nodiscard]] double chance_of_bytes(double estimate) const {
    return chance(estimate, bytes(), [](double size) { return size; });
  }

 private:
  static double sampled(double size) { return 1 - std::exp(-size / kInterval); }

  template <class F> void each(F&& f) const {
    for (size_t size = 0; size < count_of_.size(); ++size)
      if (count_of_[size] != 0) f(static_cast<double>(size), count_of_[size]);
  }

  template <class F> [[nodiscard]] double sum(F&& value) const {
    double total = 0;
    each([&](double size, double count) { total += count * value(size); });
    return total;
  }

  template <class F> [[nodiscard]] double chance(double estimate, double truth, F&& value) const {
    if (truth == 0) return estimate == 0 ? 1 : 0;
    // The sizes of one site are taken for their mean, which is off by less than a hundredth of an eighth: not a matter
    // of chance.
    const double mended =
        std::fabs(estimate - truth) < 0.002 * truth ? truth : estimate + (estimate < truth ? 0.002 : -0.002) * truth;
    if (mended == truth) return 1;
    double most = 0, least = INFINITY;  // of what a sample counts for
    each([&](double size, double) {
      const double weight = value(size) / sampled(size);
      most = std::max(most, weight), least = std::min(least, weight);
    });
    const auto log_of_mean = [&](double t) {
      double log = -t * mended;
      each([&](double size, double count) {
        log += count * std::log1p(sampled(size) * std::expm1(t * value(size) / sampled(size)));
      });
      return log;
    };
    // Convex in t, and 0 at 0: the least lies on the estimate's side.
    double low = mended > truth ? 0 : -100 / least, high = mended > truth ? 100 / most : 0;
    for (int i = 0; i < 80; ++i) {
      const double a = low + (high - low) / 3, b = high - (high - low) / 3;
      if (log_of_mean(a) < log_of_mean(b)) high = b;
      else low = a;
    }
    return std::exp(std::min(0.0, log_of_mean((low + high) / 2)));
  }

  std::vector<double> count_of_ = std::vector<double>(100 * kKiB + 1);  // by the size
};

class Estimates : public testing::Test {
 protected:
  Estimates() { EXPECT_EQ(freeway_profile_start(kInterval), 0); }
  ~Estimates() override { freeway_profile_stop(); }

  // Does a workload, which looks at estimates under a tag of its own, until each of them is likelier than 1 of 400.
  template <class F> void estimate(const char* what, F&& workload) {
    for (int tries = 0; tries < 5; ++tries) {
      beyond_.clear();
      workload(++tag_);
      if (beyond_.empty() || HasFailure()) return;
    }
    ADD_FAILURE() << what << ": each time beyond 1 of 400, at last " << beyond_;
  }

  void look(uint64_t tag, const Truth& live, const Truth& allocated) {
    const Dump dump = take_dump();
    ASSERT_EQ(dump.facts.at("lost_stacks") + dump.facts.at("lost_blocks"), 0u);
    const auto of_live = dump.live_of_tag(tag), of_allocated = dump.allocated_of_tag(tag);
    compare("live bytes", of_live.bytes, live.bytes(), live.chance_of_bytes(of_live.bytes));
    compare("allocated bytes", of_allocated.bytes, allocated.bytes(), allocated.chance_of_bytes(of_allocated.bytes));
    compare("live blocks", of_live.blocks, live.blocks(), live.chance_of_blocks(of_live.blocks));
    compare("allocated blocks", of_allocated.blocks, allocated.blocks(),
            allocated.chance_of_blocks(of_allocated.blocks));
  }

 private:
  void compare(const char* what, double estimate, double truth, double chance) {
    EXPECT_GE(chance, 1e-9) << what << ": " << estimate << " for " << truth;
    if (chance < 1.0 / 400)
      beyond_ += std::string(what) + ": " + std::to_string(estimate) + " for " + std::to_string(truth) + "; ";
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
