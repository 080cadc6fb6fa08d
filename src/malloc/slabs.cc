// SPDX-License-Identifier: MIT
#include "malloc/slabs.h"

#include "arch/rseq_place.h"
#include "harden/quarantine.h"
#include "os/report.h"
#include "os/rseq_area.h"

namespace freeway {

constinit thread_local SpareSlabs<Machine>::Own own;

namespace {

// Entries of slab_of that are made even where the kernel has fewer CPU numbers: a process that was checkpointed may go
// on on a machine with more CPUs. (Beyond that it may not: an entry that was not made leads nowhere.)
constexpr u32 kLeastIds = 256;

// Sections find struct rseq at `by_mm_cid` or `by_cpu`, offsets from the thread pointer; 0: at the decoy.
void enter_by(u64 by_mm_cid, u64 by_cpu, u64 bytes) {
  const u64 nowhere = static_cast<u64>(process::rseq_decoy_offset());
  const char* nothing = nullptr;  // a late thread must not undo a store of the helper's
  freeway_rseq.alone.cas_relaxed(nothing, process::single_threaded_flag());
  freeway_rseq.bytes = bytes;
  freeway_hot.rseq = by_mm_cid != 0 ? by_mm_cid : nowhere;
  freeway_hot.cpu_rseq = by_cpu != 0 ? by_cpu : nowhere;
  freeway_rseq.id = by_mm_cid != 0 ? by_mm_cid + RSEQ_MM_CID : (by_cpu != 0 ? by_cpu : nowhere) + RSEQ_CPU_ID;
  freeway_rseq.area = by_mm_cid != 0 ? by_mm_cid : by_cpu != 0 ? by_cpu : nowhere;
}

// The struct rseq for the sections of this process, or why there is none.
process::Rseq find_rseq(const Options& options, u32 id_bound) {
  process::Rseq none;
  none.why_not = !options.use_rseq ? "FREEWAY_RSEQ=0" : "more CPUs than there is room for";
  if (!options.use_rseq || id_bound > RSEQ_IDS) return none;
  return process::choose_rseq({.own = !options.libc_rseq_only, .any_kernel = options.force_rseq});
}

constexpr uptr kNameUnit = Claimant::kThreadUnit;  // a thread's name is its thread pointer, in these

// The address of another thread's `inside`, which is as far from its thread pointer as ours: thread-local storage is
// static (-ftls-model=initial-exec), and the low bits of all thread pointers are the same, since `own` is aligned.
uptr inside_of(u64 name) {
  static_assert(alignof(decltype(own)) >= kNameUnit);
  const auto mine = reinterpret_cast<uptr>(__builtin_thread_pointer());
  return Claimant::thread(name) * kNameUnit + (reinterpret_cast<uptr>(&own.inside) - align_down(mine, kNameUnit));
}

}  // namespace

// The low 32 bits hold the epoch, which is never 0: a thread that is out does not look like one inside.
bool Slabs::Revoker::is_inside(u64 name) { return process::may_read(inside_of(name), static_cast<u32>(name)); }

// --- Mode ------------------------------------------------------------------------------------------------------------

void Slabs::init(Substrate& substrate, Births<Machine>& births) {
  substrate_ = &substrate;
  births_ = &births;
  spare_.init(2 * substrate.cpus());
  for (unsigned c = 0; c < Slab::kClasses; ++c) {
    null_slab_[c].store_relaxed(closed());
    null_slab_[offsetof(Slab, rest) / 8 + c].store_relaxed(closed());
  }
  auto* null_slab = reinterpret_cast<Slab*>(&null_slab_);
  freeway_hot.null_slab = reinterpret_cast<u64>(null_slab);
  if (freeway_rseq.area == 0) enter_by(0, 0, 0);
  ids_ = static_cast<u32>(clamp(substrate.id_bound(), kLeastIds, RSEQ_IDS));
  cpu_slabs_.init(freeway_hot.slab_of, ids_, null_slab);
}

void Slabs::decide() {
  const Options& options = substrate_->options();
  const process::Rseq found = find_rseq(options, substrate_->id_bound());
  const Mode wanted = !found.registered ? kSpare : found.is_own ? kOwnRseq : kRseq;
  // Before the mode: no far block is marked in a CPU's slab then that an unchecked path will pop (cache/slots.h).
  if (options.harden == 0) births_->drop();
  const u64 mode = mode_.get([wanted] { return wanted; }, [](u64) {});
  const process::Rseq rseq =
      mode == kOwnRseq ? process::own_rseq() : process::rseq();  // the same for all threads that start
  const bool on = mode != kSpare;
  const u64 area = static_cast<u64>(rseq.offset);
  enter_by(on && rseq.has_mm_cid ? area : 0, on && !rseq.has_mm_cid ? area : 0, rseq.bytes);
  if (on) {
    process::can_interrupt_sections();
    return;
  }
  why_spare_ = found.why_not;
  if (options.harden == 0 && process::can_make_barriers()) spare_.init_kept(4 * substrate_->cpus());
}

void Slabs::describe(Line& line) const {
  if (!uses_rseq()) {
    line.text("spare slabs: ").text(why_spare());
    return;
  }
  line.text("per-CPU slabs in restartable sections, indexed by ")
      .text(process::rseq().has_mm_cid ? "mm_cid" : "cpu_id");
  if (mode_.peek() == kOwnRseq) line.text(", registered by Freeway");
}

bool Slabs::can_enter_sections() {
  return process::is_registered(freeway_rseq.area) || process::enter_own_rseq(freeway_rseq.area);
}

// --- Having one ------------------------------------------------------------------------------------------------------

// A slab that is made before it is known whether blocks will rest has room for them.
std::size_t Slabs::bytes_of_one() const {
  return align_up(births_->are_kept() ? quarantine::kSlabBytes : sizeof(Slab), kFrameSize);
}

Slab* Slabs::make() {
  const std::size_t bytes = bytes_of_one();
  Limits<Machine>& limits = substrate_->frames().limits();
  if (!limits.charge_table(bytes / kFrameSize)) return nullptr;
  const uptr memory = vm::map(bytes, kFrameSize);
  if (memory == 0) return limits.uncharge(bytes / kFrameSize), nullptr;
  vm::prefer_small(memory, bytes);
  if (is_prepared_.load_relaxed()) vm::populate(memory, bytes);
  Machine::step("heap.slab");
  auto* slab = reinterpret_cast<Slab*>(memory);
  for (auto& top : slab->top) top.store_relaxed(closed());
  for (auto& top : slab->rest) top.store_relaxed(closed());
  if (births_->are_kept()) quarantine::close(*slab, closed());
  const u32 number = made_.fetch_add_relaxed(1);
  bytes_.fetch_add_relaxed(bytes);
  for (unsigned c = 0; c < kClassCount; ++c) {
    slab->capacity[c].store_relaxed(kMagazines[c].small);
    slab->home[c].store_relaxed(homes::of_slab(number, c));
  }
  return slab;
}

Slab* Slabs::of_cpu() {
  if (!uses_rseq() || !can_enter_sections()) return nullptr;
  const u32 id = rseq_index();
  if (id >= ids_) return nullptr;
  return cpu_slabs_.get(id, process::claimant, [this] { return make(); });
}

Slabs::Spare::Taken Slabs::take_spare() {
  return spare_.take(own, process::thread_hash(), process::claimant, [this] { return make(); }, Revoker());
}

uptr Slabs::on_top(unsigned c) {
  const Slab* slab = uses_rseq() ? of_cpu() : nullptr;
  if (slab == nullptr) slab = spare_.peek_last(own);
  if (slab == nullptr) return 0;
  return reinterpret_cast<uptr>(slots::block_of(slab_words::on_top(*slab, c)));
}

// --- Draining --------------------------------------------------------------------------------------------------------

bool Slabs::drain_cpu(u32 id, Wanted wanted, Visit visit) {
  Slab* slab = cpu_slabs_.made(id);
  if (slab == nullptr || !wanted(*slab)) return true;
  const auto end = cpu_slabs_.drain(id, process::claimant(), process::interrupt_sections, visit);
  return end != CpuSlabs<Machine>::Drained::kRefused;
}

void Slabs::drain_spare(Wanted wanted, Visit visit) {
  spare_.drain(own, process::claimant(), Revoker(), wanted, visit);
}

bool Slabs::drain(Wanted wanted, Visit visit) {
  bool complete = true;
  for (u32 id = 0; id < cpus() && complete; ++id) complete = drain_cpu(id, wanted, visit);
  drain_spare(wanted, visit);
  return complete;
}

void Slabs::drain_at_hand(Wanted wanted, Visit visit) {
  if (Slab* slab = of_cpu()) {
    const u32 id = rseq_index();
    if (id < ids_ && cpu_slabs_.made(id) == slab) drain_cpu(id, wanted, visit);
    return;
  }
  const Slab* kept = Spare::peek_kept(own);
  drain_spare([&](Slab& slab) { return (kept == nullptr || &slab == kept) && wanted(slab); }, visit);
}

void Slabs::provide() {
  is_prepared_.store_relaxed(true);
  if (substrate_->cpus() >= RSEQ_IDS) return;
  const auto populate = [this](Slab& slab) { vm::populate(reinterpret_cast<uptr>(&slab), bytes_of_one()); };
  spare_.provide(process::claimant(), [this] { return make(); }, populate);
  if (!uses_rseq()) return;  // threads have theirs from their first call on
  const auto provide_cpu = [&](u32 id) {
    if (id >= ids_) return;
    if (Slab* slab = cpu_slabs_.get(id, process::claimant, [this] { return make(); })) populate(*slab);
  };
  if (rseq_has_mm_cid())
    for (u32 id = 0; id < substrate_->cpus(); ++id) provide_cpu(id);
  else process::each_cpu(provide_cpu);
}

}  // namespace freeway
