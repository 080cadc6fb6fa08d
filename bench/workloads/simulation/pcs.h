// SPDX-License-Identifier: MIT
//
// Pcs: a personal communication service, after Carothers, Fujimoto and Lin, "A case study in simulating PCS networks
// using Time Warp" (1995). Each process is a cell with a number of radio channels. Phones roam between neighbouring
// cells. A call takes a channel of its cell; if none is free, it is blocked. A phone that leaves its cell during a call
// gives the channel back and needs one in the next cell (a hand-off); if none is free there, the call is dropped.
//
// Every phone has exactly one event, which carries all it is going to do next. A phone that is not calling makes no
// events where it merely passes through: its next event is at the cell in which it makes its next call.
#ifndef FREEWAY_BENCH_SIMULATION_PCS_H
#define FREEWAY_BENCH_SIMULATION_PCS_H

#include <algorithm>
#include <cstdint>

#include "simulation/grid.h"
#include "simulation/process.h"

namespace simulation {

class Pcs {
 public:
  struct Parameters {
    std::uint32_t side;      // of the grid of cells
    std::uint32_t phones;    // that each cell starts with: its events
    std::uint32_t channels;  // of each cell
    Time mean_pause;         // between the starts of a phone's calls, ticks
    Time mean_call;
    Time mean_stay;  // of a phone in one cell
    Time hand_off;   // how long it takes at least to come into another cell: the lookahead
  };
  enum class Kind : std::uint32_t { kCall, kCompletion, kLeave, kEnter };
  // 36 bytes: when the phone's call ends (kNever: it is not calling), its next one starts, and it leaves the cell.
  struct [[gnu::packed]] Payload {
    Kind kind;
    Time completion;
    Time next_call;
    Time leave;
    std::uint32_t calls;  // of this phone so far
    std::uint32_t cells;  // visited by this phone so far
  };
  static_assert(sizeof(Payload) == 36);
  struct State {
    std::uint32_t free_channels = 0;
    std::uint32_t attempts = 0;
    std::uint32_t blocked = 0;
    std::uint32_t dropped = 0;
    std::uint32_t busy = 0;  // a phone's next call came while it was still calling
    std::uint32_t entered = 0;
  };
  static constexpr std::uint32_t kMaxSends = 1;

  explicit Pcs(const Parameters& parameters) : parameters_(parameters), grid_(parameters.side) {}

  std::uint32_t processes() const { return grid_.cells(); }
  Time lookahead() const { return parameters_.hand_off; }

  void start(Context<Pcs>& context, State& state) const {
    state.free_channels = parameters_.channels;
    // A phone's first call is in the cell it starts in, so that every cell starts with the same number of events.
    for (std::uint32_t i = 0; i < parameters_.phones; ++i) {
      const Time next_call = 1 + context.random().exponential(parameters_.mean_pause);
      const Time leave = next_call + 1 + context.random().exponential(parameters_.mean_stay);
      context.send(context.self(), next_call, {Kind::kCall, kNever, next_call, leave, 0, 0});
    }
  }

  void execute(Context<Pcs>& context, State& state, const Payload& payload) const {
    Payload phone = payload;
    switch (payload.kind) {
      case Kind::kCall:
        ++state.attempts;
        phone.next_call = context.now() + 1 + context.random().exponential(parameters_.mean_pause);
        if (state.free_channels == 0) {
          ++state.blocked;
        } else {
          --state.free_channels;
          ++phone.calls;
          phone.completion = context.now() + 1 + context.random().exponential(parameters_.mean_call);
        }
        break;
      case Kind::kCompletion:
        ++state.free_channels;
        phone.completion = kNever;
        break;
      case Kind::kLeave:
        ++state.free_channels;
        ++phone.cells;
        phone.kind = Kind::kEnter;
        context.send(grid_.neighbour(context.self(), context.random().below(4)), parameters_.hand_off, phone);
        return;
      case Kind::kEnter:
        ++state.entered;
        phone.leave = context.now() + 1 + context.random().exponential(parameters_.mean_stay);
        if (state.free_channels == 0) {
          ++state.dropped;
          phone.completion = kNever;
        } else {
          --state.free_channels;
        }
        break;
    }
    schedule(context, state, phone);
  }

  static std::uint64_t digest(const Payload& payload) {
    const std::uint64_t counts = (std::uint64_t{payload.calls} << 32) | payload.cells;
    const std::uint64_t times = fold(fold(payload.completion, payload.next_call), payload.leave);
    return fold(fold(times, counts), std::uint64_t(payload.kind));
  }
  static std::uint64_t digest(const State& state) {
    const std::uint64_t calls = (std::uint64_t{state.attempts} << 32) | state.blocked;
    const std::uint64_t moves = (std::uint64_t{state.dropped} << 32) | state.entered;
    return fold(fold(calls, moves), (std::uint64_t{state.busy} << 32) | state.free_channels);
  }

 private:
  // The next thing that `phone`, in this cell, does.
  void schedule(Context<Pcs>& context, State& state, Payload phone) const {
    if (phone.completion == kNever) {
      roam(context, phone);
      return;
    }
    // A call that would start during another one does not start.
    while (phone.next_call < phone.completion && phone.next_call < phone.leave) {
      ++state.busy;
      phone.next_call = phone.next_call + 1 + context.random().exponential(parameters_.mean_pause);
    }
    const Time now = context.now();
    phone.kind = phone.leave < phone.completion ? Kind::kLeave : Kind::kCompletion;
    // A phone that came late out of a hand-off does at once what it should have done meanwhile.
    context.send(context.self(), std::max(std::min(phone.leave, phone.completion), now + 1) - now, phone);
  }

  // A phone that is not calling goes its way until its next call, and its event goes straight there.
  void roam(Context<Pcs>& context, Payload phone) const {
    ProcessId cell = context.self();
    while (phone.leave < phone.next_call) {
      cell = grid_.neighbour(cell, context.random().below(4));
      phone.leave = phone.leave + 1 + context.random().exponential(parameters_.mean_stay);
      ++phone.cells;
    }
    const Time soonest = context.now() + (cell == context.self() ? 1 : parameters_.hand_off);
    phone.kind = Kind::kCall;
    context.send(cell, std::max<Time>(phone.next_call, soonest) - context.now(), phone);
  }

  Parameters parameters_;
  Grid grid_;
};

}  // namespace simulation

#endif  // FREEWAY_BENCH_SIMULATION_PCS_H
