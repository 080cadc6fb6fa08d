// SPDX-License-Identifier: MIT
#include "os/random.h"

#include <sys/auxv.h>
#include <sys/personality.h>
#include <time.h>

#include "os/syscall.h"

namespace freeway::random {

// Unpredictable, as a rule. If the kernel has no random bits ready, mixes the time and random addresses.
u64 kernel_bits() {
  constexpr u64 kNonBlocking = 1, kAsk = 0xffffffff;
  const long personality = raw_syscall(SYS_personality, kAsk);
  if (personality > 0 && (personality & ADDR_NO_RANDOMIZE) != 0) return 0;
  u64 bits = 0;
  if (raw_syscall(SYS_getrandom, reinterpret_cast<u64>(&bits), sizeof(bits), kNonBlocking) == sizeof(bits)) return bits;
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return window::mixed(static_cast<u64>(now.tv_nsec)) ^ window::mixed(getauxval(AT_RANDOM)) ^
         window::mixed(getauxval(AT_SYSINFO_EHDR) + 1);
}

}  // namespace freeway::random
