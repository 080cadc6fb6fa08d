// SPDX-License-Identifier: MIT
// doctor.cc: facts about the machine (facts.h), and what the library itself says when this command runs under it.
#include "doctor.h"

#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <new>
#include <sstream>
#include <string>
#include <vector>

#include "child.h"
#include "facts.h"
#include "library.h"
#include "report.h"
#include "restart_probe.h"
#include "subcommands.h"

namespace freeway_command {
namespace {

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream rest(text);
  for (std::string line; std::getline(rest, line);) lines.push_back(line);
  return lines;
}

// The path that the library says at its end that it took.
std::string path_in(const std::string& summary) {
  constexpr std::string_view kPrefix = "  path       ";
  for (const std::string& line : lines_of(summary))
    if (line.starts_with(kPrefix)) return line.substr(kPrefix.size());
  return {};
}

// What a child of this process finds. A kernel that checks what it does (rseq/debug) ends a process whose section it
// should have restarted and did not.
RestartProbe probe_restarts_in_child() {
  void* const memory = mmap(nullptr, sizeof(RestartProbe), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return {};
  auto* const found = new (memory) RestartProbe;
  const pid_t child = fork();
  if (child == 0) {
    *found = probe_restarts();
    _exit(0);
  }
  int status = 0;
  if (child > 0 && waitpid(child, &status, 0) == child && WIFSIGNALED(status)) found->not_restarted = 1;
  const RestartProbe result = *found;
  munmap(memory, sizeof(RestartProbe));
  return result;
}

// Whether the kernel restarts preempted sections, and whether the library, which goes by the kernel's name, is right
// about it.
int examine_restarts(const std::string& path) {
  const RestartProbe found = probe_restarts_in_child();
  const bool used = path.find("restartable sections") != std::string::npos;
  if (!found.tried()) {
    print({"restarts", "not tried: no rseq, or no thread to be had", {}});
  } else if (found.not_restarted == 0) {
    const bool distrusted = path.find("not known to restart") != std::string::npos;
    print({"restarts", "yes: preempted sections are restarted",
           distrusted ? "by its name this kernel could not be trusted: FREEWAY_RSEQ=force uses sections" : ""});
  } else {
    print({"restarts", "NO: preempted sections go on where they were, or end the process",
           used ? "blocks will be handed out twice: set FREEWAY_RSEQ=0, or run another kernel"
                : "spare slabs are used: correct, somewhat slower"});
    if (used) return kCannot;
  }
  return kOk;
}

// Loads the library into a child; prints what came of it.
int examine_library(const Library& library) {
  // Of the library's options only FREEWAY_RSEQ matters to the path; the others would add text of their own.
  const Said said = run_probe(library, {"FREEWAY_STATS=1", "FREEWAY_HARDEN"});
  if (said.status != kOk) {
    print({"library", library.path.native(),
           "does not work here (status " + std::to_string(said.status) + "): " + said.complaint()});
    return kCannot;
  }
  const std::vector<std::string> lines = lines_of(said.output);
  const std::string version = lines.empty() ? "" : lines[0], vfork = lines.size() < 2 ? "" : lines[1];
  print({"library", library.path.native() + ", version " + version,
         version == command_version() ? "" : "this command is version " + command_version()});
  const std::string path = path_in(said.errors);
  print({"path", path, {}});
  print({"vfork", vfork,
         vfork == kVforkIsReal
             ? ""
             : "the kernel refused to unregister rseq: slower, and what the child writes stays its own"});
  return examine_restarts(path);
}

// Of the machine.
int examine_machine() {
  const Library library = find_library();
  int status = kCannot;
  if (library.path.empty()) print({"library", "not found", library.fault});
  else status = examine_library(library);
  for (const Fact& fact : gather_facts()) print(fact);
  std::puts(status == kOk ? "\nFreeway works here: a program ran under it, and its heap added up."
                          : "\nFreeway does not work here.");
  return status;
}

}  // namespace

int doctor(const Arguments& arguments) {
  return arguments.others().empty() ? examine_machine() : doctor_of_program(arguments.others()[0]);
}

}  // namespace freeway_command
