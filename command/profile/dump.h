// SPDX-License-Identifier: MIT
// dump.h: a heap profile as the library writes it, in text that google/pprof reads, too; freeway-profile(5) describes
// it.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

namespace freeway_profile {

// What is wrong with a dump, or with reading it, as half a sentence.
struct DumpError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// Sampled blocks: so many, with so many bytes. Not yet what they stand for (estimate.h).
struct Tally {
  std::uint64_t blocks = 0;
  std::uint64_t bytes = 0;
};

// A line of /proc/PID/maps.
struct Mapping {
  std::uint64_t start = 0, end = 0;
  std::uint64_t offset = 0;  // in the file, of `start`
  bool is_executable = false;
  bool is_writable = false;
  std::string file;  // empty: anonymous; "[vdso]" and the like are no files
  bool is_deleted = false;
};

// A thread's registers, and its stack from sp upwards, at the moment of an allocation.
struct StackCopy {
  std::string machine;  // "x86_64", "aarch64"
  std::map<std::string, std::uint64_t> registers;
  std::string stack;
};

// A size class that has superblocks: what lies in them, in bytes.
struct SizeClass {
  std::uint64_t from = 0, size = 0;  // blocks of `from` to `size` bytes
  std::uint64_t superblocks = 0, bytes = 0, live = 0;
  std::uint64_t waste() const { return bytes - (live < bytes ? live : bytes); }
};

// What some sampled blocks pin: so many, with the sums of their shares of waste, and of these shares' squares.
struct Pins {
  double blocks = 0, bytes = 0, squares = 0;
  std::uint64_t size = 0;  // of their size class's blocks: aligned ones' is longer than they; 0: not told
};

// The sampled blocks of one stack, size class and tag.
struct Sample {
  Tally live, all;
  std::vector<std::uint64_t> addresses;  // return addresses, the innermost first
  std::optional<std::uint64_t> tag;
  std::optional<std::uint64_t> age_ms;       // mean of the live blocks
  std::optional<std::uint64_t> lifetime_ms;  // mean of the freed ones
  std::optional<std::uint64_t> copy;         // a key of Dump::copies
  std::optional<std::uint64_t> site;         // a key of Dump::pins
  std::uint64_t peak_bytes = 0;              // of what was live when most was
  double waste = 0, waste_variance = 0;      // bytes: what attribute_waste says (waste.h)
};

struct Dump {
  std::uint64_t interval = 0;                // bytes between two samples, in the mean; 0 and 1: all blocks are sampled
  std::map<std::string, std::string> about;  // pid, time_ns, program, ...: the header's, and what others may add
  std::vector<Sample> samples;
  std::vector<SizeClass> classes;
  std::map<std::uint64_t, Pins> pins;
  std::map<std::uint64_t, StackCopy> copies;
  std::vector<Mapping> mappings;  // by address, without overlaps
  std::vector<std::string> warnings;

  // The mapping that `address` lies in, or null.
  const Mapping* mapping_of(std::uint64_t address) const;
  // Whether it says what was live when most was.
  bool has_peak() const { return about.contains("peak_ms"); }
  // A number of `about`; 0 if there is none.
  std::uint64_t number(const std::string& key) const;
};

// Understands a dump. What is cut off at its end, or is only a help (copies, maps), gets a warning; DumpError if
// anything else is not as it should be.
Dump parse_dump(const std::string& text);

// The dump in the file at `path`; "-" is the standard input.
Dump read_dump(const std::string& path);

}  // namespace freeway_profile
