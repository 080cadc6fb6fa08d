// SPDX-License-Identifier: MIT
// symbols.h: what the program's files say of an address: function, source file, line. Of code in no file: perf_map.h.
#pragma once

#include <cstdint>
#include <unordered_map>
#include <vector>

#include "modules.h"
#include "perf_map.h"
#include "scopes.h"

namespace freeway_profile {

class Symbols {
 public:
  // `pid`: whose addresses they are; 0: not known.
  Symbols(const Modules& modules, std::uint64_t pid) : modules_(modules), perf_map_(pid) {}

  // The call behind which `address` is: the innermost function first, then those that it was inlined into. Never empty.
  const std::vector<Line>& of_return_address(std::uint64_t address);

 private:
  std::vector<Line> look_up(std::uint64_t address);
  bool unit_of(Dwfl_Module* module, std::uint64_t address, Dwarf_Die* unit, Dwarf_Addr* bias);

  const Modules& modules_;
  const PerfMap perf_map_;
  std::unordered_map<std::uint64_t, std::vector<Line>> known_;
  std::unordered_map<Dwfl_Module*, std::vector<CodeRange>> units_;     // where the table of addresses is missing
  std::unordered_map<const void*, std::vector<CodeRange>> functions_;  // by unit
};

}  // namespace freeway_profile
