// SPDX-License-Identifier: MIT
// samples.h: the heap profile of another process: which blocks it has sampled that are live, and by whom they were
// allocated (src/profile).
#pragma once

#include <optional>

#include "heap/heap.h"
#include "profile/sites.h"

namespace freeway_command {

struct SampledBlock {
  std::uint64_t address, site, bytes;
  std::uint64_t born;  // ms since the profile was begun
};

// A stack, with what was sampled there.
struct Site {
  std::uint64_t tag = 0, interval = 0;
  freeway::profile::Counts counts;
  std::uint64_t at_peak = 0;          // profile/peak.h: the epoch, and what was live then
  std::uint64_t copy = 0;             // number of a copy of the stack, + 1; 0: there is none
  std::vector<std::uint64_t> frames;  // return addresses, the innermost first
};

struct StackCopy {
  std::vector<std::uint64_t> registers;  // in the order of src/arch/registers.h
  std::vector<unsigned char> stack;
};

class Samples {
 public:
  explicit Samples(const Heap& heap);

  bool exist() const { return interval_ != 0; }  // false: no profile was ever begun
  std::string fault() const;                     // what to do about that
  std::uint64_t interval() const { return interval_; }
  std::uint64_t taken() const { return word(heap_.layout().profile_samples); }
  std::uint64_t lost_stacks() const { return word(heap_.layout().profile_lost_stacks); }
  std::uint64_t lost_blocks() const { return word(heap_.layout().profile_lost_blocks); }
  // Live blocks, also of earlier profiles with other intervals.
  const std::vector<SampledBlock>& blocks() const { return blocks_; }
  // Null where it is damaged.
  const Site* site(std::uint64_t number) const;
  // Calls f(number, site) for all of them. They stay where they are.
  void each_site(const std::function<void(std::uint64_t, const Site&)>& f) const;
  // Of the peak that is kept of this profile, and ms since the profile was begun; 0: none is.
  std::uint64_t peak_epoch() const;
  std::uint64_t peak_began() const { return word(heap_.layout().profile_top_began); }
  std::optional<StackCopy> copy(std::uint64_t number) const;
  // ms since the profile was begun: now, or for a core file, when the last block was sampled.
  std::uint64_t now() const;
  // Calls f(begin, bytes) for the memory of each of its tables.
  template <class F> void each_table(F&& f) const {
    const freeway_debug_t& d = heap_.layout();
    f(word(d.profile_sites), word(d.profile_site_count) * (d.site_bytes + std::uint64_t{d.site_words} * 8));
    f(word(d.profile_live), word(d.profile_live_count) * d.live_bytes);
    f(word(d.profile_copies), word(d.profile_copy_count) * (d.copy_head_bytes + word(d.profile_copy_piece)));
  }

 private:
  std::uint64_t word(const freeway_debug_field_t& field) const { return freeway::look::word(profile_, field); }
  void read_blocks();
  std::optional<Site> read_site(std::uint64_t number) const;

  const Heap& heap_;
  Object profile_;
  std::uint64_t interval_;
  std::vector<SampledBlock> blocks_;
  mutable std::unordered_map<std::uint64_t, std::optional<Site>> sites_;  // those that were asked for
};

}  // namespace freeway_command
