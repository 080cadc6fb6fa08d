// SPDX-License-Identifier: MIT
//
// run.h: a model from its first event to its end, by any form of synchronisation.
#ifndef FREEWAY_BENCH_SIMULATION_RUN_H
#define FREEWAY_BENCH_SIMULATION_RUN_H

#include <algorithm>
#include <deque>

#include "simulation/conservative.h"
#include "simulation/time_warp.h"
#include "support/thread_team.h"

namespace simulation {

enum class Synchronisation { kSequential, kConservative, kTimeWarp };

struct Outcome {
  bench::Stopwatch watch;  // first and last events included, creation of threads not
  std::uint64_t committed = 0;
  std::uint64_t checksum = 0;  // of the committed events: depends on model, seed and end alone
  BlockCounts blocks;
  std::uint64_t rounds = 0;  // windows, or GVT rounds
  std::uint64_t rolled_back = 0;
  std::uint64_t anti_messages = 0;
};

template <class Model> void run_sequentially(World<Model>& world, Outcome& outcome) {
  SequentialExecutor<Model> executor(world);
  // On a thread as well: an allocator may treat the first thread differently.
  bench::ThreadTeam(1).run(outcome.watch, [&](std::size_t) { executor.run(); });
  outcome.blocks = executor.counts();
}

template <class Model> void run_conservatively(World<Model>& world, Outcome& outcome) {
  using Thread = ConservativeExecutor<Model>;
  const std::uint32_t threads = world.settings.threads;
  ReductionBarrier barrier(threads);
  std::deque<Thread> executors;
  for (std::uint32_t i = 0; i < threads; ++i) executors.emplace_back(world, i);
  bench::ThreadTeam(threads).run(outcome.watch, [&](std::size_t i) { executors[i].run(barrier); });
  for (const Thread& executor : executors) outcome.blocks.add(executor.counts());
  outcome.rounds = executors[0].windows();
}

template <class Model, class Faults> void run_optimistically(World<Model>& world, Outcome& outcome) {
  using Thread = TimeWarpThread<Model, Faults>;
  const std::uint32_t threads = world.settings.threads;
  typename Thread::Meeting meeting(threads);
  std::deque<Thread> members;
  for (std::uint32_t i = 0; i < threads; ++i) members.emplace_back(world, i, meeting);
  bench::ThreadTeam(threads).run(outcome.watch, [&](std::size_t i) { members[i].run(); });
  for (const Thread& member : members) {
    outcome.blocks.add(member.executor().counts());
    outcome.rolled_back += member.executor().rolled_back();
    outcome.anti_messages += member.executor().anti_messages();
  }
  outcome.rounds = members[0].rounds();
}

template <class Model, class Faults = NoFaults>
Outcome run(const Model& model, Settings settings, Synchronisation synchronisation) {
  const bool sequential = synchronisation == Synchronisation::kSequential;
  settings.threads = sequential ? 1 : std::min(settings.threads, model.processes());
  World<Model> world(model, settings);
  Outcome outcome;
  switch (synchronisation) {
    case Synchronisation::kSequential: run_sequentially(world, outcome); break;
    case Synchronisation::kConservative: run_conservatively(world, outcome); break;
    case Synchronisation::kTimeWarp: run_optimistically<Model, Faults>(world, outcome); break;
  }
  outcome.committed = world.committed();
  outcome.checksum = world.checksum();
  return outcome;
}

}  // namespace simulation

#endif  // FREEWAY_BENCH_SIMULATION_RUN_H
