// SPDX-License-Identifier: MIT
#include "callers.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <utility>

namespace freeway_profile {
namespace {

constexpr unsigned kMostLevels = 10;
constexpr std::size_t kMostCallers = 4;  // of one function
constexpr double kLeastShare = 0.01;     // of everything

struct Node {
  Stack sum;
  std::map<std::uint32_t, std::unique_ptr<Node>> callers;
};

void add(Stack& to, const Stack& stack) {
  to.now += stack.now;
  to.before += stack.before;
  to.age_ms += stack.age_ms;
  to.lifetime_ms += stack.lifetime_ms;
}

Node& below(Node& node, std::uint32_t function) {
  std::unique_ptr<Node>& found = node.callers[function];
  if (found == nullptr) {
    found = std::make_unique<Node>();
    found->sum.functions = {function};
    found->sum.lines = {0};
  }
  return *found;
}

Node tree_of(const Stacks& stacks) {
  constexpr std::uint32_t kNone = ~std::uint32_t{0};
  Node root;
  for (const Stack& stack : stacks.all()) {
    Node* node = &root;
    for (const std::size_t i : frames_to_show(stacks, stack)) {
      node = &below(*node, stack.functions[i]);
      add(node->sum, stack);
    }
    if (node != &root) continue;
    Node& unknown = below(root, kNone);
    unknown.sum.functions = {};
    add(unknown.sum, stack);
  }
  return root;
}

std::vector<const Node*> largest(const Node& node, Measure measure) {
  std::vector<const Node*> found;
  for (const auto& [function, each] : node.callers)
    if (each->sum.change(measure) != 0) found.push_back(each.get());
  std::stable_sort(found.begin(), found.end(), [measure](const Node* a, const Node* b) {
    return std::abs(a->sum.change(measure)) > std::abs(b->sum.change(measure));
  });
  return found;
}

void put_callers(const Node& node, unsigned depth, unsigned level, Measure measure, double least,
                 std::vector<Caller>& out) {
  const std::vector<const Node*> all = largest(node, measure);
  if (level == kMostLevels || all.empty()) return;
  const Estimate &first = all[0]->sum.now, &first_before = all[0]->sum.before;
  const bool is_only = node.callers.size() == 1 && first.value[kAllocObjects] == node.sum.now.value[kAllocObjects] &&
                       first_before.value[kAllocObjects] == node.sum.before.value[kAllocObjects];
  Stack rest;
  std::size_t shown = 0;
  for (const Node* each : all) {
    if (!is_only && (shown == kMostCallers || std::abs(each->sum.change(measure)) < least)) {
      add(rest, each->sum);
      continue;
    }
    ++shown;
    const unsigned here = is_only && depth > 0 ? depth : depth + 1;
    out.push_back({each->sum, here, is_only});
    put_callers(*each, here, level + 1, measure, least, out);
  }
  if (shown < all.size()) out.push_back({rest, depth + 1, false, all.size() - shown});
}

}  // namespace

std::vector<std::size_t> frames_to_show(const Stacks& stacks, const Stack& stack) {
  const auto is_of_library = [&](std::size_t i) {
    const std::string& name = stacks.functions()[stack.functions[i]].name;
    return name.starts_with("std::") || name.starts_with("__gnu_cxx::");
  };
  std::vector<std::size_t> shown;
  for (std::size_t i = 0; i < stack.functions.size(); ++i)
    if (i + 1 == stack.functions.size() || !is_of_library(i) || !is_of_library(i + 1)) shown.push_back(i);
  return shown;
}

std::vector<Caller> bottom_up(const Stacks& stacks, Measure measure, std::size_t most, std::size_t& functions) {
  const Node root = tree_of(stacks);
  double all = 0;
  for (const Stack& each : stacks.all()) all += std::abs(each.change(measure));
  std::vector<Caller> found;
  const std::vector<const Node*> sorted = largest(root, measure);
  functions = sorted.size();
  for (std::size_t i = 0; i < std::min(most, sorted.size()); ++i) {
    found.push_back({sorted[i]->sum});
    put_callers(*sorted[i], 0, 0, measure, kLeastShare * all, found);
  }
  return found;
}

}  // namespace freeway_profile
