// SPDX-License-Identifier: MIT
#include "leaks/stopped.h"

#include <elf.h>
#include <sys/ptrace.h>
#include <sys/uio.h>
#include <sys/wait.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <ctime>

#include "heap/registers.h"
#include "process.h"
#include "report.h"

namespace freeway_command {
namespace {

constexpr int kPatienceMs = 10'000;  // for a thread that is in the kernel and does not come back

[[noreturn]] void fail_of(int pid, int error) {
  const std::string name = "process " + std::to_string(pid);
  if (const std::string tracer = thread_status(pid, pid, "TracerPid"); !tracer.empty() && tracer != "0")
    throw Failure(kCannot, name + " is traced by process " + tracer +
                               " (a debugger?), and a process has one tracer at most: look at it when that has ended");
  if (error == EPERM) throw Failure(kCannot, forbidden(pid));
  throw Failure(kCannot, name + " cannot be stopped: " + std::strerror(error));
}

// Adds the thread's registers of one kind, if there are such.
std::size_t read_registers(int thread, unsigned kind, void* to, std::size_t bytes) {
  iovec area{to, bytes};
  return ptrace(PTRACE_GETREGSET, thread, kind, &area) == 0 ? area.iov_len : 0;
}

}  // namespace

Stopped::Stopped(int pid, int signal) : pid_(pid), signal_(signal) {
  if (thread_status(pid, pid, "State").empty())
    throw Failure(kCannot, "there is no process " + std::to_string(pid) + " (ps -e lists them)");
  try {
    // A thread that is not stopped yet may start another one.
    for (bool found = true; found;) {
      found = false;
      for (const int thread : threads_of(pid)) {
        const auto is_it = [thread](const Held& each) { return each.thread == thread; };
        if (std::none_of(held_.begin(), held_.end(), is_it)) found |= stop(thread);
      }
    }
  } catch (...) {
    let_go();
    throw;
  }
  if (held_.empty()) throw Failure(kCannot, "process " + std::to_string(pid) + " has ended");
}

Stopped::~Stopped() { let_go(); }

// Whether the thread is stopped now; false: it has ended.
bool Stopped::stop(int thread) {
  if (thread == pid_ && signal_ != 0) {
    held_.push_back({thread, signal_});
  } else {
    if (ptrace(PTRACE_SEIZE, thread, nullptr, nullptr) != 0) {
      const int error = errno;
      if (error == ESRCH || has_ended(pid_, thread)) return false;
      fail_of(pid_, error);
    }
    held_.push_back({thread, 0});
    if (ptrace(PTRACE_INTERRUPT, thread, nullptr, nullptr) != 0 || !wait_for(thread, held_.back().signal)) {
      held_.pop_back();
      return false;
    }
  }
  std::array<std::uint64_t, 512> words;
  const std::size_t general = read_registers(thread, NT_PRSTATUS, words.data(), sizeof(words));
  Thread stopped = thread_of(thread, words.data(), general);
  const std::size_t floating = read_registers(thread, NT_PRFPREG, words.data(), sizeof(words));
  add_registers(stopped, words.data(), floating);
  if (read_registers(thread, NT_ARM_TLS, words.data(), sizeof(words)) >= 8) stopped.own = words[0];
  threads_.push_back(stopped);
  return true;
}

// Waits until the thread has stopped; false: it has ended. Its end is its parent's to hear of, which may be this
// command.
bool Stopped::wait_for(int thread, int& signal) const {
  for (int ms = 0; ms < kPatienceMs; ++ms) {
    siginfo_t info = {};
    if (waitid(P_PID, static_cast<id_t>(thread), &info, WSTOPPED | WNOHANG | __WALL) != 0 && errno != EINTR)
      return false;
    if (info.si_pid == thread) {
      signal = info.si_status >> 8 == PTRACE_EVENT_STOP ? 0 : info.si_status & 0x7f;
      return true;
    }
    if (has_ended(pid_, thread)) return false;  // the first thread, whose status is the process's, stays for the others
    const timespec pause{0, 1'000'000};
    nanosleep(&pause, nullptr);
  }
  throw Failure(kCannot, "thread " + std::to_string(thread) + " of process " + std::to_string(pid_) +
                             " does not stop: it waits in the kernel (for a disk, or for a child of vfork); try again");
}

void Stopped::let_go() const {
  for (const Held& each : held_)
    ptrace(PTRACE_DETACH, each.thread, nullptr, reinterpret_cast<void*>(static_cast<std::intptr_t>(each.signal)));
}

}  // namespace freeway_command
