// SPDX-License-Identifier: MIT
//
// How much stack a call takes: the part below the caller's frame is painted before each call, and afterwards the lowest
// word that has another colour says how deep the call went. What the page promises is read from GUARANTEES.md, section
// "Stack": a row for each of the kinds of calls that are named here, and a column for each form of this test
// ($FREEWAY_TEST_STACK_COLUMN). It is the library's own stack: the loader's is kept out of it (-fno-plt).
//
// The drills of tests/whole/signal go through all paths of the malloc family; the rest is called here.
#include <dlfcn.h>
#include <malloc.h>
#include <sys/mman.h>
#include <sys/wait.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "freeway/freeway.h"
#include "freeway/heap.h"
#include "freeway/shared.h"
#include "tests/support/proof.h"
#include "tests/whole/signal/support/case_runner.h"
#include "tests/whole/signal/support/drills.h"
#include "tests/whole/signal/support/shared_memory.h"

namespace freeway_test {
namespace {

// What the drills do not call, or not by a name of its own. The first of them stand in the enumeration Call.
enum Kind : size_t {
  kFirstCall = kCallCount,
  kBadFree,
  kAudit,
  kExplain,
  kHeaps,
  kSharedCalls,
  kSharedFiles,
  kProfileControl,
  kProfileDump,
  kText,
  kTouchNothing,
  kKinds
};
constexpr const char* kOtherNames[] = {"the first call of a process",
                                       "free of a bad pointer",
                                       "freeway_audit",
                                       "freeway_explain, freeway_block_info, freeway_should_move",
                                       "freeway_heap_*",
                                       "freeway_shared_*, but for the next row",
                                       "freeway_shared_create, _attach, _detach, _stats",
                                       "freeway_profile_start, _stop",
                                       "freeway_profile_dump",
                                       "malloc_stats, freeway_explain_to",
                                       "mallopt, freeway_tag, freeway_version"};
static_assert(std::size(kOtherNames) == kKinds - kCallCount);

const char* name_of(size_t kind) { return kind < kCallCount ? kCallNames[kind] : kOtherNames[kind - kCallCount]; }

// --- The gauge

constexpr size_t kDeep = size_t{64} << 10;  // so far down is painted
constexpr size_t kGap = 256;                // of the gauge's own; a call that takes less is counted as this much
constexpr uint64_t kColour = 0xb1e55ed0cafef00d;

constinit thread_local uintptr_t above = 0;  // the caller's stack pointer at the call
constinit thread_local size_t gauged = 0;    // which kind
constinit std::atomic<size_t> deepest[kKinds];

volatile uint64_t* bottom() { return reinterpret_cast<volatile uint64_t*>((above - kDeep) & ~uintptr_t{15}); }
volatile uint64_t* top() { return reinterpret_cast<volatile uint64_t*>((above - kGap) & ~uintptr_t{15}); }

[[gnu::noinline]] void paint(size_t kind) {
  above = reinterpret_cast<uintptr_t>(__builtin_frame_address(0)) + 2 * sizeof(void*);
  gauged = kind;
  for (volatile uint64_t* word = bottom(); word != top(); word++) *word = kColour;
}

[[gnu::noinline]] void look() {
  volatile uint64_t* word = bottom();
  while (word != top() && *word == kColour) word++;
  const size_t depth = above - reinterpret_cast<uintptr_t>(word);
  size_t known = deepest[gauged].load(std::memory_order_relaxed);
  while (depth > known && !deepest[gauged].compare_exchange_weak(known, depth, std::memory_order_relaxed)) continue;
}

template <class F> [[gnu::always_inline]] inline void gauge(Kind kind, F&& call) {
  paint(kind);
  std::atomic_signal_fence(std::memory_order_seq_cst);
  call();
  std::atomic_signal_fence(std::memory_order_seq_cst);
  look();
}

// Before the constructors of any library.
void make_first_call() {
  gauge(kFirstCall, [] {
    void* volatile block = ::malloc(100);
    (void)block;
  });
}
[[gnu::section(".preinit_array"), gnu::used]] void (*const preinit)() = make_first_call;

// --- What the page says

std::string without_marks(std::string text) {
  std::erase_if(text, [](char c) { return c == '`'; });
  const size_t begin = text.find_first_not_of(' '), end = text.find_last_not_of(' ');
  return begin == std::string::npos ? "" : text.substr(begin, end - begin + 1);
}

std::vector<std::string> cells_of(const std::string& line) {
  std::vector<std::string> cells;
  std::istringstream in(line.substr(1));
  for (std::string cell; std::getline(in, cell, '|');) cells.push_back(without_marks(cell));
  return cells;
}

// Bytes by kind; 0: the page has no such row.
std::vector<size_t> promised(const std::string& column) {
  const char* sources = ::getenv("FREEWAY_SOURCE_DIR");
  std::ifstream page(std::string(sources != nullptr ? sources : ".") + "/GUARANTEES.md");
  std::vector<size_t> found(kKinds, 0);
  std::vector<std::string> head;
  bool inside = false;
  for (std::string line; std::getline(page, line);) {
    if (line.starts_with("#")) inside = line == "## Stack";
    if (!inside || !line.starts_with("|")) continue;
    const std::vector<std::string> cells = cells_of(line);
    if (head.empty()) head = cells;
    const auto place = static_cast<size_t>(std::find(head.begin(), head.end(), column) - head.begin());
    for (size_t kind = 0; kind < kKinds; kind++)
      if (place < cells.size() && cells[0] == name_of(kind))
        found[kind] = std::strtoul(cells[place].c_str(), nullptr, 10);
  }
  return found;
}

std::string column() {
  const char* named = ::getenv("FREEWAY_TEST_STACK_COLUMN");
  return named != nullptr ? named : rseq_mode() ? "rseq" : "without rseq";
}

// What was gauged in this process is no more than the page says.
void compare() {
  const std::vector<size_t> most = promised(column());
  for (size_t kind = 1; kind < kKinds; kind++) {
    const size_t depth = deepest[kind].load();
    if (depth == 0) continue;
    freeway::test::proof_most("stack", name_of(kind), "bytes at most", depth);
    require(most[kind] != 0, "no row of GUARANTEES.md, section Stack, has this", kind, depth);
    require(depth <= most[kind], name_of(kind), depth, most[kind]);
  }
}

// --- The cases

void drills(const Options& options) {
  call_observer.entered = [](Call call) { paint(static_cast<size_t>(call)); };
  call_observer.left = look;
  Drills drills(options.seed);
  const Deadline deadline(options.seconds);
  for (int round = 0; round < 4 || !deadline.passed(); round++)
    for (size_t drill = 0; drill < Drills::kCount; drill++) drills.run(drill);
  drills.empty();
  for (auto kind = static_cast<size_t>(Call::kMalloc); kind <= static_cast<size_t>(Call::kFreeBatch); kind++)
    require(deepest[kind].load() > 0, "no call was gauged", kind);
  compare();
  // The rare ones each in a process of its own.
  RareDrills::age();
  for (size_t drill = Drills::kRare; drill < Drills::count_with_rare(); drill++) {
    const pid_t child = ::fork();
    if (child == 0) {
      drills.run(drill);
      compare();
      ::_exit(0);
    }
    int status = 0;
    require(::waitpid(child, &status, 0) == child && status == 0, "a rare drill", drill, static_cast<uint64_t>(status));
  }
}

// Several threads at the same words, and in each other's caches.
void beside_threads(const Options& options) {
  call_observer.entered = [](Call call) { paint(static_cast<size_t>(call)); };
  call_observer.left = look;
  static const Options* const given = &options;
  const auto life = [](void* number) -> void* {
    constexpr Drills::Drill kShared[] = {Drills::kPairs,   Drills::kSmallBurst, Drills::kMediumBurst,
                                         Drills::kGrowing, Drills::kResizes,    Drills::kLarge,
                                         Drills::kTrim,    Drills::kBatches,    Drills::kOwnHeaps};
    auto* const drills = new Drills(given->seed + reinterpret_cast<uintptr_t>(number));
    const Deadline deadline(given->seconds);
    for (int round = 0; round < 2 || !deadline.passed(); round++)
      for (const Drills::Drill drill : kShared) drills->run(drill);
    drills->empty();
    delete drills;
    return nullptr;
  };
  pthread_t threads[6];
  for (size_t i = 0; i < std::size(threads); i++)
    require(::pthread_create(&threads[i], nullptr, life, reinterpret_cast<void*>(i)) == 0, "no thread");
  for (pthread_t thread : threads) ::pthread_join(thread, nullptr);
  compare();
}

void first_call(const Options&) {
  require(deepest[kFirstCall].load() > 0, "no first call was gauged");
  compare();
}

void bad_pointers(const Options&) {
  if (const char* on_error = ::getenv("FREEWAY_ON_ERROR"); on_error == nullptr || ::strcmp(on_error, "report") != 0)
    skip("wants FREEWAY_ON_ERROR=report");
  static char not_a_block[64];
  char* volatile block = static_cast<char*>(::malloc(300));
  char* volatile large = static_cast<char*>(::malloc(300'000));
  for (char* const bad : {not_a_block + 16, block + 16, large + 16, large + 4096})
    gauge(kBadFree, [bad] { ::free(bad); });
  ::free(block);
  gauge(kBadFree, [block] { ::free(block); });
  compare();
}

void heaps(const Options&) {
  const freeway_heap_options_t small = {"stack", size_t{2} << 20};
  for (const freeway_heap_options_t* options : {static_cast<const freeway_heap_options_t*>(nullptr), &small}) {
    freeway_heap_t heap = nullptr;
    gauge(kHeaps, [&] { heap = ::freeway_heap_new(options, sizeof *options); });
    require(heap != nullptr, "no heap");
    std::vector<void*> blocks;
    for (size_t i = 0; i < 3000; i++) {
      const size_t size = i % 200 == 199 ? 100'000 : i % 20 == 0 ? 9000 : 16 + i % 600;
      void* block = nullptr;
      gauge(kHeaps, [&] {
        block = i % 7 == 0   ? ::freeway_heap_calloc(heap, 1, size)
                : i % 7 == 1 ? ::freeway_heap_aligned_alloc(heap, 256, size)
                             : ::freeway_heap_malloc(heap, size);
      });
      if (block != nullptr && i % 5 == 0) {
        void* other = nullptr;
        gauge(kHeaps, [&] { other = ::freeway_heap_realloc(heap, block, 2 * size); });
        if (other != nullptr) block = other;
      }
      if (block != nullptr) blocks.push_back(block);
    }
    for (size_t i = 0; i < blocks.size(); i += 2) gauge(kHeaps, [&] { ::free(blocks[i]); });
    freeway_heap_stats_t stats;
    gauge(kHeaps, [&] { ::freeway_heap_stats(heap, &stats, sizeof stats); });
    gauge(kHeaps, [&] { ::freeway_heap_trim(heap); });
    gauge(kHeaps, [&] { ::freeway_heap_destroy(heap); });
  }
  compare();
}

void shared(const Options&) {
  const int file = ::memfd_create("stack", 0);
  if (file < 0) skip("no memfd");
  freeway_shared_t* heap = nullptr;
  const freeway_shared_options_t options = {size_t{32} << 20, 8};
  gauge(kSharedFiles, [&] { heap = ::freeway_shared_create(file, &options, sizeof options); });
  require(heap != nullptr, "no shared heap");
  std::vector<void*> blocks;
  for (size_t i = 0; i < 3000; i++) {
    const size_t size = i % 200 == 199 ? 200'000 : 16 + i % 3000;
    void* block = nullptr;
    gauge(kSharedCalls, [&] {
      block = i % 7 == 0   ? ::freeway_shared_calloc(heap, 1, size)
              : i % 7 == 1 ? ::freeway_shared_aligned_alloc(heap, 256, size)
                           : ::freeway_shared_malloc(heap, size);
    });
    if (block != nullptr) blocks.push_back(block);
  }
  auto* const slot = static_cast<uint64_t*>(blocks[0]);
  gauge(kSharedCalls, [&] { ::freeway_shared_alloc_into(heap, slot, 100); });
  gauge(kSharedCalls, [&] { ::freeway_shared_free_from(heap, slot); });
  gauge(kSharedCalls, [&] { ::freeway_shared_root_replace(heap, "name", 0, ::freeway_shared_offset(heap, slot)); });
  gauge(kSharedCalls, [&] { ::freeway_shared_pointer(heap, ::freeway_shared_root_find(heap, "name")); });
  gauge(kSharedCalls, [&] { ::freeway_shared_usable_size(heap, slot); });
  for (size_t i = 1; i < blocks.size(); i++) gauge(kSharedCalls, [&] { ::freeway_shared_free(heap, blocks[i]); });
  freeway_shared_stats_t stats;
  gauge(kSharedFiles, [&] { ::freeway_shared_stats(heap, &stats, sizeof stats); });
  freeway_shared_audit_t audit;
  gauge(kSharedCalls, [&] { ::freeway_shared_audit(heap, &audit, sizeof audit); });
  gauge(kSharedCalls, [&] { ::freeway_shared_trim(heap); });
  // A participant that is gone, for others to recover.
  const pid_t child = ::fork();
  if (child == 0) {
    for (int i = 0; i < 100; i++) (void)::freeway_shared_malloc(heap, 100);
    ::_exit(0);
  }
  ::waitpid(child, nullptr, 0);
  gauge(kSharedCalls, [&] { ::freeway_shared_recover(heap); });
  freeway_shared_t* second = nullptr;
  gauge(kSharedFiles, [&] { second = ::freeway_shared_attach(file); });
  gauge(kSharedFiles, [&] { ::freeway_shared_detach(second); });
  gauge(kSharedFiles, [&] { ::freeway_shared_detach(heap); });
  compare();
}

// What looks at the heap, and what says something of it.
void others(const Options&) {
  std::vector<void*> blocks;
  for (size_t i = 0; i < 2000; i++) blocks.push_back(::malloc(i % 100 == 99 ? 100'000 : 16 + i % 2000));
  for (size_t i = 0; i < blocks.size(); i += 3) ::free(blocks[i]);
  const int nowhere = ::open("/dev/null", O_WRONLY);
  for (const void* each : {blocks[1], blocks[0], blocks[199], static_cast<void*>(&blocks)}) {
    freeway_explanation_t explanation;
    gauge(kExplain, [&] { ::freeway_explain(each, &explanation, sizeof explanation); });
    gauge(kText, [&] { ::freeway_explain_to(nowhere, each); });
  }
  freeway_block_info_t info;
  gauge(kExplain, [&] { ::freeway_block_info(blocks[1], &info, sizeof info); });
  gauge(kExplain, [&] { ::freeway_should_move(blocks[1]); });
  freeway_audit_t audit;
  gauge(kAudit, [&] { ::freeway_audit(&audit, sizeof audit); });
  for (int round = 0; round < 2; round++) {
    gauge(kProfileControl, [] { ::freeway_profile_start(64); });
    for (void*& block : blocks) block = ::malloc(700);
    gauge(kProfileDump, [nowhere] { ::freeway_profile_dump(nowhere); });
    gauge(kProfileControl, [] { ::freeway_profile_stop(); });
  }
  const int standard_error = ::dup(2);
  ::dup2(nowhere, 2);
  gauge(kText, [] { ::malloc_stats(); });
  ::dup2(standard_error, 2);
  gauge(kTouchNothing, [] { ::mallopt(M_MMAP_THRESHOLD, 1 << 20); });
  gauge(kTouchNothing, [] { ::freeway_tag(1); });
  gauge(kTouchNothing, [] { ::freeway_version(); });
  compare();
}

}  // namespace
}  // namespace freeway_test

int main(int argc, char** argv) {
  using namespace freeway_test;
  return run_cases(argc, argv,
                   {{"first_call", first_call},
                    {"drills", drills},
                    {"beside_threads", beside_threads},
                    {"bad_pointers", bad_pointers},
                    {"heaps", heaps},
                    {"shared", shared},
                    {"others", others}});
}
