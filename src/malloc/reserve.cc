// SPDX-License-Identifier: MIT
// reserve.cc: memory made ready before it is needed, so that its first use does not fault: FREEWAY_PREFAULT,
// freeway_reserve.
//
// Frames are taken, touched, and returned: free and dirty ones are used first, and without the kernel. The purge policy
// is told to keep as many (PurgePolicy::keep). All frames are held until the last one is taken, so that each is
// another; a chain through the frames themselves remembers them, since there is no other place.
//
// Limits    frames are charged as they are taken. The memory of descriptors that are not handed out yet (at most 1/100
//           of what FREEWAY_PREFAULT asks for) is charged when they are
// Who       any thread, any signal handler
// Lost if killed: the frames in hand, all that were asked for; the policy is told first
// Checked   tests/malloc/reserve
#include "malloc/drain.h"
#include "malloc/family.h"
#include "malloc/malloc.h"
#include "os/process.h"
#include "os/report.h"
#include "os/rseq_area.h"

namespace freeway {

namespace {

constexpr std::size_t kUnknown = RSEQ_IDS;  // CPUs: there are more than the kernel was asked for
constexpr std::size_t kSpareFrames = 64;    // beside twice the reserved ones: frames before and between them

// Written into a frame that is held: the one before it in the chain, and how many frames belong to it.
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
template <class F> void unchain(uptr top, F&& f) {
  while (top != 0) {
    const uptr here = top;
    const u64 value = link_at(here).value.load_relaxed();
    top = link_at(here).before.load_relaxed();
    f(here, value);
  }
}

// Gives frames back that have their memory. The page map's entries, class bytes and homes get theirs, too.
void give_filled(Substrate& substrate, uptr address, std::size_t frames) {
  substrate.map().clear(address, frames);
  for (std::size_t i = 0; i < frames && substrate.frames().primary().contains(address); ++i)
    home_of(address + i * kFrameSize).store_relaxed(0);
  substrate.frames().give(address, frames, 0);
}

// A reservation's part of the free frames: so many clean ones it makes dirty. Several at the same time add up, since
// the policy is told first: dirty frames beyond what was kept before count for the first that tells it, and a clean
// frame becomes dirty once. Frames are counted before that: later they would be those of a reservation that comes in
// between.
class Part {
 public:
  Part(Frames<Machine>& frames, std::size_t wanted) : frames_(&frames), wanted_(wanted) {
    const std::size_t dirty = frames.policy().dirty(), before = frames.policy().keep(wanted);
    spare_ = dirty > before ? dirty - before : 0;
  }
  // These frames were taken, and are not touched yet.
  void took(uptr address, std::size_t frames) {
    Arena<Machine>* arena = frames_->arena_of(address);
    for (std::size_t i = 0; i < frames; ++i)
      clean_ += arena == nullptr || !arena->any_dirty(address + i * kFrameSize, 1);
  }
  std::size_t missing() const { return wanted_ > spare_ + clean_ ? wanted_ - spare_ - clean_ : 0; }
  // It is to have no more than so many.
  void shorten(std::size_t frames) {
    if (frames >= wanted_) return;
    frames_->policy().keep_fewer(wanted_ - frames);
    wanted_ = frames;
  }

 private:
  Frames<Machine>* frames_;
  std::size_t wanted_, spare_ = 0, clean_ = 0;
};

// How many of the `had` pieces stay ready: above a soft limit nothing free is kept. Without one all, although another
// reservation may have some in hand now.
std::size_t stays_ready(Frames<Machine>& all, std::size_t had, std::size_t frames) {
  return all.limits().soft() != 0 ? clamp(had, 0, all.policy().dirty() / frames) : had;
}

// The frames just taken may be those of another reservation; and untouched frames between aligned runs will be taken
// before them. So this takes frames one by one, the lowest first, up to `highest`, and until the part is complete, but
// no more than `most` beside all that is kept: a heap that is more scattered gets the others when it needs them.
// Returns how many it could not get.
std::size_t complete(Frames<Machine>& all, Part& part, uptr highest, std::size_t most, uptr& top) {
  for (std::size_t held = 0;; ++held) {
    const bool enough = part.missing() == 0;
    const Run run = held < part.missing() + all.policy().kept() + most ? all.take(1, 1) : Run{};
    if (!run) return part.missing();
    part.took(run.address, 1);
    const bool populated = vm::populate(run.address, kFrameSize);
    chain(top, run.address, 0);
    if (!populated || (enough && run.address > highest)) return part.missing();
  }
}

// Superblocks in use have free blocks on pages that nobody has touched.
void populate_used(Heap& heap, unsigned c) {
  drain(heap);
  auto& superblocks = heap.superblocks();
  superblocks.flip_lists();
  superblocks.each_listed(c, heap.substrate().frames().policy().live(),
                          [&](u32 d) { vm::populate(superblocks.span_of(d), kSizeClasses[c].span_bytes()); });
}

// Beside the blocks themselves each slab may have a full magazine, and a superblock that nobody else can use.
std::size_t reserve_small(Heap& heap, unsigned c, std::size_t count) {
  const SizeClass& k = kSizeClasses[c];
  auto& superblocks = heap.superblocks();
  const std::size_t cpus = heap.substrate().cpus() < kUnknown ? heap.substrate().cpus() : 1;
  const std::size_t slabs = heap.slabs.uses_rseq() ? cpus : 6 * cpus;
  const std::size_t aside = slabs * (kMagazines[c].big + k.blocks);
  if (count > kMaxFrames * u64{k.blocks}) count = kMaxFrames * u64{k.blocks};
  const std::size_t wanted = ceil_div(count + aside, k.blocks);
  heap.loans.end(c);
  populate_used(heap, c);
  Frames<Machine>& all = heap.substrate().frames();
  Part part(all, wanted * k.span_frames);
  uptr top = 0, highest = 0;
  std::size_t had = 0;
  for (; had < wanted; ++had) {
    const u32 d = superblocks.make(c, superblocks.here());
    if (d == 0) break;
    const uptr span = superblocks.span_of(d);
    part.took(span, k.span_frames);
    const bool populated = vm::populate(span, k.span_bytes());
    chain(top, span, d);
    highest = span > highest ? span : highest;
    if (!populated) break;
  }
  part.shorten(had * k.span_frames);
  const std::size_t most = kSpareFrames + 2 * had * k.span_frames;
  const std::size_t missing = ceil_div(complete(all, part, highest, most, top), k.span_frames);
  had = had > missing ? had - missing : 0;
  part.shorten(had * k.span_frames);
  unchain(top, [&](uptr span, u64 d) {
    if (d == 0) return give_filled(heap.substrate(), span, 1);
    for (unsigned i = 0; i < k.span_frames && all.primary().contains(span); ++i)
      home_of(span + i * kFrameSize).store_relaxed(0);
    superblocks.let_go(static_cast<u32>(d));
  });
  const std::size_t blocks = stays_ready(all, had, k.span_frames) * k.blocks;
  return blocks <= aside ? 0 : clamp(blocks - aside, 0, count);
}

std::size_t reserve_large(Substrate& substrate, std::size_t frames, std::size_t count) {
  Frames<Machine>& all = substrate.frames();
  count = clamp(count, 0, kMaxFrames / frames);
  Part part(all, count * frames);
  uptr top = 0, highest = 0;
  std::size_t had = 0;
  for (bool populated = true; populated && had < count; had += populated) {
    const Run run = all.take(frames, 1);
    if (!run) break;
    part.took(run.address, frames);
    populated = vm::populate(run.address, frames * kFrameSize);
    chain(top, run.address, frames);
    highest = run.address > highest ? run.address : highest;
  }
  part.shorten(had * frames);
  const std::size_t most = kSpareFrames + 2 * had * frames;
  const std::size_t missing = ceil_div(complete(all, part, highest, most, top), frames);
  had = had > missing ? had - missing : 0;
  part.shorten(had * frames);
  unchain(top, [&](uptr address, u64 run) { give_filled(substrate, address, run == 0 ? 1 : run); });
  return stays_ready(all, had, frames);
}

std::size_t reserve(Heap& heap, std::size_t bytes, std::size_t count) {
  if (count == 0 || bytes > kMaxFrames * kFrameSize) return 0;
  heap.slabs.provide();
  if (bytes <= kMaxSmall) return reserve_small(heap, class_of_size(bytes), count);
  const std::size_t frames = ceil_div(bytes, kFrameSize);
  return frames >= LargeBlocks<Machine>::kHugeFrames ? 0 : reserve_large(heap.substrate(), frames, count);
}

}  // namespace

void prefault(Heap& heap, u64 bytes) {
  static constinit Atomic<u32> asked;  // whether somebody does, or has done, what FREEWAY_PREFAULT asks for
  const std::size_t frames = ceil_div(bytes, kFrameSize);
  if (frames == 0 || asked.exchange_relaxed(1) != 0) return;
  heap.slabs.provide();
  // The smallest blocks need the longest descriptors for their frames.
  constexpr unsigned kSmallest = 1;
  const std::size_t units = Descriptor<Machine>::bytes(kSizeClasses[kSmallest].words) / Metadata<Machine>::kUnit;
  const std::size_t most = Metadata<Machine>::kSegmentBytes / Metadata<Machine>::kUnit;
  bool done = heap.substrate().metadata().provide(static_cast<u32>(clamp(frames * units, 1, most)));
  Frames<Machine>& all = heap.substrate().frames();
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
  unchain(top, [&](uptr address, u64) { give_filled(heap.substrate(), address, 1); });
  if (had < frames)
    Line()
        .text("freeway: FREEWAY_PREFAULT: memory was refused; ")
        .bytes(had * kFrameSize)
        .text(" are resident")
        .write();
}

std::size_t family::reserve(std::size_t bytes, std::size_t count) {
  return process_malloc.open() ? freeway::reserve(process_malloc.heap(), bytes, count) : 0;
}

}  // namespace freeway
