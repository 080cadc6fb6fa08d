// SPDX-License-Identifier: MIT
// rseq_layout.h: what the kernel defines about restartable sections. For the preprocessor, so that .S files can use it.
#pragma once

// struct rseq.
#define RSEQ_CPU_ID 4    // negative: this thread is not registered
#define RSEQ_SECTION 8   // rseq_cs
#define RSEQ_FLAGS 16    // bit 5: the thread's time slice may be extended (since Linux 7.0)
#define RSEQ_NODE_ID 20  // since Linux 6.3, as what follows
#define RSEQ_MM_CID 24
#define RSEQ_IDS 8192    // cpu_id and mm_cid are below it: as many CPUs as Linux can have

// The system call's flags, and the number it is told beside them. Who has bit 5 of RSEQ_FLAGS registers again with the
// second flag (RSEQ_FLAG_SLICE_EXT_DEFAULT_ON of the kernel).
#define RSEQ_UNREGISTER 1
#define RSEQ_SLICE_EXTENSION 2
#if defined(__x86_64__)
#define RSEQ_SIGNATURE 0x53053053  // what stands before an abort address: arch/*/section.inc
#else
#define RSEQ_SIGNATURE 0xd428bc00
#endif

// What the section functions answer when the thread has no slab (not registered, or none was made for its CPU yet).
#define RSEQ_NO_SLAB (-1)
