// SPDX-License-Identifier: MIT
//
// dump_reader.h: takes a dump of this process's profile and reads it back. Its own blocks have the tag 0.
#ifndef FREEWAY_TESTS_PROFILE_DUMP_READER_H
#define FREEWAY_TESTS_PROFILE_DUMP_READER_H

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cinttypes>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "freeway/freeway.h"

namespace freeway::test {

struct Sample {
  uint64_t live = 0, live_bytes = 0, allocated = 0, allocated_bytes = 0;
  uint64_t site = 0, tag = 0, age_ms = 0, lifetime_ms = 0;
  std::vector<uint64_t> frames;

  // Counted since an earlier look.
  Sample operator-(const Sample& before) const {
    Sample since = *this;
    since.live -= before.live, since.live_bytes -= before.live_bytes;
    since.allocated -= before.allocated, since.allocated_bytes -= before.allocated_bytes;
    return since;
  }
};

// What the samples say of blocks that they are a part of: see freeway-profile(5).
struct Estimate {
  double blocks = 0, bytes = 0;
  void add(uint64_t samples, uint64_t sample_bytes, uint64_t interval) {
    if (samples == 0) return;
    const double size = static_cast<double>(sample_bytes) / static_cast<double>(samples);
    const double scale = interval == 1 ? 1 : 1 / (1 - std::exp(-size / static_cast<double>(interval)));
    blocks += static_cast<double>(samples) * scale;
    bytes += static_cast<double>(sample_bytes) * scale;
  }
};

using Facts = std::map<std::string, uint64_t>;  // name=number

struct Dump {
  Sample sum;
  uint64_t interval = 0;
  std::vector<Sample> samples;
  Facts facts;  // of the line that begins with # pid=
  std::vector<Facts> classes;
  std::map<uint64_t, std::vector<uint64_t>> pins;  // of a site: what its blocks pin, bytes
  std::map<uint64_t, uint64_t> pin_sizes;          // and how long blocks of their class are
  std::string mappings;

  // Of all size classes.
  uint64_t sum_of(const std::string& fact) const {
    uint64_t all = 0;
    for (const Facts& each : classes) all += each.at(fact);
    return all;
  }
  // What each of the tag's sampled blocks pins.
  std::vector<uint64_t> pins_of_tag(uint64_t tag) const {
    std::vector<uint64_t> found;
    for (const Sample& each : samples)
      if (const auto at = pins.find(each.site); each.tag == tag && at != pins.end())
        found.insert(found.end(), at->second.begin(), at->second.end());
    return found;
  }

  Sample of_tag(uint64_t tag) const {
    Sample all;
    for (const Sample& each : samples) {
      if (each.tag != tag) continue;
      all.live += each.live, all.live_bytes += each.live_bytes;
      all.allocated += each.allocated, all.allocated_bytes += each.allocated_bytes;
    }
    return all;
  }
  Estimate live_of_tag(uint64_t tag) const {
    Estimate found;
    for (const Sample& each : samples)
      if (each.tag == tag) found.add(each.live, each.live_bytes, interval);
    return found;
  }
  Estimate allocated_of_tag(uint64_t tag) const {
    Estimate found;
    for (const Sample& each : samples)
      if (each.tag == tag) found.add(each.allocated, each.allocated_bytes, interval);
    return found;
  }
};

inline bool parse_counts(const char* line, Sample& sample, const char** rest) {
  int end = 0;
  const int got = std::sscanf(line, "%" SCNu64 ": %" SCNu64 " [%" SCNu64 ": %" SCNu64 "] @%n", &sample.live,
                              &sample.live_bytes, &sample.allocated, &sample.allocated_bytes, &end);
  *rest = line + end;
  return got == 4 && end > 0;
}

inline Facts parse_facts(const std::string& text) {
  Facts facts;
  std::istringstream words(text);
  for (std::string word; words >> word;)
    if (const size_t at = word.find('='); at != std::string::npos)
      facts[word.substr(0, at)] = std::strtoull(word.c_str() + at + 1, nullptr, 10);
  return facts;
}

// Fails the test where the text is not of the form.
inline Dump parse_dump(const std::string& text) {
  Dump dump;
  std::istringstream lines(text);
  std::string line;
  const std::string title = "heap profile: ";
  const char* rest = nullptr;
  std::getline(lines, line);
  EXPECT_TRUE(line.starts_with(title) && parse_counts(line.c_str() + title.size(), dump.sum, &rest)) << line;
  if (rest == nullptr) return dump;
  EXPECT_EQ(std::sscanf(rest, " heap_v2/%" SCNu64, &dump.interval), 1) << line;
  while (std::getline(lines, line) && line != "MAPPED_LIBRARIES:") {
    if (line.starts_with("# pid=")) {
      dump.facts = parse_facts(line.substr(2));
    } else if (line.starts_with("#class ")) {
      dump.classes.push_back(parse_facts(line));
    } else if (uint64_t site = 0, bytes = 0, size = 0; line.starts_with("#pin ")) {
      EXPECT_EQ(std::sscanf(line.c_str(), "#pin %" SCNu64 " %" SCNu64 " size=%" SCNu64, &site, &bytes, &size), 3)
          << line;
      dump.pin_sizes[site] = size;
      dump.pins[site].push_back(bytes);
    } else if (line.starts_with("#@")) {
      EXPECT_FALSE(dump.samples.empty()) << line;
      if (dump.samples.empty()) continue;
      Facts labels = parse_facts(line.substr(2));
      Sample& sample = dump.samples.back();
      sample.site = labels["site"], sample.tag = labels["tag"];
      sample.age_ms = labels["age_ms"], sample.lifetime_ms = labels["lifetime_ms"];
    } else if (!line.starts_with("#")) {
      Sample sample;
      EXPECT_TRUE(parse_counts(line.c_str(), sample, &rest)) << line;
      for (char* end = nullptr;; rest = end) {
        const uint64_t frame = std::strtoull(rest, &end, 16);
        if (end == rest) break;
        sample.frames.push_back(frame);
      }
      EXPECT_TRUE(sample.live != 0 || sample.live_bytes == 0) << line;
      dump.samples.push_back(sample);
    }
  }
  EXPECT_EQ(line, "MAPPED_LIBRARIES:") << "the dump is whole";
  while (std::getline(lines, line)) dump.mappings += line + "\n";
  return dump;
}

inline std::string dump_text() {
  const int fd = memfd_create("profile", 0);
  EXPECT_EQ(freeway_profile_dump(fd), 0);
  std::string text;
  char piece[4096];
  lseek(fd, 0, SEEK_SET);
  for (ssize_t got; (got = read(fd, piece, sizeof piece)) > 0;) text.append(piece, static_cast<size_t>(got));
  close(fd);
  return text;
}
inline Dump take_dump() { return parse_dump(dump_text()); }

// Samples of the calling thread have the tag while this lives.
class Tagged {
 public:
  explicit Tagged(uint64_t tag) : before_(freeway_tag(tag)) {}
  ~Tagged() { freeway_tag(before_); }
  Tagged(const Tagged&) = delete;

 private:
  uint64_t before_;
};

}  // namespace freeway::test

#endif  // FREEWAY_TESTS_PROFILE_DUMP_READER_H
