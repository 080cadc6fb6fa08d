// SPDX-License-Identifier: MIT
//
// phold: the PHOLD benchmark of HMalloc (Li, Yao, Tang, Zhu, Lin 2020, section 4.6 and Fig. 12): execution time under
// remote events of 0 to 100 %, events of 8 bytes, conservative synchronisation. program.h has the arguments of all
// simulations; one operation is one committed event; the unit of time is the mean delay.
//
//   --remote P           percent of the events that go to any process instead of the same one (25: ROSS's default).
//                        So with T threads about P * (1 - 1/T) percent go to another thread
//   --lps N              logical processes (1024: our choice; ROSS has 8 for each thread. The number does not depend on
//                        the threads here, so that the work does not)
//   --start-events N     that each process starts with (16: our choice; ROSS has 1)
//   --lookahead N        least delay, in thousandths of the mean (100: our choice). Mean delay 1: ROSS's default
//   --end T              (240) 4 * 10^6 events: our choice, the paper does not say how long it ran
//   --window N           (250) our choice: about 4000 events
//
// Unlike the paper's, where an event's block is 8 bytes, a block holds the engine's links and key beside the payload,
// 72 bytes in all, as in ROSS.
#include "simulation/phold.h"

#include "simulation/program.h"

int main(int argc, char** argv) {
  using namespace simulation;
  const Arguments arguments(argc, argv);
  Phold::Parameters parameters{};
  parameters.processes = arguments.number("lps", 1024);
  parameters.events = arguments.number("start-events", 16);
  parameters.remote = arguments.percent("remote", 25);
  parameters.mean = kTicksPerUnit;
  parameters.lookahead = std::min(kTicksPerUnit, arguments.number("lookahead", 100) * kTicksPerUnit / 1000);
  return run_program("phold", arguments, Phold(parameters), arguments.settings(240, 250));
}
