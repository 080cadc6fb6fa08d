// SPDX-License-Identifier: MIT
//
// told_size_test.cc: frees that are told the size: a size of another block is named at once, in every mode, and a size
// that may be right never is (malloc/sizes.h has the rule, tests/malloc/sizes_test.cc its proof).
#include <freeway/freeway.h>
#include <freeway/heap.h>
#include <gtest/gtest.h>

#include <new>
#include <string>

#include "abi_test.h"
#include "scenario.h"
#include "tests/support/proof.h"
#include "tests/support/random.h"

namespace freeway::test {
namespace {

constexpr size_t kAlignment = 256;

// A way to have a block and to free it.
struct Way {
  const char* name;
  size_t alignment;
  bool may_be_resized;
  void* (*give)(size_t size);
  void (*take)(void* block, size_t size);
};

std::align_val_t aligned() { return std::align_val_t{kAlignment}; }

const Way kWays[] = {
    {"free_sized", 1, true, [](size_t n) { return hide(malloc(n)); }, [](void* p, size_t n) { free_sized(p, n); }},
    {"free_aligned_sized", kAlignment, true, [](size_t n) { return hide(aligned_alloc(kAlignment, n)); },
     [](void* p, size_t n) { free_aligned_sized(p, kAlignment, n); }},
    {"free_aligned_sized at 8", 8, true, [](size_t n) { return hide(aligned_alloc(8, n)); },
     [](void* p, size_t n) { free_aligned_sized(p, 8, n); }},
    {"delete", 1, false, [](size_t n) { return hide(::operator new(n)); },
     [](void* p, size_t n) { ::operator delete(p, n); }},
    {"delete[]", 1, false, [](size_t n) { return hide(::operator new[](n)); },
     [](void* p, size_t n) { ::operator delete[](p, n); }},
    {"aligned delete", kAlignment, false, [](size_t n) { return hide(::operator new(n, aligned())); },
     [](void* p, size_t n) { ::operator delete(p, n, aligned()); }},
    {"aligned delete[]", kAlignment, false, [](size_t n) { return hide(::operator new[](n, aligned())); },
     [](void* p, size_t n) { ::operator delete[](p, n, aligned()); }},
    {"aligned delete at 8", 8, false, [](size_t n) { return hide(::operator new(n, std::align_val_t{8})); },
     [](void* p, size_t n) { ::operator delete(p, n, std::align_val_t{8}); }},
    {"free_sized of calloc's", 1, true, [](size_t n) { return hide(calloc(1, n)); },
     [](void* p, size_t n) { free_sized(p, n); }},
    {"delete of nothrow new's", 1, false, [](size_t n) { return hide(::operator new(n, std::nothrow)); },
     [](void* p, size_t n) { ::operator delete(p, n); }},
};

// A heap of the program's: its blocks are freed as malloc's.
freeway_heap_t own_heap() {
  static freeway_heap_t heap = freeway_heap_new(nullptr, 0);
  return heap;
}
const Way kOwn = {"free_sized of a heap's", 1, true, [](size_t n) { return hide(freeway_heap_malloc(own_heap(), n)); },
                  [](void* p, size_t n) { free_sized(p, n); }};

template <class F> void each_way(F&& f) {
  for (const Way& way : kWays) f(way);
  f(kOwn);
}

// --- Right sizes. ----------------------------------------------------------------------------------------------------

void expect_no_report(const Outcome& outcome, const char* mode) {
  ASSERT_TRUE(outcome.succeeded()) << mode << ": exit " << outcome.exit_status << ", signal " << outcome.signal << "\n"
                                   << outcome.err;
  EXPECT_EQ(outcome.reports().size(), 0u) << mode << "\n" << outcome.err;
}

// The first blocks of each class are another's (cache/loans.h): in a new process, and again later.
FREEWAY_SCENARIO(EverySize) {
  for (size_t size = 0; size <= 40000; size += size < 5000 ? 1 : 37)
    each_way([=](const Way& way) {
      void* block = way.give(size);
      require(block != nullptr, "no block");
      way.take(block, size);
    });
  for (const size_t size : kInterestingSizes)
    each_way([=](const Way& way) {
      void* blocks[3];
      for (void*& block : blocks) block = way.give(size);
      for (void* block : blocks) way.take(block, size);
    });
  void* huge = hide(malloc(kLargestLarge + 1));
  require(huge != nullptr, "no huge block");
  free_sized(huge, kLargestLarge + 1);
}

TEST(ToldSize, OfEverySizeIsRight) {
  for (const char* mode : kSizedModes)
    expect_no_report(run_scenario("EverySize", 0, {mode, "FREEWAY_ON_ERROR=report"}), mode);
  proof("sizes", "every size", "modes", std::size(kSizedModes));
}

// malloc, calloc, realloc any number of times; what is freed has the size that was asked for last.
FREEWAY_SCENARIO(Resized) {
  Random random(static_cast<uint64_t>(argument));
  const auto any_size = [&] { return size_t{random.next() % (size_t{1} << (random.next() % 20 + 1))} + 1; };
  struct Live {
    void* block = nullptr;
    size_t size = 0;
  };
  Live live[200];
  for (int i = 0; i < 300000; ++i) {
    Live& one = live[random.next() % std::size(live)];
    const size_t size = any_size();
    if (one.block == nullptr)
      one = {random.next() % 2 != 0 ? malloc(size) : freeway_heap_malloc(own_heap(), size), size};
    else if (random.next() % 3 != 0) one = {realloc(one.block, size), size};
    else free_sized(one.block, one.size), one = {};
    require(one.size == 0 || one.block != nullptr, "no block");
  }
  for (Live& one : live)
    if (one.block != nullptr) free_sized(one.block, one.size);
  freeway_audit_t audit;
  require(freeway_audit(&audit, sizeof audit) == 0, "the audit found errors");
}

TEST(ToldSize, OfBlocksThatReallocHasHadIsRight) {
  for (const char* mode : kSizedModes)
    expect_no_report(run_scenario("Resized", 1, {mode, "FREEWAY_ON_ERROR=report"}), mode);
  proof("sizes", "after realloc", "modes", std::size(kSizedModes));
}

// A profile that begins and ends meanwhile: malloc's forms mix (malloc/malloc_form.h).
FREEWAY_SCENARIO(BesideProfiles) {
  Random random(7);
  for (int round = 0; round < 3000; ++round) {
    if (round % 2 == 0) freeway_profile_start(1024);
    else freeway_profile_stop();
    void* blocks[50];
    size_t sizes[50];
    for (int i = 0; i < 50; ++i) blocks[i] = ::operator new(sizes[i] = random.next() % 3000);
    for (int i = 0; i < 50; ++i) ::operator delete(blocks[i], sizes[i]);
  }
}

TEST(ToldSize, OfBlocksThatProfilesHaveSampledIsRight) {
  expect_no_report(run_scenario("BesideProfiles", 0, {"FREEWAY_ON_ERROR=report"}), "profiles");
}

// --- Wrong sizes. ----------------------------------------------------------------------------------------------------

// Whether a block of `size` may also be one of `other`, as far as this test knows: then it is not tried. Where there is
// no memory for a superblock, aligned blocks may be a frame each; those of heaps also where a profile samples them.
bool is_near(const Way& way, size_t size, size_t other) {
  const size_t unit = way.alignment < 16 ? 16 : way.alignment;
  const auto whole = [&](size_t n) { return ((n == 0 ? 1 : n) + unit - 1) / unit * unit; };
  const size_t a = whole(size), b = whole(other);
  const size_t frame_from = &way == &kOwn ? 16384 : unit > 16 ? kLargestSmall : 65536;
  if (a > frame_from && a <= 65536 && b <= 65536) return true;
  if (a > kLargestSmall && b > kLargestSmall) return a / 65536 <= b / 65536 + 1 && b / 65536 <= a / 65536 + 1;
  return a * 2 >= b && b * 2 >= a;
}

FREEWAY_SCENARIO(EveryWrongSize) {
  int calls = 0;
  const size_t sizes[] = {0, 16, 24, 40, 64, 100, 200, 1000, 1500, 5000, 20000, kLargestSmall, 50000, 300000, 5000000};
  const auto attempt = [&](const Way& way, size_t size, size_t wrong) {
    void* block = way.give(size);
    require(block != nullptr, "no block");
    way.take(block, wrong);
    ++calls;
  };
  each_way([&](const Way& way) {
    for (const size_t size : sizes) {
      for (const size_t wrong : sizes)
        if (!is_near(way, size, wrong)) attempt(way, size, wrong);
      for (const size_t wrong : kImpossibleSizes) attempt(way, size, wrong);
    }
  });
  free_aligned_sized(hide(malloc(100)), 0, 100);
  free_aligned_sized(hide(malloc(100)), 48, 100);
  dprintf(1, "%d calls\n", calls + 2);
}

TEST(ToldSize, OfAnotherBlockIsNamedAtOnce) {
  for (const char* mode : kSizedModes) {
    const Outcome outcome = run_scenario("EveryWrongSize", 0, {mode, "FREEWAY_ON_ERROR=report"});
    ASSERT_TRUE(outcome.succeeded()) << mode << "\n" << outcome.err.substr(0, 2000);
    int calls = 0;
    ASSERT_EQ(sscanf(outcome.out.c_str(), "%d calls", &calls), 1) << outcome.out;
    EXPECT_GT(calls, 1000);
    const auto reports = outcome.reports();
    EXPECT_EQ(reports.size(), size_t(calls)) << mode;
    for (const std::string& report : reports) ASSERT_EQ(report.find("freeway: sized free of "), 0u) << report;
  }
  proof("sizes", "wrong sizes", "modes", std::size(kSizedModes));
}

// Within one half of a power of two C++ knows more than C: what new gave was never resized.
FREEWAY_SCENARIO(DeleteOfANeighbour) {
  for (const auto& [size, wrong] :
       {std::pair<size_t, size_t>{48, 64}, {64, 48}, {40, 16}, {5000, 7000}, {8192, 6000}}) {
    ::operator delete(hide(::operator new(size)), hide(wrong));
    ::operator delete[](hide(::operator new[](size)), hide(wrong));
  }
}

TEST(ToldSize, OfAnotherClassIsNamedByDelete) {
  for (const char* mode : kSizedModes) {
    const Outcome outcome = run_scenario("DeleteOfANeighbour", 0, {mode, "FREEWAY_ON_ERROR=report"});
    EXPECT_EQ(outcome.reports().size(), 10u) << mode << "\n" << outcome.err;
  }
}

struct Base {
  long word = 1;
};
struct Derived : Base {
  char more[100] = {};
};

FREEWAY_SCENARIO(DeleteOfABase) {
  Base* object = hide(new Derived);
  announce(object);
  delete object;
}

TEST(ToldSize, OfABaseWithoutVirtualDestructorAborts) {
  for (const char* mode : kSizedModes) {
    const Outcome outcome = run_scenario("DeleteOfABase", 0, {mode});
    EXPECT_TRUE(outcome.aborted()) << mode;
    ASSERT_EQ(outcome.reports().size(), 1u) << outcome.err;
    const std::string report = outcome.reports()[0];
    EXPECT_EQ(report.find("freeway: sized free of 8 bytes for a block of 1"), 0u) << report;
    EXPECT_NE(report.find(" by 0x"), std::string::npos) << report;
  }
}

// With FREEWAY_ON_ERROR=report the block is freed all the same: the pointer is good.
FREEWAY_SCENARIO(WrongAndFreed) {
  for (int i = 0; i < 10000; ++i) free_sized(hide(malloc(5000)), 5);
  require(anonymous_rss() < 32 * kMiB, "the blocks were lost");
}

TEST(ToldSize, ThatIsReportedLosesNoBlock) {
  const Outcome outcome = run_scenario("WrongAndFreed", 0, {"FREEWAY_ON_ERROR=report"});
  EXPECT_TRUE(outcome.succeeded()) << outcome.err.substr(0, 500);
  EXPECT_EQ(outcome.reports().size(), 10000u);
}

// Of what is no live block the pointer is named, not the size.
FREEWAY_SCENARIO(BadPointers) {
  char* block = static_cast<char*>(hide(malloc(1000)));
  free_sized(hide(block + 8), 5);
  free_sized(hide(block + 32), 5);
  free_sized(reinterpret_cast<void*>(hide(uintptr_t{0x1230})), 5);
  ::operator delete(hide(block + 32), size_t{5});
  free_aligned_sized(hide(block + 32), 64, 5);
}

TEST(ToldSize, OfABadPointerIsNotAsked) {
  for (const char* mode : kSizedModes) {
    const Outcome outcome = run_scenario("BadPointers", 0, {mode, "FREEWAY_ON_ERROR=report"});
    int named = 0;
    for (const std::string& report : outcome.reports()) {
      EXPECT_EQ(report.find("sized free"), std::string::npos) << report;
      named += report.find("freeway: free of a") == 0;
    }
    EXPECT_EQ(named, 5) << mode << "\n" << outcome.err;
  }
}

}  // namespace
}  // namespace freeway::test
