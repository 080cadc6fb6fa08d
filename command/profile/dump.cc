// SPDX-License-Identifier: MIT
// dump.cc: reading the text of a dump, line by line.
#include "dump.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <limits>
#include <memory>

#include "words.h"

namespace freeway_profile {
namespace {

constexpr std::size_t kMostBytes = std::size_t{1} << 30;
// pprof reads counts as signed numbers.
constexpr std::uint64_t kMost = std::numeric_limits<std::int64_t>::max();
constexpr std::uint64_t kVersion = 1;

class Parser {
 public:
  explicit Parser(const std::string& text) : left_(text) {}

  Dump parse() {
    if (!next_line()) throw DumpError(left_.empty() ? "is empty" : "has no whole line");
    read_header();
    while (next_line()) {
      if (line_.starts_with("MAPPED_LIBRARIES:")) {
        read_mappings();
        break;
      }
      if (line_.starts_with("#")) read_remark();
      else if (!Words(line_).at_end()) read_sample();
    }
    if (!has_maps_) warn("ends without MAPPED_LIBRARIES: what was written behind its last line is missing");
    if (!left_.empty()) warn("ends in the middle of line " + std::to_string(number_ + 1) + ", which is left out");
    warn_of_copies();
    return std::move(dump_);
  }

 private:
  // The next whole line: one without its end was being written when the program died.
  bool next_line() {
    const std::size_t length = left_.find('\n');
    if (length == left_.npos) return false;
    line_ = left_.substr(0, length);
    if (line_.ends_with('\r')) line_.remove_suffix(1);
    left_.remove_prefix(length + 1);
    ++number_;
    return true;
  }

  [[noreturn]] void fail(const std::string& what) const {
    throw DumpError("line " + std::to_string(number_) + ": " + what);
  }
  void warn(const std::string& what) { dump_.warnings.push_back(what); }

  std::uint64_t number(Words& words, const char* what) const {
    words.skip_blanks();
    const std::optional<std::uint64_t> value = words.take_number(10);
    if (!value || *value > kMost) fail(std::string("where ") + what + " should be, is no number below 2^63");
    return *value;
  }
  void expect(Words& words, const char* mark) const {
    words.skip_blanks();
    if (!words.take(mark)) fail(std::string("no '") + mark + "' where one should be");
  }

  Tally tally(Words& words, const char* what) const {
    Tally read;
    read.blocks = number(words, what);
    expect(words, ":");
    read.bytes = number(words, what);
    if (read.blocks == 0 && read.bytes != 0) fail("bytes without a block");
    return read;
  }
  // "<n>: <bytes> [<n>: <bytes>] @"
  std::pair<Tally, Tally> tallies(Words& words) const {
    const Tally live = tally(words, "the count of live blocks");
    expect(words, "[");
    const Tally all = tally(words, "the count of all blocks");
    expect(words, "]");
    expect(words, "@");
    return {live, all};
  }

  void read_header() {
    Words words(line_);
    if (!words.take("heap profile:"))
      throw DumpError("is no heap profile: its first line does not begin with 'heap profile:'");
    tallies(words);
    words.skip_blanks();
    if (!words.take("heap_v2/")) fail("only profiles of the kind 'heap_v2/<interval>' are understood");
    dump_.interval = number(words, "the interval");
  }

  void read_sample() {
    Words words(line_);
    Sample sample;
    std::tie(sample.live, sample.all) = tallies(words);
    while (!words.at_end()) {
      const std::optional<std::uint64_t> address = words.take("0x") ? words.take_number(16) : std::nullopt;
      if (!address) fail("an address is no hexadecimal number of 64 bits");
      sample.addresses.push_back(*address);
    }
    dump_.samples.push_back(std::move(sample));
  }

  void read_remark() {
    Words words(line_);
    if (words.take("#@ ")) return read_labels(words);
    if (words.take("#copy+ ")) return read_stack(words);
    copy_ = nullptr;
    if (words.take("#copy ")) return read_registers(words);
    if (words.take("#class ")) return read_class(words);
    if (words.take("#pin ")) return read_pin(words);
    if (!words.take("# ")) return;
    if (!words.take("freeway-profile ")) return read_about(words);
    const std::uint64_t version = number(words, "the version");
    if (version > kVersion) fail("written by a newer Freeway: version " + std::to_string(version) + " of the format");
  }

  // "pid=1 program=/a path with blanks mode=rseq": what has no = belongs to what stands before it.
  void read_about(Words& words) {
    std::string* value = nullptr;
    while (!words.at_end()) {
      const std::string_view word = words.take_word();
      const std::size_t equals = word.find('=');
      if (equals != word.npos && equals != 0) {
        value = &dump_.about[std::string(word.substr(0, equals))];
        *value = word.substr(equals + 1);
      } else if (value != nullptr) {
        *value += " " + std::string(word);
      }
    }
  }

  // "key=1 other=2": calls take(key, value).
  template <class Function> void each_label(Words& words, const Function& take) const {
    while (!words.at_end()) {
      const std::string_view word = words.take_word();
      const std::size_t equals = word.find('=');
      if (equals == word.npos) fail("a label without '='");
      Words value(word.substr(equals + 1));
      take(word.substr(0, equals), number(value, "a label's value"));
    }
  }

  void read_labels(Words& words) {
    if (dump_.samples.empty()) fail("'#@' before the first sample");
    Sample& sample = dump_.samples.back();
    each_label(words, [&sample](std::string_view key, std::uint64_t read) {
      if (key == "site") sample.site = read;
      if (key == "tag") sample.tag = read;
      if (key == "age_ms") sample.age_ms = read;
      if (key == "lifetime_ms") sample.lifetime_ms = read;
      if (key == "copy") sample.copy = read;
      if (key == "peak_bytes") sample.peak_bytes = read;
    });
  }

  void read_class(Words& words) {
    SizeClass read;
    each_label(words, [&read](std::string_view key, std::uint64_t value) {
      if (key == "from") read.from = value;
      if (key == "size") read.size = value;
      if (key == "superblocks") read.superblocks = value;
      if (key == "bytes") read.bytes = value;
      if (key == "live") read.live = value;
    });
    dump_.classes.push_back(read);
  }

  void read_pin(Words& words) {
    Pins& pins = dump_.pins[number(words, "the number of a stack")];
    const double bytes = static_cast<double>(number(words, "what a block pins"));
    pins.blocks += 1;
    pins.bytes += bytes;
    pins.squares += bytes * bytes;
    each_label(words, [&pins](std::string_view key, std::uint64_t value) {
      if (key == "size") pins.size = value;
    });
  }

  // "3 arch=x86_64 pc=0x.. sp=0x..": a copy that is not understood is left out, and its samples keep what they have.
  void read_registers(Words& words) {
    const std::optional<std::uint64_t> id = words.take_number(10);
    StackCopy copy;
    bool good = id.has_value();
    while (good && !words.at_end()) {
      const std::string_view word = words.take_word();
      const std::size_t equals = std::min(word.find('='), word.size() - 1);
      const std::string name(word.substr(0, equals));
      Words value(word.substr(equals + 1));
      if (name == "arch") {
        copy.machine = value.rest();
      } else {
        const std::optional<std::uint64_t> read = value.take("0x") ? value.take_number(16) : std::nullopt;
        good = read.has_value() && value.at_end();
        copy.registers[name] = read.value_or(0);
      }
    }
    if (good && copy.registers.contains("pc") && copy.registers.contains("sp"))
      copy_ = &(dump_.copies[*id] = std::move(copy));
    else ++bad_copies_;
  }

  void read_stack(Words& words) {
    if (copy_ == nullptr) return;
    const std::string_view hex = words.take_word();
    std::string bytes;
    for (std::size_t i = 0; i + 2 <= hex.size(); i += 2) {
      Words digits(hex.substr(i, 2));
      const std::optional<std::uint64_t> byte = digits.take_number(16);
      if (!byte || !digits.at_end()) break;
      bytes.push_back(static_cast<char>(*byte));
    }
    copy_->stack += bytes;
    if (bytes.size() * 2 == hex.size() && words.at_end()) return;
    ++bad_copies_;  // what came before is good
    copy_ = nullptr;
  }

  void warn_of_copies() {
    if (bad_copies_ != 0) warn("has " + std::to_string(bad_copies_) + " copies of stacks that are not understood");
  }

  void read_mappings() {
    has_maps_ = true;
    std::size_t bad = 0;
    while (next_line()) {
      if (Words(line_).at_end()) continue;
      if (!read_mapping()) ++bad;
    }
    if (bad != 0) warn("has " + std::to_string(bad) + " lines of maps that are not understood");
    std::vector<Mapping>& all = dump_.mappings;
    std::stable_sort(all.begin(), all.end(), [](const Mapping& a, const Mapping& b) { return a.start < b.start; });
    std::uint64_t end = 0;
    std::erase_if(all, [&end](const Mapping& each) { return each.start < end || (end = each.end, false); });
  }

  // "55d0-55e0 r-xp 00001000 08:01 1234   /usr/bin/a program (deleted)"
  bool read_mapping() {
    Words words(line_);
    Mapping mapping;
    const std::optional<std::uint64_t> start = words.take_number(16);
    const bool dash = words.take("-");
    const std::optional<std::uint64_t> end = words.take_number(16);
    const std::string_view rights = words.take_word();
    words.skip_blanks();
    const std::optional<std::uint64_t> offset = words.take_number(16);
    if (!start || !dash || !end || *end <= *start || rights.size() < 4 || !offset) return false;
    mapping.start = *start;
    mapping.end = *end;
    mapping.offset = *offset;
    mapping.is_writable = rights[1] == 'w';
    mapping.is_executable = rights[2] == 'x';
    words.take_word();  // device
    words.take_word();  // inode
    words.skip_blanks();
    mapping.file = words.rest();
    constexpr std::string_view kDeleted = " (deleted)";
    mapping.is_deleted = mapping.file.ends_with(kDeleted);
    if (mapping.is_deleted) mapping.file.resize(mapping.file.size() - kDeleted.size());
    dump_.mappings.push_back(std::move(mapping));
    return true;
  }

  std::string_view left_, line_;
  std::size_t number_ = 0;  // of line_
  Dump dump_;
  StackCopy* copy_ = nullptr;  // whose stack the next lines may bring
  std::size_t bad_copies_ = 0;
  bool has_maps_ = false;
};

}  // namespace

const Mapping* Dump::mapping_of(std::uint64_t address) const {
  auto behind = std::upper_bound(mappings.begin(), mappings.end(), address,
                                 [](std::uint64_t value, const Mapping& each) { return value < each.start; });
  if (behind == mappings.begin()) return nullptr;
  const Mapping& found = *--behind;
  return address < found.end ? &found : nullptr;
}

std::uint64_t Dump::number(const std::string& key) const {
  const auto found = about.find(key);
  return found == about.end() ? 0 : Words(found->second).take_number(10).value_or(0);
}

Dump parse_dump(const std::string& text) { return Parser(text).parse(); }

Dump read_dump(const std::string& path) {
  const auto close = [](std::FILE* file) { return file == stdin ? 0 : std::fclose(file); };
  const std::unique_ptr<std::FILE, decltype(close)> file(path == "-" ? stdin : std::fopen(path.c_str(), "rb"), close);
  if (!file) throw DumpError(std::string("cannot be opened: ") + std::strerror(errno));
  std::string text;
  char piece[1 << 16];
  while (const std::size_t size = std::fread(piece, 1, sizeof(piece), file.get())) {
    text.append(piece, size);
    if (text.size() > kMostBytes) throw DumpError("is larger than 1 GiB");
  }
  if (std::ferror(file.get())) throw DumpError(std::string("cannot be read: ") + std::strerror(errno));
  return parse_dump(text);
}

}  // namespace freeway_profile
