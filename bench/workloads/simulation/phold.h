// SPDX-License-Identifier: MIT
//
// Phold: the synthetic model of Fujimoto, "Performance of Time Warp under synthetic workloads" (1990). There is a fixed
// number of events; each, when executed, sends one: to its own process, or, with a probability of `remote` percent, to
// any process. Its delay is the lookahead plus an exponentially distributed time.
//
// Here a payload depends on the state that the event found, so one event executed in the wrong order changes all that
// come after it.
#ifndef FREEWAY_BENCH_SIMULATION_PHOLD_H
#define FREEWAY_BENCH_SIMULATION_PHOLD_H

#include <cstdint>

#include "simulation/process.h"

namespace simulation {

class Phold {
 public:
  struct Parameters {
    std::uint32_t processes;
    std::uint32_t events;  // that each process starts with
    std::uint32_t remote;  // percent
    Time mean;             // of the delay, with the lookahead in it; ticks
    Time lookahead;
  };
  struct Payload {
    std::uint64_t stamp;
  };
  static_assert(sizeof(Payload) == 8);
  struct State {
    std::uint64_t received = 0;
    std::uint64_t last_stamp = 0;
  };
  static constexpr std::uint32_t kMaxSends = 1;

  explicit Phold(const Parameters& parameters) : parameters_(parameters) {}

  std::uint32_t processes() const { return parameters_.processes; }
  Time lookahead() const { return parameters_.lookahead; }

  void start(Context<Phold>& context, State& state) const {
    for (std::uint32_t i = 0; i < parameters_.events; ++i) send(context, context.self(), state);
  }

  void execute(Context<Phold>& context, State& state, const Payload& payload) const {
    ++state.received;
    state.last_stamp = fold(state.last_stamp, payload.stamp);
    const bool remote = context.random().below(100) < parameters_.remote;
    send(context, remote ? context.random().below(parameters_.processes) : context.self(), state);
  }

  static std::uint64_t digest(const Payload& payload) { return payload.stamp; }
  static std::uint64_t digest(const State& state) { return fold(state.last_stamp, state.received); }

 private:
  void send(Context<Phold>& context, ProcessId destination, const State& state) const {
    const Time delay = parameters_.lookahead + context.random().exponential(parameters_.mean - parameters_.lookahead);
    context.send(destination, delay, {context.random().next() ^ state.last_stamp});
  }

  Parameters parameters_;
};

}  // namespace simulation

#endif  // FREEWAY_BENCH_SIMULATION_PHOLD_H
