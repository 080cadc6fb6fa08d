// SPDX-License-Identifier: MIT
//
// airport: the Airport benchmark of HMalloc (Li, Yao, Tang, Zhu, Lin 2020, section 4.8 and Fig. 14): execution time
// under 50 to 500 planes an airport, conservative synchronisation. program.h has the arguments of all simulations; one
// operation is one committed event; the unit of time is a minute.
//
//   --planes N           that each airport starts with, each of which has one event (50; ROSS has 1)
//   --side N             of the square of airports (32: ROSS's default, 1024 airports)
//   --shortest-flight N  thousandths of a minute, the lookahead (500: our choice; in ROSS's model there is none)
//   --end T              (900) 3.4 * 10^6 events at 50 planes: our choice, the paper does not say how long it ran
//   --window N           (1000) our choice: about 4000 events at 50 planes
// Mean time on the ground 30, of a flight 1, from arrival to landing 10, flights to one of the four neighbours: ROSS's
// defaults. Planes do not queue for one runway as in ROSS's model, made for one plane an airport: with 50 and more
// nearly all would be in that queue. The paper says that LAND comes a certain time after ARRIVAL.
//
// An event's block is 88 bytes, of which 24 are the model's. The paper does not say how large they are.
#include "simulation/airport.h"

#include "simulation/program.h"

int main(int argc, char** argv) {
  using namespace simulation;
  const Arguments arguments(argc, argv);
  Airport::Parameters parameters{};
  parameters.side = arguments.number("side", 32);
  parameters.planes = arguments.number("planes", 50);
  parameters.mean_ground = 30 * kTicksPerUnit;
  parameters.mean_landing = 10 * kTicksPerUnit;
  parameters.mean_flight = kTicksPerUnit;
  parameters.shortest_flight = std::min(kTicksPerUnit, arguments.number("shortest-flight", 500) * kTicksPerUnit / 1000);
  return run_program("airport", arguments, Airport(parameters), arguments.settings(900, 1000));
}
