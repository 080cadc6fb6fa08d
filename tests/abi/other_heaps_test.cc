// SPDX-License-Identifier: MIT
//
// other_heaps_test.cc: two engines in one process, each in a namespace of the dynamic linker of its own (dlmopen): what
// one has handed out is a foreign pointer to the other, whichever way round; nobody follows it, and both heaps go on.
#include <dlfcn.h>
#include <freeway/freeway.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "abi_test.h"
#include "scenario.h"
#include "tests/support/proof.h"

namespace freeway::test {
namespace {

constexpr const char* kEngines[] = {"", "-michael", "-lfmalloc", "-streamflow", "-hmalloc", "-nbbs"};
constexpr long kEngineCount = 6;
constexpr size_t kSizes[] = {16, 200, 3000, 32768, 40000, 1000000, 6000000, 2 * kLargestLarge};
constexpr long kSizeCount = 8;

// malloc and its like of a second Freeway in this process.
struct Other {
  void* (*malloc)(size_t);
  void (*free)(void*);
  void* (*realloc)(void*, size_t);
  size_t (*usable_size)(void*);
  size_t (*audit)(freeway_audit_t*, size_t);
};

std::string library_of(long engine) {
  return std::string(getenv("FREEWAY_TEST_BUILD")) + "/libfreeway" + kEngines[engine] + ".so";
}

Other load(long engine) {
  void* library = dlmopen(LM_ID_NEWLM, library_of(engine).c_str(), RTLD_NOW);
  if (library == nullptr) dprintf(2, "%s\n", dlerror());
  require(library != nullptr, "dlmopen");
  const auto find = [&](const char* name) {
    void* symbol = dlsym(library, name);
    require(symbol != nullptr, name);
    return symbol;
  };
  return {reinterpret_cast<void* (*)(size_t)>(find("malloc")), reinterpret_cast<void (*)(void*)>(find("free")),
          reinterpret_cast<void* (*)(void*, size_t)>(find("realloc")),
          reinterpret_cast<size_t (*)(void*)>(find("malloc_usable_size")),
          reinterpret_cast<size_t (*)(freeway_audit_t*, size_t)>(find("freeway_audit"))};
}

enum Call : long { kFree, kRealloc, kUsableSize, kCalls };
constexpr const char* kReports[] = {"free of a foreign pointer", "realloc of a foreign pointer",
                                    "malloc_usable_size of a foreign pointer"};

// A block that lies among others in use, so that its whole neighbourhood is the other heap's.
char* block_of(void* (*allocate)(size_t), size_t size) {
  char* chosen = nullptr;
  const int count = size > kMiB ? 1 : 100;
  for (int i = 0; i < count; ++i) {
    auto* block = static_cast<char*>(hide(allocate(size)));
    require(block != nullptr, "malloc");
    block[0] = 1;
    if (i == count / 2) chosen = block;
  }
  return chosen;
}

// Gives our block of each size to the other heap and its block to ours: the beginning and an address within. In report
// mode, which both read from the same environment.
FREEWAY_SCENARIO(SwapsBlocks) {
  const Other other = load(argument % 100);
  const long call = argument / 100;
  for (const size_t size : kSizes) {
    char* const ours = block_of(malloc, size);
    char* const theirs = block_of(other.malloc, size);
    fill_probes(ours, size, 1);
    fill_probes(theirs, size, 2);
    for (const size_t offset : {size_t{0}, (size / 2) & ~size_t{15}}) {
      switch (call) {
        case kFree:
          free(hide(theirs + offset));
          other.free(ours + offset);
          break;
        case kRealloc:
          require(hide(realloc(hide(theirs + offset), 50)) == nullptr, "realloc resized a foreign block");
          require(hide(other.realloc(ours + offset, 50)) == nullptr, "realloc resized a foreign block");
          break;
        default:
          require(hide(malloc_usable_size(hide(theirs + offset))) == 0, "a foreign block has a size");
          require(hide(other.usable_size(ours + offset)) == 0, "a foreign block has a size");
      }
    }
    require(holds_probes(ours, size, 1) && holds_probes(theirs, size, 2), "a foreign block was written to");
    free(ours);
    other.free(theirs);
  }
  // Both are as good as new.
  for (int round = 0; round < 3; ++round) {
    static void* blocks[2][2000];
    for (int i = 0; i < 2000; ++i) {
      memset(blocks[0][i] = hide(malloc(100)), 1, 100);
      memset(blocks[1][i] = hide(other.malloc(100)), 2, 100);
    }
    for (int i = 0; i < 2000; ++i) {
      free(blocks[0][i]);
      other.free(blocks[1][i]);
    }
  }
  freeway_audit_t audit{};
  require(freeway_audit(&audit, sizeof audit) == 0 && other.audit(&audit, sizeof audit) == 0, "audit");
  dprintf(1, "survived\n");
  // Not by exit: the two C libraries give out the same keys of thread-specific data, and GoogleTest has one, too.
  _exit(0);
}

// An engine beside another; beside itself, too.
TEST(TwoHeaps, EachCallsTheOthersBlocksForeign) {
  uint64_t pointers = 0;
  for (long engine = 0; engine < kEngineCount; ++engine) {
    for (long call = 0; call < kCalls; ++call) {
      const std::string build = std::string("FREEWAY_TEST_BUILD=") + getenv("FREEWAY_BUILD_DIR");
      const Outcome outcome =
          run_scenario("SwapsBlocks", call * 100 + engine, {"FREEWAY_ON_ERROR=report", build.c_str()});
      ASSERT_TRUE(outcome.succeeded()) << kEngines[engine] << " " << outcome.exit_status << " " << outcome.signal
                                       << "\n"
                                       << outcome.err;
      EXPECT_EQ(outcome.reports().size(), size_t{kSizeCount} * 4) << outcome.err;
      for (const std::string& line : outcome.reports()) {
        Report report;
        EXPECT_TRUE(parse_report(line, &report)) << line;
        EXPECT_EQ(report.kind, kReports[call]) << line;
        ++pointers;
      }
      if (HasFailure()) FAIL() << "beside libfreeway" << kEngines[engine] << ".so";
    }
  }
  proof("bad input", "other heaps' blocks", "pointers", pointers);
}

FREEWAY_SCENARIO(FreesTheOthers) {
  const Other other = load(argument);
  void* block = block_of(other.malloc, 200);
  announce(block);
  free(hide(block));
  dprintf(1, "survived\n");
}

TEST(TwoHeaps, WithoutReportModeTheProcessAborts) {
  const std::string build = std::string("FREEWAY_TEST_BUILD=") + getenv("FREEWAY_BUILD_DIR");
  for (long engine = 0; engine < kEngineCount; ++engine) {
    for (const char* harden : {"FREEWAY_HARDEN=0", "FREEWAY_HARDEN=1"}) {
      const Outcome outcome = run_scenario("FreesTheOthers", engine, {build.c_str(), harden});
      EXPECT_TRUE(outcome.aborted()) << kEngines[engine] << outcome.err;
      expect_report(outcome, {"free of a foreign pointer"});
    }
  }
}

}  // namespace
}  // namespace freeway::test
