// SPDX-License-Identifier: MIT
//
// pcs: the PCS benchmark of HMalloc (Li, Yao, Tang, Zhu, Lin 2020, section 4.7 and Fig. 13): execution time under 20 to
// 200 events a cell, events of 36 bytes, conservative synchronisation. program.h has the arguments of all simulations;
// one operation is one committed event; the unit of time is a second.
//
//   --events-per-cell N  phones that each cell starts with, each of which has one event (20; ROSS has 16)
//   --side N             of the square of cells (32: ROSS's default, 1024 cells)
//   --channels N         of each cell (10: ROSS's default)
//   --hand-off N         seconds, the lookahead (10: our choice; in ROSS's model it takes no time)
//   --end T              (36000) 2.8 * 10^6 events at 20 a cell: our choice, the paper does not say how long it ran
//   --window N           (60000) our choice: about 5000 events at 20 a cell
// Mean call 180, between calls 360, in one cell 4500: ROSS's defaults. ROSS's reserve channels, of which its default is
// none, are left out.
//
// Unlike the paper's, a block holds the engine's links and key beside the 36 bytes, 104 in all.
#include "simulation/pcs.h"

#include "simulation/program.h"

int main(int argc, char** argv) {
  using namespace simulation;
  const Arguments arguments(argc, argv);
  Pcs::Parameters parameters{};
  parameters.side = arguments.number("side", 32);
  parameters.phones = arguments.number("events-per-cell", 20);
  parameters.channels = arguments.number("channels", 10);
  parameters.mean_pause = 360 * kTicksPerUnit;
  parameters.mean_call = 180 * kTicksPerUnit;
  parameters.mean_stay = 4500 * kTicksPerUnit;
  parameters.hand_off = arguments.number("hand-off", 10) * kTicksPerUnit;
  return run_program("pcs", arguments, Pcs(parameters), arguments.settings(36000, 60'000));
}
