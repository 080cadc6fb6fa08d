// SPDX-License-Identifier: MIT
//
// options_fuzzer.cc: bytes as an environment; what the library reads from it is compared with what the documentation
// says, written down once more with the C library's functions, and so is what it says on fd 2.
//
// The input is a list of variables, each ended by a zero byte. The first byte of one picks a known name, which then
// need not be guessed (from 128 on: none, the text is the whole variable).
#include <sys/mman.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "fuzzer.h"
#include "os/memory_size.h"
#include "os/options.h"
#include "papers/front/options.h"

extern "C" {
extern char** environ;
}

namespace freeway::test {

const char* const kFuzzerSubject = "environment";

namespace {

constexpr const char* kNames[] = {"RSEQ",  "ON_ERROR", "HARDEN", "STATS", "DEEPBIND",  "GUARD",
                                  "LIMIT", "PREFAULT", "PURGE",  "HUGE",  "BACKGROUND"};

// fd 2 as a file in memory, while one of these lives.
class CapturedErrors {
 public:
  CapturedErrors() {
    if (memory_ < 0) memory_ = memfd_create("errors", MFD_CLOEXEC);
    if (ftruncate(memory_, 0) != 0 || lseek(memory_, 0, SEEK_SET) != 0) abort();
    saved_ = dup(2);
    if (saved_ < 0 || dup2(memory_, 2) < 0) abort();
  }
  CapturedErrors(const CapturedErrors&) = delete;
  ~CapturedErrors() { stop(); }
  std::string text() {
    stop();
    std::string all(static_cast<size_t>(lseek(memory_, 0, SEEK_END)), 0);
    if (pread(memory_, all.data(), all.size(), 0) != static_cast<ssize_t>(all.size())) abort();
    return all;
  }

 private:
  void stop() {
    if (saved_ < 0) return;
    dup2(saved_, 2);
    close(saved_);
    saved_ = -1;
  }
  static inline int memory_ = -1;
  int saved_;
};

std::vector<std::string> decode(const uint8_t* data, size_t size) {
  std::vector<std::string> variables;
  for (size_t at = 0; at < size;) {
    size_t end = at + 1;
    while (end < size && data[end] != 0) ++end;
    const std::string text(reinterpret_cast<const char*>(data) + at + 1, end - at - 1);
    constexpr size_t kOwn = std::size(kNames), kAll = kOwn + std::size(kEngineOptions);
    const size_t which = data[at] % kAll;
    const char* const name = which < kOwn ? kNames[which] : kEngineOptions[which - kOwn].name;
    variables.push_back(data[at] >= 128 ? text : std::string("FREEWAY_") + name + "=" + text);
    at = end + 1;
  }
  return variables;
}

// The value of the first variable of that name, "" if there is none.
std::string value_of(const std::vector<std::string>& variables, const std::string& name) {
  const std::string beginning = "FREEWAY_" + name + "=";
  for (const std::string& variable : variables)
    if (variable.starts_with(beginning)) return variable.substr(beginning.size());
  return "";
}

// What is to be read: the number, or the index of the word; -1 for what is not understood.
long long reading(const std::string& values, const std::string& text) {
  if (const size_t dots = values.find(".."); dots != std::string::npos) {
    if (text.find_first_not_of("0123456789") != std::string::npos) return -1;
    const size_t digits = text.find_first_not_of('0');
    if (digits != std::string::npos && text.size() - digits > 18) return -1;
    const long long number = strtoll(text.c_str(), nullptr, 10);
    const bool within =
        number >= strtoll(values.c_str(), nullptr, 10) && number <= strtoll(values.c_str() + dots + 2, nullptr, 10);
    return within ? number : -1;
  }
  long long index = 0;
  for (size_t at = 0; at <= values.size(); ++index) {
    const size_t end = values.find('|', at) == std::string::npos ? values.size() : values.find('|', at);
    if (values.substr(at, end - at) == text) return index;
    at = end + 1;
  }
  return -1;
}

// The parts between commas; one, empty, of "".
std::vector<std::string> words_of(const std::string& text) {
  std::vector<std::string> words(1);
  for (const char c : text) {
    if (c == ',') words.emplace_back();
    else words.back() += c;
  }
  return words;
}

void expect(bool condition, const char* what) {
  ++operations;
  if (!condition) broken(what);
}

// Lines as they should be: each a sentence of ours, of at most 240 characters, nothing that a terminal obeys.
size_t count_lines(const std::string& text) {
  size_t lines = 0, start = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    const auto c = static_cast<unsigned char>(text[i]);
    if (c == '\n') {
      expect(i - start < 240, "a line is too long");
      ++lines;
      start = i + 1;
    } else {
      expect(c >= ' ' && c != 0x7f, "a control character in a message");
    }
  }
  expect(start == text.size(), "a message without an end");
  return lines;
}

size_t complaints_of(const std::string& text) {
  size_t complaints = 0;
  for (size_t at = 0, end; (end = text.find('\n', at)) != std::string::npos; at = end + 1) {
    const std::string line = text.substr(at, end - at);
    complaints += line.starts_with("freeway: FREEWAY_") && line.find(" is not understood (") != std::string::npos &&
                  line.ends_with("); the default is used");
  }
  return complaints;
}

void try_library_options(const std::vector<std::string>& variables) {
  size_t wrong = 0;
  const auto choice = [&](const char* name, const char* no, const char* yes, bool otherwise) {
    const std::string value = value_of(variables, name);
    if (value.empty() || value == no || value == yes) return value.empty() ? otherwise : value == yes;
    ++wrong;
    return otherwise;
  };
  CapturedErrors errors;
  const Options options = read_options(true);
  const std::string text = errors.text();
  const std::string rseq = value_of(variables, "RSEQ");
  if (rseq == "libc" || rseq == "force") {
    expect(options.use_rseq && options.libc_rseq_only == (rseq == "libc") && options.force_rseq == (rseq == "force"),
           "RSEQ by a word");
  } else {
    expect(options.use_rseq == choice("RSEQ", "0", "1", true) && !options.libc_rseq_only && !options.force_rseq,
           "RSEQ");
  }
  expect(options.report_only == choice("ON_ERROR", "abort", "report", false), "ON_ERROR");
  const std::vector<std::string> harden = words_of(value_of(variables, "HARDEN"));
  bool is_level = harden[0] == "1" || (harden[0] == "0" && harden.size() == 1), fill = false;
  u64 quarantine = 65536;
  for (size_t i = 1; i < harden.size(); ++i) {
    const char* const stop = harden[i].starts_with("quarantine=")
                                 ? parse_memory_size(harden[i].c_str() + 11, process_memory, &quarantine)
                                 : nullptr;
    fill |= harden[i] == "fill";
    is_level &= harden[i] == "fill" || (stop != nullptr && *stop == 0 && quarantine <= 1048576);
  }
  const bool hardened = is_level && harden[0] == "1";
  wrong += harden != words_of("") && !is_level;
  expect(options.harden == hardened && options.fill == (hardened && fill), "HARDEN");
  expect(options.quarantine == (hardened ? quarantine : 0), "HARDEN=1,quarantine=");
  const std::vector<std::string> guard = words_of(value_of(variables, "GUARD"));
  const long long odds = guard[0].empty() ? -1 : reading("0..1000000000", guard[0]);
  const bool is_guard = odds >= 0 && (guard.size() == 1 || (guard.size() == 2 && guard[1] == "large"));
  wrong += guard != words_of("") && !is_guard;
  expect(options.guard == static_cast<u64>(is_guard ? odds : 0), "GUARD");
  expect(options.guard_large == (is_guard && guard.size() == 2), "GUARD=N,large");
  MemoryLimits limits;
  const std::string limit = value_of(variables, "LIMIT");
  wrong += !limit.empty() && !parse_memory_limits(limit.c_str(), process_memory, &limits);
  expect(options.soft_limit == limits.soft && options.hard_limit == limits.hard, "LIMIT");
  u64 prefault = 0;
  const std::string ready = value_of(variables, "PREFAULT");
  const char* const end = parse_memory_size(ready.c_str(), process_memory, &prefault);
  const bool is_size = end != nullptr && *end == 0;
  wrong += !ready.empty() && !is_size;
  expect(options.prefault == (is_size ? prefault : 0), "PREFAULT");
  expect(options.never_purge == choice("PURGE", "default", "never", false), "PURGE");
  if (value_of(variables, "HUGE") == "always") expect(options.huge == 2, "HUGE=always");
  else expect(options.huge == choice("HUGE", "default", "never", false), "HUGE");
  expect(options.background == choice("BACKGROUND", "0", "1", false), "BACKGROUND");
  expect(options.keep_deepbind == choice("DEEPBIND", "0", "1", false), "DEEPBIND");
  const std::string stats = value_of(variables, "STATS");
  if ((stats.starts_with("json:") || stats.starts_with("text:")) && stats.size() > 5) {
    expect(!options.stats && options.stats_path != nullptr && options.stats_path == stats.substr(5), "STATS=…:");
    expect(options.stats_json == stats.starts_with("json:"), "STATS=json:");
  } else {
    expect(options.stats == choice("STATS", "0", "1", false) && options.stats_path == nullptr, "STATS");
  }
  expect(count_lines(text) == wrong, "another number of lines than wrong values");
  expect(complaints_of(text) == wrong, "a complaint of another form");
}

void try_engine_options(const char* engine, const std::vector<std::string>& variables) {
  size_t wrong = 0;
  for (const EngineOption& option : kEngineOptions) {
    if (strcmp(option.engine, engine) != 0) continue;
    const std::string text = value_of(variables, option.name);
    const long long read = text.empty() ? -1 : reading(option.values, text);
    wrong += !text.empty() && read < 0;
    const long long expected = read < 0 ? reading(option.values, option.fallback) : read;
    expect(engine_option(engine, option.name) == static_cast<u64>(expected), "an engine's option");
  }
  CapturedErrors errors;
  check_engine_options(engine, true);
  const std::string text = errors.text();
  expect(count_lines(text) == wrong && complaints_of(text) == wrong, "an engine's complaints");
}

}  // namespace
}  // namespace freeway::test

using namespace freeway::test;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  std::vector<std::string> variables = decode(data, size);
  std::vector<char*> pointers;
  for (std::string& variable : variables) pointers.push_back(variable.data());
  pointers.push_back(nullptr);
  char** const before = environ;
  environ = pointers.data();
  try_library_options(variables);
  for (const freeway::EngineDescription& engine : freeway::kEngines) try_engine_options(engine.name, variables);
  environ = before;
  return 0;
}
