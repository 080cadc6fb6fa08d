// SPDX-License-Identifier: MIT
#include "waste.h"

#include <algorithm>
#include <map>
#include <vector>

#include "estimate.h"

namespace freeway_profile {
namespace {

// A sample among those of its class: its weight, and that weight's variance.
struct Weighed {
  Sample* sample;
  double weight, variance;
};

// What a block of the class pins in the mean.
double mean_share(const SizeClass& c) {
  return static_cast<double>(c.waste()) * static_cast<double>(c.size) / static_cast<double>(c.live);
}

// What is known of it is in `pins`; of others a block pins `otherwise`.
Weighed weighed(Sample& sample, std::uint64_t interval, const std::map<std::uint64_t, Pins>& pins, double otherwise) {
  const auto found = sample.site ? pins.find(*sample.site) : pins.end();
  const bool is_known = found != pins.end();
  const double share = is_known ? found->second.bytes / found->second.blocks : otherwise;
  const double square = is_known ? found->second.squares / found->second.blocks : otherwise * otherwise;
  const double count = static_cast<double>(sample.live.blocks);
  const double probability = sampling_probability(sample.live, interval);
  return {&sample, count * share / probability, count * square * (1 - probability) / (probability * probability)};
}

// How long blocks of the sample's size class are, or these blocks.
std::uint64_t class_size(const Sample& sample, const std::map<std::uint64_t, Pins>& pins) {
  const auto found = sample.site ? pins.find(*sample.site) : pins.end();
  return found != pins.end() && found->second.size != 0 ? found->second.size : block_size(sample);
}

// Divides the class's waste among its samples; false: nothing of it is pinned.
bool divide(const SizeClass& c, Dump& dump, const std::map<std::uint64_t, Pins>& pins) {
  std::vector<Weighed> among;
  double sum = 0, variance = 0;
  for (Sample& sample : dump.samples) {
    const std::uint64_t size = class_size(sample, dump.pins);
    if (sample.live.bytes == 0 || size < c.from || size > c.size) continue;
    among.push_back(weighed(sample, dump.interval, pins, mean_share(c)));
    sum += among.back().weight;
    variance += among.back().variance;
  }
  if (sum == 0) return false;
  const double waste = static_cast<double>(c.waste()), scale = waste / sum;
  for (const Weighed& each : among) {
    const double part = each.weight / sum, others = std::max(0.0, variance - each.variance);
    each.sample->waste = waste * part;
    // Of x / (x + y), whose parts vary by chance: to the first order.
    each.sample->waste_variance = scale * scale * ((1 - part) * (1 - part) * each.variance + part * part * others);
  }
  return true;
}

}  // namespace

void attribute_waste(Dump& dump) {
  for (const SizeClass& each : dump.classes)
    if (each.live != 0 && !divide(each, dump, dump.pins)) divide(each, dump, {});
}

bool lacks_shares(const Dump& dump) {
  double placed = 0, all = 0;
  for (const auto& [site, pins] : dump.pins) placed += pins.blocks;
  for (const Sample& each : dump.samples)
    if (each.waste != 0) all += static_cast<double>(each.live.blocks);
  return placed * 2 < all;
}

double waste_of(const Dump& dump) {
  double sum = 0;
  for (const SizeClass& each : dump.classes) sum += static_cast<double>(each.waste());
  return sum;
}

}  // namespace freeway_profile
