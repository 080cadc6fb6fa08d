// SPDX-License-Identifier: MIT
//
// small_models.h: the benchmark's models, small and with coarse ticks, so that many events are at the same time and are
// told apart by the rest of their keys only.
#ifndef FREEWAY_TESTS_BENCH_SIMULATION_SMALL_MODELS_H
#define FREEWAY_TESTS_BENCH_SIMULATION_SMALL_MODELS_H

#include "simulation/airport.h"
#include "simulation/pcs.h"
#include "simulation/phold.h"
#include "simulation/run.h"

namespace simulation::test {

inline Phold small_phold(std::uint32_t remote) {
  return Phold({.processes = 13, .events = 3, .remote = remote, .mean = 20, .lookahead = 2});
}

inline Airport small_airport() {
  return Airport(
      {.side = 4, .planes = 3, .mean_ground = 20, .mean_flight = 8, .mean_landing = 6, .shortest_flight = 2});
}

// Few channels, short stays: calls are blocked and dropped.
inline Pcs small_pcs() {
  return Pcs(
      {.side = 4, .phones = 3, .channels = 2, .mean_pause = 30, .mean_call = 20, .mean_stay = 25, .hand_off = 2});
}

template <class Model> Outcome reference(const Model& model, std::uint64_t seed, Time end) {
  Settings settings;
  settings.seed = seed;
  settings.end = end;
  return run(model, settings, Synchronisation::kSequential);
}

}  // namespace simulation::test

#endif  // FREEWAY_TESTS_BENCH_SIMULATION_SMALL_MODELS_H
