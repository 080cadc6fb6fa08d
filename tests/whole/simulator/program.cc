// SPDX-License-Identifier: MIT
#include "tests/whole/simulator/program.h"

#include <cstdio>

#include "tests/whole/simulator/kernel.h"
#include "tests/whole/simulator/state.h"
#include "tests/whole/simulator/world.h"

extern "C" {
extern char sim_single_threaded;
extern unsigned sim_rseq_size;
extern unsigned long sim_feature_size;
}

namespace freeway::sim {

Totals totals;
State state;

namespace {

void on_signal() {
  const std::uint64_t calls = state.random.between(1, 3);
  for (std::uint64_t i = 0; i < calls; ++i) make_call(state.plan.weights);
}

void run_thread(int t) {
  const Plan& plan = state.plan;
  if (t == 0) call_malloc();  // as the C library does before it makes a thread
  if (t == 0 && plan.ballast != 0) state.ballast = freeway_malloc(plan.ballast);
  for (unsigned i = 0; i < plan.calls; ++i) {
    // The first thread starts the others, one by one.
    if (t == 0 && state.next_thread < static_cast<unsigned>(plan.threads) && i >= plan.calls * state.next_thread / 32) {
      sim_single_threaded = 0;
      world.start(static_cast<int>(state.next_thread), run_thread,
                  static_cast<unsigned>(world.random.below(world.cpus)), !world.random.one_in(24));
      ++state.next_thread;
    }
    make_call(plan.weights);
    check_when_alone();
    if (world.is_child && i + 12 < plan.calls) i = plan.calls - 12;
  }
}

}  // namespace

std::string run_seed(std::uint64_t seed, bool trace) {
  world.reset(seed);
  world.trace = trace;
  make_plan(seed);
  if (trace) {
    printf("seed %llu: %d threads, %u calls each, %u CPUs, %u nodes, an event each %llu operations\n",
           static_cast<unsigned long long>(seed), state.plan.threads, state.plan.calls, world.cpus, world.nodes,
           static_cast<unsigned long long>(world.pace));
    for (const std::string& option : state.plan.options) printf("  %s\n", option.c_str());
    for (int i = 0; i < kEvents; ++i)
      printf("  %s %llu", kEventNames[i], static_cast<unsigned long long>(world.weights[i]));
    printf("\n  refused: one in %llu; page %zu; rseq %s\n", static_cast<unsigned long long>(kernel.refused_one_in),
           kernel.page,
           sim_rseq_size == 0      ? "none"
           : sim_feature_size < 28 ? "by cpu_id"
                                   : "by mm_cid");
  }
  world.handler(on_signal);
  world.auditor(look);
  state.next_thread = 1;
  world.start(0, run_thread, 0, true);
  world.start(kLast, finish, 0, false);
  world.threads[kAuditor].registered = false;
  world.run();
  for (int i = 0; i < kEvents; ++i) totals.events[i] += world.happened[i];
  totals.children += world.children;
  totals.refusals += kernel.refusals;
  totals.lost += world.lost_calls;
  return world.failure();
}

}  // namespace freeway::sim
