// SPDX-License-Identifier: MIT
//
// script.h: a model whose few events a test writes down, with all that they lead to.
#ifndef FREEWAY_TESTS_BENCH_SIMULATION_SCRIPT_H
#define FREEWAY_TESTS_BENCH_SIMULATION_SCRIPT_H

#include <stdexcept>
#include <utility>
#include <vector>

#include "simulation/process.h"
#include "simulation/time_warp_executor.h"

namespace simulation::test {

constexpr ProcessId kNobody = 99;

// Four processes; with two threads 0 and 1 are the first one's, 2 and 3 the second one's. Each process remembers the
// tags of its events in their order. An event sends, if it names somebody, one event with its tag plus 100 there.
class Script {
 public:
  struct Payload {
    std::uint64_t tag;
    ProcessId to;
    Time delay;
    ProcessId then_to = kNobody;  // what the event sent there sends on
    Time then_delay = 0;
    bool only_first = false;  // sends only if it is its process's first event
  };
  struct State {
    std::uint64_t tags = 0;  // three decimal digits each
  };
  struct First {
    ProcessId process;
    Time time;
    Payload payload;
  };
  static constexpr std::uint32_t kMaxSends = 1;

  explicit Script(std::vector<First> firsts) : firsts_(std::move(firsts)) {}
  std::uint32_t processes() const { return 4; }
  Time lookahead() const { return 1; }
  void start(Context<Script>& context, State&) const {
    for (const First& first : firsts_)
      if (first.process == context.self()) context.send(first.process, first.time, first.payload);
  }
  void execute(Context<Script>& context, State& state, const Payload& payload) const {
    const bool sends = payload.to != kNobody && !(payload.only_first && state.tags != 0);
    state.tags = state.tags * 1000 + payload.tag;
    if (sends) context.send(payload.to, payload.delay, {payload.tag + 100, payload.then_to, payload.then_delay});
  }
  static std::uint64_t digest(const Payload& payload) { return payload.tag; }
  static std::uint64_t digest(const State& state) { return state.tags; }

 private:
  std::vector<First> firsts_;
};

struct ThrowingFaults : NoFaults {
  [[noreturn]] static void broken(const char* what) { throw std::logic_error(what); }
};

}  // namespace simulation::test

#endif  // FREEWAY_TESTS_BENCH_SIMULATION_SCRIPT_H
