// SPDX-License-Identifier: MIT
// small.cc: small blocks off the fast path.
#include <string.h>

#include "malloc/heap.h"
#include "malloc/owned.h"
#include "os/process.h"
#include "os/rseq_area.h"

namespace freeway {

// --- Backing -----------------------------------------------------------------------------------------------------------

u32 Backing::make_descriptor(unsigned c) {
  const std::size_t bytes = Descriptor<Machine>::bytes(kSizeClasses[c].words);
  const u32 index = heap_->metadata().take(static_cast<u32>(bytes / Metadata<Machine>::kUnit));
  Machine::step("heap.descriptor");
  if (index == 0) return 0;
  descriptor(index).kind.store_relaxed(kind_);
  descriptor(index).size_class.store_relaxed(c);
  return index;
}

uptr Backing::take_span(unsigned c, u32 descriptor) {
  const SizeClass& k = kSizeClasses[c];
  return heap_->substrate().take_span(k.span_frames, k.span_frames, descriptor, [&](uptr span) {
    using Kind = Births<Machine>::Kind;
    const bool sampled = kind_ == kSampled;
    if (!heap_->has_births()) return sampled ? 0 : static_cast<int>(c);
    const Kind kind = heap_->births().provide(span, k.span_bytes(), k.size, /*far=*/sampled);
    return kind == Kind::kNear ? static_cast<int>(c) : kind == Kind::kFar ? 0 : -1;
  });
}

// The frames may be anybody's, and another's in a moment; a descriptor is one for ever.
u32 Backing::descriptor_at(uptr span, unsigned c) const {
  // OPTIMISTIC: neighbour
  const FrameInfo info = heap_->substrate().map().get_unowned(span);
  if (info.kind() != FrameInfo::kSmall) return 0;
  const Descriptor<Machine>& found = descriptor(info.value());
  return found.size_class.load_relaxed() == c && found.kind.load_relaxed() == kind_ ? info.value() : 0;
}

void Backing::give_span(uptr span, unsigned c) { heap_->substrate().give_span(span, kSizeClasses[c].span_frames); }

// The kernel that fills in mm_cid fills in node_id, too.
unsigned Backing::node() {
  const bool is_told = freeway_hot.any_id == freeway_hot.any_rseq + RSEQ_MM_CID;
  return process::node(is_told ? freeway_hot.any_rseq : 0);
}

// --- Slabs -------------------------------------------------------------------------------------------------------------

// A slab that is made before it is known whether blocks will rest has room for them.
std::size_t Heap::slab_bytes() const {
  return align_up(has_births() ? quarantine::kSlabBytes : sizeof(Slab), kFrameSize);
}

Slab* Heap::make_slab() {
  const std::size_t bytes = slab_bytes();
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
  if (has_births()) quarantine::close(*slab, closed());
  const u32 number = slabs_made_.fetch_add_relaxed(1);
  slabs_bytes_.fetch_add_relaxed(bytes);
  for (unsigned c = 0; c < kClassCount; ++c) {
    slab->capacity[c].store_relaxed(kMagazines[c].small);
    slab->home[c].store_relaxed(homes::of_slab(number, c));
  }
  return slab;
}

bool Heap::can_enter_sections() {
  return process::is_registered(freeway_hot.any_rseq) || process::enter_own_rseq(freeway_hot.any_rseq);
}

// The slab of the CPU that this thread was on a moment ago, made if there is none. Null: not in this mode, the thread is
// not registered and cannot be, no memory, or the slab is being drained.
Slab* Heap::own_slab() {
  if (!uses_rseq()) return nullptr;
  const auto thread = reinterpret_cast<uptr>(__builtin_thread_pointer());
  if (!can_enter_sections()) return nullptr;
  const u32 id = *reinterpret_cast<const volatile u32*>(thread + freeway_hot.any_id);
  if (id >= ids_) return nullptr;
  return cpu_slabs_.get(id, process::claimant, [this] { return make_slab(); });
}

namespace {
constinit thread_local u32 last_claimed = 0;  // see ClaimedSlabs::claim_again
}

// Calls f(access, slab) with a slab that is this thread's until f returns: its own one, or one claimed for this call;
// false if none could be had.
template <class F>
bool Heap::with_claimed_slab(F&& f) {
  if (Slab* slab = settle()) {
    Machine::step("heap.owned");
    f(ClaimedSlab(*slab), *slab);
    owned_.leave(own);
    return true;
  }
  const unsigned n = claimed_.claim_again(last_claimed, process::thread_hash(), process::claimant());
  if (n == claimed_.kSlabs) return false;
  Slab* slab = claimed_.slab(n);
  if (slab == nullptr && (slab = make_slab()) != nullptr) claimed_.set_slab(n, slab);
  Machine::step("heap.claimed");
  if (slab != nullptr) f(ClaimedSlab(*slab), *slab);
  claimed_.release(n);
  return slab != nullptr;
}

// --- malloc ------------------------------------------------------------------------------------------------------------

namespace {
constexpr u64 kTickMask = 63;  // every 64th slow malloc of a class looks at the clock
}

void* Heap::allocate(std::size_t bytes) {
  const unsigned c = class_of_size(bytes);
  void* block = small_slow(c);
  Machine::step("heap.unborn");
  const auto address = reinterpret_cast<uptr>(block);
  if (block != nullptr && has_births()) birth::begin(birth_of(address, c), address);
  return block;
}

void* Heap::small_slow(unsigned c) {
  void* block = nullptr;
  const auto refill = [&](const auto& access, Slab& home) {
    follow(home);
    if ((++home.counters[c].slow_mallocs & kTickMask) == 0) {
      substrate_->frames().tick(process::coarse_time_ns());
      tick_profile();
    }
    block = is_careful() ? scattered_.refill(access, home, c) : magazines_.refill(access, home, c);
  };
  if (Slab* slab = own_slab())
    refill(RseqSlabs(), *slab);
  else
    with_claimed_slab(refill);
  if (block != nullptr) return block;
  return is_careful() ? scattered_.direct(c) : small_direct(c);
}

// One block without a slab.
void* Heap::small_direct(unsigned c) {
  void* block = nullptr;
  while (const u32 d = superblocks_.hold(c)) {
    const unsigned got = superblocks_.take(d, 1, &block);
    Machine::step("heap.direct");
    superblocks_.let_go(d);
    if (got == 1) return block;
  }
  return nullptr;
}

// --- free --------------------------------------------------------------------------------------------------------------

// place_of for what is not in the primary arena, or no block at all.
Place Heap::place_elsewhere(unsigned c, void* block, u32 index) {
  const auto address = reinterpret_cast<uptr>(block);
  const FrameInfo info = substrate_->map().get(address);
  if (info.kind() == FrameInfo::kSmall) {
    if (index != SizeClass::kNoBlock && backing_.descriptor(info.value()).size_class.load_relaxed() == c)
      return {info.value(), index};
    report(address % kMinBlock != 0 ? Fault::kMisaligned : Fault::kInterior, "free", block, nullptr,
           substrate_->options().report_only);
  } else {
    report(substrate_->classify_outside(address), "free", block, nullptr, substrate_->options().report_only);
  }
  return {0, 0};
}

void Heap::report_twice(const SizeClass& k, uptr span, unsigned word, u64 twice) {
  for (; twice != 0; twice &= twice - 1)
    report(Fault::kDoubleFree, "free", reinterpret_cast<void*>(span + (word * u64{64} + lowest_bit(twice)) * k.size),
           nullptr, substrate_->options().report_only);
}

namespace {

// What other processors had under way a moment ago is seen from here on. Where the kernel offers no barrier: in all
// probability.
bool have_seen_all() {
  if (!process::make_barrier())
    for (unsigned i = 0; i < 10000; ++i) fence_signal();
  return true;
}

}  // namespace

bool Heap::is_born(uptr block, unsigned c) const {
  // The tag may be on its way from the processor that allocated the block (births.h, Orders).
  return birth::is_born(birth_of(block, c), block, [] { return !kStoresStayInOrder && have_seen_all(); });
}

// The block on top of the class's magazine; 0: it is empty.
uptr Heap::on_top(const Slab& slab, unsigned c) {
  const u64 slot = reinterpret_cast<u64>(slab_ops::slot(slab.top[c].load_relaxed() - 8)->load_relaxed());
  return reinterpret_cast<uptr>(slots::block_of(slot));
}

// Whether the block, which begins where one may, is known to be free: exactly where there are births; else it is if it lies
// on top of this CPU's, or thread's, magazine, or its superblock has it. Where processors reorder stores, what is seen may
// be older than the caller's right to the block: then it looks again.
bool Heap::is_free(uptr block, u32 descriptor, unsigned c) {
  if (has_births()) return !is_born(block, c);
  return seems_free(block, descriptor, c) && (kStoresStayInOrder || (have_seen_all() && seems_free(block, descriptor, c)));
}

bool Heap::seems_free(uptr block, u32 descriptor, unsigned c) {
  if (superblocks_.is_free(descriptor, kSizeClasses[c].block_at(block))) return true;
  // The caller's block is in no magazine, so it is no matter what other threads do to this one meanwhile.
  const Slab* slab = uses_rseq() ? own_slab() : owned_slab();
  return slab != nullptr && on_top(*slab, c) == block;
}

uptr Heap::next_block(unsigned c) {
  const Slab* slab = uses_rseq() ? own_slab() : owned_slab();
  if (slab == nullptr && last_claimed != 0) slab = claimed_.slab(last_claimed - 1);
  return slab == nullptr ? 0 : on_top(*slab, c);
}

Verdict Heap::free(uptr address, u32 descriptor) {
  const unsigned c = backing_.descriptor(descriptor).size_class.load_relaxed();
  if (kSizeClasses[c].block_at(address) == SizeClass::kNoBlock) return Verdict::kInterior;
  if (is_free(address, descriptor, c)) return Verdict::kDoubleFree;
  if (has_births()) birth::end(birth_of(address, c));
  Machine::step("heap.ended");
  if (substrate_->options().fill) fill(c, address);
  if (FREEWAY_UNLIKELY(backing_.descriptor(descriptor).kind.load_relaxed() == kSampled)) {
    free_sampled(c, address, descriptor);
    return Verdict::kOk;
  }
  put_back(c, reinterpret_cast<void*>(address));
  return Verdict::kOk;
}

void Heap::put_back(unsigned c, void* block) {
  bool done = false, foreign = false;
  const auto stash = [&](const auto& access, Slab& home) {
    ++home.counters[c].slow_frees;
    done = is_careful() ? quarantine_.lay_down(access, home, c, block) : magazines_.stash(access, home, c, block);
  };
  if (Slab* slab = own_slab()) {
    stash(RseqSlabs(), *slab);
  } else {
    with_claimed_slab([&](const ClaimedSlab& access, Slab& home) {
      stash(access, home);
      foreign = !is_careful() && is_foreign(home, c, block) && homes::is_due(home);
    });
  }
  if (!done) magazines_.flush(c, &block, 1);
  if (foreign) send_home(c);
}


// --- Filling -----------------------------------------------------------------------------------------------------------

namespace {
constexpr u64 kFill = 0xdfdfdfdfdfdfdfdfu;  // no address, and as a number of anything far too large
}

void Heap::fill(unsigned c, uptr block) { memset(reinterpret_cast<void*>(block), kFill & 0xff, kSizeClasses[c].size); }

void Heap::leaves_rest(unsigned c, void* const* slots, unsigned count) {
  if (FREEWAY_LIKELY(!substrate_->options().fill)) return;
  const std::size_t bytes = kSizeClasses[c].size;
  for (unsigned i = 0; i < count; ++i) {
    const auto* block = static_cast<const u64*>(slots::block_of(reinterpret_cast<u64>(slots[i])));
    std::size_t at = 0;
    while (at < bytes && block[at / 8] == kFill) at += 8;
    if (at < bytes) report_written(block, bytes, at, substrate_->options().report_only);
  }
}

// --- Home --------------------------------------------------------------------------------------------------------------

void Heap::settle_home(const Slab& home, unsigned c, u32 d) {
  const uptr span = superblocks_.span_of(d);
  if (substrate_->map().class_byte(span) == 0) return;  // not the fast path's
  const bool by_slab = homes::shares_lines(c);
  const u8 number = by_slab ? home.home[c].load_relaxed() : static_cast<u8>(superblocks_.node_of(d));
  for (unsigned i = 0; i < kSizeClasses[c].span_frames; ++i) home_of(span + i * kFrameSize).store_relaxed(number);
}

void Heap::follow_node(Slab& home) const {
  const unsigned node = superblocks_.here();
  if (home.node.load_relaxed() == node) return;
  home.node.store_relaxed(node);
  for (unsigned c = 1; c < kClassCount; ++c)
    if (!homes::shares_lines(c)) home.home[c].store_relaxed(static_cast<u8>(node));
}

bool Heap::is_away(const Slab& home, unsigned c, const void* block) const {
  const u32 d = substrate_->map().value_of_primary(reinterpret_cast<uptr>(block), c);
  return d != 0 && superblocks_.node_of(d) != home.node.load_relaxed();
}

void Heap::send_home(unsigned c) {
  const auto send = [&](const auto& access, Slab& home) {
    follow(home);
    magazines_.send_home(access, home, c);
  };
  if (Slab* slab = own_slab())
    send(RseqSlabs(), *slab);
  else
    with_claimed_slab(send);
}

// --- Moving ------------------------------------------------------------------------------------------------------------

bool Heap::clear_way(unsigned c) {
  bool clear = false;
  const auto run = [&](const auto& access, Slab& home) {
    follow(home);
    clear = way_.clear(access, home, c);
  };
  if (Slab* slab = own_slab())
    run(RseqSlabs(), *slab);
  else
    with_claimed_slab(run);
  return clear;
}

// --- Sizes -------------------------------------------------------------------------------------------------------------

bool Heap::begins_block(uptr address, u32 descriptor) {
  return kSizeClasses[backing_.descriptor(descriptor).size_class.load_relaxed()].block_at(address) != SizeClass::kNoBlock;
}

std::size_t Heap::usable(uptr address, u32 descriptor) {
  const unsigned c = backing_.descriptor(descriptor).size_class.load_relaxed();
  const SizeClass& k = kSizeClasses[c];
  return k.block_at(address) != SizeClass::kNoBlock && !is_free(address, descriptor, c) ? k.size : 0;
}

}  // namespace freeway
