// SPDX-License-Identifier: MIT
// CpuSlabs: which slab each CPU has, and which thread may give it one or take it away (decision 007).
//
// Words     entry: the null slab -> slab -> the null slab (while it is drained) -> slab. It lies where the sections
//           look for it (hot.h's slab_of)
//           made: null -> the CPU's slab, for good
//           exclusive: names the thread that may change these two (sync/claim.h)
// Invariant only the holder of a CPU's exclusive word stores its entry and made. A slab that was taken out is its
//           drainer's alone, once all sections that may have read the old entry have been interrupted
// Who       any thread, any signal handler, the child of any fork (where a slab that was taken out is put back: it is
//           consistent at every instruction, slab.h)
// Orders    of exclusive: the claim's
//           [R2] an entry, and made, publish the slab; [A2] a thread that finds it there sees that. Sections load the
//           entry without an order: all that they then read depends on the address
// Progress  wait-free       Lost if killed: the word. That CPU's threads use spare slabs until the next fork
// Checked   tests/cache/cpu_slabs_model.cc, tests/whole/fork, tests/whole/stress/trim_test.cc
#pragma once

#include "arch/rseq_layout.h"
#include "cache/slab.h"
#include "sync/claim.h"

namespace freeway {

template <class Env> class CpuSlabs {
 public:
  using Entry = typename Env::template Atomic<Slab*>;
  enum class Drained { kNothing, kDone, kRefused };  // none was there, or somebody has it; and then; not interrupted

  // By each thread that takes part in initialisation, with the same values. `none`: the null slab.
  void init(Entry* entries, u32 ids, Slab* none) {
    entries_ = entries;
    none_ = none;
    for (u32 id = 0; id < ids; ++id) {
      Slab* nothing = nullptr;
      entries[id].cas_relaxed(nothing, none);
    }
  }

  // The slab of CPU `id`: make() yields one if it has none yet. who() names the caller. Null: no memory, or it is being
  // drained.
  template <class Who, class Make> Slab* get(u32 id, Who&& who, Make&& make) {
    Slab* slab = entries_[id].load_acquire();  // [A2] pairs with [R2]
    if (slab != none_) return slab;
    if (!cpus_[id].exclusive.take(who())) return nullptr;
    // One that exists but is not installed was being drained by a thread that a fork left behind.
    slab = cpus_[id].made.load_relaxed();
    Env::step("heap.seized");
    if (slab == nullptr && (slab = make()) != nullptr) cpus_[id].made.store_release(slab);  // [R2] pairs with [A2]
    if (slab != nullptr) entries_[id].store_release(slab);                                  // [R2] pairs with [A2]
    Env::step("heap.installed");
    cpus_[id].exclusive.release();
    return slab;
  }

  // Takes the slab of CPU `id` out, calls f(slab), and puts it back. interrupt(): interrupts all sections; false if the
  // kernel refuses, then f is not called.
  template <class Interrupt, class F> Drained drain(u32 id, const Claimant& who, Interrupt&& interrupt, F&& f) {
    Slab* slab = made(id);
    if (slab == nullptr || !cpus_[id].exclusive.take(who)) return Drained::kNothing;
    entries_[id].store_relaxed(none_);  // it publishes nothing
    Env::step("drain.taken_out");
    const bool mine = interrupt();
    if (mine) f(*slab);
    Env::step("drain.emptied");
    entries_[id].store_release(slab);  // [R2] pairs with [A2]
    Env::step("drain.put_back");
    cpus_[id].exclusive.release();
    return mine ? Drained::kDone : Drained::kRefused;
  }

  // The slab that CPU `id` ever got, installed or not; null if none.
  Slab* made(u32 id) const { return cpus_[id].made.load_acquire(); }  // [A2] pairs with [R2]
  // Whether a thread has it that `who` could not replace.
  bool is_taken(u32 id, const Claimant& who) const { return cpus_[id].exclusive.is_taken(who); }

 private:
  Entry* entries_ = nullptr;
  Slab* none_ = nullptr;
  struct {
    Claim<Env> exclusive;
    typename Env::template Atomic<Slab*> made;
  } cpus_[RSEQ_IDS];
};

}  // namespace freeway
