// SPDX-License-Identifier: MIT
// reserve.cc: memory made ready before it is needed, for those who must not fault: FREEWAY_PREFAULT and freeway_reserve.
//
// Frames are taken, touched, and given back: free and dirty, which is what is used first and without the kernel. The purge
// policy is told to keep as many (PurgePolicy::keep). All that is taken at once is held until the last one is, so that the
// next is another; a chain through the frames themselves remembers it, since there is nowhere else.
//
// Limits    frames are charged as they are taken. The memory of descriptors that are not handed out yet (at most 1/100 of
//           what FREEWAY_PREFAULT asks for) is charged when they are
// Who       any thread, any signal handler
// Lost if killed: the frames in hand, all that were asked for; what is to be kept is counted first
// Checked   tests/reserve
#include "malloc/family.h"
#include "malloc/malloc.h"
#include "os/process.h"
#include "os/report.h"
#include "os/rseq_area.h"

namespace freeway {

namespace {

constexpr std::size_t kUnknown = RSEQ_IDS;  // CPUs: there are more than the kernel was asked for
constexpr std::size_t kSpareFrames = 64;  // beside twice what is reserved: what lies between, and before

// What is written into frames that are held: the one before, and how many frames belong to this one.
struct Link {
  Atomic<uptr> before;
  Atomic<u64> value;
};
Link& link_at(uptr address) { return *reinterpret_cast<Link*>(address); }
void chain(uptr& top, uptr address, u64 value) {
  link_at(address).before.store_relaxed(top);
  link_at(address).value.store_relaxed(value);
  top = address;
}
// Calls f(address, value) for all that are chained; f may give them away.
template <class F>
void unchain(uptr top, F&& f) {
  while (top != 0) {
    const uptr here = top;
    const u64 value = link_at(here).value.load_relaxed();
    top = link_at(here).before.load_relaxed();
    f(here, value);
  }
}

}  // namespace

// Gives frames back that have their memory. The page map's entries, class bytes and homes get theirs, too.
void Heap::give_filled(uptr address, std::size_t frames) {
  substrate_->map().clear(address, frames);
  for (std::size_t i = 0; i < frames && substrate_->frames().primary().contains(address); ++i)
    home_of(address + i * kFrameSize).store_relaxed(0);
  substrate_->frames().give(address, frames, 0);
}

// A slab for each CPU that a thread of this process may come to, with its memory; and those that threads use while theirs
// is taken apart. Where it is not known how many CPUs there are, none: thousands of them would be gigabytes.
void Heap::provide_slabs() {
  is_prepared_.store_relaxed(true);
  if (substrate_->cpus() >= kUnknown) return;
  const process::Claimant who = process::claimant();
  for (unsigned n = 0; n < claimed_.count(); ++n) {
    if (!claimed_.take(n, who)) continue;
    Slab* slab = claimed_.slab(n);
    if (slab == nullptr && (slab = make_slab()) != nullptr) claimed_.set_slab(n, slab);
    if (slab != nullptr) vm::populate(reinterpret_cast<uptr>(slab), slab_bytes());
    claimed_.release(n);
  }
  if (!uses_rseq()) return;  // threads have theirs from their first call on
  const bool by_mm_cid = freeway_hot.any_id == freeway_hot.any_rseq + RSEQ_MM_CID;
  const auto provide = [this](u32 id) {
    if (id >= ids_) return;
    if (Slab* slab = cpu_slabs_.get(id, process::claimant, [this] { return make_slab(); }))
      vm::populate(reinterpret_cast<uptr>(slab), slab_bytes());
  };
  if (by_mm_cid)
    for (u32 id = 0; id < substrate_->cpus(); ++id) provide(id);
  else
    process::each_cpu(provide);
}

// What was asked for earlier may be what was just taken; and between runs that are aligned lie frames that nobody has touched,
// and which will be taken first. Takes frames one by one, the lowest first, up to `highest`, and until so many are in hand or
// free and dirty, but no more than `most`: where the heap is that scattered the rest comes when it comes. How many could not
// be had.
std::size_t Heap::refill_kept(std::size_t frames, uptr highest, std::size_t most, uptr& top) {
  Frames<Machine>& all = substrate_->frames();
  for (std::size_t held = 0;; ++held) {
    const std::size_t found = held + all.policy().dirty(), missing = frames > found ? frames - found : 0;
    const Run run = held < missing + most ? all.take(1, 1) : Run{};
    if (!run) return missing;
    const bool populated = vm::populate(run.address, kFrameSize);
    chain(top, run.address, 0);
    if (!populated || (missing == 0 && run.address > highest)) return missing;
  }
}

void Heap::prefault(u64 bytes) {
  const std::size_t frames = ceil_div(bytes, kFrameSize);
  if (frames == 0 || prefaulted_.exchange_relaxed(1) != 0) return;
  provide_slabs();
  // The smallest blocks need the longest descriptors for their frames.
  constexpr unsigned kSmallest = 1;
  const std::size_t units = Descriptor<Machine>::bytes(kSizeClasses[kSmallest].words) / Metadata<Machine>::kUnit;
  const std::size_t most = Metadata<Machine>::kSegmentBytes / Metadata<Machine>::kUnit;
  bool done = substrate_->metadata().provide(static_cast<u32>(clamp(frames * units, 1, most)));
  Frames<Machine>& all = substrate_->frames();
  uptr top = 0;
  std::size_t had = 0;
  // One by one: the lowest ones, which will be used first.
  for (; done && had < frames; ++had) {
    const Run run = all.take(1, 1);
    done = run && vm::populate(run.address, kFrameSize);
    if (run) chain(top, run.address, 1);
    if (run && !done) break;
  }
  all.policy().keep(had);
  unchain(top, [&](uptr address, u64) { give_filled(address, 1); });
  if (had < frames)
    Line().text("freeway: FREEWAY_PREFAULT: memory was refused; ").bytes(had * kFrameSize).text(" are resident").write();
}

std::size_t Heap::reserve(std::size_t bytes, std::size_t count) {
  if (count == 0 || bytes > kMaxFrames * kFrameSize) return 0;
  provide_slabs();
  if (bytes <= kMaxSmall) return reserve_small(class_of_size(bytes), count);
  const std::size_t frames = ceil_div(bytes, kFrameSize);
  return frames >= LargeBlocks<Machine>::kHugeFrames ? 0 : reserve_large(frames, count);
}

// Superblocks in use have free blocks on pages that nobody has touched.
void Heap::populate_used(unsigned c) {
  drain();
  superblocks_.flip_lists();
  superblocks_.each_listed(c, substrate_->frames().policy().live(), [&](u32 d) {
    vm::populate(superblocks_.span_of(d), kSizeClasses[c].span_bytes());
  });
}

// Beside the blocks themselves each slab may have a full magazine, and a superblock that nobody else can use.
std::size_t Heap::reserve_small(unsigned c, std::size_t count) {
  const SizeClass& k = kSizeClasses[c];
  const std::size_t cpus = substrate_->cpus() < kUnknown ? substrate_->cpus() : 1;
  const std::size_t slabs = uses_rseq() ? cpus : 6 * cpus;
  const std::size_t aside = slabs * (kMagazines[c].big + k.blocks);
  if (count > kMaxFrames * u64{k.blocks}) count = kMaxFrames * u64{k.blocks};
  const std::size_t wanted = ceil_div(count + aside, k.blocks);
  populate_used(c);
  Frames<Machine>& all = substrate_->frames();
  const std::size_t ready = all.policy().ready();
  uptr top = 0, highest = 0;
  std::size_t had = 0;
  for (; had < wanted; ++had) {
    const u32 d = superblocks_.hold_new(c);
    if (d == 0) break;
    const uptr span = superblocks_.span_of(d);
    const bool populated = vm::populate(span, k.span_bytes());
    chain(top, span, d);
    highest = span > highest ? span : highest;
    if (!populated) break;
  }
  const std::size_t most = kSpareFrames + 2 * had * k.span_frames;
  const std::size_t missing = ceil_div(refill_kept(ready, highest, most, top), k.span_frames);
  had = had > missing ? had - missing : 0;
  all.policy().keep(had * k.span_frames);
  unchain(top, [&](uptr span, u64 d) {
    if (d == 0) return give_filled(span, 1);
    for (unsigned i = 0; i < k.span_frames && all.primary().contains(span); ++i)
      home_of(span + i * kFrameSize).store_relaxed(0);
    superblocks_.let_go(static_cast<u32>(d));
  });
  const std::size_t blocks = clamp(had, 0, all.policy().dirty() / k.span_frames) * k.blocks;  // above a soft limit none
  return blocks <= aside ? 0 : clamp(blocks - aside, 0, count);
}

std::size_t Heap::reserve_large(std::size_t frames, std::size_t count) {
  Frames<Machine>& all = substrate_->frames();
  const std::size_t ready = all.policy().ready();
  uptr top = 0, highest = 0;
  std::size_t had = 0;
  for (bool populated = true; populated && had < count; had += populated) {
    const Run run = all.take(frames, 1);
    if (!run) break;
    populated = vm::populate(run.address, frames * kFrameSize);
    chain(top, run.address, frames);
    highest = run.address > highest ? run.address : highest;
  }
  const std::size_t most = kSpareFrames + 2 * had * frames;
  const std::size_t missing = ceil_div(refill_kept(ready, highest, most, top), frames);
  had = had > missing ? had - missing : 0;
  all.policy().keep(had * frames);
  unchain(top, [&](uptr address, u64 run) { give_filled(address, run == 0 ? 1 : run); });
  return clamp(had, 0, all.policy().dirty() / frames);  // above a soft limit none
}

std::size_t family::reserve(std::size_t bytes, std::size_t count) {
  return process_malloc.start() && process_malloc.ready() ? process_malloc.heap().reserve(bytes, count) : 0;
}

}  // namespace freeway
