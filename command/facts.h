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

// As a line of doctor's list, or two.
void print(const Fact& fact);

}  // namespace freeway_command
