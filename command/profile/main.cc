// SPDX-License-Identifier: MIT
// main.cc: freeway-profile: its subcommands and options. `freeway profile` executes it.
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <exception>
#include <memory>
#include <new>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "../arguments.h"
#include "../report.h"
#include "readable.h"
#include "words.h"
#include "write.h"

namespace freeway_profile {
namespace {

using freeway_command::Arguments, freeway_command::Command, freeway_command::Failure, freeway_command::find_command;

int fail(const std::string& message) {
  std::fprintf(stderr, "freeway profile: %s\n", message.c_str());
  return freeway_command::kCannot;
}

struct Options {
  std::string dump, base, out, format;
  std::optional<Measure> measure;  // none: what the dump is made for
  TextForm text;
};

constexpr std::string_view kFormats[] = {"text", "collapsed", "html", "proto"};

// By what a file's name ends with; empty: it says nothing that is known.
std::string format_of(const std::string& path) {
  if (path.ends_with(".pb.gz") || path.ends_with(".proto")) return "proto";
  if (path.ends_with(".html")) return "html";
  if (path.ends_with(".collapsed") || path.ends_with(".folded")) return "collapsed";
  return path.ends_with(".txt") ? "text" : "";
}

// ": did you mean alloc_space?", if a word that the option takes is like this one.
std::string nearest_word(const Command& command, std::string_view option, const std::string& word) {
  const auto found = std::ranges::find(command.options, option, &freeway_command::Option::name);
  const std::vector<std::string> words = words_of(*found);
  const std::vector<std::string_view> known(words.begin(), words.end());
  return freeway_command::did_you_mean(word, known);
}

// What was asked for, by the description that the command's help is made from.
Options parse(const Command& command, char** argv) {
  const Arguments arguments(command, argv);
  const std::string verb = command.name;
  Options options;
  options.base = arguments.value("--base");
  options.out = arguments.value("-o");
  if (const std::string measure = arguments.value("--sample"); !measure.empty()) {
    options.measure = measure_of(measure);
    if (!options.measure)
      arguments.refuse("--sample: there is no " + measure + nearest_word(command, "--sample", measure));
  }
  const std::string count = arguments.value("-n", std::to_string(options.text.most));
  Words words(count);
  const std::optional<std::uint64_t> number = words.take_number(10);
  if (!number || !words.at_end()) arguments.refuse("-n wants a number, not '" + count + "'");
  options.text = {*number, arguments.has("--bottom-up")};
  options.dump = arguments.others().back();
  if (verb == "profile diff") options.base = arguments.others().front();
  options.format = arguments.value("--format", verb == "profile convert" ? format_of(options.out) : "text");
  if (arguments.has("--format") && std::ranges::find(kFormats, options.format) == std::end(kFormats))
    arguments.refuse("--format: there is no " + options.format + ": text, collapsed, html or proto");
  if (options.format.empty())
    arguments.refuse("which form? --format, or -o FILE whose name ends with .txt, .collapsed, .html or .pb.gz");
  if (options.format == "proto" && options.out.empty() && isatty(STDOUT_FILENO))
    arguments.refuse("this form is not for terminals: name a file by -o");
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
  // What has grown is a question about what is live.
  const Measure measure = options.measure.value_or(profile->dump.has_peak() && !base ? kPeakSpace : kInuseSpace);
  if (options.format == "proto") return write_proto(*profile, base.get());
  const Stacks stacks(*profile, base.get());
  if (options.format == "collapsed") return write_collapsed(stacks, measure);
  if (options.format == "html") return write_html(*profile, stacks, measure);
  return write_text(*profile, stacks, measure, options.text);
}

int put(const std::string& text, const std::string& path) {
  std::FILE* file = path.empty() ? stdout : std::fopen(path.c_str(), "wb");
  if (file == nullptr) return fail(path + " cannot be written: " + std::strerror(errno));
  const bool written = std::fwrite(text.data(), 1, text.size(), file) == text.size();
  const bool closed = std::fclose(file) == 0;
  if (written && closed) return freeway_command::kOk;
  return fail((path.empty() ? "the output" : path) + " cannot be written: " + std::strerror(errno));
}

int profile(char** argv) {
  const std::string verb = *argv == nullptr ? "" : *argv;
  const Command* const command = find_command("profile " + verb);
  if (command == nullptr)
    throw Failure(freeway_command::kWrongUsage, "top, diff or convert? (see `freeway profile " "--help`)");
  const Options options = parse(*command, argv + 1);
  return put(converted(options), options.out);
}

}  // namespace
}  // namespace freeway_profile

int main(int, char** argv) {
  using namespace freeway_profile;
  try {
    return profile(argv + 1);
  } catch (const Failure& wrong) {
    std::fprintf(stderr, "freeway: %s\n", wrong.what());
    return wrong.status;
  } catch (const DumpError& error) { return fail(error.what()); } catch (const std::bad_alloc&) {
    return fail("the dump is too large for this machine's memory");
  }
}
