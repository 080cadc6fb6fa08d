// SPDX-License-Identifier: MIT
//
// Airport: planes that fly between neighbouring airports for ever. Three events, as HMalloc (2020, section 4.8) names
// them: DEPARTURE at an airport sends ARRIVAL to another one, ARRIVAL sends LAND to the same airport some time later,
// and LAND sends the plane's next DEPARTURE.
#ifndef FREEWAY_BENCH_SIMULATION_AIRPORT_H
#define FREEWAY_BENCH_SIMULATION_AIRPORT_H

#include <algorithm>
#include <cstdint>

#include "simulation/grid.h"
#include "simulation/process.h"

namespace simulation {

class Airport {
 public:
  struct Parameters {
    std::uint32_t side;    // of the grid of airports
    std::uint32_t planes;  // that each airport starts with
    Time mean_ground;      // from LAND to DEPARTURE, ticks
    Time mean_flight;      // with the shortest flight in it
    Time mean_landing;     // from ARRIVAL to LAND
    Time shortest_flight;  // the lookahead
  };
  enum class Kind : std::uint32_t { kArrival, kDeparture, kLand };
  struct Payload {
    Kind kind;
    std::uint32_t flights;  // of this plane so far
    std::uint64_t plane;
    Time waited;  // in the air, all flights together
  };
  struct State {
    std::uint32_t on_the_ground = 0;
    std::uint32_t in_the_sky = 0;
    std::uint64_t landings = 0;
    Time waited = 0;
    Time furthest_landing = 0;
  };
  static constexpr std::uint32_t kMaxSends = 1;

  explicit Airport(const Parameters& parameters) : parameters_(parameters), grid_(parameters.side) {}

  std::uint32_t processes() const { return grid_.cells(); }
  Time lookahead() const { return parameters_.shortest_flight; }

  void start(Context<Airport>& context, State& state) const {
    state.on_the_ground = parameters_.planes;
    for (std::uint32_t i = 0; i < parameters_.planes; ++i)
      depart_later(context, {Kind::kDeparture, 0, (std::uint64_t{context.self()} << 32) | i, 0});
  }

  void execute(Context<Airport>& context, State& state, const Payload& payload) const {
    switch (payload.kind) {
      case Kind::kDeparture: {
        --state.on_the_ground;
        const Time flight = parameters_.shortest_flight +
                            context.random().exponential(parameters_.mean_flight - parameters_.shortest_flight);
        context.send(grid_.neighbour(context.self(), context.random().below(4)), flight,
                     {Kind::kArrival, payload.flights + 1, payload.plane, payload.waited});
        return;
      }
      case Kind::kArrival: {
        ++state.in_the_sky;
        const Time landing = 1 + context.random().exponential(parameters_.mean_landing);
        state.furthest_landing = std::max(state.furthest_landing, context.now() + landing);
        context.send(context.self(), landing, {Kind::kLand, payload.flights, payload.plane, payload.waited + landing});
        return;
      }
      case Kind::kLand:
        --state.in_the_sky;
        ++state.on_the_ground;
        ++state.landings;
        state.waited += payload.waited;
        depart_later(context, {Kind::kDeparture, payload.flights, payload.plane, payload.waited});
    }
  }

  static std::uint64_t digest(const Payload& payload) {
    const std::uint64_t next = (std::uint64_t{payload.flights} << 2) | std::uint64_t(payload.kind);
    return fold(fold(payload.plane, payload.waited), next);
  }
  static std::uint64_t digest(const State& state) {
    const std::uint64_t planes = (std::uint64_t{state.on_the_ground} << 32) | state.in_the_sky;
    return fold(fold(fold(planes, state.landings), state.waited), state.furthest_landing);
  }

 private:
  void depart_later(Context<Airport>& context, const Payload& payload) const {
    context.send(context.self(), 1 + context.random().exponential(parameters_.mean_ground), payload);
  }

  Parameters parameters_;
  Grid grid_;
};

}  // namespace simulation

#endif  // FREEWAY_BENCH_SIMULATION_AIRPORT_H
