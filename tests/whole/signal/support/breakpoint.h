// SPDX-License-Identifier: MIT
//
// Breakpoint: one int3 at a time in the library's text, put there by the process itself. The thread that runs into it
// first gets a SIGTRAP, whose handler takes the int3 away again and then does what the test wants to happen at this
// instruction. Inside a restartable section the kernel has moved the thread to the abort address by then; anywhere else
// the handler sends it back to the instruction. x86-64 only.
//
// Who       plant: one controlling thread. The handler: any thread
// Moves     armed: 0 -> 1 by plant, 1 -> 0 by the first thread that gets there, or by clear
#ifndef FREEWAY_TESTS_SIGNAL_SUPPORT_BREAKPOINT_H
#define FREEWAY_TESTS_SIGNAL_SUPPORT_BREAKPOINT_H
#if defined(__x86_64__)

#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstdint>

#include "tests/whole/signal/support/failure.h"
#include "tests/whole/signal/support/library_text.h"

namespace freeway_test {

class Breakpoint {
 public:
  // What happens at the instruction, in the handler; `aborted`: it was in a restartable section.
  using Action = void (*)(bool aborted);

  // `flags` are added to the handler's sa_flags.
  void install(const LibraryText& text, Action action, int flags = 0) {
    text_ = &text;
    action_ = action;
    active = this;
    const uintptr_t page = static_cast<uintptr_t>(::sysconf(_SC_PAGESIZE));
    const uintptr_t low = text.begin & ~(page - 1);
    const uintptr_t high = (text.end + page - 1) & ~(page - 1);
    if (::mprotect(reinterpret_cast<void*>(low), high - low, PROT_READ | PROT_WRITE | PROT_EXEC) != 0)
      skip("text cannot be made writable here");
    struct sigaction act = {};
    act.sa_sigaction = [](int, siginfo_t*, void* context) { active->on_trap(static_cast<ucontext_t*>(context)); };
    act.sa_flags = SA_SIGINFO | flags;
    ::sigaction(SIGTRAP, &act, nullptr);
  }

  void plant(uintptr_t address) {
    saved_ = *at(address);
    address_ = address;
    armed_.store(true);
    *at(address) = kInt3;
  }
  // Takes the breakpoint away. True if it was still there, that is, if nobody came by.
  bool clear() {
    if (!armed_.exchange(false)) return false;
    *at(address_) = saved_;
    return true;
  }
  uintptr_t address() const { return address_; }

 private:
  static constexpr unsigned char kInt3 = 0xcc;
  static inline Breakpoint* active = nullptr;

  static volatile unsigned char* at(uintptr_t address) { return reinterpret_cast<volatile unsigned char*>(address); }

  void on_trap(ucontext_t* context) {
    const int saved_errno = errno;
    greg_t& ip = context->uc_mcontext.gregs[REG_RIP];
    const uintptr_t arrived = static_cast<uintptr_t>(ip);
    const bool aborted = text_->is_abort_address(arrived);
    if (!aborted) {
      require(arrived - 1 >= text_->begin && arrived - 1 < text_->end, "a trap outside the library", arrived, address_);
      ip = static_cast<greg_t>(arrived - 1);
    }
    // Not the first: another thread is dealing with it. If the byte is not back yet this thread comes here once more.
    if (!clear()) return;
    if (aborted) {
      bool right = false;
      for (const RestartableSection& section : text_->sections)
        right |= section.abort == arrived && section.contains(address_);
      require(right, "the kernel went to another section's abort address", arrived, address_);
    } else {
      require(arrived - 1 == address_, "a trap at another place than the breakpoint", arrived - 1, address_);
    }
    action_(aborted);
    errno = saved_errno;
  }

  const LibraryText* text_ = nullptr;
  Action action_ = nullptr;
  uintptr_t address_ = 0;
  unsigned char saved_ = 0;
  std::atomic<bool> armed_{false};
};

}  // namespace freeway_test
#endif  // __x86_64__
#endif
