// SPDX-License-Identifier: MIT
// main.cc: freeway-profile: its subcommands and options. `freeway profile` executes it.
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <exception>
#include <memory>
#include <new>
#include <optional>
#include <string>
#include <vector>

#include "readable.h"
#include "words.h"
#include "write.h"

namespace freeway_profile {
namespace {

enum Status : int { kOk = 0, kBadInput = 1, kWrongUsage = 125 };

constexpr std::size_t kMostStacks = 15;

int fail(int status, const std::string& message) {
  std::fprintf(stderr, "freeway profile: %s\n", message.c_str());
  return status;
}

void print_help() {
  std::puts(
      "freeway profile top DUMP                the largest stacks\n"
      "freeway profile diff BEFORE AFTER       what has grown, and what has shrunk\n"
      "freeway profile convert DUMP            another form of it\n"
      "\n"
      "  --sample WHAT    what is counted: inuse_space (the default), alloc_space, inuse_objects, alloc_objects, or\n"
      "                   waste: what is free in superblocks that live blocks keep\n"
      "  -n COUNT         so many stacks of the table (15)\n"
      "  --base DUMP      an earlier dump, which is subtracted\n"
      "  --format FORM    of `convert`: text, collapsed, html, or proto (for pprof); else what the file's name says:\n"
      "                   .txt, .collapsed, .html, .pb.gz\n"
      "  -o FILE          where it goes; else the standard output\n"
      "\n"
      "A DUMP is a file, or - for the standard input. freeway-profile(5) describes its text.");
}

struct Options {
  std::string dump, base, out, format;
  Measure measure = kInuseSpace;
  std::size_t most_stacks = kMostStacks;
};

constexpr const char* kFormats[] = {"text", "collapsed", "html", "proto"};

// By what a file's name ends with.
std::string format_of(const std::string& path) {
  if (path.ends_with(".pb.gz") || path.ends_with(".proto")) return "proto";
  if (path.ends_with(".html")) return "html";
  if (path.ends_with(".collapsed") || path.ends_with(".folded")) return "collapsed";
  return "text";
}

struct WrongUsage {
  std::string message;
};

// Takes `--name value` or `--name=value` from the front of the arguments; null if it is not there.
const char* take_value(char**& argv, const std::string& name) {
  const std::string argument = *argv;
  if (name.starts_with("--") && argument.starts_with(name + "=")) return *argv++ + name.size() + 1;
  if (argument != name) return nullptr;
  if (argv[1] == nullptr) throw WrongUsage{name + " wants a value"};
  argv += 2;
  return argv[-1];
}

Options parse(const std::string& verb, char** argv) {
  Options options;
  std::vector<std::string> dumps;
  while (*argv != nullptr) {
    if (const char* value = take_value(argv, "--base")) {
      options.base = value;
    } else if (const char* path = take_value(argv, "-o")) {
      options.out = path;
    } else if (const char* format = take_value(argv, "--format")) {
      options.format = format;
    } else if (const char* name = take_value(argv, "--sample")) {
      const std::optional<Measure> measure = measure_of(name);
      if (!measure) throw WrongUsage{std::string("--sample: there is no ") + name};
      options.measure = *measure;
    } else if (const char* count = take_value(argv, "-n")) {
      Words words(count);
      const std::optional<std::uint64_t> number = words.take_number(10);
      if (!number || !words.at_end()) throw WrongUsage{std::string("-n wants a number, not ") + count};
      options.most_stacks = *number;
    } else if (**argv == '-' && (*argv)[1] != 0) {
      throw WrongUsage{std::string("unknown option ") + *argv};
    } else {
      dumps.push_back(*argv++);
    }
  }
  const std::size_t wanted = verb == "diff" ? 2 : 1;
  if (dumps.size() != wanted) throw WrongUsage{verb + (wanted == 2 ? " wants two dumps" : " wants one dump")};
  if (wanted == 2) options.base = dumps.front();
  options.dump = dumps.back();
  if (options.format.empty()) options.format = verb == "convert" ? format_of(options.out) : "text";
  bool is_known = false;
  for (const char* each : kFormats) is_known |= options.format == each;
  if (!is_known) throw WrongUsage{"--format: there is no " + options.format};
  return options;
}

std::unique_ptr<Profile> open_profile(const std::string& path) {
  try {
    auto profile = std::make_unique<Profile>(read_dump(path));
    for (const std::string& each : profile->dump.warnings)
      std::fprintf(stderr, "freeway profile: %s: %s\n", path.c_str(), each.c_str());
    return profile;
  } catch (const DumpError& error) { throw DumpError(path + ": " + error.what()); }
}

std::string converted(const Options& options) {
  const std::unique_ptr<Profile> profile = open_profile(options.dump);
  const std::unique_ptr<Profile> base = options.base.empty() ? nullptr : open_profile(options.base);
  if (options.format == "proto") return write_proto(*profile, base.get());
  const Stacks stacks(*profile, base.get());
  if (options.format == "collapsed") return write_collapsed(stacks, options.measure);
  if (options.format == "html") return write_html(*profile, stacks, options.measure);
  return write_text(*profile, stacks, options.measure, options.most_stacks);
}

int put(const std::string& text, const std::string& path) {
  std::FILE* file = path.empty() ? stdout : std::fopen(path.c_str(), "wb");
  if (file == nullptr) return fail(kBadInput, path + " cannot be written: " + std::strerror(errno));
  const bool written = std::fwrite(text.data(), 1, text.size(), file) == text.size();
  const bool closed = std::fclose(file) == 0;
  if (written && closed) return kOk;
  return fail(kBadInput, (path.empty() ? "the output" : path) + " cannot be written: " + std::strerror(errno));
}

int profile(char** argv) {
  const std::string verb = *argv == nullptr ? "" : *argv;
  if (verb == "--help" || verb == "-h" || verb == "help") {
    print_help();
    return kOk;
  }
  if (verb.empty()) throw WrongUsage{"top, diff or convert?"};
  if (verb != "top" && verb != "diff" && verb != "convert") throw WrongUsage{"unknown command " + verb};
  const Options options = parse(verb, argv + 1);
  if (options.format == "proto" && options.out.empty() && isatty(STDOUT_FILENO))
    throw WrongUsage{"this form is not for terminals: name a file by -o"};
  return put(converted(options), options.out);
}

}  // namespace
}  // namespace freeway_profile

int main(int, char** argv) {
  using namespace freeway_profile;
  try {
    return profile(argv + 1);
  } catch (const WrongUsage& wrong) {
    return fail(kWrongUsage, wrong.message + " (see `freeway profile --help`)");
  } catch (const DumpError& error) { return fail(kBadInput, error.what()); } catch (const std::bad_alloc&) {
    return fail(kBadInput, "the dump is too large for this machine's memory");
  }
}
