// SPDX-License-Identifier: MIT
// sections.cc: CPUs, restartable sections, membarrier and fork in an execution; what they promise is in explorer.h.
#include <cstdio>
#include <cstdlib>

#include "tests/explorer/execution.h"

namespace freeway::model {

namespace {
std::size_t at(int index) { return static_cast<std::size_t>(index); }
constexpr unsigned kEveryCpu = ~0U;
}  // namespace

// While a section gets through in the end, its CPU is its thread's alone, unless that has stopped for ever in it.
unsigned Execution::runnable() const {
  unsigned open = runnable_;
  for (int thread = 0; thread < program_.threads; ++thread) {
    const Place& place = places_[at(thread)];
    if (!place.begun || place.interrupted || place.restarts < options_.restarts || (runnable_ >> thread & 1) == 0)
      continue;
    for (int other = 0; other < program_.threads; ++other)
      if (other != thread && places_[at(other)].cpu == place.cpu) open &= ~(1U << other);
  }
  return open;
}

// Sections of a CPU depend on each other, and on all that runs on the CPU while they can be interrupted by it: once
// they cannot, others wait for their end, so that it makes no difference whether they run before or after. Barriers and
// forks depend on everybody.
Execution::Scope Execution::scope(int thread) const {
  const Kind kind = pending(thread).kind;
  if (kind == Kind::kBarrier || kind == Kind::kFork) return {kEveryCpu, kEveryCpu, kEveryCpu};
  const Place& place = places_[at(thread)];
  // A thread without a CPU has one of its own, which only barriers and forks reach.
  const unsigned cpu = 1U << (place.cpu >= 0 ? place.cpu : kMaxCpus + thread);
  return {cpu, place.inside ? cpu : 0, place.inside && place.restarts < options_.restarts ? cpu : 0};
}

void Execution::needs_sleep_sets() const {
  if (options_.reduction != Reduction::kDpor || options_.random_walks != 0 || !options_.replay.empty()) return;
  std::fprintf(stderr, "model: programs with CPUs, sections or forks need Reduction::kSleep\n");
  std::abort();
}

void Execution::go_to_cpu(int cpu) {
  needs_sleep_sets();
  places_[at(running_)].cpu = cpu;
}

// The thread is about to execute an operation: whoever else was in a section on its CPU is interrupted.
void Execution::run_on_cpu(int thread) {
  Place& place = places_[at(thread)];
  if (place.inside) place.begun = true;
  if (place.cpu < 0) return;
  if (place.inside) memory_.learn(thread, cpu_views_[at(place.cpu)]);
  for (int other = 0; other < program_.threads; ++other)
    if (other != thread && places_[at(other)].cpu == place.cpu) interrupt(other);
}

// Whoever enters a section of the CPU later sees what was done in this one (a switch of threads is a full barrier).
void Execution::leave_view(int thread) {
  const Place& place = places_[at(thread)];
  if (place.inside && place.cpu >= 0) cpu_views_[at(place.cpu)] = memory_.all_seen_by(thread);
}

// What run_on_cpu will tell the thread of one word.
Timestamp Execution::to_learn(int thread, int location) const {
  const Place& place = places_[at(thread)];
  if (place.cpu < 0 || !place.inside) return 0;
  return cpu_views_[at(place.cpu)].at[at(kClocks + location)];
}

void Execution::interrupt(int thread) {
  Place& place = places_[at(thread)];
  if (!place.begun || place.interrupted) return;
  place.interrupted = true;
  restart_ = Operation{Kind::kRestart, kRelaxed, kRelaxed, 8, -1, 0, 0, {"", 0}, 0, false};
  pending_[at(thread)] = &restart_;
}

void Execution::begin_section() {
  Place& place = places_[at(running_)];
  if (place.interrupted) ++place.restarts;
  place.inside = true;
  place.begun = place.interrupted = false;
}

void Execution::end_section() {
  Place& place = places_[at(running_)];
  place.inside = place.begun = false;
  place.restarts = 0;
}

void Execution::perform_special(Kind kind) {
  needs_sleep_sets();
  Operation op{kind, kRelaxed, kRelaxed, 8, -1, 0, 0, {"", 0}, 0, false};
  perform(op);
}

void Execution::barrier(int thread) {
  if (trace_) trace_line(thread, "interrupts all sections");
  for (int other = 0; other < program_.threads; ++other) {
    if (other == thread) continue;
    interrupt(other);
    memory_.learn(thread, other);
  }
  const View all = memory_.all_seen_by(thread);
  for (int other = 0; other < program_.threads; ++other) memory_.learn(other, all);
}

void Execution::fork(int thread) {
  if (trace_) trace_line(thread, "forks: the other threads stay behind");
  runnable_ &= 1U << thread;
  for (int other = 0; other < program_.threads; ++other)
    if (other != thread) memory_.learn(thread, other);
}

void Execution::make_threads() {
  if (trace_) trace_line(running_, "makes threads");
  const int maker = running_;
  const unsigned made = waiting_;
  waiting_ = 0;
  for (int thread = 0; thread < program_.threads; ++thread) {
    if ((made >> thread & 1) == 0) continue;
    memory_.learn(thread, maker);
    runnable_ |= 1U << thread;
    unstarted_ |= 1U << thread;
  }
}

}  // namespace freeway::model
