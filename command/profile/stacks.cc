// SPDX-License-Identifier: MIT
#include "stacks.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "readable.h"
#include "unwind.h"
#include "waste.h"

namespace freeway_profile {
namespace {

std::string name_of_file(const std::string& path) { return path.substr(path.rfind('/') + 1); }

Function function_at(const Profile& profile, const Line& line, const Mapping* mapping, std::uint64_t address) {
  Function function{line.function, line.file, mapping == nullptr ? "" : name_of_file(mapping->file)};
  if (!function.name.empty()) return function;
  function.name = mapping == nullptr || mapping->file.empty()
                      ? hexadecimal(address)
                      : function.module + "+" + hexadecimal(profile.modules.address_in_file(*mapping, address));
  return function;
}

}  // namespace

Profile::Profile(Dump read) : dump(std::move(read)), modules(dump), symbols(modules, dump.number("pid")) {
  unwind_copies(dump, modules);
  attribute_waste(dump);
}

Stacks::Stacks(Profile& now, Profile* before) : has_base_(before != nullptr) {
  add(now, &Stack::now, now_);
  if (before != nullptr) add(*before, &Stack::before, before_);
}

void Stacks::add(Profile& profile, Estimate Stack::* which, Estimate& sum) {
  Places places;
  for (const Sample& sample : profile.dump.samples) {
    const Estimate estimated = estimate(sample, profile.dump.interval);
    Stack& stack = stack_of(profile, places, sample.addresses);
    stack.*which += estimated;
    sum += estimated;
    if (which != &Stack::now) continue;
    const double live = estimated.value[kInuseObjects];
    if (sample.age_ms) stack.age_ms.add(static_cast<double>(*sample.age_ms), live);
    if (sample.lifetime_ms)
      stack.lifetime_ms.add(static_cast<double>(*sample.lifetime_ms),
                            std::max(0.0, estimated.value[kAllocObjects] - live));
  }
}

Stack& Stacks::stack_of(Profile& profile, Places& places, const std::vector<std::uint64_t>& addresses) {
  Stack stack;
  std::vector<std::uint64_t> key;
  for (const std::uint64_t address : addresses) {
    const auto [known, is_new] = places.try_emplace(address);
    if (is_new) known->second = places_at(profile, address);
    for (const auto& [function, line] : known->second) {
      stack.functions.push_back(function);
      stack.lines.push_back(line);
      key.push_back(std::uint64_t{function} << 32 | static_cast<std::uint32_t>(line));
    }
  }
  const auto [place, is_new] = stack_ids_.try_emplace(std::move(key), stacks_.size());
  if (is_new) stacks_.push_back(std::move(stack));
  return stacks_[place->second];
}

std::vector<std::pair<std::uint32_t, int>> Stacks::places_at(Profile& profile, std::uint64_t address) {
  std::vector<std::pair<std::uint32_t, int>> found;
  const Mapping* mapping = profile.dump.mapping_of(address - 1);
  for (const Line& line : profile.symbols.of_return_address(address))
    found.emplace_back(function_of(function_at(profile, line, mapping, address)), line.line);
  return found;
}

std::uint32_t Stacks::function_of(const Function& function) {
  const std::string key = function.name + '\0' + function.file + '\0' + function.module;
  const auto [place, is_new] = function_ids_.try_emplace(key, static_cast<std::uint32_t>(functions_.size()));
  if (is_new) functions_.push_back(function);
  return place->second;
}

std::vector<const Stack*> Stacks::largest(Measure measure) const {
  std::vector<const Stack*> found;
  for (const Stack& stack : stacks_)
    if (stack.change(measure) != 0) found.push_back(&stack);
  std::stable_sort(found.begin(), found.end(), [measure](const Stack* a, const Stack* b) {
    return std::abs(a->change(measure)) > std::abs(b->change(measure));
  });
  return found;
}

}  // namespace freeway_profile
