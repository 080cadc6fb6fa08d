// SPDX-License-Identifier: MIT
// main.cc: the `freeway` command: its subcommands and its help.
#include <cstdio>
#include <cstring>
#include <string>

#include "blocks.h"
#include "child.h"
#include "classes.h"
#include "commit.h"
#include "doctor.h"
#include "engines.h"
#include "freeway/freeway.h"
#include "leaks.h"
#include "map.h"
#include "os/option_table.h"
#include "profile.h"
#include "report.h"
#include "run.h"
#include "stat.h"
#include "top.h"
#include "trim.h"

namespace freeway_command {

int fail(int status, const std::string& message) {
  std::fprintf(stderr, "freeway: %s\n", message.c_str());
  return status;
}

std::string command_version() {
  return std::to_string(FREEWAY_VERSION_MAJOR) + "." + std::to_string(FREEWAY_VERSION_MINOR) + "." +
         std::to_string(FREEWAY_VERSION_PATCH);
}

namespace {

int print_version() {
  std::printf("freeway %s\ncommit %s; %s\n", command_version().c_str(), FREEWAY_COMMIT, FREEWAY_BUILD);
  return kOk;
}

// The list of options is the library's own table.
int print_options() {
  std::puts("Freeway's options, set in the environment (default in parentheses):");
  for (const freeway::OptionDescription& option : freeway::kOptionTable)
    std::printf("  %-27s %s\n", ("FREEWAY_" + std::string(option.name) + "=" + option.values).c_str(), option.meaning);
  return kOk;
}

// For subcommands without arguments.
template <int (*function)()> int alone(char** argv) {
  if (argv[0] != nullptr)
    return fail(kOwnFailure, std::string(argv[-1]) + " takes no arguments (see `freeway --help`)");
  return function();
}

struct Subcommand {
  const char* name;
  const char* usage;  // null: not in the help
  const char* meaning;
  int (*function)(char** argv);  // the arguments behind its name
};

int print_help();

constexpr Subcommand kSubcommands[] = {
    {"run", "run [options] -- program args...", "run a program under it", run},
    {"trim", "trim PID [--keep BYTES]", "have a process (FREEWAY_BACKGROUND=1) give back what it does not need", trim},
    {"stat", "stat PID|CORE [--json|--prometheus]", "what a process's heap holds, from outside", stat},
    {"classes", "classes PID|CORE [--json]", "the same by size class, and how full superblocks are", classes},
    {"blocks", "blocks PID|CORE ADDRESS...", "what lies at an address: live, cached, free; and beside it", blocks},
    {"leaks", "leaks PID|CORE [-o FILE] [--status N]", "blocks that no pointer reaches, by stack", leaks},
    {"top", "top PID [--interval S] [--once]", "what it holds, again and again, and its largest classes", top},
    {"map", "map PID|CORE --html FILE", "the same as a picture: frames, superblocks, fragmentation", map},
    {"profile", "profile top|diff|convert DUMP...", "heap profiles as tables, flame graphs, or for pprof", profile},
    {"engines", "engines", "the allocators to choose from: paper, promise, mode here", alone<engines>},
    {"doctor", "doctor [PROGRAM]", "what this machine offers, and whether it works; whose malloc a program has",
     doctor},
    {"options", "options", "the environment variables that the library understands", alone<print_options>},
    {"--version", "--version, --help", "", alone<print_version>},
    {"--help", nullptr, nullptr, [](char**) { return print_help(); }},
    {"-h", nullptr, nullptr, [](char**) { return print_help(); }},
    {"help", nullptr, nullptr, [](char**) { return print_help(); }},
    {"probe", nullptr, nullptr, alone<probe>},  // for this command's own use: child.h
};

int print_help() {
  std::puts("freeway: runs programs with Freeway, a lock-free malloc\n");
  for (const Subcommand& each : kSubcommands)
    if (each.usage != nullptr) std::printf("  freeway %-34s %s\n", each.usage, each.meaning);
  std::puts("\nOptions of `run`:");
  print_run_options();
  std::puts(
      "\nThe library is found beside the command, or named by FREEWAY_LIB. An LD_PRELOAD that is set already is kept,\n"
      "before Freeway. `stat`, `top`, `classes`, `blocks` and `map` stop nothing and run nothing in the process; "
      "`leaks` stops\nit for a moment; CORE is a core file of one. Exit status of `run`: the program's, or what "
      "--leaks-status says; 2 for\nan unknown engine or a wrong value, 125 if Freeway cannot be preloaded, 126 if the "
      "program is not executable, 127 if there is none.");
  return kOk;
}

std::string names() {
  std::string all;
  for (const Subcommand& each : kSubcommands)
    if (each.usage != nullptr && each.name[0] != '-') all += (all.empty() ? "" : ", ") + std::string(each.name);
  return all;
}

int command(char** argv) {
  const char* name = argv[1];
  if (name == nullptr) return fail(kOwnFailure, "which command? (" + names() + "; see `freeway --help`)");
  for (const Subcommand& each : kSubcommands)
    if (std::strcmp(name, each.name) == 0) return each.function(argv + 2);
  return fail(kOwnFailure, std::string("unknown command ") + name + " (see `freeway --help`)");
}

}  // namespace
}  // namespace freeway_command

int main(int, char** argv) { return freeway_command::command(argv); }
