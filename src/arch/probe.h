// SPDX-License-Identifier: MIT
// probe.h: probes for tracers (SystemTap's user-space probes, "USDT": gdb, perf, bpftrace, OpenTelemetry's profiler).
//
// A probe is a nop, and a note in the file that gives its place and the places of its arguments: those of a function's
// arguments (readers of OpenTelemetry rely on that). A tracer that attaches adds one to the probe's semaphore, in our
// memory, and subtracts it when it detaches; while it is 0 the code may skip the nop.
//
// Words     semaphore: the tracers'; we only read it
// Format    sourceware.org/systemtap/wiki/UserSpaceProbeImplementation
#pragma once

#include "base/integers.h"

namespace freeway {

// In section .probes, where tracers look for it.
using ProbeSemaphore = volatile unsigned short;
inline bool is_listened_to(ProbeSemaphore& semaphore) { return __builtin_expect(semaphore != 0, false); }

}  // namespace freeway

// Defines the semaphore of the probe provider:name.
#define FREEWAY_PROBE_SEMAPHORE(provider, name)                                      \
  extern "C" {                                                                       \
  extern freeway::ProbeSemaphore provider##_##name##_semaphore;                      \
  __attribute__((visibility("hidden"), used, section(".probes")))                    \
  freeway::ProbeSemaphore provider##_##name##_semaphore = 0;                         \
  }

// The probe, with three arguments of 64 bits.
#if defined(__x86_64__)
#define FREEWAY_PROBE_PLACES "8@%%rdi 8@%%rsi 8@%%rdx"
#define FREEWAY_PROBE(provider, name, first, second, third)                                                   \
  asm volatile(FREEWAY_PROBE_NOTE(provider, name) ::"D"(static_cast<freeway::u64>(first)),                    \
               "S"(static_cast<freeway::u64>(second)), "d"(static_cast<freeway::u64>(third)))
#elif defined(__aarch64__)
#define FREEWAY_PROBE_PLACES "8@x0 8@x1 8@x2"
#define FREEWAY_PROBE(provider, name, first, second, third)                                                   \
  do {                                                                                                        \
    register freeway::u64 x0 asm("x0") = first;                                                               \
    register freeway::u64 x1 asm("x1") = second;                                                              \
    register freeway::u64 x2 asm("x2") = third;                                                               \
    asm volatile(FREEWAY_PROBE_NOTE(provider, name) ::"r"(x0), "r"(x1), "r"(x2));                             \
  } while (false)
#endif

#define FREEWAY_PROBE_NOTE(provider, name)                            \
  "990: nop\n"                                                        \
  ".pushsection .note.stapsdt, \"?\", \"note\"\n"                     \
  ".balign 4\n"                                                       \
  ".4byte 992f - 991f, 994f - 993f, 3\n"                              \
  "991: .asciz \"stapsdt\"\n"                                         \
  "992: .balign 4\n"                                                  \
  "993: .8byte 990b\n"                                                \
  ".8byte _.stapsdt.base\n"                                           \
  ".8byte " #provider "_" #name "_semaphore\n"                        \
  ".asciz \"" #provider "\"\n"                                        \
  ".asciz \"" #name "\"\n"                                            \
  ".asciz \"" FREEWAY_PROBE_PLACES "\"\n"                             \
  "994: .balign 4\n"                                                  \
  ".popsection\n"                                                     \
  ".ifndef _.stapsdt.base\n"                                          \
  ".pushsection .stapsdt.base, \"aG\", \"progbits\", .stapsdt.base, comdat\n" \
  ".weak _.stapsdt.base\n"                                            \
  ".hidden _.stapsdt.base\n"                                          \
  "_.stapsdt.base: .space 1\n"                                        \
  ".size _.stapsdt.base, 1\n"                                         \
  ".popsection\n"                                                     \
  ".endif\n"
