// SPDX-License-Identifier: MIT
// stacks.h: what people look at: stacks of functions, and what was allocated there; of one dump, or of two beside each
// other.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "dump.h"
#include "estimate.h"
#include "modules.h"
#include "symbols.h"

namespace freeway_profile {

// A dump, with what its files say of it.
struct Profile {
  explicit Profile(Dump read);

  Dump dump;
  Modules modules;
  Symbols symbols;
};

struct Function {
  std::string name;    // "a.out+0x1234" where it has none
  std::string file;    // of the source; may be empty
  std::string module;  // name of the program or library, without its folder; may be empty
};

// A mean over blocks.
struct Mean {
  double sum = 0, weight = 0;
  void add(double value, double of) {
    sum += value * of;
    weight += of;
  }
  void operator+=(const Mean& other) {
    sum += other.sum;
    weight += other.weight;
  }
  bool is_known() const { return weight > 0; }
  double value() const { return sum / weight; }
};

struct Stack {
  std::vector<std::uint32_t> functions;  // indices, the innermost first
  std::vector<int> lines;                // of each in its file; 0: not known
  Estimate now, before;                  // `before`: of the dump to compare with
  Mean age_ms, lifetime_ms;              // of what is live now, of what was freed

  double change(Measure measure) const { return now.value[measure] - before.value[measure]; }
};

// Stacks of the same functions and lines are one. Addresses do not matter, so that two processes can be compared.
class Stacks {
 public:
  explicit Stacks(Profile& now, Profile* before = nullptr);

  const std::vector<Function>& functions() const { return functions_; }
  const std::vector<Stack>& all() const { return stacks_; }
  const Estimate& now() const { return now_; }
  const Estimate& before() const { return before_; }
  bool has_base() const { return has_base_; }
  // Those that `measure` counts anything of, the largest first; with a base, the largest changes.
  std::vector<const Stack*> largest(Measure measure) const;

 private:
  void add(Profile& profile, Estimate Stack::* which, Estimate& sum);
  // Function and line of each call around an address, the innermost first.
  using Places = std::unordered_map<std::uint64_t, std::vector<std::pair<std::uint32_t, int>>>;
  Stack& stack_of(Profile& profile, Places& places, const std::vector<std::uint64_t>& addresses);
  std::vector<std::pair<std::uint32_t, int>> places_at(Profile& profile, std::uint64_t address);
  std::uint32_t function_of(const Function& function);

  std::vector<Function> functions_;
  std::vector<Stack> stacks_;
  std::map<std::string, std::uint32_t> function_ids_;
  std::map<std::vector<std::uint64_t>, std::size_t> stack_ids_;  // by function and line
  Estimate now_, before_;
  const bool has_base_;
};

}  // namespace freeway_profile
