// SPDX-License-Identifier: MIT
// restart_probe.h: does the kernel restart a section that it preempted? Some on aarch64 do not (os/kernel_release.h).
//
// Two threads on one CPU: one counts, the other waits inside a section for the count to change. To see it change, it
// must have been preempted; if it sees it inside the section, it was not sent to the abort address, and what a section
// does is not done at once. About 10 ms. Of this file alone, libc and threads: `freeway doctor` and tests include it,
// static ones too. The thread that waits uses the C library's struct rseq, or registers one of its own while it has
// made no other call.
#pragma once

#include <pthread.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>

#include "command/waiting_section.h"

extern "C" {
extern const unsigned int __rseq_size __attribute__((weak));
extern const std::ptrdiff_t __rseq_offset __attribute__((weak));
}

namespace freeway_command {

struct RestartProbe {
  static constexpr int kRounds = 5;
  int restarted = 0;      // sections that were preempted and sent to their abort address
  int not_restarted = 0;  // that went on
  bool tried() const { return restarted + not_restarted != 0; }  // else there is no rseq, or no thread to be had
};

namespace restart_probe {

// The thread's struct rseq, and whether the one here had to be registered for it. Null: there is none to be had.
struct Registration {
  Registration() {
    if (&__rseq_size != nullptr && __rseq_size != 0) {
      area = static_cast<char*>(__builtin_thread_pointer()) + __rseq_offset;
      if (*reinterpret_cast<const volatile int*>(area + RSEQ_CPU_ID) < 0) area = nullptr;
    } else if (syscall(SYS_rseq, own, sizeof(own), 0, RSEQ_SIGNATURE) == 0) {
      area = own;
    }
  }
  ~Registration() {
    if (area == own) syscall(SYS_rseq, own, sizeof(own), RSEQ_UNREGISTER, RSEQ_SIGNATURE);
  }
  Registration(const Registration&) = delete;
  Registration& operator=(const Registration&) = delete;

  char* area = nullptr;

 private:
  alignas(32) char own[32] = {};
};

struct Shared {
  int cpu;
  volatile bool stop = false;
  volatile std::uint64_t count = 0;
  RestartProbe found = {};
};

inline bool stay_on(int cpu) {
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(cpu, &one);
  const sched_param plain = {};
  sched_setscheduler(0, SCHED_OTHER, &plain);  // of two real-time threads one would wait for the other for ever
  return sched_setaffinity(0, sizeof(one), &one) == 0;
}

inline void* count_up(void* argument) {
  auto& shared = *static_cast<Shared*>(argument);
  if (!stay_on(shared.cpu)) return nullptr;
  while (!shared.stop) shared.count = shared.count + 1;
  return argument;
}

inline void* wait_in_sections(void* argument) {
  auto& shared = *static_cast<Shared*>(argument);
  const Registration registration;
  if (registration.area == nullptr || !stay_on(shared.cpu)) return nullptr;
  for (int round = 0; round < RestartProbe::kRounds; ++round) {
    const bool saw = freeway::sees_change_inside_section(registration.area, &shared.count);
    ++(saw ? shared.found.not_restarted : shared.found.restarted);
  }
  return argument;
}

}  // namespace restart_probe

inline RestartProbe probe_restarts() {
  restart_probe::Shared shared = {.cpu = sched_getcpu()};
  pthread_t counter, waiter;
  if (shared.cpu < 0 || pthread_create(&counter, nullptr, restart_probe::count_up, &shared) != 0) return {};
  if (pthread_create(&waiter, nullptr, restart_probe::wait_in_sections, &shared) == 0) pthread_join(waiter, nullptr);
  shared.stop = true;
  pthread_join(counter, nullptr);
  return shared.found;
}

}  // namespace freeway_command
