// SPDX-License-Identifier: MIT
//
// bad_input_test.cc: pointers that malloc never gave, or not like this: foreign, misaligned, interior. Each is named on
// fd 2 in one line and the process aborts; nothing is followed, nothing is written through. (Double frees:
// double_free_test.cc.)
#include <freeway/freeway.h>
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <iterator>
#include <new>
#include <string>

#include "abi_test.h"
#include "scenario.h"
#include "tests/support/proof.h"
#include "tests/support/random.h"

namespace freeway::test {
namespace {

enum Call : long { kFree, kRealloc, kUsableSize, kFreeSized, kDelete, kReallocarray, kCalls };
constexpr const char* kLevels[] = {"FREEWAY_HARDEN=0", "FREEWAY_HARDEN=1"};
constexpr const char* kCallNames[] = {"free", "realloc", "malloc_usable_size", "free_sized", "delete", "reallocarray"};

// The word that a report uses for the call: the frees are one kind.
std::string verb(long call) {
  if (call == kRealloc || call == kReallocarray) return "realloc";
  return call == kUsableSize ? "malloc_usable_size" : "free";
}

void misuse(long call, void* pointer) {
  announce(pointer);
  switch (call) {
    case kFree: free(hide(pointer)); break;
    case kRealloc: hide(realloc(hide(pointer), 50)); break;
    case kUsableSize: hide(malloc_usable_size(hide(pointer))); break;
    case kFreeSized: free_sized(hide(pointer), 50); break;
    case kDelete: ::operator delete(hide(pointer)); break;
    case kReallocarray: hide(reallocarray(hide(pointer), 10, 5)); break;
  }
  dprintf(1, "survived\n");
}

alignas(64) char static_memory[256];

void* foreign_pointer(long place) {
  const auto address = [](uintptr_t value) { return reinterpret_cast<void*>(value); };
  const auto mapped = [](int protection) {
    void* pages = mmap(nullptr, 1 << 20, protection, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    require(pages != MAP_FAILED, "mmap");
    return static_cast<void*>(static_cast<char*>(pages) + 65536);
  };
  const auto live = reinterpret_cast<uintptr_t>(hide(malloc(100)));
  switch (place) {
    case 0: return static_memory;
    case 1: return static_memory + 64;
    case 2:
      return reinterpret_cast<void*>((reinterpret_cast<uintptr_t>(__builtin_frame_address(0)) & ~uintptr_t{15}) - 256);
    case 3: return mapped(PROT_READ | PROT_WRITE);
    case 4: return mapped(PROT_NONE);
    case 5: return address(0x10);  // the null page
    case 6: return address(0xff0);
    case 7: return address(0x10000);
    case 8: return address(0x7ffffffff000);       // the end of user space
    case 9: return address(0x800000000000);       // not canonical
    case 10: return address(0xffff800000000000);  // the kernel's half
    case 11: return address(~uintptr_t{15});
    case 12: return address(live | uintptr_t{1} << 56);  // a live block under a tag
    case 13: return address(live | uintptr_t{0xff} << 56);
    case 14: return address(live | uintptr_t{1} << 48);
    case 15: return address(live ^ uintptr_t{1} << 63);
    case 16: return reinterpret_cast<void*>(reinterpret_cast<uintptr_t>(&foreign_pointer) & ~uintptr_t{15});  // code
    case 17: return address(0x7fffffff0000000);
    default: return nullptr;
  }
}
constexpr long kPlaces = 18;

FREEWAY_SCENARIO(Foreign) { misuse(argument / 100, foreign_pointer(argument % 100)); }

class EveryCall : public testing::TestWithParam<long> {};
INSTANTIATE_TEST_SUITE_P(, EveryCall, testing::Range(0L, long{kCalls}),
                         [](const auto& test) { return std::string(kCallNames[test.param]); });

TEST_P(EveryCall, OfAForeignPointerNamesItAndAborts) {
  for (long place = 0; place < kPlaces; ++place) {
    const Outcome outcome = run_scenario("Foreign", GetParam() * 100 + place);
    EXPECT_TRUE(outcome.aborted()) << "place " << place << ", exit " << outcome.exit_status << ", signal "
                                   << outcome.signal << "\n"
                                   << outcome.err;
    expect_report(outcome, {(verb(GetParam()) + " of a foreign pointer").c_str()});
    if (HasFailure()) FAIL() << "place " << place;
  }
  proof("bad input", "foreign pointers", "processes", kPlaces);
}

// A live block among a few hundred others of its size, so that its neighbourhood is in use.
char* live_block(size_t size) {
  char* chosen = nullptr;
  const int count = size > kMiB ? 1 : 200;
  for (int i = 0; i < count; ++i) {
    auto* block = static_cast<char*>(hide(malloc(size)));
    require(block != nullptr, "malloc");
    block[0] = 1;
    if (i == count / 2) chosen = block;
  }
  return chosen;
}

constexpr size_t kBlockSizes[] = {16, 24, 64, 200, 1024, 3000, 32768, 40000, 1000000, 6000000, 2 * kLargestLarge};
constexpr long kBlockSizeCount = sizeof kBlockSizes / sizeof kBlockSizes[0];
constexpr size_t kMisalignments[] = {1, 2, 4, 8, 9, 15};

FREEWAY_SCENARIO(Misaligned) {
  misuse(argument / 10000, live_block(kBlockSizes[argument / 100 % 100]) + kMisalignments[argument % 100]);
}

void expect_misaligned(long call, long size, std::initializer_list<const char*> options) {
  const std::string kind = verb(call) + " of a misaligned pointer";
  const Outcome outcome = run_scenario("Misaligned", call * 10000 + size * 100 + size % 6, options);
  EXPECT_TRUE(outcome.aborted()) << kBlockSizes[size] << "\n" << outcome.err;
  expect_report(outcome, {kind.c_str()});
}

TEST_P(EveryCall, OfAMisalignedPointerNamesItAndAborts) {
  for (long size = 0; size < kBlockSizeCount; ++size) {
    expect_misaligned(GetParam(), size, {});
    expect_misaligned(GetParam(), size, {"FREEWAY_HARDEN=1"});
    if (HasFailure()) FAIL() << "size " << kBlockSizes[size] << " + " << kMisalignments[size % 6];
  }
}

// An aligned pointer into the middle of a live block.
void* interior_pointer(long which) {
  struct Case {
    size_t size, offset;
  };
  constexpr Case kCases[] = {{32, 16},
                             {64, 16},
                             {64, 48},
                             {200, 64},
                             {1024, 512},
                             {3000, 16},
                             {3000, 2048},
                             {32768, 4096},
                             {32768, 32752},
                             {40000, 16},
                             {40000, 32768},
                             {200000, 65536},
                             {200000, 131072 + 16},
                             {6000000, 65536},
                             {6000000, 4194304},
                             {6000000, 16},
                             {2 * kLargestLarge, 16},
                             {2 * kLargestLarge, 65536},
                             {2 * kLargestLarge, kLargestLarge}};
  if (which >= long(sizeof kCases / sizeof kCases[0])) return nullptr;
  return live_block(kCases[which].size) + kCases[which].offset;
}
constexpr long kFirstLargeInterior = 9;
constexpr long kFirstHugeInterior = 16;
constexpr long kInteriors = 19;

FREEWAY_SCENARIO(Interior) { misuse(argument / 100, interior_pointer(argument % 100)); }

TEST_P(EveryCall, OfAnInteriorPointerOfALargeBlockNamesItAndAborts) {
  const std::string kind = verb(GetParam()) + " of an interior pointer";
  // Of a huge block only the beginning is known, so that making one does not cost an entry for each of its frames.
  const std::string kind_when_huge = verb(GetParam()) + " of a foreign pointer";
  for (long which = kFirstLargeInterior; which < kInteriors; ++which) {
    const Outcome outcome = run_scenario("Interior", GetParam() * 100 + which);
    EXPECT_TRUE(outcome.aborted()) << outcome.err;
    expect_report(outcome, {kind.c_str(), which > kFirstHugeInterior ? kind_when_huge.c_str() : ""});
    if (HasFailure()) FAIL() << "case " << which;
  }
}

TEST_P(EveryCall, OfAnInteriorPointerOfASmallBlockAbortsAtOnce) {
  const std::string kind = verb(GetParam()) + " of an interior pointer";
  for (const char* level : kLevels) {
    for (long which = 0; which < kFirstLargeInterior; ++which) {
      const Outcome outcome = run_scenario("Interior", GetParam() * 100 + which, {level});
      EXPECT_TRUE(outcome.aborted()) << outcome.err;
      expect_report(outcome, {kind.c_str()});
      EXPECT_EQ(outcome.out.find("survived"), std::string::npos);
      if (HasFailure()) FAIL() << level << ", case " << which;
    }
  }
}

// Every address in a superblock that is no block's first: where a block would begin behind the last one, too.
FREEWAY_SCENARIO(EveryInteriorAddress) {
  int calls = 0;
  for (size_t size = 16; size <= 2048; size += 16) {
    auto* const block = static_cast<char*>(hide(malloc(size)));
    const size_t bytes = malloc_usable_size(block), span = 65536;
    char* const begin = reinterpret_cast<char*>(reinterpret_cast<uintptr_t>(block) & ~(span - 1));
    if (bytes != size) continue;
    for (size_t offset = size == 16 ? 1 : 16; offset < span; offset += size == 16 ? 509 : 16) {
      if (offset % bytes == 0 && offset + bytes <= span) continue;
      free(hide(begin + offset));
      ++calls;
    }
    if (span % bytes != 0) {
      free(hide(begin + span / bytes * bytes));
      ++calls;
    }
  }
  dprintf(1, "%d calls\n", calls);
}

TEST(Free, OfEveryAddressOfASuperblockThatIsNoBlocksIsNamedAtOnce) {
  if (!on_flagship()) GTEST_SKIP() << "superblocks of the flagship";
  for (const char* level : kLevels) {
    const Outcome outcome = run_scenario("EveryInteriorAddress", 0, {level, "FREEWAY_ON_ERROR=report"});
    ASSERT_TRUE(outcome.succeeded()) << outcome.signal;
    int calls = 0;
    ASSERT_EQ(sscanf(outcome.out.c_str(), "%d calls", &calls), 1) << outcome.out;
    EXPECT_GT(calls, 20000);
    EXPECT_EQ(outcome.reports().size(), size_t(calls)) << level;
  }
}

// Memory that was never handed out though it lies among blocks: the far end of the heap's own superblock.
FREEWAY_SCENARIO(NeverHandedOut) {
  char* block = static_cast<char*>(hide(malloc(2048)));
  block[0] = 1;
  const uintptr_t base = reinterpret_cast<uintptr_t>(block) & ~uintptr_t{0xffff};
  misuse(kFree, reinterpret_cast<void*>(base + 30 * 2048 == reinterpret_cast<uintptr_t>(block) ? base + 29 * 2048
                                                                                               : base + 30 * 2048));
}

TEST(Free, OfABlockThatWasNeverHandedOutIsSeenAtOnceWhenHardened) {
  const Outcome outcome = run_scenario("NeverHandedOut", 0, {"FREEWAY_HARDEN=1"});
  EXPECT_TRUE(outcome.aborted()) << outcome.err;
  expect_report(outcome, {"double free", "free of a foreign pointer", "free of an interior pointer"});
}

// --- In report mode all of it in one process. ------------------------------------------------------------------------

// What takes a block: each must say so of a pointer that is none, do nothing, and fail as its header says.
struct Taking {
  const char* verb;
  void (*call)(void* pointer);
};

constexpr Taking kTaking[] = {
    {"free", [](void* pointer) { free(pointer); }},
    {"free", [](void* pointer) { freeway_free(pointer); }},
    {"free", [](void* pointer) { free_sized(pointer, 50); }},
    {"free", [](void* pointer) { free_aligned_sized(pointer, 64, 50); }},
    {"free", [](void* pointer) { freeway_free_sized(pointer, SIZE_MAX); }},
    {"free", [](void* pointer) { freeway_free_aligned_sized(pointer, 3, 0); }},
    {"free", [](void* pointer) { freeway_free_batch(1, &pointer); }},
    {"free", [](void* pointer) { ::operator delete(pointer); }},
    {"free", [](void* pointer) { ::operator delete[](pointer, size_t{50}); }},
    {"free", [](void* pointer) { ::operator delete(pointer, std::align_val_t{64}); }},
    {"free", [](void* pointer) { ::operator delete[](pointer, size_t{50}, std::align_val_t{64}); }},
    {"free", [](void* pointer) { ::operator delete(pointer, std::nothrow); }},
    {"free",
     [](void* pointer) {
       errno = 4242;
       require(hide(realloc(pointer, 0)) == nullptr && errno == 4242, "realloc to 0");
     }},
    {"realloc",
     [](void* pointer) {
       errno = 0;
       require(hide(realloc(pointer, 50)) == nullptr && errno == ENOMEM, "realloc");
     }},
    {"realloc",
     [](void* pointer) {
       errno = 0;
       require(hide(freeway_realloc(pointer, 5000000)) == nullptr && errno == ENOMEM, "freeway_realloc");
     }},
    {"realloc",
     [](void* pointer) {
       errno = 0;
       require(hide(reallocarray(pointer, 10, 5)) == nullptr && errno == ENOMEM, "reallocarray");
     }},
    {"malloc_usable_size", [](void* pointer) { require(hide(malloc_usable_size(pointer)) == 0, "usable size"); }},
    {"malloc_usable_size",
     [](void* pointer) { require(hide(freeway_malloc_usable_size(pointer)) == 0, "freeway_ usable size"); }},
};

FREEWAY_SCENARIO(EveryBadPointerThroughEveryCall) {
  void* pointers[100];
  int count = 0;
  for (long place = 0; place < kPlaces; ++place) pointers[count++] = foreign_pointer(place);
  for (long which = 0; which < kInteriors; ++which) pointers[count++] = interior_pointer(which);
  for (long size = 0; size < kBlockSizeCount; ++size)
    pointers[count++] = live_block(kBlockSizes[size]) + kMisalignments[size % 6];
  char* const kept = live_block(100);
  fill(kept, 100, 1);
  int calls = 0;
  for (const Taking& taking : kTaking) {
    for (int i = 0; i < count; ++i) {
      taking.call(hide(pointers[i]));
      ++calls;
    }
  }
  require(holds(kept, 100, 1), "a live block was overwritten");
  static void* blocks[5000];
  for (void*& each : blocks) memset(each = hide(malloc(64)), 3, 64);
  for (void* each : blocks) free(each);
  freeway_audit_t audit{};
  require(freeway_audit(&audit, sizeof audit) == 0, "audit");
  dprintf(1, "%d calls\n", calls);
}

TEST(OnErrorReport, EveryBadPointerThroughEveryCallIsOneLineAndNothingElse) {
  uint64_t all = 0;
  for (const char* level : kLevels) {
    const Outcome outcome = run_scenario("EveryBadPointerThroughEveryCall", 0, {"FREEWAY_ON_ERROR=report", level});
    ASSERT_TRUE(outcome.succeeded()) << outcome.exit_status << " " << outcome.signal << "\n" << outcome.err;
    int calls = 0;
    ASSERT_EQ(sscanf(outcome.out.c_str(), "%d calls", &calls), 1) << outcome.out;
    EXPECT_GT(calls, 400);
    EXPECT_EQ(outcome.reports().size(), size_t(calls));
    for (const std::string& line : outcome.reports()) {
      Report report;
      EXPECT_TRUE(parse_report(line, &report)) << line;
    }
    all += static_cast<uint64_t>(calls);
  }
  proof("bad input", "bad pointers, reported", "calls", all);
}

// Whether a block begins there, asked without a report. Only what has no block goes to those who take one.
bool has_block(void* pointer) {
  const int before = dup(2), nowhere = open("/dev/null", O_WRONLY | O_CLOEXEC);
  dup2(nowhere, 2);
  const bool found = malloc_usable_size(hide(pointer)) != 0;
  dup2(before, 2);
  close(before);
  close(nowhere);
  return found;
}

int tried = 0;
void try_if_bad(uintptr_t address) {
  auto* pointer = reinterpret_cast<void*>(address);
  if (pointer == nullptr || has_block(pointer)) return;
  kTaking[size_t(tried) % std::size(kTaking)].call(hide(pointer));
  ++tried;
}

// Both ends, the middle and an odd place of everything that is mapped: code, stacks, the loader's and the C library's
// data, and all of Freeway's own: arenas, metadata, page maps, slabs, its libraries' variables.
FREEWAY_SCENARIO(EveryMappingOfTheProcess) {
  for (long size = 0; size < kBlockSizeCount; ++size) live_block(kBlockSizes[size]);
  static char text[1 << 18];
  const int fd = open("/proc/self/maps", O_RDONLY | O_CLOEXEC);
  size_t length = 0;
  for (ssize_t got; (got = read(fd, text + length, sizeof text - 1 - length)) > 0;) length += size_t(got);
  close(fd);
  int mappings = 0;
  for (const char* line = text; *line != 0; ++line) {
    uintptr_t begin = 0, end = 0;
    if (sscanf(line, "%zx-%zx", &begin, &end) == 2) {
      ++mappings;
      for (const uintptr_t place :
           {begin, begin + 16, begin + (end - begin) / 2, (begin + (end - begin) / 3) | 8, end - 16})
        try_if_bad(place);
    }
    line = strchr(line, '\n');
    if (line == nullptr) break;
  }
  require(mappings > 20, "mappings");
  freeway_audit_t audit{};
  require(freeway_audit(&audit, sizeof audit) == 0, "audit");
  dprintf(1, "%d calls\n", tried);
}

// Addresses in and around live blocks, in the arenas, and anywhere. `argument`: the seed.
FREEWAY_SCENARIO(RandomPointers) {
  Random random{static_cast<uint64_t>(argument)};
  static char* blocks[300];
  static size_t sizes[300];
  for (int i = 0; i < 300; ++i) {
    sizes[i] = i % 20 == 0 ? random.below(3 * kMiB) : random.below(i % 3 == 0 ? 40000 : 2000);
    blocks[i] = static_cast<char*>(hide(malloc(sizes[i])));
    require(blocks[i] != nullptr, "malloc");
    fill(blocks[i], sizes[i], unsigned(i));
  }
  for (int i = 0; i < 3000; ++i) {
    const auto near = reinterpret_cast<uintptr_t>(blocks[random.below(300)]);
    switch (random.below(5)) {
      case 0: try_if_bad(near + 1 + random.below(100)); break;
      case 1: try_if_bad(near + random.below(64 * kMiB) / 16 * 16); break;
      case 2: try_if_bad(near - random.below(64 * kMiB)); break;
      case 3: try_if_bad(near ^ uintptr_t{1} << random.below(64)); break;
      default: try_if_bad(random.next() >> random.below(64));
    }
  }
  for (int i = 0; i < 300; ++i) {
    require(holds(blocks[i], sizes[i], unsigned(i)), "a live block was overwritten");
    free(blocks[i]);
  }
  freeway_audit_t audit{};
  require(freeway_audit(&audit, sizeof audit) == 0 && audit.frames_stranded == 0, "audit");
  dprintf(1, "%d calls\n", tried);
}

void expect_a_line_each(const char* scenario, long argument, const char* subject, size_t at_least) {
  const Outcome outcome = run_scenario(scenario, argument, {"FREEWAY_ON_ERROR=report", "FREEWAY_HARDEN=1"});
  ASSERT_TRUE(outcome.succeeded()) << outcome.exit_status << " " << outcome.signal << "\n"
                                   << outcome.err.substr(outcome.err.size() > 500 ? outcome.err.size() - 500 : 0);
  size_t calls = 0;
  ASSERT_EQ(sscanf(outcome.out.c_str(), "%zu calls", &calls), 1) << outcome.out;
  EXPECT_GE(calls, at_least);
  EXPECT_EQ(outcome.reports().size(), calls);
  for (const std::string& line : outcome.reports()) {
    Report report;
    EXPECT_TRUE(parse_report(line, &report)) << line;
  }
  proof("bad input", subject, "calls", calls);
}

TEST(OnErrorReport, NothingThatIsMappedIsTakenForABlock) {
  expect_a_line_each("EveryMappingOfTheProcess", 0, "all mappings of a process", 80);
}

TEST(OnErrorReport, RandomPointersAreNamedAndDoNothing) {
  expect_a_line_each("RandomPointers", static_cast<long>(test_seed()), "random pointers", 1500);
}

// `argument`: 0: no array; else: one that is too long.
FREEWAY_SCENARIO(FreesNoArray) {
  void* blocks[2] = {hide(malloc(10)), hide(malloc(10))};
  freeway_free_batch(argument == 0 ? 2 : SIZE_MAX / static_cast<size_t>(argument), argument == 0 ? nullptr : blocks);
  memset(blocks[0], 1, 10);
  free(blocks[0]);
  free(blocks[1]);
  dprintf(1, "survived\n");
}

TEST(FreeBatch, OfNoArrayIsReportedAndNothingIsFreed) {
  for (const long argument : {0, 1, 2, 8}) {
    const Outcome outcome = run_scenario("FreesNoArray", argument);
    EXPECT_TRUE(outcome.aborted()) << outcome.err;
    EXPECT_EQ(outcome.reports().size(), 1u) << outcome.err;
    EXPECT_TRUE(outcome.err.starts_with("freeway: freeway_free_batch of ")) << outcome.err;
    const Outcome reported = run_scenario("FreesNoArray", argument, {"FREEWAY_ON_ERROR=report", "FREEWAY_HARDEN=1"});
    EXPECT_TRUE(reported.succeeded()) << reported.err;
    EXPECT_EQ(reported.reports().size(), 1u) << reported.err;
    EXPECT_EQ(reported.out, "survived\n");
  }
}

FREEWAY_SCENARIO(ReportedErrorsLeaveTheHeapUsable) {
  static char memory[64];
  char* small = live_block(64);
  char* large = live_block(200000);
  char* huge = live_block(2 * kLargestLarge);
  fill(small, 64, 1);
  fill(large, 200000, 2);
  free(hide(static_cast<void*>(memory + 16)));
  free(hide(static_cast<void*>(small + 16)));
  free(hide(static_cast<void*>(small + 1)));
  free(hide(static_cast<void*>(large + 65536)));
  free(hide(static_cast<void*>(huge + 65536)));
  require(hide(realloc(hide(static_cast<void*>(memory + 16)), 100)) == nullptr,
          "realloc of a foreign pointer gave a block");
  require(hide(malloc_usable_size(hide(static_cast<void*>(memory + 16)))) == 0, "a foreign pointer has a size");
  for (int round = 0; round < 20; ++round) {
    static void* blocks[2000];
    for (void*& each : blocks) memset(each = hide(malloc(64)), round, 64);
    for (void* each : blocks) free(each);
  }
  require(holds(small, 64, 1) && holds(large, 200000, 2), "a live block was overwritten");
  free(small);
  free(large);
  free(huge);
  dprintf(1, "survived\n");
}

TEST(OnErrorReport, GoesOnAndLeavesTheHeapUsable) {
  const Outcome outcome =
      run_scenario("ReportedErrorsLeaveTheHeapUsable", 0, {"FREEWAY_ON_ERROR=report", "FREEWAY_HARDEN=1"});
  EXPECT_TRUE(outcome.succeeded()) << outcome.exit_status << " " << outcome.signal << "\n" << outcome.err;
  EXPECT_NE(outcome.out.find("survived"), std::string::npos);
  EXPECT_EQ(outcome.reports().size(), 7u) << outcome.err;
}

}  // namespace
}  // namespace freeway::test
