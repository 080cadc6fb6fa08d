// SPDX-License-Identifier: MIT
//
// A debugger that calls a function in a stopped thread: it sets the thread's registers, lets it run until the function
// returns, and restores them. Where the thread was in a restartable section, the kernel forgets the section without
// aborting it, since the thread is no longer in it; restored, the thread goes on in the middle of it, with what it had
// read before the call.
//
//   moved      the remedy that tools/gdb/freeway_gdb.py applies: the registers that are restored have the section's
//              abort address. At each instruction of each section; the called function allocates and frees
//   not_moved  without it blocks are handed out twice. So this test would see it, and docs/limits.md tells of it
//
// The debugger is this program: it traces a forked child. x86-64 only.
#include <sys/ptrace.h>
#include <sys/wait.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstdlib>

#include "tests/support/proof.h"
#include "tests/whole/signal/support/case_runner.h"
#include "tests/whole/signal/support/heap_account.h"

#if !defined(__x86_64__)
int main() { return freeway_test::kSkipStatus; }
#else
#include <sys/user.h>

#include "tests/whole/signal/support/drills.h"
#include "tests/whole/signal/support/library_text.h"

namespace {
using namespace freeway_test;

constexpr size_t kDrills[] = {Drills::kPairs, Drills::kSmallBurst, Drills::kGrowing, Drills::kMediumBurst};
constexpr uintptr_t kRedZone = 128;

LibraryText text;
Drills* drills;
Drills* called_drills;

void called_by_the_debugger() {
  called_drills->run_in_handler(*drills);
  called_drills->run(Drills::kGrowing);
}
// Where the called function returns to: an int3.
[[gnu::naked]] void landing() { asm("int3"); }

// What is traced: the same workload each time.
[[noreturn]] void work(uint64_t seed, bool quiet) {
  static Drills own(seed), called(seed + 1);
  drills = &own;
  called_drills = &called;
  for (const size_t drill : kDrills) drills->run(drill);
  if (quiet) ::close(2);
  ::ptrace(PTRACE_TRACEME, 0, nullptr, nullptr);
  ::raise(SIGSTOP);
  for (int round = 0; round < 6; round++)
    for (const size_t drill : kDrills) drills->run(drill);
  drills->verify_all("a block is damaged after a debugger's call");
  called_drills->verify_all("a block of the called function is damaged");
  drills->empty();
  called_drills->empty();
  require_clean_audit("audit after a debugger's call");
  ::_exit(0);
}

// A child that stands still whenever it is looked at.
class Traced {
 public:
  Traced(uint64_t seed, bool quiet) : child_(::fork()) {
    if (child_ == 0) work(seed, quiet);
    require(child_ > 0, "fork");
    if (wait() == -1 || !WIFSTOPPED(status_)) fail("the traced child did not stop", static_cast<unsigned>(status_));
  }
  ~Traced() {
    if (!ended()) {
      ::kill(child_, SIGKILL);
      wait();
    }
  }

  bool ended() const { return WIFEXITED(status_) || WIFSIGNALED(status_); }
  bool ended_well() const { return WIFEXITED(status_) && WEXITSTATUS(status_) == 0; }
  bool trapped() const { return WIFSTOPPED(status_) && WSTOPSIG(status_) == SIGTRAP; }

  long peek(uintptr_t address) const { return ::ptrace(PTRACE_PEEKTEXT, child_, address, nullptr); }
  void poke(uintptr_t address, long word) const {
    require(::ptrace(PTRACE_POKETEXT, child_, address, word) == 0, "cannot write to the traced child", address);
  }
  user_regs_struct registers() const {
    user_regs_struct all;
    require(::ptrace(PTRACE_GETREGS, child_, nullptr, &all) == 0, "registers");
    return all;
  }
  void set_registers(user_regs_struct all) const {
    all.orig_rax = ~0ull;  // no system call to start again
    require(::ptrace(PTRACE_SETREGS, child_, nullptr, &all) == 0, "registers");
  }
  // Until the next trap, or the end: by exit, or by a signal of its own making.
  void go_on() {
    int signal = 0;
    do {
      require(::ptrace(PTRACE_CONT, child_, nullptr, signal) == 0, "cannot let the traced child go on");
      wait();
      signal = WIFSTOPPED(status_) ? WSTOPSIG(status_) : 0;
    } while (!ended() && !trapped());
  }

 private:
  int wait() { return status_ = wait_for(child_); }
  pid_t child_;
  int status_ = 0;
};

// Runs into an int3 at `address` and stands there, without it. False: the workload did not come by.
bool stop_at(Traced& child, uintptr_t address) {
  const long word = child.peek(address);
  child.poke(address, (word & ~0xffl) | 0xcc);
  child.go_on();
  if (!child.trapped()) return false;
  child.poke(address, word);
  user_regs_struct registers = child.registers();
  require(registers.rip == address + 1, "a trap where none was planted", registers.rip, address);
  registers.rip = address;
  child.set_registers(registers);
  return true;
}

// What a debugger does for `call called_by_the_debugger()`.
void call_in(Traced& child, const user_regs_struct& restored) {
  user_regs_struct registers = restored;
  registers.rsp = ((restored.rsp - kRedZone) & ~uintptr_t{15}) - 8;
  registers.rip = reinterpret_cast<uintptr_t>(&called_by_the_debugger);
  child.poke(registers.rsp, static_cast<long>(reinterpret_cast<uintptr_t>(&landing)));
  child.set_registers(registers);
  child.go_on();
  require(child.trapped() && child.registers().rip == reinterpret_cast<uintptr_t>(&landing) + 1,
          "the called function did not return", restored.rip);
  child.set_registers(restored);
}

enum class Outcome { kNotDriven, kWell, kDamaged };

Outcome call_at(const RestartableSection& section, uintptr_t address, bool moved, uint64_t seed) {
  Traced child(seed, !moved);
  if (!stop_at(child, address)) {
    require(child.ended_well(), "the workload fails by itself");
    return Outcome::kNotDriven;
  }
  user_regs_struct registers = child.registers();
  if (moved) registers.rip = section.abort;
  call_in(child, registers);
  child.go_on();
  return child.ended_well() ? Outcome::kWell : Outcome::kDamaged;
}

struct Tally {
  size_t driven = 0, damaged = 0;
};

Tally call_everywhere(const Options& options, bool moved) {
  if (!rseq_mode()) skip("no restartable sections in this mode");
  text.load();
  Tally tally;
  for (const RestartableSection& section : text.sections)
    for (const Instruction& instruction : text.instructions) {
      if (!section.contains(instruction.address)) continue;
      failure_context = section.name.c_str();
      failure_offset = instruction.address - section.start;
      const Outcome outcome = call_at(section, instruction.address, moved, options.seed);
      if (outcome == Outcome::kNotDriven) continue;
      ++tally.driven;
      if (outcome == Outcome::kWell) continue;
      ++tally.damaged;
      require(!moved, "a debugger's call in a section, moved to its abort address, damaged the heap");
    }
  failure_context = nullptr;
  Line()
      .count(tally.driven, "instructions in sections, ")
      .count(tally.damaged, "calls there damaged the heap")
      .write_to(1);
  require(tally.driven >= 30, "hardly any section was met", tally.driven);
  return tally;
}

void moved(const Options& options) {
  const Tally tally = call_everywhere(options, true);
  freeway::test::proof("sections", "a debugger's call, moved to the abort address", "instructions", tally.driven);
}

void not_moved(const Options& options) {
  require(call_everywhere(options, false).damaged > 0, "no call damaged the heap: this test sees nothing");
}

}  // namespace

int main(int argc, char** argv) { return run_cases(argc, argv, {{"moved", moved}, {"not_moved", not_moved}}); }
#endif
