// SPDX-License-Identifier: MIT
//
// Atomic instructions, counted in the library itself: a breakpoint stands on every locked instruction of it. The
// paper's claim: a malloc that is satisfied from the local heap, and a free of a local block, execute none. Ours: a
// remote free executes one (the paper locks and unlocks a mutex); without rseq malloc and free execute one each.
// A breakpoint goes away when it is hit, so different instructions are counted, not executions.
#include <dlfcn.h>
#include <link.h>
#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "tests/support/cpu_affinity.h"
#include "tests/whole/signal/support/heap_account.h"

namespace {

constexpr int kMost = 4096;
unsigned char* locked[kMost];
unsigned char saved[kMost];
int found = 0;
volatile int hits = 0;

void on_trap(int, siginfo_t*, void* context) {
  greg_t& ip = static_cast<ucontext_t*>(context)->uc_mcontext.gregs[REG_RIP];
  auto* at = reinterpret_cast<unsigned char*>(ip) - 1;
  for (int i = 0; i < found; ++i)
    if (locked[i] == at) {
      *at = saved[i];
      hits = hits + 1;
      ip -= 1;
      return;
    }
  // Not ours: in a section, the kernel has sent us to its abort address. A locked instruction there would be a fault.
  std::fprintf(stderr, "a locked instruction in a restartable section\n");
  std::_Exit(1);
}

void find_locked_instructions() {
  Dl_info info;
  if (::dladdr(::dlsym(RTLD_DEFAULT, "freeway_malloc"), &info) == 0) std::exit(2);
  char command[600];
  std::snprintf(command, sizeof command, "objdump -d -w --no-show-raw-insn -j .text '%s'", info.dli_fname);
  FILE* pipe = ::popen(command, "re");
  for (char line[1024]; std::fgets(line, sizeof line, pipe) != nullptr;) {
    char* after = nullptr;
    const unsigned long address = std::strtoul(line, &after, 16);
    if (after == line || *after != ':' || after[1] != '\t') continue;
    const bool exchange = std::strncmp(after + 2, "xchg", 4) == 0 && std::strchr(after, '(') != nullptr;
    if (std::strncmp(after + 2, "lock ", 5) != 0 && !exchange) continue;
    if (found == kMost) std::exit(2);
    locked[found++] = static_cast<unsigned char*>(info.dli_fbase) + address;
  }
  ::pclose(pipe);
}

void arm() {
  for (int i = 0; i < found; ++i) {
    if (*locked[i] == 0xcc) continue;
    saved[i] = *locked[i];
    *locked[i] = 0xcc;
  }
  hits = 0;
}
void disarm() {
  for (int i = 0; i < found; ++i)
    if (*locked[i] == 0xcc) *locked[i] = saved[i];
}

int failures = 0;
void expect(const char* what, int seen, int expected) {
  std::printf("%-60s %d atomic instructions (%d)\n", what, seen, expected);
  failures += seen != expected;
}

void* volatile block;
constexpr size_t kSizes[] = {8, 64, 200, 1000, 20000};

}  // namespace

int main() {
  const bool rseq = freeway_test::rseq_mode();
  find_locked_instructions();
  std::printf("%d atomic instructions in the library; %s\n", found, rseq ? "restartable sections" : "CAS");
  if (found == 0) return 1;
  for (int i = 0; i < found; ++i) {
    const auto page = reinterpret_cast<unsigned long>(locked[i]) & ~4095UL;
    if (::mprotect(reinterpret_cast<void*>(page), 4096, PROT_READ | PROT_WRITE | PROT_EXEC) != 0) return 77;
  }
  struct sigaction act = {};
  act.sa_sigaction = on_trap;
  act.sa_flags = SA_SIGINFO;
  ::sigaction(SIGTRAP, &act, nullptr);

  const std::vector<int> cpus = freeway_test::usable_cpus();
  freeway_test::stay_on(cpus[0]);

  for (const size_t size : kSizes) {
    block = ::malloc(size);  // brings a superblock on line
    ::free(block);
    // A section that was interrupted is counted, by an atomic instruction: so several tries, of which the calmest
    // counts.
    const int expected = rseq ? 0 : 2;
    int least = kMost;
    for (int tries = 0; tries < 20 && least > expected; ++tries) {
      arm();
      for (int i = 0; i < (rseq ? 1000 : 1); ++i) {
        block = ::malloc(size);
        ::free(block);
      }
      disarm();
      if (hits < least) least = hits;
    }
    char what[80];
    std::snprintf(what, sizeof what, "malloc(%zu) and free of a local block", size);
    expect(what, least, expected);
  }
  if (rseq && cpus.size() > 1) {
    int least = kMost;
    for (int tries = 0; tries < 20 && least > 1; ++tries) {
      freeway_test::stay_on(cpus[0]);
      block = ::malloc(64);
      freeway_test::stay_on(cpus[1]);
      arm();
      ::free(block);
      disarm();
      if (hits < least) least = hits;
    }
    expect("free of a remote block", least, 1);
  }
  return failures == 0 ? 0 : 1;
}
