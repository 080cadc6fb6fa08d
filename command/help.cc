// SPDX-License-Identifier: MIT
// help.cc: help for terminals, Markdown and mdoc(7).
#include "help.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>

#include "os/option_table.h"

namespace freeway_command {
namespace {

constexpr std::size_t kUsualWidth = 80, kNarrowest = 40, kWidest = 120;
constexpr std::size_t kMeaningAt = 22;  // the column of what is said of a name
constexpr const char kTargets
    [] = "A process is named by its number (PID), by its program's name where only one has it (NAME), or by a core "
         "file " "(CORE).";
const ExitStatus kWrong{"2", "wrong usage: an option, value or argument that is not understood"};

// Of the terminal, unless COLUMNS says otherwise.
std::size_t width() {
  std::size_t columns = kUsualWidth;
  winsize size = {};
  if (const char* set = std::getenv("COLUMNS"); set != nullptr && std::atoi(set) > 0)
    columns = static_cast<std::size_t>(std::atoi(set));
  else if (isatty(STDOUT_FILENO) == 1 && ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0)
    columns = size.ws_col;
  return std::clamp(columns, kNarrowest, kWidest);
}

std::string replaced(std::string text, const std::string& what, const std::string& by) {
  for (std::size_t at = 0; (at = text.find(what, at)) != std::string::npos; at += by.size())
    text.replace(at, what.size(), by);
  return text;
}

std::vector<std::string> split(const std::string& text, const std::string& by) {
  std::vector<std::string> parts;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find(by, begin), text.size());
    if (end > begin) parts.push_back(text.substr(begin, end - begin));
    begin = end + by.size();
  }
  return parts;
}

// `text` behind `first`, in lines that begin at column `at`.
std::string wrapped(const std::string& text, std::size_t at = 0, const std::string& first = {}) {
  std::string all = first;
  if (first.size() > at) all.replace(all.find_last_not_of(' ') + 1, std::string::npos, "\n");
  all += std::string(at - (first.size() > at ? 0 : first.size()), ' ');
  std::size_t used = at;
  for (const std::string& word : split(replaced(text, "\n", " "), " ")) {
    if (used > at && used + 1 + word.size() > width()) {
      all += "\n" + std::string(at, ' ');
      used = at;
    }
    all += (used > at ? " " : "") + word;
    used += (used > at ? 1 : 0) + word.size();
  }
  return all + "\n";
}

std::string named(const std::string& name, const std::string& meaning) {
  return wrapped(meaning, kMeaningAt, "  " + name + " ");
}

std::vector<ExitStatus> statuses_of(const Command& command) {
  std::vector<ExitStatus> all = command.statuses;
  const auto later = [](const ExitStatus& each) { return std::string_view(each.status).size() == 3; };
  all.insert(std::find_if(all.begin(), all.end(), later), kWrong);
  return all;
}

// f(group, commands) for each group, in the order of their first commands.
template <class F> void each_group(F&& f) {
  std::vector<std::string> done;
  for (const Command& first : commands()) {
    if (first.group == nullptr || std::ranges::find(done, first.group) != done.end()) continue;
    done.emplace_back(first.group);
    std::vector<const Command*> members;
    for (const Command& each : commands())
      if (each.group != nullptr && done.back() == each.group) members.push_back(&each);
    f(done.back(), members);
  }
}

// Those that a reader may want to know of, the parts of others too.
std::vector<const Command*> described() {
  std::vector<const Command*> all;
  for (const Command& each : commands())
    if (*each.description != 0) all.push_back(&each);
  return all;
}

// Of a cell: no column ends in it.
std::string cell(const std::string& text) { return replaced(replaced(text, "\n", " "), "|", "\\|"); }

// Of a line of roff: dashes that can be copied, no escapes, and what stands in backticks in bold.
std::string roff(const std::string& text) {
  std::string safe = replaced(replaced(text, "\\", "\\e"), "-", "\\-");
  bool bold = false;
  for (std::size_t at = 0; (at = safe.find('`', at)) != std::string::npos; bold = !bold)
    safe.replace(at, 1, bold ? "\\fR" : "\\fB");
  return (safe.starts_with('.') || safe.starts_with('\'') ? "\\&" : "") + safe;
}

// Lines of roff: each sentence begins one.
std::string roff_lines(const std::string& text) {
  std::string lines;
  for (const std::string& each : split(replaced(replaced(text, "\n", " "), ". ", ".\x1f"), "\x1f"))
    lines += roff(each) + "\n";
  return lines;
}

std::string roff_options(const Command& command) {
  if (command.options.empty()) return {};
  std::string text = ".Bl -tag -width Ds\n";
  for (const Option& each : command.options)
    text += ".It Sy \"" + roff(shown(each)) + "\"\n" + roff_lines(each.meaning);
  return text + ".El\n";
}

}  // namespace

std::string short_help() {
  return "Usage: freeway COMMAND [OPTION...] [ARGUMENT...]\n\n" +
         named("freeway doctor", "whether Freeway works here") +
         named("freeway run PROGRAM", "run a program with Freeway") + named("freeway stat PID", "what its heap holds") +
         "\n" + wrapped("`freeway --help` lists all commands, `freeway COMMAND --help` says what one does.");
}

std::string help_of_all() {
  std::string text = "Usage: freeway COMMAND [OPTION...] [ARGUMENT...]\n\n" +
                     wrapped("Freeway is a malloc in which no thread waits for another. This command runs programs "
                     "with "
                             "it, and looks into their heaps.");
  each_group([&](const std::string& group, const std::vector<const Command*>& members) {
    text += "\n" + group + ":\n";
    for (const Command* each : members) text += named(each->name, each->summary);
  });
  text += "\n" + wrapped(kTargets);
  text += "\nExit status:\n" + named("0", "done") + named("1", "what was asked for could not be done") +
          named("2", kWrong.meaning) + named("125, 126, 127", "of `run`: Freeway cannot be preloaded; the program "
          "cannot "
                                                              "be executed; there is none");
  text += "\nEnvironment:\n" +
          named("FREEWAY_LIB",
                "The library to preload (default: found beside the command, or where it was " "installed).") +
          named("FREEWAY_...", "The library's options: see `freeway options`.");
  return text + "\n" + wrapped("`freeway COMMAND --help` says what a command does.");
}

std::string help_of(const Command& command) {
  std::string text = wrapped(usage_of(command), 15, "Usage: freeway ");
  for (const std::string& paragraph : split(command.description, "\n\n")) text += "\n" + wrapped(paragraph);
  bool any = false;
  for (const Command& each : commands()) {
    if (!is_part_of(each, command)) continue;
    text += any ? "" : "\nCommands:\n";
    text += named(each.name, each.summary);
    any = true;
  }
  text += "\nOptions:\n";
  for (const Option& each : command.options) text += named(shown(each), each.meaning);
  text += named("-h, --help", "Print this text.") + "\nExamples:\n";
  for (const Example& each : command.examples) text += "  " + std::string(each.line) + "\n" + wrapped(each.meaning, 6);
  text += "\nExit status:\n";
  for (const ExitStatus& each : statuses_of(command)) text += named(each.status, each.meaning);
  return text;
}

std::string list_of_variables() {
  std::string text = wrapped(
      "Variables of the library. `freeway run` has each as an option: FREEWAY_LIMIT=2g is " "--limit=2g.");
  for (const freeway::OptionDescription& each : freeway::kOptionTable)
    text += "\n  FREEWAY_" + std::string(each.name) + "=" + each.values + "\n" +
            wrapped(std::string(each.meaning) + " Default: " + each.fallback + ".", 6);
  return text;
}

std::string table_of_variables() {
  std::string text = "| variable | values | default | meaning |\n|---|---|---|---|\n";
  for (const freeway::OptionDescription& each : freeway::kOptionTable)
    text += "| `FREEWAY_" + std::string(each.name) + "` | " + replaced(each.values, "|", ", ") + " | " + each.fallback +
            " | " + cell(each.meaning) + " |\n";
  return text;
}

std::string commands_as_markdown() {
  std::string text = "| command | what it does |\n|---|---|\n";
  for (const Command* each : described())
    text += "| [`freeway " + std::string(each->name) + "`](#freeway-" + replaced(each->name, " ", "-") + ") | " +
            cell(each->summary) + " |\n";
  for (const Command* each : described()) {
    text += "\n## freeway " + std::string(each->name) + "\n\n    freeway " + usage_of(*each) + "\n\n" +
            each->description + "\n";
    if (!each->options.empty()) text += "\n| option | meaning |\n|---|---|\n";
    for (const Option& option : each->options)
      text += "| `" + cell(shown(option)) + "` | " + cell(option.meaning) + " |\n";
    text += "\n";
    for (const Example& example : each->examples)
      text += "    " + std::string(example.line) + "    # " + example.meaning + "\n";
    text += "\nExit status:";
    for (const ExitStatus& status : statuses_of(*each))
      text += std::string(status.status == std::string("0") || status.status == std::string("N") ? " **" : "; **") +
              status.status + "** " + status.meaning;
    text += ".\n";
  }
  return text;
}

std::string commands_as_mdoc() {
  std::string text = ".Sh NAME\n.Nm freeway\n.Nd run programs with Freeway, a lock-free malloc\n.Sh SYNOPSIS\n";
  for (const Command* each : described()) text += ".Nm\n" + roff(usage_of(*each)) + "\n";
  text += ".Sh DESCRIPTION\nFreeway is a malloc in which no thread waits for another.\n"
          "This command runs programs with it, and looks into their heaps.\n.Pp\n" +
          roff_lines(kTargets);
  for (const Command* each : described()) {
    text += ".Ss freeway " + roff(each->name) + "\n";
    const char* between = "";
    for (const std::string& paragraph : split(each->description, "\n\n")) {
      text += between + roff_lines(paragraph);
      between = ".Pp\n";
    }
    text += roff_options(*each) + ".Pp\nExit status:\n";
    for (const ExitStatus& status : statuses_of(*each))
      text += roff(std::string(status.status) + ": " + status.meaning + ";") + "\n";
    text.replace(text.rfind(';'), 1, ".");
  }
  text += ".Sh ENVIRONMENT\n.Bl -tag -width FREEWAY_LIB\n.It Ev FREEWAY_LIB\nThe library to preload, instead of the "
  "one "
          "found beside the command or where it was installed.\n";
  for (const freeway::OptionDescription& each : freeway::kOptionTable)
    text += ".It Ev \"FREEWAY_" + std::string(each.name) + "\" No = Ns Ar \"" + each.values + "\"\n" +
            roff_lines(std::string(each.meaning) + " Default: " + each.fallback + ".");
  text += ".El\n.Pp\n" +
          roff_lines("Where the environment says nothing of an option of the library, a program may, by `const char* "
                     "freeway_options = \"PURGE=never; PREFAULT=64m\"`, which it must export (`-rdynamic`) for a "
                     "preloaded library.");
  text += ".Sh EXIT STATUS\n.Bl -tag -width Ds\n.It 0\nDone.\n.It 1\nWhat was asked for could not be done.\n"
          ".It 2\nWrong usage: an option, value or argument that is not understood.\n.It 125\nOf\n.Cm run :\n"
          "Freeway cannot be preloaded.\n.It 126 , 127\nOf\n.Cm run :\nthe program cannot be executed; there is none.\n"
          ".El\n.Sh EXAMPLES\n";
  for (const Command* each : described())
    for (const Example& example : each->examples) text += ".Dl " + roff(example.line) + "\n";
  return text + ".Sh SEE ALSO\n.Xr freeway 3 ,\n.Xr freeway-jemalloc 3 ,\n.Xr malloc 3 ,\n.Xr freeway-profile 5 ,\n"
                ".Xr ld.so 8\n";
}

}  // namespace freeway_command
