// SPDX-License-Identifier: MIT
// facts.h: what the kernel and the C library offer, and what follows from it for Freeway.
#pragma once

#include <string>
#include <vector>

namespace freeway_command {

struct Fact {
  std::string name;
  std::string value;
  std::string consequence;  // empty: all is as Freeway likes it
};

std::vector<Fact> gather_facts();

}  // namespace freeway_command
