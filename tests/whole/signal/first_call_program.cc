// SPDX-License-Identifier: MIT
//
// A program whose first allocation is interrupted; first_call_test.cc starts it once for every instruction. Freeway is
// linked in statically and the C++ library is not linked at all, so nothing has allocated when the constructor below
// runs, and this very file may not use anything that does. Its text may be patched, and the handler be installed,
// before Freeway's initialisation begins.
//
//   program survey                   reads instruction addresses from fd 0, allocates, writes those executed to fd 1
//   program ACTION ADDRESS           interrupts at the address (hexadecimal); exit status 0: went well, 3: not reached
//
// Addresses are 8-byte words, relative to the program's first byte. Actions: allocate, fork, jump.
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <ucontext.h>
#include <unistd.h>

#include <csetjmp>
#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <cstring>

#include "freeway/freeway.h"
#include "tests/whole/signal/support/failure.h"
#include "tests/whole/signal/support/patterned_block.h"

extern "C" const char __ehdr_start;
extern "C" const char __etext;

namespace {
using namespace freeway_test;

#if defined(__x86_64__)

constexpr unsigned char kInt3 = 0xcc;
constexpr int kNotReached = 3;
constexpr size_t kMostAddresses = 100'000;

uint64_t addresses[kMostAddresses];
unsigned char original[kMostAddresses];
bool executed[kMostAddresses];
size_t address_count = 0;

void (*volatile action)() = nullptr;  // null: a survey
volatile bool reached = false;
volatile bool in_child = false;
sigjmp_buf landing;

unsigned char* at(uint64_t address) {
  return const_cast<unsigned char*>(reinterpret_cast<const unsigned char*>(&__ehdr_start)) + address;
}

// A block of each kind, all checked and given back; the large and the huge one are too large for any cache.
void allocate_and_free() {
  constexpr size_t kSizes[] = {16, 48, 100, 1000, 5000, 30'000, 100'000, 3'000'000};
  void* blocks[4][8];
  for (auto& row : blocks)
    for (size_t i = 0; i < 8; i++) {
      row[i] = ::malloc(kSizes[i]);
      require(row[i] != nullptr, "no memory", kSizes[i]);
      stamp(row[i], kSizes[i], static_cast<uint32_t>(reinterpret_cast<uintptr_t>(&row[i])));
    }
  for (auto& row : blocks)
    for (void* block : row) {
      verify(block, "damaged block beside an interrupted first call");
      ::free(block);
    }
}

void require_clean_audit(size_t most_lost) {
  freeway_audit_t audit;
  require(freeway_audit(&audit, sizeof audit) == 0, "audit after an interrupted first call");
  require(audit.superblocks_held - audit.superblocks_held_by_slabs <= most_lost, "superblocks lost",
          audit.superblocks_held, audit.superblocks_held_by_slabs);
}

void fork_and_allocate() {
  const long child = ::syscall(SYS_fork);
  if (child == 0) in_child = true;
  allocate_and_free();
  if (child == 0) return;
  int status = 0;
  require(child > 0 && ::waitpid(static_cast<pid_t>(child), &status, 0) == child, "fork");
  require(status == 0, "the child of a fork inside the first call failed", static_cast<unsigned>(status));
}

void jump() { siglongjmp(landing, 1); }

void on_trap(int, siginfo_t*, void* context) {
  greg_t& ip = static_cast<ucontext_t*>(context)->uc_mcontext.gregs[REG_RIP];
  ip--;
  const uint64_t address = static_cast<uint64_t>(ip) - reinterpret_cast<uint64_t>(&__ehdr_start);
  for (size_t i = 0; i < address_count; i++)
    if (addresses[i] == address) {
      *at(address) = original[i];
      executed[i] = true;
    }
  reached = true;
  if (action != nullptr) action();
}

void plant_all() {
  const uintptr_t low = reinterpret_cast<uintptr_t>(&__ehdr_start) & ~uintptr_t{4095};
  const uintptr_t high = (reinterpret_cast<uintptr_t>(&__etext) + 4095) & ~uintptr_t{4095};
  if (::mprotect(reinterpret_cast<void*>(low), high - low, PROT_READ | PROT_WRITE | PROT_EXEC) != 0)
    skip("text cannot be made writable here");
  struct sigaction act = {};
  act.sa_sigaction = on_trap;
  act.sa_flags = SA_SIGINFO | SA_NODEFER;
  ::sigaction(SIGTRAP, &act, nullptr);
  for (size_t i = 0; i < address_count; i++) original[i] = *at(addresses[i]);
  for (size_t i = 0; i < address_count; i++) *at(addresses[i]) = kInt3;
}

void survey() {
  size_t bytes = 0;
  for (ssize_t n; (n = ::read(0, reinterpret_cast<char*>(addresses) + bytes, sizeof addresses - bytes)) > 0;)
    bytes += static_cast<size_t>(n);
  require(bytes < sizeof addresses, "more instructions than there is room for");
  address_count = bytes / sizeof addresses[0];
  plant_all();
  ::free(::malloc(100));
  for (size_t i = 0; i < address_count; i++)
    if (executed[i] && ::write(1, &addresses[i], sizeof addresses[i]) != sizeof addresses[i]) ::_exit(1);
  ::_exit(0);
}

// Before any other constructor.
__attribute__((constructor(101))) void first_of_all(int argc, char** argv) {
  if (argc == 2 && std::strcmp(argv[1], "survey") == 0) survey();
  if (argc != 3) ::_exit(2);
  action = std::strcmp(argv[1], "allocate") == 0 ? allocate_and_free
           : std::strcmp(argv[1], "fork") == 0   ? fork_and_allocate
                                                 : jump;
  addresses[0] = std::strtoull(argv[2], nullptr, 16);
  address_count = 1;
  plant_all();
  if (sigsetjmp(landing, 0) == 0) {
    char* block = static_cast<char*>(::malloc(100));
    require(block != nullptr, "the first call found no memory");
    stamp(block, 100, 1);
    allocate_and_free();
    verify(block, "the first block is damaged");
    ::free(block);
  }
  allocate_and_free();
  require_clean_audit(action == jump ? 1 : 0);
  ::_exit(reached || in_child ? 0 : kNotReached);
}

#endif

}  // namespace

int main() { return kSkipStatus; }
