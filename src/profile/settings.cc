// SPDX-License-Identifier: MIT
#include "profile/settings.h"

#include <signal.h>
#include <string.h>

#include "os/memory_size.h"
#include "profile/profiler.h"

namespace freeway::profile {
namespace {

struct Word {
  const char* begin;
  const char* end;

  // The rest behind `prefix`, if the word begins with it.
  const char* after(const char* prefix) const {
    const std::size_t length = strlen(prefix);
    return static_cast<std::size_t>(end - begin) >= length && strncmp(begin, prefix, length) == 0 ? begin + length
                                                                                                  : nullptr;
  }
  bool is(const char* text) const { return after(text) == end; }
};

struct SignalName {
  char name[6];
  int number;
};
constexpr SignalName kSignals[] = {{"USR1", SIGUSR1}, {"USR2", SIGUSR2}, {"HUP", SIGHUP},     {"PROF", SIGPROF},
                                   {"QUIT", SIGQUIT}, {"URG", SIGURG},   {"WINCH", SIGWINCH}, {"IO", SIGIO}};

bool parse_bytes(const char* from, const char* end, u64* bytes) {
  const auto none = []() -> u64 { return 0; };  // there is no whole to be a part of
  return parse_memory_size(from, none, bytes) == end && *bytes != 0 && end[-1] != '%';
}

bool parse_entries(const char* from, const char* end, u32* entries) {
  u64 wanted = 0;
  if (!parse_bytes(from, end, &wanted) || wanted > kMostEntries) return false;
  *entries = kLeastEntries;
  while (*entries < wanted) *entries *= 2;
  return true;
}

bool parse_copy(const char* from, const char* end, u64* bytes) {
  if (from + 1 == end && *from == '0') return *bytes = 0, true;
  return parse_bytes(from, end, bytes) && *bytes <= kMostCopy && (*bytes = align_up(*bytes, 64), true);
}

bool parse_dump(const Word& word, Settings* settings) {
  if (word.is("exit")) return settings->at_exit = true;
  if (word.is("peak")) return settings->peak = true;
  if (const char* size = word.after("every:")) return parse_bytes(size, word.end, &settings->every);
  if (const char* path = word.after("hold:")) {
    settings->hold = path;
    settings->hold_length = static_cast<std::size_t>(word.end - path);
    return settings->hold_length != 0 && settings->hold_length <= kLongestHold;
  }
  const char* name = word.after("signal:");
  if (name == nullptr) return false;
  const Word signal{name, word.end};
  for (const SignalName& each : kSignals)
    if (signal.is(each.name)) return (settings->signal = each.number) != 0;
  return false;
}

bool parse_word(const Word& word, Settings* settings) {
  if (const char* value = word.after("prefix=")) {
    settings->prefix = value;
    settings->prefix_length = static_cast<std::size_t>(word.end - value);
    return value != word.end;
  }
  if (const char* value = word.after("dump=")) return parse_dump({value, word.end}, settings);
  if (const char* value = word.after("stacks=")) return parse_entries(value, word.end, &settings->sites);
  if (const char* value = word.after("blocks=")) return parse_entries(value, word.end, &settings->blocks);
  if (const char* value = word.after("copy=")) return parse_copy(value, word.end, &settings->copy);
  return false;
}

}  // namespace

bool parse_settings(const char* text, Settings* settings) {
  Settings found;
  for (const char* at = text;; ++at) {
    const char* end = at;
    while (*end != ',' && *end != 0) ++end;
    const Word word{at, end};
    if (!(at == text ? parse_bytes(at, word.end, &found.interval) : parse_word(word, &found))) return false;
    at = word.end;
    if (*at == 0) break;
  }
  if (found.signal == 0 && found.every == 0 && found.hold == nullptr) found.at_exit = true;
  *settings = found;
  return true;
}

}  // namespace freeway::profile
