// SPDX-License-Identifier: MIT
//
// print.cc: malloc_stats_print. Goes through the names; what it shows is what mallctl says, all of one moment.
#include <unistd.h>

#include <cstdint>
#include <cstring>

#include "arenas.h"
#include "exported.h"
#include "figures.h"
#include "names.h"
#include "text.h"

void (*malloc_message)(void*, const char*) = nullptr;

namespace freeway_jemalloc {
namespace {

class Output {
 public:
  Output(void (*write)(void*, const char*), void* opaque) : write_(write), opaque_(opaque) {}

  void say(const Text& text) const { say(text.c_str()); }
  void say(const char* text) const {
    if (write_ != nullptr) return write_(opaque_, text);
    if (malloc_message != nullptr) return malloc_message(opaque_, text);
    for (std::size_t left = std::strlen(text); left != 0;) {
      const ssize_t written = ::write(STDERR_FILENO, text, left);
      if (written <= 0) return;
      text += written;
      left -= static_cast<std::size_t>(written);
    }
  }

 private:
  void (*write_)(void*, const char*);
  void* opaque_;
};

template <class T> T value_of(unsigned index, std::size_t number) {
  T value = {};
  std::size_t size = sizeof value;
  name(index).act(Call{&number, &value, &size, nullptr, 0});
  return value;
}

Text& append(Text& text, unsigned index, std::size_t number) {
  switch (name(index).type) {
    case Type::kBool: return text.text(value_of<bool>(index, number) ? "true" : "false");
    case Type::kUnsigned: return text.number(value_of<unsigned>(index, number));
    case Type::kUint32: return text.number(value_of<std::uint32_t>(index, number));
    case Type::kSize: return text.number(value_of<std::size_t>(index, number));
    case Type::kUint64: return text.number(value_of<std::uint64_t>(index, number));
    case Type::kString: return text.text("\"").text(value_of<const char*>(index, number)).text("\"");
    case Type::kSigned: {
      const auto value = value_of<ssize_t>(index, number);
      return value < 0 ? text.text("-").number(std::uint64_t{0} - static_cast<std::uint64_t>(value))
                       : text.number(static_cast<std::uint64_t>(value));
    }
    case Type::kAction: break;
  }
  return text;
}

bool begins_with(unsigned index, const char* prefix) {
  return std::strncmp(name(index).text, prefix, std::strlen(prefix)) == 0;
}
bool has_number(unsigned index) { return std::strchr(name(index).text, '#') != nullptr; }

// --- Text ------------------------------------------------------------------------------------------------------------

void print_lines(const Output& out, const char* title, const char* prefix) {
  out.say(Text().text(title).text("\n"));
  for (unsigned i = 0; i < name_count(); ++i)
    if (begins_with(i, prefix) && !has_number(i) && name(i).type != Type::kAction) {
      Text line;
      line.text("  ").text(name(i).text).text(": ");
      out.say(append(line, i, 0).text("\n"));
    }
}

void print_text(const Output& out, bool with_options) {
  out.say("___ Begin jemalloc statistics ___\n");
  out.say(Text().text("Version: \"").text(version()).text("\"\n"));
  if (with_options) {
    print_lines(out, "Build-time option settings", "config.");
    print_lines(out, "Run-time option settings", "opt.");
    print_lines(out, "Arenas", "arenas.");
    print_lines(out, "Profiling settings", "prof.");
  }
  out.say(Text()
              .text("Allocated: ")
              .number(read(&Figures::allocated))
              .text(", active: ")
              .number(read(&Figures::active))
              .text(", metadata: ")
              .number(read(&Figures::metadata))
              .text(" (n_thp 0), resident: ")
              .number(read(&Figures::resident))
              .text(", mapped: ")
              .number(read(&Figures::mapped))
              .text("\n"));
  out.say("Merged arenas stats:\n");
  for (unsigned i = 0; i < name_count(); ++i)
    if (begins_with(i, "stats.arenas.#.")) {
      Text line;
      line.text("  ").text(name(i).text + std::strlen("stats.arenas.#.")).text(": ");
      out.say(append(line, i, kAllArenas).text("\n"));
    }
  out.say("--- End jemalloc statistics ---\n");
}

// --- JSON: names become objects within objects -----------------------------------------------------------------------

class Json {
 public:
  explicit Json(const Output& out) : out_(out) {}

  void open(const char* key, std::size_t length) {
    begin(key, length);
    out_.say("{");
    first_ = true;
  }
  void open(const char* key) { open(key, std::strlen(key)); }
  void close() {
    out_.say("}");
    first_ = false;
  }
  void value(const char* key, unsigned index, std::size_t number) {
    begin(key, std::strlen(key));
    Text text;
    out_.say(append(text, index, number));
  }
  // The names that begin with `prefix`, which is left out of the keys.
  void names(const char* prefix, std::size_t number) {
    const bool numbered = std::strchr(prefix, '#') != nullptr;
    const char* group = nullptr;  // the part of the name that the open object is called by
    std::size_t group_length = 0;
    for (unsigned i = 0; i < name_count(); ++i) {
      if (!begins_with(i, prefix) || has_number(i) != numbered || name(i).type == Type::kAction) continue;
      const char* rest = name(i).text + std::strlen(prefix);
      const char* dot = std::strchr(rest, '.');
      const std::size_t length = dot == nullptr ? 0 : static_cast<std::size_t>(dot - rest);
      const bool same = length == group_length && (length == 0 || std::strncmp(rest, group, length) == 0);
      if (!same && group_length != 0) close();
      if (!same && length != 0) open(rest, length);
      group = rest;
      group_length = length;
      value(dot == nullptr ? rest : dot + 1, i, number);
    }
    if (group_length != 0) close();
  }

 private:
  void begin(const char* key, std::size_t length) {
    out_.say(Text().text(first_ ? "\"" : ", \"").text(key, length).text("\": "));
    first_ = false;
  }

  const Output& out_;
  bool first_ = true;
};

void print_section(Json& json, const char* key, const char* prefix) {
  json.open(key);
  json.names(prefix, 0);
  json.close();
}

void print_json(const Output& out, bool with_options) {
  Json json(out);
  out.say("{");
  json.open("jemalloc");
  std::size_t none[kMostNumbers] = {};
  json.value("version", find("version", none), 0);
  if (with_options) {
    print_section(json, "config", "config.");
    print_section(json, "opt", "opt.");
    print_section(json, "arenas", "arenas.");
    print_section(json, "prof", "prof.");
  }
  print_section(json, "stats", "stats.");
  json.open("stats.arenas");
  json.open("merged");
  json.names("stats.arenas.#.", kAllArenas);
  json.close();
  json.close();
  json.close();
  out.say("}\n");
}

}  // namespace
}  // namespace freeway_jemalloc

extern "C" void malloc_stats_print(void (*write)(void*, const char*), void* opaque, const char* options) noexcept {
  using namespace freeway_jemalloc;
  const Output out(write, opaque);
  const auto has = [options](char c) { return options != nullptr && std::strchr(options, c) != nullptr; };
  take();
  if (has('J')) print_json(out, !has('g'));
  else print_text(out, !has('g'));
}
