// SPDX-License-Identifier: MIT
//
// The allocator's very first call, which initialises it, is interrupted at each of its instructions: by a handler that
// allocates (and so initialises as well), that forks, or that jumps out. Each time in a fresh process,
// first_call_program.cc, whose path is in FREEWAY_FIRST_CALL_PROGRAM.
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "tests/support/proof.h"
#include "tests/support/random.h"
#include "tests/whole/signal/support/case_runner.h"

namespace {
using namespace freeway_test;

constexpr int kNotReached = 3;  // exit status of first_call_program

// Instructions of Freeway in the program, without those that hold a restartable section (tests/cache/rseq has them).
std::vector<uint64_t> read_instructions(const std::string& program) {
  std::vector<uint64_t> found;
  const std::string command = "objdump -d -w --no-show-raw-insn -j .text '" + program + "'";
  FILE* pipe = ::popen(command.c_str(), "re");
  require(pipe != nullptr, "objdump");
  char line[1024];
  bool wanted = false;
  while (std::fgets(line, sizeof line, pipe) != nullptr) {
    char* after = nullptr;
    const uint64_t address = std::strtoull(line, &after, 16);
    if (after == line) continue;
    if (std::strncmp(after, " <", 2) == 0) {
      const std::string name(after + 2, std::strcspn(after + 2, ">"));
      if (name.compare(0, 15, "freeway_inside_") == 0) continue;  // a place in the function before it
      wanted = name.find("7freeway") != std::string::npos || name.compare(0, 8, "freeway_") == 0;
      for (const char* section :
           {"freeway_malloc", "freeway_free", "freeway_own_new", "freeway_rseq_", "freeway_alone_"})
        if (name.compare(0, std::strlen(section), section) == 0 && name.find("slow") == std::string::npos)
          wanted = false;
    } else if (wanted && *after == ':' && after[1] == '\t' && std::strstr(after, "(bad)") == nullptr) {
      found.push_back(address);
    }
  }
  ::pclose(pipe);
  require(!found.empty(), "objdump (Debian package binutils) gave no instructions");
  return found;
}

// Which of them the first call executes.
std::vector<uint64_t> survey(const std::string& program, const std::vector<uint64_t>& candidates) {
  int in[2], out[2];
  require(::pipe(in) == 0 && ::pipe(out) == 0, "pipe");
  const pid_t child = ::fork();
  if (child == 0) {
    ::dup2(in[0], 0);
    ::dup2(out[1], 1);
    for (const int fd : {in[0], in[1], out[0], out[1]}) ::close(fd);
    ::execl(program.c_str(), program.c_str(), "survey", static_cast<char*>(nullptr));
    ::_exit(126);
  }
  ::close(in[0]);
  ::close(out[1]);
  const size_t bytes = candidates.size() * sizeof candidates[0];
  for (size_t done = 0; done < bytes;) {
    const ssize_t n = ::write(in[1], reinterpret_cast<const char*>(candidates.data()) + done, bytes - done);
    require(n > 0, "the surveying program does not read");
    done += static_cast<size_t>(n);
  }
  ::close(in[1]);
  std::vector<uint64_t> executed;
  for (uint64_t address; ::read(out[0], &address, sizeof address) == sizeof address;) executed.push_back(address);
  ::close(out[0]);
  require_child_success(child, "the surveying program failed");
  return executed;
}

void interrupt_first_call(const Options& options, const char* action, const char* what_happens) {
  const char* program = std::getenv("FREEWAY_FIRST_CALL_PROGRAM");
  require(program != nullptr, "FREEWAY_FIRST_CALL_PROGRAM is not set");
  std::vector<uint64_t> stops = survey(program, read_instructions(program));
  require(stops.size() > 100, "the first call was over before the survey", stops.size());
  Random random(options.seed);
  for (size_t i = stops.size(); i > 1; i--) std::swap(stops[i - 1], stops[random.below(i)]);

  size_t visited = 0, interrupted = 0;
  Deadline deadline(options.seconds);
  for (const uint64_t stop : stops) {
    if (deadline.passed() && visited >= 50) break;
    visited++;
    char address[32];
    std::snprintf(address, sizeof address, "%llx", static_cast<unsigned long long>(stop));
    failure_context = program;
    failure_offset = stop;
    const pid_t child = ::fork();
    if (child == 0) {
      ::execl(program, program, action, address, static_cast<char*>(nullptr));
      ::_exit(126);
    }
    require(child > 0, "fork");
    const int status = wait_for(child);
    // Where mappings happen to lie decides on some branches.
    const bool not_reached = WIFEXITED(status) && WEXITSTATUS(status) == kNotReached;
    require(status == 0 || not_reached, "a program whose first call was interrupted failed",
            static_cast<unsigned>(status));
    interrupted += !not_reached;
  }
  failure_context = nullptr;
  Line()
      .count(stops.size(), "instructions of the first call")
      .count(visited, "visited")
      .count(interrupted, "interrupted")
      .write_to(1);
  freeway::test::proof("instructions", "the first call of a process", what_happens, interrupted);
  require(interrupted * 10 >= visited * 9, "too many instructions were not reached", interrupted, visited);
}

void first_call_and_a_handler_allocates(const Options& options) {
  interrupt_first_call(options, "allocate", "handlers allocated");
}
void first_call_and_a_handler_forks(const Options& options) {
  interrupt_first_call(options, "fork", "handlers forked");
}
void first_call_and_a_handler_jumps_out(const Options& options) {
  interrupt_first_call(options, "jump", "handlers jumped out");
}

}  // namespace

int main(int argc, char** argv) {
  return run_cases(argc, argv,
                   {{"first_call_and_a_handler_allocates", first_call_and_a_handler_allocates},
                    {"first_call_and_a_handler_forks", first_call_and_a_handler_forks},
                    {"first_call_and_a_handler_jumps_out", first_call_and_a_handler_jumps_out}});
}
