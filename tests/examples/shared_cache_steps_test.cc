// SPDX-License-Identifier: MIT
//
// shared_cache_steps_test STRIDE: a worker of examples/shared-cache is killed at every STRIDE-th of its instructions, in turn.
//
// The worker (0) makes an entry, replaces it, and removes it, beside a neighbour in the same bucket, under ptrace. It is killed
// after n instructions, for n = 1, 1 + STRIDE, ... until it gets to its end; a call of a library counts as one (what happens
// within those of the heap is what tests/shared is about). Then another worker (1) changes the same bucket, so
// often that all that nobody protects is freed, and zeros come to lie there; then worker 0's successor settles. After each death: the keys
// hold what the worker had written last, or was about to write; and without the table the heap is empty.
#include <sched.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/user.h>
#include <sys/wait.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "cache.h"
#include "freeway_heap.h"

namespace {

using cache::FreewayHeap;
using Cache = cache::Cache<FreewayHeap>;

const char *const kKey = "key", *const kNeighbour = "neighbour";
const std::string kSteps[] = {"", "first", std::string(300, 's'), "", std::string(70000, 'l'), "last"};
constexpr unsigned kStepCount = sizeof(kSteps) / sizeof(kSteps[0]);

[[noreturn]] void fail(const char* what, unsigned long at) {
  std::fprintf(stderr, "killed after %lu instructions: %s\n", at, what);
  std::exit(1);
}

// kSteps[i]: what the key holds after step i; empty: nothing.
void work(FreewayHeap& heap, cache::Word table, cache::Word* done) {
  Cache mine(heap, table, 0);
  raise(SIGSTOP);
  for (unsigned i = 1; i < kStepCount; ++i) {
    if (kSteps[i].empty()) mine.remove(kKey);
    else mine.put(kKey, kSteps[i]);
    cache::store(*done, i);
  }
  std::exit(0);
}

extern "C" const char __executable_start, etext;  // the linker's

bool is_in_program(unsigned long address) {
  return address >= reinterpret_cast<unsigned long>(&__executable_start) && address < reinterpret_cast<unsigned long>(&etext);
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
bool kill_after(pid_t worker, unsigned long instructions) {
  int status = 0;
  if (waitpid(worker, &status, 0) != worker || !WIFSTOPPED(status)) fail("the worker does not begin", 0);
  for (unsigned long i = 0; i < instructions; ++i)
    if (!step(worker)) return true;
  kill(worker, SIGKILL);
  waitpid(worker, &status, 0);
  return false;
}

// What the keys hold, for worker `w`.
std::string value_of(Cache& cache, const char* key) {
  std::string value;
  return cache.get(key, value) ? value : std::string();
}

bool try_once(unsigned long instructions, cache::Word* done) {
  FreewayHeap heap(std::size_t{8} << 20);
  const cache::Word table = heap.is_there() ? Cache::make(heap, 1, 2) : 0;
  if (table == 0) fail("no heap", instructions);
  *done = 0;
  Cache other(heap, table, 1);
  if (!other.put(kNeighbour, "neighbour")) fail("no memory", instructions);
  const pid_t worker = fork();
  if (worker == 0) {
    ptrace(PTRACE_TRACEME, 0, nullptr, nullptr);
    work(heap, table, done);
  }
  const bool ended = kill_after(worker, instructions);
  if (!heap.recover()) fail("it cannot be recovered", instructions);

  // More changes than a limbo has places: what they replaced is freed, and then used for something else.
  for (unsigned i = 0; i < 2 * cache::kLimbo; ++i)
    if (!other.put(kNeighbour, std::to_string(i))) fail("no memory for others", instructions);
  std::vector<std::uint64_t> zeros;
  for (unsigned i = 0; i < 2 * cache::kLimbo; ++i)
    for (const cache::Word count : {0, 1, 2}) {
      const std::size_t bytes = cache::Bucket::bytes(count);
      zeros.push_back(heap.offset(std::memset(heap.allocate(bytes), 0, bytes)));
    }
  const std::string seen = value_of(other, kKey);
  Cache successor(heap, table, 0);
  successor.settle();
  const std::string& before = kSteps[*done];
  const std::string& after = *done + 1 < kStepCount ? kSteps[*done + 1] : before;
  if (seen != before && seen != after) fail("the key holds neither value", instructions);
  if (value_of(successor, kKey) != seen) fail("the successor's settling has changed a value", instructions);
  if (value_of(successor, kNeighbour) != std::to_string(2 * cache::kLimbo - 1)) fail("the neighbour is lost", instructions);

  successor.drain();
  other.drain();
  cache::Word blocks[16];
  unsigned count = 0;
  successor.for_each_block([&](cache::Word block) { blocks[count++ % 16] = block; });
  for (unsigned i = 0; i < count; ++i) heap.free(blocks[i]);
  for (const std::uint64_t block : zeros) heap.free(block);
  const auto account = heap.account();
  if (account.live != 0 || account.wrong != 0) fail("bytes are lost", instructions);
  heap.detach();
  return ended;
}

}  // namespace

int main(int argc, char** argv) {
  const unsigned long stride = argc > 1 ? std::strtoul(argv[1], nullptr, 10) : 1;
  void* shared = mmap(nullptr, sizeof(cache::Word), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (stride == 0 || shared == MAP_FAILED) return 2;
  unsigned long deaths = 0;
  while (!try_once(1 + deaths * stride, static_cast<cache::Word*>(shared))) ++deaths;
  std::printf("killed at %lu of its instructions; bytes lost: 0\n", deaths);
  return deaths < 10 ? 1 : 0;
}
