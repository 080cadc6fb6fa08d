// SPDX-License-Identifier: MIT
//
// shared_cache_steps_test STRIDE [stopped]: a worker of shared/example is killed at every STRIDE-th of its
// instructions, in turn; or stopped there, overtaken, and goes on.
//
// The worker (0) makes an entry, replaces it, and removes it, beside a neighbour in the same bucket, under ptrace. It
// is killed after n instructions, for n = 1, 1 + STRIDE, ... until it gets to its end; a call of a library counts as
// one (what happens within those of the heap is what shared/tests is about). Then another worker (1) changes the same
// bucket, so often that all that nobody protects is freed, and zeros from then on; then worker 0's successor settles.
// After each death: the keys hold what the worker had written last, or was about to write; and without the table the
// heap is empty.
//
// A worker that is stopped reads, too: after the other one has changed the bucket, and all that was not protected holds
// zeros, it goes on and must read values that the keys had while it did, and what it writes must be there.
#include <sched.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/user.h>
#include <sys/wait.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

#include "cache.h"
#include "freeway_heap.h"

namespace {

// What is freed is zeros: whoever still reads it finds nothing in the bucket, and another key in the entry.
class Heap : public cache::FreewayHeap {
 public:
  using FreewayHeap::FreewayHeap;
  void* alloc_into(std::uint64_t* slot, std::size_t bytes) {
    return FreewayHeap::alloc_into(slot, bytes < kLeast ? kLeast : bytes);
  }
  bool free_from(std::uint64_t* slot) {
    std::memset(pointer(*slot), 0, kLeast);
    return FreewayHeap::free_from(slot);
  }

 private:
  static constexpr std::size_t kLeast = sizeof(cache::Bucket);
};
using Cache = cache::Cache<Heap>;

const char *const kKey = "key", *const kNeighbour = "neighbour";
const std::string kSteps[] = {"", "first", std::string(300, 's'), "", std::string(70000, 'l'), "last"};
constexpr unsigned kStepCount = sizeof(kSteps) / sizeof(kSteps[0]);

[[noreturn]] void fail(const char* what, unsigned long at) {
  std::fprintf(stderr, "after %lu instructions: %s\n", at, what);
  std::exit(1);
}

constexpr unsigned kChanges = 2 * cache::kLimbo;  // by others: more than a limbo has places
std::string change(unsigned i) { return std::to_string(i); }

// kSteps[i]: what the key holds after step i; empty: nothing.
void work(Heap& heap, cache::Word table, cache::Word* done) {
  Cache mine(heap, table, 0);
  raise(SIGSTOP);
  for (unsigned i = 1; i < kStepCount; ++i) {
    if (kSteps[i].empty()) mine.remove(kKey);
    else mine.put(kKey, kSteps[i]);
    cache::store(*done, i);
  }
  std::exit(0);
}

// The same, and reads both keys after each step. Exits with 1 where it reads what was never there.
void work_and_read(Heap& heap, cache::Word table) {
  Cache mine(heap, table, 0);
  std::string value;
  const auto is_neighbours = [&value] {
    if (value == kNeighbour) return true;
    const unsigned long i = std::strtoul(value.c_str(), nullptr, 10);
    return i < kChanges && value == change(static_cast<unsigned>(i));
  };
  raise(SIGSTOP);
  for (unsigned i = 1; i < kStepCount; ++i) {
    if (kSteps[i].empty()) mine.remove(kKey);
    else if (!mine.put(kKey, kSteps[i])) std::exit(1);
    if (!mine.get(kNeighbour, value) || !is_neighbours()) std::exit(1);
    const bool found = mine.get(kKey, value);
    if (found != !kSteps[i].empty() || (found && value != kSteps[i])) std::exit(1);
  }
  std::exit(0);
}

extern "C" const char __executable_start, etext;  // the linker's

bool is_in_program(unsigned long address) {
  return address >= reinterpret_cast<unsigned long>(&__executable_start) &&
         address < reinterpret_cast<unsigned long>(&etext);
}

// False: the worker has ended.
bool is_trapped(pid_t worker) {
  int status = 0;
  if (waitpid(worker, &status, 0) != worker) fail("waitpid", 0);
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return false;
  if (!WIFSTOPPED(status) || WSTOPSIG(status) != SIGTRAP) fail("the worker does not go on", 0);
  return true;
}

// One instruction of the program, or a call of a library, up to a breakpoint where it returns to. False: it has ended.
bool step(pid_t worker) {
  user_regs_struct registers;
  ptrace(PTRACE_GETREGS, worker, nullptr, &registers);
  const bool begins_in_program = is_in_program(registers.rip);
  do {
    ptrace(PTRACE_SINGLESTEP, worker, nullptr, nullptr);
    if (!is_trapped(worker)) return false;
    ptrace(PTRACE_GETREGS, worker, nullptr, &registers);
    if (is_in_program(registers.rip)) return true;
  } while (!begins_in_program);
  const long back = ptrace(PTRACE_PEEKDATA, worker, registers.rsp, nullptr);
  const long text = ptrace(PTRACE_PEEKTEXT, worker, back, nullptr);
  constexpr long kBreakpoint = 0xcc;
  ptrace(PTRACE_POKETEXT, worker, back, (text & ~0xffL) | kBreakpoint);
  ptrace(PTRACE_CONT, worker, nullptr, nullptr);
  if (!is_trapped(worker)) return false;
  ptrace(PTRACE_POKETEXT, worker, back, text);
  ptrace(PTRACE_GETREGS, worker, nullptr, &registers);
  registers.rip = static_cast<unsigned long>(back);
  ptrace(PTRACE_SETREGS, worker, nullptr, &registers);
  return true;
}

// True: the worker got to its end before.
bool ends_within(pid_t worker, unsigned long instructions) {
  int status = 0;
  if (waitpid(worker, &status, 0) != worker || !WIFSTOPPED(status)) fail("the worker does not begin", 0);
  for (unsigned long i = 0; i < instructions; ++i)
    if (!step(worker)) return true;
  return false;
}

void kill_and_wait(pid_t worker) {
  int status = 0;
  kill(worker, SIGKILL);
  waitpid(worker, &status, 0);
}

// What the keys hold, for worker `w`.
std::string value_of(Cache& cache, const char* key) {
  std::string value;
  return cache.get(key, value) ? value : std::string();
}

// Changes the neighbour so often that all that nobody protects is freed.
void overtake(Cache& other, unsigned long instructions) {
  for (unsigned i = 0; i < kChanges; ++i)
    if (!other.put(kNeighbour, change(i))) fail("no memory for others", instructions);
  other.drain();
}

// Empties the table, of which worker 0 is `last`; then the heap is empty.
void take_apart(Heap& heap, Cache& last, Cache& other, unsigned long instructions) {
  if (value_of(last, kNeighbour) != change(kChanges - 1)) fail("the neighbour is lost", instructions);
  last.drain();
  other.drain();
  cache::Word blocks[16];
  unsigned count = 0;
  last.for_each_block([&](cache::Word block) { blocks[count++ % 16] = block; });
  for (unsigned i = 0; i < count; ++i) heap.free(blocks[i]);
  const auto account = heap.account();
  if (account.live != 0 || account.wrong != 0) fail("bytes are lost", instructions);
  heap.detach();
}

// A heap with a table of one bucket, in which the neighbour is; f(heap, table, worker 1).
template <class F> bool with_table(unsigned long instructions, F&& f) {
  Heap heap(std::size_t{8} << 20);
  const cache::Word table = heap.is_there() ? Cache::make(heap, 1, 2) : 0;
  if (table == 0) fail("no heap", instructions);
  Cache other(heap, table, 1);
  if (!other.put(kNeighbour, kNeighbour)) fail("no memory", instructions);
  return f(heap, table, other);
}

// f() in a process that this one steps through.
template <class F> pid_t start_worker(F&& f) {
  const pid_t worker = fork();
  if (worker < 0) fail("no worker", 0);
  if (worker != 0) return worker;
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  ptrace(PTRACE_TRACEME, 0, nullptr, nullptr);
  f();
  std::exit(0);
}

bool try_death(unsigned long instructions, cache::Word* done) {
  *done = 0;
  return with_table(instructions, [&](Heap& heap, cache::Word table, Cache& other) {
    const pid_t worker = start_worker([&] { work(heap, table, done); });
    const bool ended = ends_within(worker, instructions);
    if (!ended) kill_and_wait(worker);
    if (!heap.recover()) fail("it cannot be recovered", instructions);
    overtake(other, instructions);
    const std::string seen = value_of(other, kKey);
    Cache successor(heap, table, 0);
    successor.settle();
    const std::string& before = kSteps[*done];
    const std::string& after = *done + 1 < kStepCount ? kSteps[*done + 1] : before;
    if (seen != before && seen != after) fail("the key holds neither value", instructions);
    if (value_of(successor, kKey) != seen) fail("the successor's settling has changed a value", instructions);
    take_apart(heap, successor, other, instructions);
    return ended;
  });
}

bool try_stop(unsigned long instructions) {
  return with_table(instructions, [&](Heap& heap, cache::Word table, Cache& other) {
    const pid_t worker = start_worker([&] { work_and_read(heap, table); });
    const bool ended = ends_within(worker, instructions);
    overtake(other, instructions);
    if (!ended) {
      int status = 0;
      ptrace(PTRACE_CONT, worker, nullptr, nullptr);
      if (waitpid(worker, &status, 0) != worker || !WIFEXITED(status) || WEXITSTATUS(status) != 0)
        fail("who was stopped reads or writes what is wrong", instructions);
    }
    if (!heap.recover()) fail("it cannot be recovered", instructions);
    Cache last(heap, table, 0);
    if (value_of(last, kKey) != kSteps[kStepCount - 1]) fail("the key does not hold what was written", instructions);
    take_apart(heap, last, other, instructions);
    return ended;
  });
}

}  // namespace

int main(int argc, char** argv) {
  const unsigned long stride = argc > 1 ? std::strtoul(argv[1], nullptr, 10) : 1;
  const bool stops = argc > 2 && std::strcmp(argv[2], "stopped") == 0;
  void* shared = mmap(nullptr, sizeof(cache::Word), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (stride == 0 || shared == MAP_FAILED) return 2;
  auto* done = static_cast<cache::Word*>(shared);
  unsigned long tries = 0;
  while (stops ? !try_stop(1 + tries * stride) : !try_death(1 + tries * stride, done)) ++tries;
  std::printf("%s at %lu of its instructions; bytes lost: 0\n", stops ? "stopped" : "killed", tries);
  return tries < 10 ? 1 : 0;
}
