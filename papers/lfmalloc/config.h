// SPDX-License-Identifier: MIT
// config.h: which of the paper's forms of LFMalloc is built (Dice & Garthwaite 2002, Table 3, section 3.2.2).
//
// Each choice is a constant that a build variant sets by a compile definition (variants.cmake); no code is left out by
// the preprocessor.
//   PROTECTION  what keeps threads of one local heap apart: kSections (the paper's restartable critical sections),
//               kMutex (the paper's rows 2 and 3), kCas and kSpin (ours)
//   SELECTION   which local heap is a thread's: kCpu (the paper's rows 1 and 2), kThread (row 3: a hash of its id)
//   REMOTE      how a superblock's remote free list is kept: kMutex (the paper), kCas (ours)
//   GLOBAL      how the global heap's lists are kept: kMutex (the paper), kLockFree (ours)
#pragma once

#ifndef FREEWAY_LFMALLOC_PROTECTION
#define FREEWAY_LFMALLOC_PROTECTION kSections
#endif
#ifndef FREEWAY_LFMALLOC_SELECTION
#define FREEWAY_LFMALLOC_SELECTION kCpu
#endif
#ifndef FREEWAY_LFMALLOC_REMOTE
#define FREEWAY_LFMALLOC_REMOTE kCas
#endif
#ifndef FREEWAY_LFMALLOC_GLOBAL
#define FREEWAY_LFMALLOC_GLOBAL kLockFree
#endif

namespace freeway::lfmalloc {

enum class Protection { kSections, kCas, kMutex, kSpin };
enum class Selection { kCpu, kThread };
enum class Remote { kCas, kMutex };
enum class Global { kLockFree, kMutex };

constexpr Protection kProtection = Protection::FREEWAY_LFMALLOC_PROTECTION;
constexpr Selection kSelection = Selection::FREEWAY_LFMALLOC_SELECTION;
constexpr Remote kRemote = Remote::FREEWAY_LFMALLOC_REMOTE;
constexpr Global kGlobal = Global::FREEWAY_LFMALLOC_GLOBAL;

// The kernel restarts a section when its thread loses the CPU. On a heap found by hashing, threads of two CPUs can be
// inside at the same time, and nothing would restart either of them.
static_assert(kProtection != Protection::kSections || kSelection == Selection::kCpu,
              "restartable sections protect the heap of one CPU: they cannot protect hashed heaps");

}  // namespace freeway::lfmalloc
