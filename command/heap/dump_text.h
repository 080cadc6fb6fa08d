// SPDX-License-Identifier: MIT
// dump_text.h: a heap profile as the library writes it (freeway-profile(5), src/profile/dump.cc), of a process that is
// looked at from outside.
#pragma once

#include <string>
#include <vector>

#include "heap/samples.h"

namespace freeway_command {

struct Tally {
  std::uint64_t blocks = 0, bytes = 0;
  Tally& operator+=(const Tally& other) {
    blocks += other.blocks;
    bytes += other.bytes;
    return *this;
  }
};

// A line of a profile: what is live of a stack, and what was allocated there.
struct DumpedSite {
  const Site* site;
  Tally live, all;
  std::string labels;  // " key=number" each
};

// `about`: what the header says more, " key=value" each; `classes`: lines on size classes.
std::string dump_text(const Samples& samples, const Memory& memory, const std::vector<DumpedSite>& sites,
                      const std::string& about, const std::string& classes);

// The profile as the process would write it by now. Throws Failure where it has none.
std::string profile_of(const Heap& heap);

// Write a profile's text to that file; to the first one of name(1), name(2), ... that is not there yet
// (os/output_file.h). Throw Failure.
void write_chosen(const std::string& text, const std::string& path);
void write_new(const std::string& text, const std::function<std::string(int)>& name);

// A line of text that a terminal, and whoever reads lines, can bear.
std::string harmless(std::string text);

}  // namespace freeway_command
