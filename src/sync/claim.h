// SPDX-License-Identifier: MIT
// Claim: a word that names the holder of something. Nobody waits for it: a thread that finds it taken does without.
//
// Word      0 = free, else the name of the holding thread (Claimant), or another number that the user chose
// Moves     take: 0, or the name of a thread that is not in this process, -> the caller's (CAS)     release: -> 0
//           (store) pass: from one name to another (CAS), by the user's own rules; then release may leave a name
//           behind, too
// Invariant between take and release, the holder alone uses what the word guards. A holder that stayed in the parent
//           at a fork may have stopped anywhere: state that Claimants take over is consistent at every instruction
// Who       any thread, any signal handler (it sees its own thread's claim as taken), the child of any fork
// Orders    [R1] release publishes the holder's work; [A1] the next holder sees it
// Progress  wait-free, one attempt
// Lost if killed: the guarded thing, until the process forks; for ever if it was claimed by a number
// Checked   tests/sync/claim_model.cc
#pragma once

#include "base/integers.h"

namespace freeway {

// A thread's name in a claim word. In the child of a fork it tells a holder that is in this process from one that
// stayed in the parent.
//
// Layout    thread pointer / 32 : 43 | a bit for the code that stores names : 1 | epoch : 20; 0 = nobody. The epoch
//           counts the forks, libc's or raw, that led to this process. The child has one thread, the one that forked,
//           perhaps in a handler that interrupted it while it held something: a claim under its thread pointer may
//           still be held
// Limits    nothing is ever taken over where the kernel wipes no pages (before Linux 4.14), or where a child's first
//           thread was not the first to claim something (lives.h)
struct Claimant {
  static constexpr unsigned kEpochBits = 20;
  static constexpr uptr kThreadUnit = 32;                 // the unit of thread pointers in names
  static constexpr u64 kSpareBit = u64{1} << kEpochBits;  // 0 in every name
  u64 self = 0;                                           // the name that this thread writes
  u64 survivor = 0;  // the name of the thread that this process began with; its thread is 0 if that is not known

  static constexpr u64 name(u64 thread, u64 in_epoch) { return (thread << (kEpochBits + 1)) | epoch(in_epoch); }
  static constexpr u64 epoch(u64 word) { return word & low_bits(kEpochBits); }
  static constexpr u64 thread(u64 word) { return word >> (kEpochBits + 1); }
  // Whether epoch `a` came before `b`. They wrap.
  static constexpr bool is_before(u64 a, u64 b) { return epoch(b - a) - 1 < low_bits(kEpochBits - 1); }
  // Whether a word that reads `seen` may be replaced by `self`: it is free, or its holder is not in this process. (A
  // later epoch is this process's own: after this claimant was asked for, a handler forked and started a thread in the
  // child.)
  constexpr bool may_replace(u64 seen) const {
    return seen == 0 ||
           (thread(survivor) != 0 && is_before(epoch(seen), epoch(survivor)) && thread(seen) != thread(survivor));
  }
};

template <class Env, class Word = u64> class Claim {
 public:
  // Claims it for the caller. Whether that succeeded.
  bool take(const Claimant& who) {
    Word seen = word_.load_relaxed();  // OPTIMISTIC: holder
    return who.may_replace(seen) && replace(seen, who.self);
  }
  // The same with a number: then nothing is ever taken over.
  bool take(Word number) {
    const Word seen = word_.load_relaxed();
    return seen == 0 && replace(seen, number);
  }
  // Passes the claim from `from` to `to`. Whether it was `from`'s.
  bool pass(Word from, Word to) { return replace(from, to); }
  // The holder only. `next`: the next holder.
  void release(Word next = 0) {
    Env::step("claim.release");
    word_.store_release(next);  // [R1] pairs with [A1]
  }

  // Whether it has a holder that `who` could not replace; its holder.
  bool is_taken(const Claimant& who) const { return !who.may_replace(word_.load_relaxed()); }
  Word holder() const { return word_.load_relaxed(); }
  // For the kernel, which writes to the word, too, and for a user that leaves names behind.
  typename Env::template Atomic<Word>& word() { return word_; }

 private:
  bool replace(Word seen, Word next) {
    Env::step("claim.seen");
    return word_.cas_acquire(seen, next);  // [A1] pairs with [R1]
  }
  typename Env::template Atomic<Word> word_;
};

}  // namespace freeway
