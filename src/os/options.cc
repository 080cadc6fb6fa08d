// SPDX-License-Identifier: MIT
#include "os/options.h"

#include <string.h>
#include <unistd.h>

#include <array>
#include <iterator>

#include "os/memory_size.h"
#include "os/option_table.h"
#include "os/process.h"
#include "os/report.h"

// The program's text, if it has one.
extern "C" {
extern const char* freeway_options __attribute__((weak, visibility("default")));
}

namespace freeway {
namespace {

// The table, without what only people read.
struct Known {
  const char* name;
  const char* values;
};
constexpr auto kKnown = [] {
  std::array<Known, std::size(kOptionTable)> known{};
  for (std::size_t i = 0; i < known.size(); ++i) known[i] = {kOptionTable[i].name, kOptionTable[i].values};
  return known;
}();

// The text behind "NAME=", if the entry begins with it.
const char* value_in(const char* entry, const char* name) {
  const std::size_t length = strlen(name);
  return strncmp(entry, name, length) == 0 && entry[length] == '=' ? entry + length + 1 : nullptr;
}

const char* value_in_environment(const char* name) {
  if (environ == nullptr || process::is_privileged()) return nullptr;
  for (char** entry = environ; *entry != nullptr; ++entry)
    if (strncmp(*entry, "FREEWAY_", 8) == 0)
      if (const char* value = value_in(*entry + 8, name)) return value;
  return nullptr;
}

// The program's text with a 0 in the place of each `;`, and its length. All threads that read options store the same
// bytes.
constinit char program_text[kLongestOptions];
constinit std::size_t program_length = 0;

void copy_program_text(bool speak) {
  const char* text = &freeway_options == nullptr || freeway_options == nullptr ? "" : freeway_options;
  const bool fits = strlen(text) < kLongestOptions;
  if (!fits && speak)
    Line()
        .text("freeway: freeway_options is longer than ")
        .number(kLongestOptions - 1)
        .text(" bytes: not used")
        .write();
  std::size_t length = 0;
  for (; fits && text[length] != 0; ++length) program_text[length] = text[length] == ';' ? '\0' : text[length];
  if (length != 0) program_text[length] = 0;
  program_length = length;
}

bool is_in_program_text(const char* text) {
  return reinterpret_cast<uptr>(text) - reinterpret_cast<uptr>(program_text) < sizeof(program_text);
}

const char* value_in_program(const char* name) {
  const auto is_blank = [](char c) { return c == ' ' || c == '\n' || c == '\t'; };
  for (const char* entry = program_text; entry < program_text + program_length; entry += strlen(entry) + 1) {
    while (is_blank(*entry)) ++entry;
    if (const char* value = value_in(entry, name)) return value;
  }
  return nullptr;
}

const char* value_of(const char* name) {
  const char* value = value_in_environment(name);
  return value != nullptr && *value != 0 ? value : value_in_program(name);
}

// The rest of the text behind `word`, if the text begins with it.
const char* behind(const char* word, const char* text) {
  const std::size_t length = strlen(word);
  return strncmp(text, word, length) == 0 ? text + length : nullptr;
}

bool equal(const char* a, const char* b) { return strcmp(a, b) == 0; }

// Reads the value of FREEWAY_HARDEN into its fields. False: it is not valid, and nothing is changed.
bool parse_harden(const char* text, Options* options) {
  bool fill = false;
  u64 quarantine = 64 * kKiB;
  if (*text != '1') return equal(text, "0");
  for (++text; *text != 0;) {
    if (const char* bytes = behind(",quarantine=", text)) {
      text = parse_memory_size(bytes, process_memory, &quarantine);
    } else {
      text = behind(",fill", text);
      fill = true;
    }
    if (text == nullptr || quarantine > kMiB) return false;
  }
  options->harden = 1;
  options->quarantine = quarantine;
  options->fill = fill;
  return true;
}

// The same of FREEWAY_GUARD.
bool parse_guard(const char* text, Options* options) {
  constexpr u64 kMost = 1'000'000'000;
  u64 guard = 0;
  const char* end = parse_decimal(text, &guard);
  if (end == nullptr || guard > kMost || (*end != 0 && !equal(end, ",large"))) return false;
  options->guard = guard;
  options->guard_large = *end != 0;
  return true;
}

bool parse_limit(const char* text, Options* options) {
  MemoryLimits limits;
  if (!parse_memory_limits(text, process_memory, &limits)) return false;
  options->soft_limit = limits.soft;
  options->hard_limit = limits.hard;
  return true;
}

bool parse_prefault(const char* text, Options* options) {
  u64 bytes = 0;
  const char* end = parse_memory_size(text, process_memory, &bytes);
  if (end == nullptr || *end != 0) return false;
  options->prefault = bytes;
  return true;
}

// The rate: 64 KiB to a TiB a second, the least that can be given back and the most that can be counted.
bool parse_background(const char* text, Options* options) {
  u64 rate = 0;
  if (const char* end = parse_memory_size(text, process_memory, &rate); end != nullptr && equal(end, "/s")) {
    if (rate < 64 * kKiB || rate > 1024 * kGiB) return false;
  } else if (rate = 0; !equal(text, "0") && !equal(text, "1")) {
    return false;
  }
  options->background = *text != '0';
  options->background_rate = rate;
  return true;
}

bool parse_stats(const char* text, Options* options) {
  const bool is_file = (behind("json:", text) != nullptr || behind("text:", text) != nullptr) && text[5] != 0;
  options->stats_path = is_file ? text + 5 : nullptr;
  options->stats_json = is_file && *text == 'j';
  options->stats = equal(text, "1");
  return is_file || options->stats || equal(text, "0");
}

const char* values_of(const char* name) {
  for (const Known& d : kKnown)
    if (equal(d.name, name)) return d.values;
  return "";
}

// Reads the text of an option, a form's into `options`; of words into `index` which of its values it is. False: it is
// none.
bool parse(const char* name, const char* text, Options* options, u64* index) {
  if (equal(name, "HARDEN")) return parse_harden(text, options);
  if (equal(name, "GUARD")) return parse_guard(text, options);
  if (equal(name, "LIMIT")) return parse_limit(text, options);
  if (equal(name, "PREFAULT")) return parse_prefault(text, options);
  if (equal(name, "BACKGROUND")) return parse_background(text, options);
  if (equal(name, "STATS")) return parse_stats(text, options);
  return parse_option(values_of(name), text, index);
}

}  // namespace

bool options_available() { return environ != nullptr; }

Options read_options(bool speak) {
  Options options;
  copy_program_text(speak);
  const auto read = [&](const char* name) {
    u64 index = 0;
    const char* text = value_of(name);
    if (text != nullptr && *text != 0 && !parse(name, text, &options, &index) && speak)
      complain_of_option(name, text, values_of(name));
    return index;
  };
  const u64 rseq = read("RSEQ");
  options.use_rseq = rseq != 1;
  options.libc_rseq_only = rseq == 2;
  options.force_rseq = rseq == 3;
  options.report_only = read("ON_ERROR") == 1;
  options.keep_deepbind = read("DEEPBIND") == 1;
  options.never_purge = read("PURGE") == 1;
  options.huge = static_cast<u32>(read("HUGE"));
  read("BACKGROUND");
  read("HARDEN");
  read("GUARD");
  read("LIMIT");
  read("PREFAULT");
  read("STATS");
  return options;
}

const char* option_text(const char* name) {
  copy_program_text(/*speak=*/false);  // it may be the first question
  const char* text = value_of(name);
  return text == nullptr || *text == 0 ? nullptr : text;
}

void complain_of_option(const char* name, const char* text, const char* values) {
  Line()
      .text(is_in_program_text(text) ? "freeway: freeway_options: " : "freeway: FREEWAY_")
      .text(name)
      .text("=")
      .quoted(text, 80)
      .text(" is not understood (")
      .text(values)
      .text("); the default is used")
      .write();
}

bool takes_value(const char* name, const char* text) {
  Options options;
  u64 index;
  return parse(name, text, &options, &index);
}

bool parse_option(const char* values, const char* text, u64* value) {
  u64 lowest = 0, highest = 0, number = 0;
  if (const char* dots = parse_decimal(values, &lowest); dots != nullptr && dots[0] == '.' && dots[1] == '.') {
    parse_decimal(dots + 2, &highest);
    const char* end = parse_decimal(text, &number);
    if (end == nullptr || *end != 0 || number < lowest || number > highest) return false;
    *value = number;
    return true;
  }
  const std::size_t length = strlen(text);
  u64 index = 0;
  for (const char* word = values; length != 0; ++index) {
    const char* end = word;
    while (*end != '|' && *end != 0) ++end;
    if (static_cast<std::size_t>(end - word) == length && strncmp(word, text, length) == 0) {
      *value = index;
      return true;
    }
    if (*end == 0) return false;
    word = end + 1;
  }
  return false;
}

}  // namespace freeway
