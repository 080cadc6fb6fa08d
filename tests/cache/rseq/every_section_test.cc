// SPDX-License-Identifier: MIT
//
// Every instruction of every restartable section is interrupted, and the section must start again as if nothing had
// been done: an int3 on the instruction, a workload that comes by, and in the SIGTRAP handler
//   watch     nothing; exactly one abort is seen, and slabs and words compared before and after (section_witness.h)
//   repeat    nothing but the same breakpoint again, three times in a row
//   allocate  malloc and free, so that the section restarts on a slab that has changed
//   migrate   the same on another CPU, so that it restarts on another slab
//   thread    makes the process's second thread, which allocates and frees from then on: what holds for a process
//             with one thread no longer does
// Each of these in a forked child of its own, which starts from the same state and ends with an audit. The library's
// sections are those whose descriptors lie in its ELF section __rseq_cs.
//
// What is done only while the process has one thread (arch/alone.h) has a test of its own: at each instruction of those
// functions, in their sections or not, a handler makes a thread; then no word may be changed any more without an atomic
// instruction. And behind the commit that frees a block a handler frees the others of its superblock, which is given
// back: who has made the commit must not look for it any more.
//
// Where the kernel offers mm_cid the sections that go by cpu_id are not in use: a second case starts the program again
// with AT_RSEQ_FEATURE_SIZE lowered to that of an older kernel. The checked sections are in use with FREEWAY_HARDEN=1,
// and then the others' twins are not.
#include <pthread.h>
#include <sched.h>
#include <sys/auxv.h>
#include <sys/ptrace.h>
#include <sys/single_threaded.h>
#include <sys/wait.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstdlib>

#include "tests/support/proof.h"
#include "tests/whole/signal/support/case_runner.h"
#include "tests/whole/signal/support/heap_account.h"
#include "tests/whole/signal/support/shared_memory.h"

#if !defined(__x86_64__)
int main() { return freeway_test::kSkipStatus; }
#else
#include <sys/user.h>

#include "tests/cache/rseq/section_witness.h"
#include "tests/whole/signal/support/breakpoint.h"
#include "tests/whole/signal/support/drills.h"

namespace {
using namespace freeway_test;

constexpr unsigned long kFeatureSizeEntry = 27;  // AT_RSEQ_FEATURE_SIZE
constexpr unsigned long kFeaturesWithMmCid = 28;
constexpr unsigned long kFeaturesBefore = 20;

enum class Variant { kWatch, kRepeat, kAllocate, kMigrate, kThread };
constexpr Variant kVariants[] = {Variant::kWatch, Variant::kRepeat, Variant::kAllocate, Variant::kMigrate,
                                 Variant::kThread};
constexpr const char* kVariantNames[] = {"watch", "repeat", "allocate", "migrate", "thread"};

constexpr size_t kBehind = 2;  // instructions after a commit that are tried too: nothing may be left to do there
constexpr int kNotDriven = 3;  // exit status of a child whose workload did not come by

LibraryText text;
Breakpoint breakpoint;
Drills* drills;
Drills* handlers_drills;
Drills* threads_drills;
pthread_t second_thread;
std::atomic<bool> told_to_end{false};
Variant variant;
volatile int times_aborted = 0;
volatile bool behind_commit = false;  // the breakpoint is not in the section, but on what its function does after it
// Some instructions are reached only if a magazine is filled between the fast path and the section, by a handler or
// another thread. Then a first breakpoint stands on the way to the section, and its handler fills the magazines and
// sets the second.
volatile uintptr_t second_address = 0;
constexpr size_t kShortDrills[] = {Drills::kPairs,       Drills::kSmallBurst, Drills::kGrowing,
                                   Drills::kMediumBurst, Drills::kOwnHeaps,   Drills::kOtherNames};

bool goes_by_mm_cid() { return ::getauxval(kFeatureSizeEntry) >= kFeaturesWithMmCid; }

void move_to_another_cpu() {
  cpu_set_t allowed, other;
  if (::sched_getaffinity(0, sizeof allowed, &allowed) != 0) return;
  other = allowed;
  CPU_CLR(::sched_getcpu(), &other);
  if (CPU_COUNT(&other) == 0) return;
  ::sched_setaffinity(0, sizeof other, &other);
  ::sched_setaffinity(0, sizeof allowed, &allowed);
}

// On another CPU, with another slab, a section that starts again may have less to do.
void stay_here() {
  cpu_set_t here;
  CPU_ZERO(&here);
  CPU_SET(::sched_getcpu(), &here);
  ::sched_setaffinity(0, sizeof here, &here);
}

void put_a_block_into_each_magazine() {
  static void* blocks[32768 / 16];
  size_t count = 0;
  for (size_t size = 16; size <= 32768; size += size <= 1024 ? 16 : 1024) blocks[count++] = ::malloc(size);
  while (count > 0) ::free(blocks[--count]);
}

void* drill_until_told(void*) {
  while (!told_to_end.load())
    for (const size_t drill : kShortDrills) threads_drills->run(drill);
  threads_drills->empty();
  return nullptr;
}

void at_breakpoint(bool aborted) {
  if (second_address != 0) {
    put_a_block_into_each_magazine();
    breakpoint.plant(second_address);
    second_address = 0;
    return;
  }
  require(aborted || behind_commit, "the section was interrupted, but the thread was not sent to its abort address",
          breakpoint.address());
  times_aborted = times_aborted + 1;
  if (variant == Variant::kRepeat) {
    if (times_aborted < 3) breakpoint.plant(breakpoint.address());
    return;
  }
  if (variant == Variant::kMigrate) move_to_another_cpu();
  if (variant == Variant::kThread)
    require(::pthread_create(&second_thread, nullptr, drill_until_told, nullptr) == 0, "no thread");
  handlers_drills->run_in_handler(*drills);
  handlers_drills->run(Drills::kGrowing);
}

bool ends_with(const std::string& name, const char* ending) {
  const size_t length = std::strlen(ending);
  return name.size() >= length && name.compare(name.size() - length, length, ending) == 0;
}

uintptr_t start_of_function(uintptr_t address) {
  const auto at = std::lower_bound(text.instructions.begin(), text.instructions.end(), address,
                                   [](const Instruction& i, uintptr_t a) { return i.address < a; });
  const auto first = std::find_if(text.instructions.begin(), text.instructions.end(),
                                  [&](const Instruction& i) { return i.function == at->function; });
  return first->address;
}

struct Watched {
  std::atomic<uint64_t> aborts{0}, words{0}, preempted{0};
};
Watched* watched;  // shared with the children

// Each few rounds magazines begin anew: one that has grown as far as the drills need will not grow again.
void begin_anew(int round) {
  if (round % 8 == 7) drills->run(Drills::kTrim);
}

// Interrupts the section at `address` once, in a forked child, and watches it.
[[noreturn]] void watch_once(const RestartableSection& section, uintptr_t address) {
  static SectionWitness witness;
  const auto run = [&](int rounds, void (*fill)()) {
    if (witness.interrupted()) return;
    witness.start(text, section, start_of_function(address), address, fill);
    for (int round = 0; round < rounds && !witness.interrupted(); round++) {
      for (const size_t drill : kShortDrills)
        if (!witness.interrupted()) drills->run(drill);
      if (!witness.interrupted()) begin_anew(round);
    }
    witness.finish();
  };
  run(20, nullptr);
  run(40, put_a_block_into_each_magazine);
  if (!witness.interrupted()) ::_exit(kNotDriven);
  watched->aborts += witness.counts().aborts;
  watched->words += witness.counts().words_compared;
  watched->preempted += witness.counts().preempted;
  drills->verify_all("a block is damaged after a section was aborted");
  drills->empty();
  require_clean_audit("audit after a section was aborted");
  ::_exit(0);
}

// Interrupts the section at `address` in this process; called in a forked child.
[[noreturn]] void interrupt_once(uintptr_t address) {
  if (variant == Variant::kRepeat) stay_here();
  breakpoint.plant(address);
  for (int round = 0; round < 20 && times_aborted == 0; round++) {
    for (const size_t drill : kShortDrills)
      if (times_aborted == 0) drills->run(drill);
    if (times_aborted == 0) begin_anew(round);
  }
  for (int round = 0; round < 40 && times_aborted == 0; round++) {
    for (const size_t drill : kShortDrills)
      if (times_aborted == 0) {
        breakpoint.clear();
        second_address = address;
        breakpoint.plant(start_of_function(address));
        drills->run(drill);
      }
    if (times_aborted == 0) begin_anew(round);
  }
  breakpoint.clear();
  second_address = 0;
  if (times_aborted == 0) ::_exit(kNotDriven);
  require(variant != Variant::kRepeat || times_aborted == 3, "the section did not start again", times_aborted);
  for (const size_t drill : kShortDrills) drills->run(drill);
  told_to_end.store(true);
  if (variant == Variant::kThread) ::pthread_join(second_thread, nullptr);
  drills->verify_all("a block is damaged after a section was interrupted");
  drills->empty();
  handlers_drills->empty();
  const freeway_audit_t audit = require_clean_audit("audit after a section was interrupted");
  require(superblocks_lost(audit) == 0 && audit.frames_stranded == 0, "an interrupted section lost memory",
          superblocks_lost(audit), audit.frames_stranded);
  ::_exit(0);
}

// The workload must drive each section that this mode uses. Returns how often a section was interrupted.
size_t interrupt_everywhere(const RestartableSection& section) {
  size_t boundaries = 0, behind = 0;
  for (const Instruction& instruction : text.instructions) {
    // Up to the signature before the abort address.
    behind_commit = instruction.address >= section.post_commit && instruction.address + 8 <= section.abort;
    if (!section.contains(instruction.address) && !behind_commit) continue;
    if (behind_commit && (instruction.is_padding || behind == kBehind)) continue;
    ++(behind_commit ? behind : boundaries);
    failure_context = section.name.c_str();
    failure_offset = instruction.address - section.start;
    for (const Variant v : kVariants) {
      if (behind_commit && v != Variant::kAllocate) continue;
      variant = v;
      const pid_t child = ::fork();
      if (child == 0)
        v == Variant::kWatch ? watch_once(section, instruction.address) : interrupt_once(instruction.address);
      require(child > 0, "fork");
      const int status = wait_for(child);
      if (behind_commit && WIFEXITED(status) && WEXITSTATUS(status) == kNotDriven) continue;  // another way out
      if (status != 0) {
        Line()
            .text(section.name.c_str())
            .text("+")
            .hex(failure_offset)
            .text(", ")
            .text(kVariantNames[static_cast<int>(v)])
            .text(WIFEXITED(status) && WEXITSTATUS(status) == kNotDriven ? ": the workload did not come by"
                                                                         : ": the child failed")
            .write_to(2);
        fail("a section could not be interrupted everywhere", boundaries, static_cast<unsigned>(status));
      }
    }
  }
  failure_context = nullptr;
  require(boundaries > 0, "objdump shows no instruction in a section", section.start, section.post_commit);
  Line()
      .count(boundaries, "instructions of ")
      .text(section.name.c_str())
      .text(", each interrupted in ")
      .number(std::size(kVariants))
      .text(" ways")
      .write_to(1);
  const std::string subject =
      section.name.compare(0, 16, "freeway_section_") == 0 ? section.name.substr(16) : section.name;
  freeway::test::proof("sections", subject.c_str(), "instructions", boundaries);
  freeway::test::proof("sections", subject.c_str(), "interruptions", boundaries * std::size(kVariants));
  freeway::test::proof("sections", subject.c_str(), "aborts seen, one each", watched->aborts.exchange(0));
  freeway::test::proof("sections", subject.c_str(), "words compared before and after", watched->words.exchange(0));
  return boundaries;
}

// --- Alone. ---------------------------------------------------------------------------------------------------------

// Where the process no longer has one thread, and which section must not be committed any more.
const RestartableSection* no_longer_alone = nullptr;

// At any instruction of the section's function: from here on there is another thread.
[[noreturn]] void end_being_alone_at(const RestartableSection& section, uintptr_t address) {
  no_longer_alone = &section;
  static volatile bool ended = false;
  breakpoint.install(text, [](bool) {
    require(!ended, "a word was changed without an atomic instruction beside another thread");
    ended = true;
    __libc_single_threaded = 0;
    breakpoint.plant(no_longer_alone->post_commit);
  });
  breakpoint.plant(address);
  for (int round = 0; round < 40; round++)
    for (const size_t drill : kShortDrills) drills->run(drill);
  breakpoint.clear();
  if (!ended) ::_exit(kNotDriven);
  drills->verify_all("a block is damaged after a process ceased to be alone");
  drills->empty();
  require_clean_audit("audit after a process ceased to be alone");
  ::_exit(0);
}

void no_longer_alone_anywhere() {
  size_t boundaries = 0, of_sections = 0;
  for (const RestartableSection& section : text.sections) {
    if (!ends_with(section.name, "_clear_bits") && !ends_with(section.name, "_set_each")) continue;
    of_sections++;
    const uintptr_t start = start_of_function(section.start);
    for (const Instruction& instruction : text.instructions) {
      // Up to the abort address; what stands before that is its signature. The handler's own breakpoint is at
      // post_commit.
      if (instruction.address < start || instruction.address + 8 > section.abort) continue;
      if (instruction.address == section.post_commit || instruction.is_padding) continue;
      failure_context = section.name.c_str();
      failure_offset = instruction.address - start;
      const pid_t child = ::fork();
      if (child == 0) end_being_alone_at(section, instruction.address);
      require(child > 0, "fork");
      const int status = wait_for(child);
      if (WIFEXITED(status) && WEXITSTATUS(status) == kNotDriven) continue;
      require(status == 0, "a child that ceased to be alone failed", static_cast<unsigned>(status));
      boundaries++;
    }
  }
  failure_context = nullptr;
  require(of_sections == 2 && boundaries > 25, "where words are changed alone", of_sections, boundaries);
  freeway::test::proof("sections", "alone, then another thread is made", "interruptions", boundaries);
}

// --- Given back behind a commit. ------------------------------------------------------------------------------------

// Blocks of one superblock, in order, of which the first two become free one after the other: then the word's set bits
// are the lowest, where set_each stops for somebody to look, but nothing is left to do.
struct Superblock {
  static constexpr size_t kSize = 16384, kMost = 64;
  void* blocks[kMost];
  size_t count = 0;
};

// The first superblock of which all blocks are the program's.
Superblock whole_superblock() {
  constexpr size_t kTaken = 256;
  static void* taken[kTaken];
  for (void*& block : taken) block = ::malloc(Superblock::kSize);
  std::sort(std::begin(taken), std::end(taken));
  Superblock found;
  for (size_t i = 0; i < kTaken && found.count == 0; i++) {
    freeway_block_info_t info;
    require(::freeway_block_info(taken[i], &info, sizeof info) != 0, "no block of ours");
    const size_t count = info.superblock_blocks;
    const bool first = reinterpret_cast<uintptr_t>(taken[i]) % info.superblock_size == 0;
    if (!first || count > Superblock::kMost || i + count > kTaken) continue;
    const auto last = reinterpret_cast<uintptr_t>(taken[i]) + (count - 1) * info.size;
    if (reinterpret_cast<uintptr_t>(taken[i + count - 1]) != last) continue;
    found.count = count;
    std::copy_n(taken + i, count, found.blocks);
  }
  require(found.count > 3, "no whole superblock", found.count);
  return found;
}

[[noreturn]] void give_back_behind(const RestartableSection& section) {
  static Superblock superblock = whole_superblock();
  ::free(superblock.blocks[1]);
  trim_heap();
  ::free(superblock.blocks[0]);
  static volatile bool gone = false;
  breakpoint.install(text, [](bool) {
    for (size_t i = 2; i < superblock.count; i++) ::free(superblock.blocks[i]);
    trim_heap();
    freeway_explanation_t found;
    ::freeway_explain(superblock.blocks[0], &found, sizeof found);
    gone = found.kind == FREEWAY_FREE_MEMORY;
  });
  breakpoint.plant(section.post_commit);
  trim_heap();
  breakpoint.clear();
  require(gone, "the superblock was not given back behind the commit");
  require_clean_audit("audit after a superblock was given back behind a commit");
  ::_exit(0);
}

void given_back_behind_a_commit() {
  for (const RestartableSection& section : text.sections) {
    if (!ends_with(section.name, "_set_each")) continue;
    const pid_t child = ::fork();
    if (child == 0) give_back_behind(section);
    require_child_success(child, "a superblock that is gone was looked for");
  }
}

bool hardened() {
  const char* const level = ::getenv("FREEWAY_HARDEN");
  return level != nullptr && std::strcmp(level, "1") == 0;
}

bool profiled() { return ::getenv("FREEWAY_PROFILE") != nullptr; }

// By the names of the descriptors: the fast paths exist once for each kind of index, and all that once more checked,
// and malloc's once more counted; everything else serves all of them.
bool in_use(const RestartableSection& section) {
  const bool by_cpu_id = ends_with(section.name, "_by_cpu");
  const bool has_twin = std::any_of(text.sections.begin(), text.sections.end(), [&](const RestartableSection& other) {
    return other.name == section.name + "_by_cpu";
  });
  const bool is_checked = section.name.find("_checked_") != std::string::npos;
  const bool is_counted = section.name.find("_counted_") != std::string::npos;
  const bool is_malloc = section.name.find("malloc") != std::string::npos;
  const bool is_new = section.name.find("_section_new") != std::string::npos;
  if (is_new && profiled()) return false;
  if ((by_cpu_id || has_twin) && (is_checked != hardened() || is_counted != (profiled() && is_malloc))) return false;
  // Blocks come in random order there, and freed ones go to beds: no run is pushed, no magazine grows.
  // Heaps of one's own have no caches then.
  for (const char* of_default : {"_push_run", "_move", "_grow", "_store_if", "_own"})
    if (hardened() && ends_with(section.name, of_default)) return false;
  // Heaps' calls are counted on their slow path, from which they go to _give_own.
  if (profiled() && ends_with(section.name, "_malloc_own")) return false;
  return goes_by_mm_cid() ? !by_cpu_id : !has_twin;
}

void interrupt_all(const Options& options) {
  if (!rseq_mode()) skip("no restartable sections in this mode");
  static Drills own(options.seed), handlers(options.seed + 1), threads(options.seed + 2);
  drills = &own;
  handlers_drills = &handlers;
  threads_drills = &threads;
  text.load();
  require(!text.sections.empty(), "the library has no section __rseq_cs");
  breakpoint.install(text, at_breakpoint);
  watched = share<Watched>();
  size_t total = 0, used = 0;
  for (const RestartableSection& section : text.sections) {
    require(section.start >= text.begin && section.post_commit <= text.end && section.post_commit > section.start &&
                section.abort >= text.begin && section.abort < text.end && !section.contains(section.abort),
            "a descriptor that makes no sense", section.start, section.abort);
    if (!in_use(section)) continue;
    used++;
    total += interrupt_everywhere(section);
  }
  Line()
      .text(goes_by_mm_cid() ? "by mm_cid:" : "by cpu_id:")
      .count(used, "sections in use of ")
      .number(text.sections.size())
      .count(total, "instructions")
      .write_to(1);
}

// Starts `--case=name` of this program as on an older kernel: the auxiliary vector is changed before its first
// instruction.
void run_without_mm_cid(const Options& options, const char* name) {
  if (!rseq_mode()) skip("no restartable sections in this mode");
  if (!goes_by_mm_cid()) skip("no mm_cid here: the other case went by cpu_id");
  const std::string which = std::string("--case=") + name;
  const std::string seed = "--seed=" + std::to_string(options.seed);
  const pid_t child = ::fork();
  if (child == 0) {
    if (::ptrace(PTRACE_TRACEME, 0, nullptr, nullptr) != 0) ::_exit(kSkipStatus);
    ::execl("/proc/self/exe", name, which.c_str(), seed.c_str(), static_cast<char*>(nullptr));
    ::_exit(126);
  }
  require(child > 0, "fork");
  const int status = wait_for(child);
  if (WIFEXITED(status) && WEXITSTATUS(status) == kSkipStatus) skip("ptrace is not allowed here");
  require(WIFSTOPPED(status), "the program did not stop when it was started", static_cast<unsigned>(status));

  // On the new stack: argc, argv, 0, environment, 0, pairs of the auxiliary vector.
  user_regs_struct registers;
  require(::ptrace(PTRACE_GETREGS, child, nullptr, &registers) == 0, "registers");
  uintptr_t at = registers.rsp;
  const auto peek = [&](uintptr_t address) {
    errno = 0;
    const long word = ::ptrace(PTRACE_PEEKDATA, child, address, nullptr);
    require(errno == 0, "cannot read the stack of the started program", address);
    return static_cast<unsigned long>(word);
  };
  at += 8 * (peek(at) + 2);
  while (peek(at) != 0) at += 8;
  for (at += 8; peek(at) != kFeatureSizeEntry; at += 16) require(peek(at) != AT_NULL, "no AT_RSEQ_FEATURE_SIZE");
  require(::ptrace(PTRACE_POKEDATA, child, at + 8, kFeaturesBefore) == 0, "cannot change the auxiliary vector");
  require(::ptrace(PTRACE_DETACH, child, nullptr, nullptr) == 0, "cannot let the program go");
  require_child_success(child, "the run by cpu_id failed");
}

void every_section(const Options& options) {
  interrupt_all(options);
  no_longer_alone_anywhere();
  given_back_behind_a_commit();
}
void every_section_by_cpu_id(const Options& options) {
  if (goes_by_mm_cid()) return run_without_mm_cid(options, "every_section_by_cpu_id");
  interrupt_all(options);
}

}  // namespace

int main(int argc, char** argv) {
  return run_cases(argc, argv,
                   {{"every_section", every_section}, {"every_section_by_cpu_id", every_section_by_cpu_id}});
}
#endif
