// SPDX-License-Identifier: MIT
// rseq_layout.h: the kernel's definitions for restartable sections. For the preprocessor, so that .S files can use it.
#pragma once

// struct rseq.
#define RSEQ_CPU_ID 4    // negative: this thread is not registered
#define RSEQ_SECTION 8   // rseq_cs
#define RSEQ_FLAGS 16    // bit 5: the thread's time slice may be extended (since Linux 7.0)
#define RSEQ_NODE_ID 20  // since Linux 6.3, like the next
#define RSEQ_MM_CID 24
#define RSEQ_IDS 8192    // cpu_id and mm_cid are below it: as many CPUs as Linux can have

// The system call's flags, and the signature it gets beside them. A thread with bit 5 of RSEQ_FLAGS registers again
// with the second flag (RSEQ_FLAG_SLICE_EXT_DEFAULT_ON of the kernel).
#define RSEQ_UNREGISTER 1
#define RSEQ_SLICE_EXTENSION 2
#if defined(__x86_64__)
#define RSEQ_SIGNATURE 0x53053053  // the word before an abort address: arch/*/section.inc
#else
#define RSEQ_SIGNATURE 0xd428bc00
#endif

// The section functions answer this if the thread has no slab (not registered, or its CPU's slab is not made yet).
#define RSEQ_NO_SLAB (-1)
