// SPDX-License-Identifier: MIT
// main.cc: the `freeway` command: its subcommands and its help.
#include <cstdio>
#include <cstring>
#include <string>

#include "child.h"
#include "doctor.h"
#include "engines.h"
#include "freeway/freeway.h"
#include "report.h"
#include "run.h"
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
  std::printf("freeway %s\n", command_version().c_str());
  return kOk;
}

int print_help() {
  std::puts(
      "freeway: runs programs with Freeway, a lock-free malloc\n\n"
      "  freeway run [options] -- program args...   run a program under it\n"
      "  freeway trim PID [--keep BYTES]            have a process (FREEWAY_BACKGROUND=1) give back what it does not need\n"
      "  freeway engines                            the allocators to choose from: paper, promise, mode here\n"
      "  freeway doctor                             what this machine offers, which path is used, whether it works\n"
      "  freeway options                            the environment variables that the library understands\n"
      "  freeway --version, --help\n\n"
      "Options of `run`:");
  print_run_options();
  std::puts(
      "\nThe library is found beside the command, or named by FREEWAY_LIB. An LD_PRELOAD that is set already is kept,\n"
      "before Freeway. Exit status of `run`: the program's; 2 for an unknown engine or a wrong value of --set, 125 if\n"
      "Freeway cannot be preloaded, 126 if the program is not executable, 127 if there is none.");
  return kOk;
}

int command(char** argv) {
  const char* name = argv[1];
  if (name == nullptr) return fail(kOwnFailure, "which command? (run, trim, engines, doctor, options; see `freeway --help`)");
  const auto is = [name](const char* other) { return std::strcmp(name, other) == 0; };
  if (is("run")) return run(argv + 2);
  if (is("trim")) return trim(argv + 2);
  if (is("--help") || is("-h") || is("help")) return print_help();
  if (argv[2] != nullptr) return fail(kOwnFailure, std::string(name) + " takes no arguments (see `freeway --help`)");
  if (is("engines")) return engines();
  if (is("doctor")) return doctor();
  if (is("options")) return options();
  if (is("--version")) return print_version();
  if (is("probe")) return probe();  // for this command's own use: child.h
  return fail(kOwnFailure, std::string("unknown command ") + name + " (see `freeway --help`)");
}

}  // namespace
}  // namespace freeway_command

int main(int, char** argv) { return freeway_command::command(argv); }
