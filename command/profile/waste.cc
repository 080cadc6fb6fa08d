// SPDX-License-Identifier: MIT
#include "waste.h"

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

Weighed weighed(Sample& sample, const Dump& dump, double otherwise) {
  const auto found = sample.site ? dump.pins.find(*sample.site) : dump.pins.end();
  const bool is_known = found != dump.pins.end();
  const double share = is_known ? found->second.bytes / found->second.blocks : otherwise;
  const double square = is_known ? found->second.squares / found->second.blocks : otherwise * otherwise;
  const double count = static_cast<double>(sample.live.blocks);
  const double probability = sampling_probability(sample.live, dump.interval);
  return {&sample, count * share / probability, count * square * (1 - probability) / (probability * probability)};
}

std::vector<Weighed> weighed_of(const SizeClass& c, Dump& dump, double otherwise) {
  std::vector<Weighed> found;
  for (Sample& sample : dump.samples) {
    const std::uint64_t size = block_size(sample);
    if (sample.live.bytes != 0 && size >= c.from && size <= c.size) found.push_back(weighed(sample, dump, otherwise));
  }
  return found;
}

void divide(double waste, const std::vector<Weighed>& among) {
  double sum = 0, variance = 0;
  for (const Weighed& each : among) {
    sum += each.weight;
    variance += each.variance;
  }
  if (sum == 0) return;
  for (const Weighed& each : among) {
    const double part = each.weight / sum, scale = waste / sum;
    const double others = variance - each.variance;
    each.sample->waste = waste * part;
    // Of x / (x + y), whose parts vary by chance: to the first order.
    each.sample->waste_variance =
        scale * scale * ((1 - part) * (1 - part) * each.variance + part * part * (others > 0 ? others : 0));
  }
}

}  // namespace

void attribute_waste(Dump& dump) {
  for (const SizeClass& each : dump.classes)
    if (each.live != 0) divide(static_cast<double>(each.waste()), weighed_of(each, dump, mean_share(each)));
}

double waste_of(const Dump& dump) {
  double sum = 0;
  for (const SizeClass& each : dump.classes) sum += static_cast<double>(each.waste());
  return sum;
}

}  // namespace freeway_profile
