// SPDX-License-Identifier: MIT
//
// Grid: processes on a square torus, numbered row by row.
#ifndef FREEWAY_BENCH_SIMULATION_GRID_H
#define FREEWAY_BENCH_SIMULATION_GRID_H

#include <cstdint>

#include "simulation/event.h"

namespace simulation {

class Grid {
 public:
  explicit Grid(std::uint32_t side) : side_(side) {}

  std::uint32_t cells() const { return side_ * side_; }

  // direction: 0 north, 1 south, 2 east, 3 west.
  ProcessId neighbour(ProcessId cell, std::uint32_t direction) const {
    const std::uint32_t column = cell % side_;
    switch (direction) {
      case 0: return (cell + cells() - side_) % cells();
      case 1: return (cell + side_) % cells();
      case 2: return column + 1 == side_ ? cell + 1 - side_ : cell + 1;
      default: return column == 0 ? cell + side_ - 1 : cell - 1;
    }
  }

 private:
  std::uint32_t side_;
};

}  // namespace simulation

#endif  // FREEWAY_BENCH_SIMULATION_GRID_H
