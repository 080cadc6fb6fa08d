// SPDX-License-Identifier: MIT
#include "heap/samples.h"

#include <algorithm>
#include <ctime>

#include "heap/dump_text.h"
#include "profile/profiler.h"
#include "profile/settings.h"

namespace freeway_command {

using std::uint64_t;

namespace {

// Up to the end of the last word.
std::size_t profile_bytes(const freeway_debug_t& d) {
  std::size_t bytes = 0;
  for (const freeway_debug_field_t& each :
       {d.profile_wanted, d.profile_began, d.profile_samples, d.profile_lost_stacks, d.profile_lost_blocks,
        d.profile_sites, d.profile_site_count, d.profile_live, d.profile_live_count, d.profile_copies,
        d.profile_copy_count, d.profile_copy_piece, d.profile_top, d.profile_top_interval, d.profile_top_began})
    bytes = std::max(bytes, std::size_t{each.offset} + each.size);
  return std::min<std::size_t>(bytes, 4096);
}

}  // namespace

Samples::Samples(const Heap& heap)
    : heap_(heap),
      profile_(heap.memory(), reinterpret_cast<uint64_t>(heap.layout().profile), profile_bytes(heap.layout())),
      interval_(freeway::profile::wanted::last(word(heap.layout().profile_wanted))) {
  if (exist()) read_blocks();
}

// An entry lies in one page: entries' length is a power of two.
void Samples::read_blocks() {
  const freeway_debug_t& d = heap_.layout();
  const uint64_t begin = word(d.profile_live);
  const uint64_t count = std::min<uint64_t>(word(d.profile_live_count), freeway::profile::kMostEntries);
  heap_.memory().each_filled(begin, begin + count * d.live_bytes, [&](uint64_t from, uint64_t to) {
    const Object piece(heap_.memory(), from, to - from);
    for (uint64_t at = 0; at + d.live_bytes <= to - from; at += d.live_bytes) {
      const auto word_of = [&](const freeway_debug_field_t& field) {
        return piece.word(at + field.offset, field.size);
      };
      const uint64_t address = word_of(d.live_address);
      if (address == 0 || (address & 1) != 0) continue;
      blocks_.push_back({address, word_of(d.live_site), word_of(d.live_size), word_of(d.live_born)});
    }
  });
}

const Site* Samples::site(uint64_t number) const {
  const auto [place, is_new] = sites_.try_emplace(number);
  if (is_new) place->second = read_site(number);
  const std::optional<Site>& known = place->second;
  return known ? &*known : nullptr;
}

std::optional<Site> Samples::read_site(uint64_t number) const {
  const freeway_debug_t& d = heap_.layout();
  const uint64_t begin = word(d.profile_sites), count = word(d.profile_site_count);
  if (number >= count) return {};
  const Object site(heap_.memory(), begin + number * d.site_bytes, d.site_bytes);
  const uint64_t facts = freeway::look::word(site, d.site_facts), depth = facts & freeway::low_bits(d.site_depth_bits);
  const uint64_t first = facts >> d.site_depth_bits, words = count * d.site_words;
  if (facts == 0 || depth > freeway::profile::kMostFrames || first >= words || d.site_head + depth > words - first)
    return {};
  const auto told = read_row<uint64_t>(heap_.memory(), begin + count * d.site_bytes + first * 8, d.site_head + depth);
  Site found;
  found.tag = told[0];
  found.interval = told[1];
  found.frames.assign(told.begin() + d.site_head, told.end());
  const auto word_of = [&](const freeway_debug_field_t& field) { return freeway::look::word(site, field); };
  found.counts = {
      word_of(d.site_allocated), word_of(d.site_allocated_bytes), word_of(d.site_freed), word_of(d.site_freed_bytes),
      word_of(d.site_born),      word_of(d.site_born_freed),      word_of(d.site_died)};
  found.at_peak = word_of(d.site_at_peak);
  found.copy = word_of(d.site_copy);
  return found;
}

void Samples::each_site(const std::function<void(uint64_t, const Site&)>& f) const {
  const freeway_debug_t& d = heap_.layout();
  const uint64_t begin = word(d.profile_sites);
  const uint64_t count = std::min<uint64_t>(word(d.profile_site_count), freeway::profile::kMostEntries);
  heap_.memory().each_filled(begin, begin + count * d.site_bytes, [&](uint64_t from, uint64_t to) {
    for (uint64_t number = (from - begin) / d.site_bytes; begin + number * d.site_bytes < to; ++number)
      if (const Site* const found = site(number)) f(number, *found);
  });
}

uint64_t Samples::peak_epoch() const {
  const freeway_debug_t& d = heap_.layout();
  return word(d.profile_top_interval) == interval_ ? freeway::profile::peak::epoch(word(d.profile_top)) : 0;
}

std::string Samples::fault() const {
  return harmless(heap_.memory().program()) + " (" + std::to_string(heap_.memory().pid()) +
         ") has no heap profile, which says what was allocated where: start it by `freeway run --profile` or `freeway "
         "run --leaks`, " "or with FREEWAY_PROFILE=1 (every block) or 512k";
}

std::optional<StackCopy> Samples::copy(uint64_t number) const {
  const freeway_debug_t& d = heap_.layout();
  const uint64_t piece = word(d.profile_copy_piece);
  if (number >= word(d.profile_copy_count) || piece > freeway::profile::kMostCopy) return {};
  const uint64_t begin = word(d.profile_copies) + number * (d.copy_head_bytes + piece);
  const Object head(heap_.memory(), begin, d.copy_head_bytes);
  StackCopy found;
  for (unsigned i = 0; i < d.copy_registers.count; ++i)
    found.registers.push_back(freeway::look::word(head, d.copy_registers, i));
  found.stack = read_row<unsigned char>(heap_.memory(), begin + d.copy_head_bytes,
                                        std::min(freeway::look::word(head, d.copy_length), piece));
  return found;
}

uint64_t Samples::now() const {
  if (!heap_.memory().is_live()) {
    uint64_t latest = 0;
    for (const SampledBlock& each : blocks_) latest = std::max(latest, each.born);
    return latest;
  }
  timespec time = {};
  clock_gettime(CLOCK_MONOTONIC_COARSE, &time);
  const uint64_t ms = static_cast<uint64_t>(time.tv_sec) * 1000 + static_cast<uint64_t>(time.tv_nsec) / 1'000'000;
  const uint64_t began = word(heap_.layout().profile_began);
  return ms > began ? ms - began : 0;
}

}  // namespace freeway_command
