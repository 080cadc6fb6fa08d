// SPDX-License-Identifier: MIT
//
// What vfork tells the kernel, as a tracer sees it: the thread's struct rseq is unregistered, the child made, the
// struct registered again, with the length and signature that it was registered with before. A thread whose time slice
// may be extended (a bit in struct rseq, since Linux 7.0) asks for that again.
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "arch/rseq_layout.h"
#include "tests/cache/rseq/registration.h"
#include "tests/whole/signal/support/case_runner.h"
#include "tests/whole/signal/support/heap_account.h"

namespace {
using namespace freeway_test;

constexpr uint64_t kCloneVfork = 0x4000;
constexpr uint32_t kMayBeExtended = 1 << 5;                   // RSEQ_CS_FLAG_SLICE_EXT_ENABLED
constexpr int kNeverRegistered = 4, kNoLongerRegistered = 5;  // exit status

struct Call {
  uint64_t number, arguments[4];
};

bool makes_a_child(const Call& call) {
#ifdef SYS_vfork
  if (call.number == SYS_vfork) return true;
#endif
  return call.number == SYS_clone && (call.arguments[0] & kCloneVfork) != 0;
}

volatile uint32_t* rseq_flags() {
  char* area = static_cast<char*>(__builtin_thread_pointer()) + __rseq_offset;
  return reinterpret_cast<volatile uint32_t*>(area + RSEQ_FLAGS);
}

// The traced program. Kernels before 7.0 do not take the bit of a thread that is in a section: here it is in none.
[[noreturn]] void vfork_once(bool extended) {
  ::free(::malloc(1));
  if (!is_registered()) ::_exit(kNeverRegistered);
  ::ptrace(PTRACE_TRACEME, 0, nullptr, nullptr);
  ::raise(SIGSTOP);
  if (extended) *rseq_flags() = kMayBeExtended;
  const pid_t child = ::vfork();
  if (child == 0) ::_exit(0);
  if (extended) *rseq_flags() = 0;
  ::waitpid(child, nullptr, 0);
  // An older kernel refuses to extend slices. The tracer sees the calls of is_registered, but not as part of vfork.
  ::_exit(extended || is_registered() ? 0 : kNoLongerRegistered);
}

// The calls of rseq and vfork among those that the child makes until it ends.
std::vector<Call> trace(pid_t child) {
  std::vector<Call> calls;
  int status = 0;
  require(::waitpid(child, &status, 0) == child && WIFSTOPPED(status), "the program did not stop");
  ::ptrace(PTRACE_SETOPTIONS, child, nullptr, PTRACE_O_TRACESYSGOOD);
  int passed_on = 0;
  while (::ptrace(PTRACE_SYSCALL, child, nullptr, passed_on) == 0 && ::waitpid(child, &status, 0) == child &&
         WIFSTOPPED(status)) {
    passed_on = WSTOPSIG(status) == (SIGTRAP | 0x80) ? 0 : WSTOPSIG(status);
    if (passed_on != 0) continue;
    struct __ptrace_syscall_info info = {};
    require(::ptrace(PTRACE_GET_SYSCALL_INFO, child, sizeof info, &info) > 0, "the kernel does not tell of calls");
    if (info.op != PTRACE_SYSCALL_INFO_ENTRY) continue;
    Call call = {info.entry.nr, {}};
    for (int i = 0; i < 4; i++) call.arguments[i] = info.entry.args[i];
    if (call.number == SYS_rseq || makes_a_child(call)) calls.push_back(call);
  }
  require(!WIFEXITED(status) || WEXITSTATUS(status) != kNeverRegistered, "the thread was not registered");
  require(!WIFEXITED(status) || WEXITSTATUS(status) != kNoLongerRegistered, "the thread is not registered after vfork");
  require(WIFEXITED(status) && WEXITSTATUS(status) == 0, "the program failed", static_cast<unsigned>(status));
  return calls;
}

void trace_vfork(bool extended) {
  if (!rseq_mode()) skip("no restartable sections in this mode");
  const pid_t child = ::fork();
  if (child == 0) vfork_once(extended);
  const std::vector<Call> calls = trace(child);
  require(calls.size() >= 3, "not three calls", calls.size());
  const auto& [leave, make, enter] = *reinterpret_cast<const Call(*)[3]>(calls.data());
  require(leave.number == SYS_rseq && makes_a_child(make) && enter.number == SYS_rseq, "other calls than these");
  require(leave.arguments[2] == RSEQ_UNREGISTER, "the first one does not unregister", leave.arguments[2]);
  require(enter.arguments[2] == (extended ? RSEQ_SLICE_EXTENSION : 0), "registered with other flags",
          enter.arguments[2]);
  for (const int same : {0, 1, 3})
    require(leave.arguments[same] == enter.arguments[same], "registered in another way", leave.arguments[same],
            enter.arguments[same]);
}

void the_thread_is_registered_as_before(const Options&) { trace_vfork(false); }
void the_time_slice_stays_extensible(const Options&) {
  if (rseq_is_own()) skip("where the struct is, Freeway alone knows");
  trace_vfork(true);
}

}  // namespace

int main(int argc, char** argv) {
  return run_cases(argc, argv,
                   {{"the_thread_is_registered_as_before", the_thread_is_registered_as_before},
                    {"the_time_slice_stays_extensible", the_time_slice_stays_extensible}});
}
