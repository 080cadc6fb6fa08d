// SPDX-License-Identifier: MIT
//
// A thread held by a debugger: another process seizes a random thread, stops it wherever it is, most often inside the
// allocator, and does not let it go on before every other thread has finished some more operations. Sometimes all but
// one are held. If anything in the allocator waits for the held thread the others stop, the tracer waits for ever,
// and the watchdog says so.
#include <pthread.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/wait.h>

#include <cerrno>
#include <cstdio>

#include "tests/support/proof.h"
#include "tests/whole/signal/support/block_mix.h"
#include "tests/whole/signal/support/case_runner.h"
#include "tests/whole/signal/support/loss_account.h"
#include "tests/whole/signal/support/mailbox.h"
#include "tests/whole/signal/support/shared_memory.h"

namespace {
using namespace freeway_test;

constexpr size_t kThreads = 6;
constexpr size_t kTable = 300;
constexpr uint64_t kProgress = 2000;  // operations that each other thread must finish during a hold
constexpr uint64_t kEnoughHolds = 30;

// Shared with the tracer.
struct Board {
  std::atomic<pid_t> tid[kThreads] = {};
  std::atomic<uint64_t> operations[kThreads] = {};
  std::atomic<uint64_t> holds{0};
  std::atomic<uint64_t> holds_inside{0};  // of these, thread was inside the allocator
  std::atomic<uint64_t> beside{0};        // operations of the others during holds
  std::atomic<uint64_t> without{0};       // of the same threads, in as many rounds with nobody held
  std::atomic<int> inside[kThreads] = {};
  std::atomic<bool> stop{false};
  std::atomic<bool> refused{false};  // this machine does not allow ptrace
};

struct Worker {
  pthread_t thread;
  size_t index = 0;
  Random random{0};
};

Board* board;
Worker workers[kThreads];
Mailbox<64> mailbox;
std::atomic<bool> stopping{false};

void* work(void* argument) {
  Worker* worker = static_cast<Worker*>(argument);
  Random& random = worker->random;
  void* table[kTable] = {};
  board->tid[worker->index].store(raw_gettid());
  while (!stopping.load(std::memory_order_relaxed)) {
    void*& slot = table[random.below(kTable)];
    board->inside[worker->index].store(1, std::memory_order_relaxed);
    if (slot == nullptr) {
      slot = mailbox.take(random);
      if (slot == nullptr) slot = allocate_block(random, kMostlySmall);
    } else if (random.one_in(6)) {
      slot = resize_block(random, slot, random_size(random, kMostlySmall));
    } else if (random.one_in(3) && mailbox.put(slot, random)) {
      slot = nullptr;
    } else {
      release_block(slot);
      slot = nullptr;
    }
    board->inside[worker->index].store(0, std::memory_order_relaxed);
    board->operations[worker->index].fetch_add(1, std::memory_order_relaxed);
  }
  for (void* block : table)
    if (block != nullptr) release_block(block);
  return nullptr;
}

bool stop_thread(pid_t tid) {
  if (::ptrace(PTRACE_INTERRUPT, tid, nullptr, nullptr) != 0) return false;
  int status = 0;
  return ::waitpid(tid, &status, __WALL) == tid && WIFSTOPPED(status);
}

void let_go(pid_t tid) { ::ptrace(PTRACE_CONT, tid, nullptr, nullptr); }

// Each thread that is not held finishes some more operations; how many those did that are not among `victims`.
uint64_t wait_for_progress(const bool (&held)[kThreads], const bool (&victims)[kThreads]) {
  uint64_t before[kThreads], done = 0;
  for (size_t i = 0; i < kThreads; i++) before[i] = board->operations[i].load();
  for (size_t i = 0; i < kThreads; i++)
    while (!held[i] && board->operations[i].load() < before[i] + kProgress) {
      const timespec pause{0, 500'000};
      ::nanosleep(&pause, nullptr);
    }
  for (size_t i = 0; i < kThreads; i++) done += victims[i] ? 0 : board->operations[i].load() - before[i];
  return done;
}

// The tracer's whole life. A failed step of its own is told by its exit status.
[[noreturn]] void trace(uint64_t seed) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  Random random(seed);
  pid_t tids[kThreads];
  for (size_t i = 0; i < kThreads; i++)
    while ((tids[i] = board->tid[i].load()) == 0) ::usleep(1000);
  for (const pid_t tid : tids)
    if (::ptrace(PTRACE_SEIZE, tid, nullptr, nullptr) != 0) {
      board->refused.store(errno == EPERM || errno == ENOSYS);
      ::_exit(1);
    }
  while (!board->stop.load()) {
    bool held[kThreads] = {};
    const bool nobody[kThreads] = {};
    const size_t how_many = random.one_in(8) ? kThreads - 1 : random.between(1, 2);
    for (size_t i = 0; i < how_many; i++) held[random.below(kThreads)] = true;
    board->without.fetch_add(wait_for_progress(nobody, held));
    const timespec pause{0, static_cast<long>(random.below(2'000'000))};
    ::nanosleep(&pause, nullptr);
    for (size_t victim = 0; victim < kThreads; victim++) {
      if (!held[victim]) continue;
      if (!stop_thread(tids[victim])) ::_exit(2);
      if (board->inside[victim].load() != 0) board->holds_inside.fetch_add(1);
      board->holds.fetch_add(1);
    }
    board->beside.fetch_add(wait_for_progress(held, held));
    for (size_t i = 0; i < kThreads; i++)
      if (held[i]) let_go(tids[i]);
  }
  for (const pid_t tid : tids)
    if (!stop_thread(tid) || ::ptrace(PTRACE_DETACH, tid, nullptr, nullptr) != 0) ::_exit(3);
  ::_exit(0);
}

void threads_held_by_a_tracer(const Options& options) {
  board = share<Board>();
  const pid_t tracer = ::fork();
  if (tracer == 0) trace(options.seed);
  require(tracer > 0, "no tracer");
  ::prctl(PR_SET_PTRACER, tracer);
  for (size_t i = 0; i < kThreads; i++) {
    workers[i].index = i;
    workers[i].random = Random(options.seed * 31 + i);
    require(::pthread_create(&workers[i].thread, nullptr, work, &workers[i]) == 0, "no thread");
  }
  int status = 0;
  for (Deadline deadline(options.seconds); !deadline.passed() || board->holds.load() < kEnoughHolds;) {
    const timespec pause{0, 20'000'000};
    ::nanosleep(&pause, nullptr);
    if (::waitpid(tracer, &status, WNOHANG) == tracer) {
      if (board->refused.load()) skip("ptrace is not allowed here");
      fail("the tracer gave up", static_cast<unsigned>(status));
    }
  }
  board->stop = true;
  require_child_success(tracer, "the tracer failed");
  stopping = true;
  for (Worker& worker : workers) ::pthread_join(worker.thread, nullptr);
  mailbox.drain(release_block);
  require_nothing_lost(require_clean_audit("audit after threads were held"));
  const char* const subject = "threads held by a debugger (ptrace)";
  using freeway::test::proof;
  proof("stops and kills", subject, "stops", board->holds);
  proof("stops and kills", subject, "inside a call", board->holds_inside);
  proof("stops and kills", subject, "operations of the others, beside stopped ones", board->beside);
  proof("stops and kills", subject, "operations of the same, in as many rounds with nobody stopped", board->without);
}

}  // namespace

int main(int argc, char** argv) {
  return run_cases(argc, argv, {{"threads_held_by_a_tracer", threads_held_by_a_tracer}});
}
