// SPDX-License-Identifier: MIT
// Slabs: all slabs of the process, which of them a call works on, and taking them apart.
//
// Mode      undecided -> sections (struct rseq is libc's, or ours) or spare, for good, once the environment can be
//           read. With sections a call works on the slab of its CPU (cpu_slabs.h). Else, and while that one is not to
//           be had, it works on a spare one, which its thread keeps or has claimed for the call (spare_slabs.h)
// Access    SlabInHand: what a call does to the slab, which is RseqSlabs' or PlainSlab's way to do it (slab.h)
// Draining  another CPU's slab is taken out, all sections are interrupted (membarrier), then it is the drainer's until
//           it is put back; one at a time, so a thread that stops here strands one
// Who       any thread, any signal handler, the child of any fork
// Lost if killed: the slab in hand
// Checked   tests/cache/*_slabs_model.cc, tests/whole/fork, tests/whole/stall, tests/whole/stress/trim_test.cc
#pragma once

#include "base/function_ref.h"
#include "cache/cpu_slabs.h"
#include "cache/hot.h"
#include "cache/rseq_slabs.h"
#include "cache/spare_slabs.h"
#include "harden/births.h"
#include "os/machine.h"
#include "pages/substrate.h"
#include "sync/once.h"

namespace freeway {

// This thread's notes on its spare slab.
extern FREEWAY_HIDDEN constinit thread_local SpareSlabs<Machine>::Own own;

// The slab that a call works on: a spare one, which it has to itself, or in sections that of whatever CPU it is on. One
// class for both, so that what moves batches is compiled once.
class SlabInHand {
 public:
  // `spare`: null in sections.
  explicit SlabInHand(Slab* spare = nullptr) : spare_(spare) {}
  bool is_spare() const { return spare_ != nullptr; }

  u64 pop(unsigned c) const { return is_spare() ? plain().pop(c) : sections().pop(c); }
  bool push(unsigned c, u64 block) const { return is_spare() ? plain().push(c, block) : sections().push(c, block); }
  FREEWAY_NOINLINE unsigned pop_batch(unsigned c, void** out, unsigned count) const {
    return is_spare() ? plain().pop_batch(c, out, count) : sections().pop_batch(c, out, count);
  }
  FREEWAY_NOINLINE unsigned push_batch(unsigned c, void* const* blocks, unsigned count) const {
    return is_spare() ? plain().push_batch(c, blocks, count) : sections().push_batch(c, blocks, count);
  }
  FREEWAY_NOINLINE unsigned push_run(unsigned c, u64 lowest, u64 size, unsigned count) const {
    return is_spare() ? plain().push_run(c, lowest, size, count) : sections().push_run(c, lowest, size, count);
  }
  u32 take_current(unsigned c) const { return is_spare() ? plain().take_current(c) : sections().take_current(c); }
  bool put_current(unsigned c, u32 d) const {
    return is_spare() ? plain().put_current(c, d) : sections().put_current(c, d);
  }
  bool replace(u64 offset, u64 expected, u64 value) const {
    return is_spare() ? plain().replace(offset, expected, value) : sections().replace(offset, expected, value);
  }
  FREEWAY_NOINLINE bool open(unsigned c, u64 area, u64 bytes, u64 closed) const {
    return is_spare() ? plain().open(c, area, bytes, closed) : sections().open(c, area, bytes, closed);
  }
  FREEWAY_NOINLINE bool move(unsigned c, u64 old_area, u64 old_bytes, u64 distance, u64 new_bytes) const {
    return is_spare() ? plain().move(c, old_area, old_bytes, distance, new_bytes)
                      : sections().move(c, old_area, old_bytes, distance, new_bytes);
  }
  FREEWAY_NOINLINE u64 grow(u64 capacity_at, u64 expected, u64 end, u64 bytes) const {
    return is_spare() ? plain().grow(capacity_at, expected, end, bytes)
                      : sections().grow(capacity_at, expected, end, bytes);
  }

 private:
  PlainSlab plain() const { return PlainSlab(*spare_); }
  static RseqSlabs sections() { return RseqSlabs(); }

  Slab* spare_;
};
static_assert(SlabAccess<SlabInHand>);

class Slabs {
 public:
  // Of a slab that the caller has to itself.
  using Visit = FunctionRef<void(Slab& slab)>;
  // Which ones it is worth to have; others may be in the slab.
  using Wanted = FunctionRef<bool(Slab& slab)>;
  static constexpr auto any = [](Slab&) { return true; };

  // Once (or again with the same), before anything else. While births are kept, new slabs have room for blocks that
  // rest.
  void init(Substrate& substrate, Births<Machine>& births);
  // When the environment can be read: decides on which slabs calls work. Sections find struct rseq from here on.
  FREEWAY_COLD void decide();
  bool uses_rseq() const { return mode_.peek() == kRseq || mode_.peek() == kOwnRseq; }
  // Why calls work on spare slabs; "" where they do not, or it is not known yet.
  const char* why_spare() const { return uses_rseq() || why_spare_ == nullptr ? "" : why_spare_; }
  FREEWAY_COLD void describe(Line& line) const;
  // Whether this thread is registered for rseq by now.
  static bool can_enter_sections();

  // The `top` of a class without a magazine, empty and full at once: a zero between two.
  u64 closed() const { return reinterpret_cast<u64>(&zeros_[1]); }
  // The slab of the CPU that this thread was on a moment ago, made if there is none. Null: not in this mode, the thread
  // is not registered and cannot be, no memory, or the slab is being drained.
  Slab* of_cpu();
  // The block of class `c` that malloc would give this thread now; 0: it is not known. A hint: others may take it.
  uptr on_top(unsigned c);

  // Calls f(slab in hand, slab) with a slab on which this call may work; false if none could be had.
  template <class F> bool with(F&& f) {
    Slab* slab = of_cpu();
    if (slab == nullptr) return with_spare(f);
    f(SlabInHand(), *slab);
    return true;
  }
  template <class F> bool with_spare(F&& f) {
    const Spare::Taken taken = take_spare();
    if (taken.slab != nullptr) f(SlabInHand(taken.slab), *taken.slab);
    Spare::give(own, taken);
    return taken.slab != nullptr;
  }

  // Calls f(slab, is_taken) for all that exist; is_taken(): whether somebody has it.
  template <class F> void each(F&& f) const {
    const Claimant who = process::claimant();
    for (u32 id = 0; id < ids_; ++id)
      if (Slab* slab = cpu_slabs_.made(id)) f(*slab, [&] { return cpu_slabs_.is_taken(id, who); });
    spare_.each(who, Revoker::is_inside, f);
  }

  // CPUs' slabs have numbers below it: CPU numbers and concurrency ids are; the same, but 0 without sections.
  u32 ids() const { return ids_; }
  u32 cpus() const { return uses_rseq() ? ids_ : 0; }
  // Calls visit(slab) for each slab that is wanted and can be had: of a CPU, all spare ones, all, those on which this
  // thread's next call would work. False: the kernel refuses to interrupt sections, so CPUs' slabs cannot be had.
  FREEWAY_COLD bool drain_cpu(u32 id, Wanted wanted, Visit visit);
  void drain_spare(Wanted wanted, Visit visit);
  bool drain(Wanted wanted, Visit visit);
  FREEWAY_COLD void drain_at_hand(Wanted wanted, Visit visit);

  // From now on slabs get their memory at once: a slab for each CPU that a thread of this process may come to, and the
  // spare ones. Where it is not known how many CPUs there are, none: thousands of them would be gigabytes.
  FREEWAY_COLD void provide();
  // Bytes of all of them.
  u64 bytes() const { return bytes_.load_relaxed(); }

 private:
  using Spare = SpareSlabs<Machine>;
  enum Mode : u32 { kUndecided, kRseq, kOwnRseq, kSpare };  // kOwnRseq: struct rseq is ours, not libc's

  // What revoking a slab from another thread needs of the kernel (spare_slabs.h).
  struct Revoker {
    static bool barrier() { return process::make_barrier(); }
    static bool is_inside(u64 name);
  };
  Spare::Taken take_spare();
  FREEWAY_COLD Slab* make();
  std::size_t bytes_of_one() const;

  Spare spare_;
  Substrate* substrate_ = nullptr;
  Births<Machine>* births_ = nullptr;
  Once<Machine> mode_;
  const char* why_spare_ = nullptr;
  u32 ids_ = 0;
  Atomic<u32> made_;
  Atomic<u64> bytes_;         // early ones may be longer than later ones
  Atomic<bool> is_prepared_;  // slabs get their memory at once
  Atomic<u64> null_slab_[kSlabHeadWords];
  Atomic<u64> zeros_[3];
  CpuSlabs<Machine> cpu_slabs_;
};

}  // namespace freeway
