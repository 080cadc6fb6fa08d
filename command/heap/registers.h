// SPDX-License-Identifier: MIT
// registers.h: the registers of a thread, as the kernel hands them to tracers and writes them to core files.
#pragma once

#include <sys/user.h>

#include <algorithm>
#include <cstring>

#include "heap/memory.h"

namespace freeway_command {

// Bytes below the stack pointer that a function may use without moving it.
constexpr std::uint64_t kRedZone = 128;

// Adds `bytes` of registers of another kind, of which each word may be an address.
inline void add_registers(Thread& thread, const void* registers, std::size_t bytes) {
  const std::size_t known = thread.content.size();
  thread.content.resize(known + bytes / 8);
  std::memcpy(thread.content.data() + known, registers, bytes / 8 * 8);
}

// From the general registers (NT_PRSTATUS).
inline Thread thread_of(int id, const void* registers, std::size_t bytes) {
  Thread thread;
  thread.id = id;
  add_registers(thread, registers, bytes);
  user_regs_struct general = {};
  std::memcpy(&general, registers, std::min(bytes, sizeof(general)));
#if defined(__x86_64__)
  thread.stack = general.rsp;
  thread.own = general.fs_base;
#elif defined(__aarch64__)
  thread.stack = general.sp;  // the thread pointer has a note of its own: NT_ARM_TLS
#else
#error "Freeway knows x86-64 and aarch64"
#endif
  return thread;
}

}  // namespace freeway_command
