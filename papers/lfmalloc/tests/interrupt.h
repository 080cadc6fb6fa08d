// SPDX-License-Identifier: MIT
//
// interrupt.h: stops this thread at one instruction of this program (x86-64) and does there what a test wants: an int3
// in the text, and a SIGTRAP handler that takes it away again. In a restartable section the kernel has sent the thread
// to the section's abort address by then; elsewhere it goes on at the instruction.
#pragma once

#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <string>
#include <vector>

#include "base/integers.h"

namespace freeway::lfmalloc::test {

// struct rseq_cs, as sections.S writes it.
struct Section {
  u32 version, flags;
  u64 start, length, abort;
};

class Interrupt {
 public:
  Interrupt() {
    active() = this;
    struct sigaction act = {};
    act.sa_sigaction = [](int, siginfo_t*, void* context) { active()->on_trap(static_cast<ucontext_t*>(context)); };
    act.sa_flags = SA_SIGINFO;
    ::sigaction(SIGTRAP, &act, nullptr);
  }
  ~Interrupt() { ::signal(SIGTRAP, SIG_DFL); }

  // At the next arrival at `address`, in `section` or not, does `action`.
  void at(u64 address, const Section& section, std::function<void()> action) {
    const u64 page = static_cast<u64>(::sysconf(_SC_PAGESIZE));
    ::mprotect(reinterpret_cast<void*>(address & ~(page - 1)), 2 * page, PROT_READ | PROT_WRITE | PROT_EXEC);
    address_ = address;
    abort_ = section.abort;
    action_ = std::move(action);
    aborted = arrived = false;
    saved_ = *byte();
    *byte() = 0xcc;
  }
  bool arrived = false;
  bool aborted = false;  // whether the kernel sent it to the abort address

 private:
  static Interrupt*& active() {
    static Interrupt* one;
    return one;
  }
  volatile unsigned char* byte() const { return reinterpret_cast<volatile unsigned char*>(address_); }
  void on_trap(ucontext_t* context) {
    greg_t& ip = context->uc_mcontext.gregs[REG_RIP];
    arrived = true;
    aborted = static_cast<u64>(ip) == abort_;
    if (!aborted) ip -= 1;
    *byte() = saved_;
    action_();
  }

  u64 address_ = 0, abort_ = 0;
  unsigned char saved_ = 0;
  std::function<void()> action_;
};

// Where the instructions of this program between two addresses begin (objdump knows).
inline std::vector<u64> instructions(u64 from, u64 to) {
  char path[512] = {};
  if (::readlink("/proc/self/exe", path, sizeof path - 1) <= 0) return {};
  // The section's descriptors hold addresses of this process; objdump's are those of the file.
  FILE* maps = ::fopen("/proc/self/maps", "re");
  u64 base = 0;
  for (char line[1024]; base == 0 && std::fgets(line, sizeof line, maps) != nullptr;)
    if (std::string(line).find(path) != std::string::npos) base = std::strtoull(line, nullptr, 16);
  ::fclose(maps);
  char command[800];
  std::snprintf(command, sizeof command,
                "objdump -d -w --no-show-raw-insn --start-address=0x%llx --stop-address=0x%llx '%s'",
                static_cast<unsigned long long>(from - base), static_cast<unsigned long long>(to - base), path);
  std::vector<u64> found;
  FILE* pipe = ::popen(command, "re");
  for (char line[1024]; std::fgets(line, sizeof line, pipe) != nullptr;) {
    char* after = nullptr;
    const u64 address = std::strtoull(line, &after, 16);
    if (after != line && *after == ':' && after[1] == '\t') found.push_back(base + address);
  }
  ::pclose(pipe);
  return found;
}

}  // namespace freeway::lfmalloc::test
