// SPDX-License-Identifier: MIT
// cache_program.cc: what the scripts' letters do, and what must hold at the end; see cache_program.h.
#include "tests/cache/cache_program.h"

#include <bit>
#include <cstring>
#include <utility>

namespace freeway::model {

namespace {

CacheProgram* world = nullptr;
alignas(64) std::byte slab_memory[kCacheSlabs][sizeof(Slab)];
Atomic<u64> zeros[3];
Slab* const kNone = reinterpret_cast<Slab*>(zeros);  // never followed

Slab& slab_at(u32 n) { return *reinterpret_cast<Slab*>(slab_memory[n]); }

// As it comes from the kernel, but for what its maker stores: that is there from the start, since a model of it would
// be many locations. Whether its user saw its maker's stores is asked by CacheProgram::made_.
void reset(Slab& slab) {
  constexpr unsigned c = kCacheClass;
  slab.top[c].store_relaxed(reinterpret_cast<u64>(&zeros[1]));
  slab.current[c].store_relaxed(0);
  slab.capacity[c].store_relaxed(kMagazines[c].small);
  slab.refills_seen[c].store_relaxed(0);
  slab.grown_bytes.store_relaxed(0);
  slab.patience.store_relaxed(0);
  std::memset(static_cast<void*>(&slab.counters[c]), 0, sizeof(slab.counters[c]));
  for (u64 at = 0; at < kMagazines[c].small + 2; ++at) slab.small[kMagazines[c].small_at - 1 + at].store_relaxed(0);
  for (u64 at = 0; at < kMagazines[c].big + 2; ++at) slab.big[kMagazines[c].big_at - 1 + at].store_relaxed(0);
}

}  // namespace

// The slab of the CPU that the thread is on: what RseqSlabs is, with sections of the explorer.
class SectionAccess {
 public:
  SectionAccess(CacheProgram& program, int cpu) : program_(program), cpu_(cpu) {}
  u64 pop(unsigned c) const {
    return with(u64{0}, [&](PlainSlab slab) { return slab.pop(c); });
  }
  bool push(unsigned c, u64 block) const {
    return with(false, [&](PlainSlab slab) { return slab.push(c, block); });
  }
  unsigned pop_batch(unsigned c, void** out, unsigned count) const {
    return with(0U, [&](PlainSlab slab) { return slab.pop_batch(c, out, count); });
  }
  unsigned push_batch(unsigned c, void* const* blocks, unsigned count) const {
    return with(0U, [&](PlainSlab slab) { return slab.push_batch(c, blocks, count); });
  }
  unsigned push_run(unsigned c, u64 lowest, u64 size, unsigned count) const {
    return with(0U, [&](PlainSlab slab) { return slab.push_run(c, lowest, size, count); });
  }
  u32 take_current(unsigned c) const {
    return with(u32{0}, [&](PlainSlab slab) {
      const u32 d = slab.take_current(c);
      if (ModelEnv::mutant("the current superblock is looked at, not taken")) slab.put_current(c, d);
      return d;
    });
  }
  bool put_current(unsigned c, u32 d) const {
    const bool over = ModelEnv::mutant("put over the current superblock");
    return with(over, [&](PlainSlab slab) {
      if (over) slab.take_current(c);
      return slab.put_current(c, d);
    });
  }
  bool open(unsigned c, u64 area, u64 bytes, u64 closed) const {
    return with(false, [&](PlainSlab slab) { return slab.open(c, area, bytes, closed); });
  }
  bool move(unsigned c, u64 old_area, u64 old_bytes, u64 distance, u64 new_bytes) const {
    return with(false, [&](PlainSlab slab) { return slab.move(c, old_area, old_bytes, distance, new_bytes); });
  }
  u64 grow(u64 capacity_at, u64 expected, u64 end, u64 bytes) const {
    return with(u64{0}, [&](PlainSlab slab) { return slab.grow(capacity_at, expected, end, bytes); });
  }
  bool replace(u64 offset, u64 expected, u64 value) const {
    return with(false, [&](PlainSlab slab) { return slab.replace(offset, expected, value); });
  }

 private:
  template <class T, class F> T with(T none, F&& f) const {
    return model_section([&]() -> T {
      Slab* slab = program_.entries_[cpu_].load_acquire();
      return slab == kNone ? none : f(PlainSlab(program_.use(slab)));
    });
  }
  CacheProgram& program_;
  int cpu_;
};

// The world
// ------------------------------------------------------------------------------------------------------------

Descriptor<ModelEnv>& CacheBacking::descriptor(u32 index) {
  static_assert(sizeof(Descriptor<ModelEnv>) <= 256);
  model_check(index >= 1 && index <= kCacheDescriptors, "a descriptor that exists");
  return *std::launder(reinterpret_cast<Descriptor<ModelEnv>*>(descriptors[index]));
}

u32 CacheBacking::make_descriptor(unsigned c) {
  const u32 index = made.fetch_add_relaxed(1) + 1;
  if (index > kCacheDescriptors) return 0;
  descriptor(index).size_class.store_relaxed(c);
  return index;
}

uptr CacheBacking::take_span(unsigned, u32 d) {
  u64 seen = used.load_relaxed();
  while (seen != low_bits(kCacheSpans)) {
    const u32 span = lowest_bit(~seen);
    if (!used.cas_acquire(seen, seen | (u64{1} << span))) continue;
    for (auto& each : content[span]) each.set(1);  // whoever has a span to himself may write all over it
    map[span].store_release(d);
    return kFirstCacheSpan + span * kSpanBytes;
  }
  return 0;
}

u32 CacheBacking::descriptor_at(uptr address, unsigned) {
  if (address - kFirstCacheSpan >= kCacheSpans * kSpanBytes) return 0;
  return map[(address - kFirstCacheSpan) / kSpanBytes].load_acquire();
}

void CacheBacking::give_span(uptr address, unsigned) {
  const u32 span = span_index(address);
  for (auto& each : content[span]) each.set(1);
  map[span].store_relaxed(0);
  const u64 before = used.fetch_and_release(~(u64{1} << span));
  model_check((before >> span & 1) != 0, "a span is given back once");
}

u32 CacheBacking::span_index(uptr address) {
  model_check(address >= kFirstCacheSpan && address < kFirstCacheSpan + kCacheSpans * kSpanBytes,
              "an address within a span");
  return static_cast<u32>((address - kFirstCacheSpan) / kSpanBytes);
}

ModelEnv::Plain<u32>& CacheBacking::content_of(uptr block) {
  const u32 index = shape.block_at(block);
  model_check(index != SizeClass::kNoBlock, "the address of a block");
  return content[span_index(block)][index];
}

u64 LifeEnv::wiped_page() {
  const u32 n = world->pages_made_.fetch_add_relaxed(1);
  model_check(n < 3, "as many pages as there are threads");
  return reinterpret_cast<u64>(&world->pages_[n]);
}
void LifeEnv::drop_page(u64) {}
bool LifeEnv::is_first_thread() { return CacheProgram::id() == world->first_thread_; }

u64 CacheProgram::closed() const { return reinterpret_cast<u64>(&zeros[1]); }

Place CacheProgram::place_of(unsigned, const SizeClass&, void* block) {
  const uptr address = reinterpret_cast<uptr>(block);
  const u32 index = backing_.shape.block_at(address);
  model_check(index != SizeClass::kNoBlock, "what is in a magazine is a block");
  const u32 d = backing_.map[CacheBacking::span_index(address)].load_relaxed();
  model_check(d != 0, "a block's superblock is in the map");
  return {d, index};
}

bool CacheProgram::is_foreign(const Slab&, unsigned, const void* block) {
  return world->backing_.shape.block_at(reinterpret_cast<uptr>(block)) == 1;
}

void CacheProgram::free_group(unsigned c, const SizeClass& k, const Group& group, void* block) {
  const uptr span = k.span_of(reinterpret_cast<uptr>(block));
  const u64 twice = superblocks_.free_group(c, group.descriptor(), span, group.word(), group.mask);
  model_check(twice == 0, "a block that was handed out is not free");
}

// What the engine's slow paths do (src/malloc/small.cc, drain.cc)
// ----------------------------------------------

Claimant CacheProgram::who() {
  Claimant mine = lives_.claimant(static_cast<u64>(id()) + 1);
  // The first form of decision 007: whatever is older than the process is taken over.
  if (ModelEnv::mutant("the epoch alone decides")) mine.survivor = Claimant::name(99, mine.survivor);
  return mine;
}

Slab* CacheProgram::make_slab(unsigned cpu) {
  if (forked_ >= 0) made_for_[cpu] = cpu_slabs_.made(cpu) != nullptr;  // one that was not published stayed behind
  model_check(!std::exchange(made_for_[cpu], true), "a CPU has one slab only");
  return new_slab();
}

Slab* CacheProgram::new_slab() {
  const u32 n = slabs_made_.fetch_add_relaxed(1);
  const u32 seats = script_.mode == CacheMode::kClaimed ? script_.slabs : script_.slabs + 1;
  model_check(n < (forked_ >= 0 ? kCacheSlabs : seats), "a seat, or a CPU, has one slab");
  made_[n].set(1);
  return &slab_at(n);
}

// Whoever uses a slab has seen what its maker stored.
Slab& CacheProgram::use(Slab* slab) {
  for (u32 n = 0; n < kCacheSlabs; ++n)
    if (slab == &slab_at(n)) (void)made_[n].get();
  return *slab;
}

Slab* CacheProgram::own_slab(int cpu) {
  const auto at = static_cast<u32>(cpu);
  return cpu_slabs_.get(at, [this] { return who(); }, [this, at] { return make_slab(at); });
}

// A full barrier in every thread, and a look at another thread's word.
struct CacheProgram::Revoker {
  CacheProgram& program;
  bool barrier() const {
    if (program.refused_[id()]) return false;
    model_interrupt_sections();
    return true;
  }
  bool is_inside(u64 name) const { return program.own_[Claimant::thread(name) - 1].inside.load_relaxed() == name; }
};

CacheProgram::Spare::Taken CacheProgram::take_spare() {
  Spare::Own& own = own_[id()];
  if (script_.mode == CacheMode::kKept) own.calls.set(Spare::kPatience);
  const Spare::Taken taken =
      spare_.take(own, 0, [this] { return who(); }, [this] { return new_slab(); }, Revoker{*this});
  if (taken.slab != nullptr) use(taken.slab);
  return taken;
}

template <class F> bool CacheProgram::with_spare(F&& f) {
  const Spare::Taken taken = take_spare();
  if (taken.slab == nullptr) return false;
  if (ModelEnv::mutant("released before it is used")) Spare::give(own_[id()], taken);
  f(PlainSlab(*taken.slab), *taken.slab);
  if (!ModelEnv::mutant("released before it is used")) Spare::give(own_[id()], taken);
  return true;
}

void* CacheProgram::direct() {
  void* block = nullptr;
  const u32 d = superblocks_.hold(kCacheClass);
  if (d == 0) return nullptr;
  const unsigned got = superblocks_.take(d, 1, &block);
  superblocks_.let_go(d);
  return got == 1 ? block : nullptr;
}

void* CacheProgram::allocate(Hands& mine) {
  void* block = nullptr;
  if (script_.mode == CacheMode::kSections) {
    const SectionAccess access(*this, mine.cpu);
    if (const u64 popped = access.pop(kCacheClass)) return reinterpret_cast<void*>(popped);  // the fast path
    Slab* home = own_slab(mine.cpu);
    if (home != nullptr) block = magazines_.refill(access, use(home), kCacheClass);
  } else {
    with_spare([&](const PlainSlab& access, Slab& home) { block = magazines_.refill(access, home, kCacheClass); });
  }
  return block != nullptr ? block : direct();
}

void CacheProgram::release(Hands& mine, void* block) {
  bool done = false;
  if (script_.mode == CacheMode::kSections) {
    const SectionAccess access(*this, mine.cpu);
    if (access.push(kCacheClass, reinterpret_cast<u64>(block))) return;
    Slab* home = own_slab(mine.cpu);
    if (home != nullptr) done = magazines_.stash(access, use(home), kCacheClass, block);
  } else {
    with_spare([&](const PlainSlab& access, Slab& home) { done = magazines_.stash(access, home, kCacheClass, block); });
  }
  if (!done) magazines_.flush(kCacheClass, &block, 1);
}

void CacheProgram::send_home(Hands& mine) {
  if (script_.mode == CacheMode::kSections) {
    Slab* home = own_slab(mine.cpu);
    if (home != nullptr) magazines_.send_home(SectionAccess(*this, mine.cpu), use(home), kCacheClass);
  } else {
    with_spare([&](const PlainSlab& access, Slab& home) { magazines_.send_home(access, home, kCacheClass); });
  }
}

// A look beside the superblock's holder: it may be another's span by then.
u32 CacheProgram::free_in(u32 d) {
  return static_cast<u32>(std::popcount(backing_.descriptor(d).words[0].load_relaxed() & low_bits(script_.blocks)));
}

void CacheProgram::clear_way(Hands& mine) {
  if (script_.mode == CacheMode::kSections) {
    Slab* home = own_slab(mine.cpu);
    if (home != nullptr) way_.clear(SectionAccess(*this, mine.cpu), use(home), kCacheClass);
  } else {
    with_spare([&](const PlainSlab& access, Slab& home) { way_.clear(access, home, kCacheClass); });
  }
}

void CacheProgram::drain() {
  if (script_.mode == CacheMode::kSections) {
    const auto interrupt = [] {
      if (!ModelEnv::mutant("sections are not interrupted")) model_interrupt_sections();
      return true;
    };
    cpu_slabs_.drain(0, who(), interrupt, [this](Slab& slab) { magazines_.empty_class(use(&slab), kCacheClass); });
    return;
  }
  spare_.drain(
      own_[id()], who(), Revoker{*this}, [this](Slab& slab) { return use(&slab), true; },
      [this](Slab& slab) { magazines_.empty_class(use(&slab), kCacheClass); });
}

// Where the kernel interrupts no sections: the slab is put back as it was, and that of the own CPU is emptied in
// sections.
void CacheProgram::drain_own(Hands& mine) {
  const auto refuse = [] { return ModelEnv::mutant("refused is taken for done"); };
  cpu_slabs_.drain(0, who(), refuse, [this](Slab& slab) { magazines_.empty_class(use(&slab), kCacheClass); });
  const SectionAccess access(*this, mine.cpu);
  void* blocks[kBatchMax];
  while (const unsigned n = access.pop_batch(kCacheClass, blocks, kBatchMax)) magazines_.flush(kCacheClass, blocks, n);
  if (const u32 d = access.take_current(kCacheClass)) superblocks_.let_go(d);
}

void CacheProgram::look_at_a_slab() {
  if (script_.mode == CacheMode::kSections) {
    if (Slab* slab = cpu_slabs_.made(0)) use(slab);
    return;
  }
  const Revoker looker{*this};
  spare_.each(who(), [&](u64 name) { return looker.is_inside(name); }, [this](Slab& slab, auto) { use(&slab); });
}

void CacheProgram::fork() {
  model_fork();
  first_thread_ = forked_ = id();
  for (auto& page : pages_) page.store_relaxed(0);
}

// Scripts
// --------------------------------------------------------------------------------------------------------------

CacheProgram::CacheProgram(CacheScript s) : script_(s) {
  world = this;
  backing_.shape = kSizeClasses[kCacheClass];
  backing_.shape.blocks = script_.blocks;
  backing_.shape.last_word = low_bits(script_.blocks);
  superblocks_.init(&backing_);
  magazines_.init(this);
  way_.init(this, &magazines_);
  spare_.init(script_.mode == CacheMode::kKept ? 1 : script_.slabs);
  spare_.init_kept(script_.mode == CacheMode::kKept ? script_.slabs : 0);
  cpu_slabs_.init(entries_, 2, kNone);
  for (u32 n = 0; n < kCacheSlabs; ++n) {
    reset(slab_at(n));
    const char* counters = reinterpret_cast<const char*>(&slab_at(n).counters);
    explored::left_out[n] = {counters, counters + sizeof(Slab::counters)};
    model_name(&slab_at(n), sizeof(Slab), "slab", static_cast<int>(n));
    model_name(slab_at(n).top[kCacheClass], "top", static_cast<int>(n));
    model_name(slab_at(n).current[kCacheClass], "current", static_cast<int>(n));
    model_name(made_[n], "slab's maker", static_cast<int>(n));
  }
  for (auto& entry : entries_) model_name(entry, "entry", static_cast<int>(&entry - entries_));
  model_name(superblocks_, "superblocks");
  model_name(spare_, "spare");
  for (auto& own : own_) model_name(own, "own", static_cast<int>(&own - own_));
  model_name(cpu_slabs_, "cpu_slabs");
  model_name(lives_, "lives");
  for (auto& page : pages_) model_name(page, "page", static_cast<int>(&page - pages_));
  for (u32 span = 0; span < kCacheSpans; ++span) {
    model_name(backing_.map[span], "map", static_cast<int>(span));
    model_name(backing_.content[span], "content", static_cast<int>(span));
  }
  for (u32 d = 1; d <= kCacheDescriptors; ++d) {
    model_name(backing_.descriptors[d], "words", static_cast<int>(d));
    model_name(backing_.descriptor(d).anchor, "anchor", static_cast<int>(d));
    model_name(backing_.descriptor(d).owed, "owed", static_cast<int>(d));
  }
  who();  // the process's first thread has been here
  for (const char* move = script_.setup; *move != 0; ++move) {
    if (*move >= '0' && *move <= '2') take(hands_[*move - '0'], give(main_));
    else act(*move, main_);
  }
}

void CacheProgram::thread(int id) {
  if (*script_.thread[id] == 0) return;
  hands_[id].cpu = script_.cpu[id];
  if (script_.mode == CacheMode::kSections) model_cpu(script_.cpu[id]);
  for (const char* move = script_.thread[id]; *move != 0; ++move) { act(*move, hands_[id]); }
}

void CacheProgram::act(char move, Hands& mine) {
  switch (move) {
    case 'm': take(mine, allocate(mine)); break;
    case 'f':
      if (mine.from < mine.to) release(mine, give(mine));
      break;
    case 'h': send_home(mine); break;
    case 'w': clear_way(mine); break;
    case 'd': drain(); break;
    case '>': model_cpu(mine.cpu = 1 - mine.cpu); break;
    case 'c': mine.taken = take_spare(); break;
    case 'u':
      if (Slab* slab = mine.taken.slab) take(mine, magazines_.refill(PlainSlab(*slab), *slab, kCacheClass));
      break;
    case 'v':
      if (Slab* slab = mine.taken.slab; slab != nullptr && mine.from < mine.to) {
        void* block = give(mine);
        if (!magazines_.stash(PlainSlab(*slab), *slab, kCacheClass, block)) magazines_.flush(kCacheClass, &block, 1);
      }
      break;
    case 'r': Spare::give(own_[id()], std::exchange(mine.taken, {})); break;
    case 'K': refused_[id()] = true; break;
    case 'D': drain_own(mine); break;
    case 'a': look_at_a_slab(); break;
    case 'F': fork(); break;
    case 'T': model_make_threads(); break;
    default: model_check(move == ' ', "a letter that means something");
  }
}

void CacheProgram::take(Hands& mine, void* block) {
  if (block == nullptr) return;
  backing_.content_of(reinterpret_cast<uptr>(block)).set(2);
  model_check(mine.to < kMost, "the script fits");
  mine.blocks[mine.to++] = block;
}

void* CacheProgram::give(Hands& mine) {
  model_check(mine.from < mine.to, "the script gives what there is");
  void* block = mine.blocks[mine.from++];
  backing_.content_of(reinterpret_cast<uptr>(block)).set(3);
  return block;
}

// The end
// --------------------------------------------------------------------------------------------------------------

void CacheProgram::finish() {
  check_places();
  for (u32 n = 0; n < kCacheSlabs; ++n) {
    model_observe(slab_at(n).top[kCacheClass].load_relaxed() - reinterpret_cast<u64>(slab_memory));
    model_observe(slab_at(n).current[kCacheClass].load_relaxed());
  }
  for (const Hands& each : hands_)
    for (unsigned i = each.from; i < each.to; ++i) model_observe(reinterpret_cast<u64>(each.blocks[i]));
  for (u32 d = 1; d <= kCacheDescriptors; ++d) model_observe(backing_.descriptor(d).anchor.load_relaxed());
  if (model_stalled() < 0 && forked_ < 0) empty_all();
}

void CacheProgram::check_places() {
  const bool somebody_missing = model_stalled() >= 0 || forked_ >= 0;
  constexpr unsigned c = kCacheClass;
  u64 places[kCacheSpans][kMostOfASpan] = {};
  auto count = [&](uptr block) {
    const u32 index = backing_.shape.block_at(block);
    model_check(index != SizeClass::kNoBlock, "what is in a magazine is a block");
    model_check(++places[CacheBacking::span_index(block)][index] == 1, "a block is in one place only");
  };
  for (const Hands& each : hands_)
    for (unsigned i = each.from; i < each.to; ++i) count(reinterpret_cast<uptr>(each.blocks[i]));
  for (unsigned i = main_.from; i < main_.to; ++i) count(reinterpret_cast<uptr>(main_.blocks[i]));
  unsigned holders[kCacheDescriptors + 1] = {};
  for (u32 n = 0; n < kCacheSlabs; ++n) {
    Slab& slab = slab_at(n);
    u64 at = slab.top[c].load_relaxed();
    while (u64 block = slab_words::slot(at -= 8)->load_relaxed()) count(block);
    if (u64 d = slab.current[c].load_relaxed()) ++holders[d];
  }
  superblocks_.each_in_lists(c, [&](u32 d, bool) {
    if (!anchor::is_held(backing_.descriptor(d).anchor.load_relaxed())) ++holders[d];
    return true;
  });
  unsigned unreachable = 0, lost = 0;
  for (u32 d = 1; d <= clamp(backing_.made.load_relaxed(), 0, kCacheDescriptors); ++d) {
    const u64 a = backing_.descriptor(d).anchor.load_relaxed();
    if (anchor::is_unlisted(a)) ++holders[d];
    model_check(holders[d] <= 1, "a superblock is in one list, one slab, or unlisted");
    unreachable += holders[d] == 0;
  }
  for (u32 span = 0; span < kCacheSpans; ++span) {
    const u32 d = backing_.map[span].load_relaxed();
    if (d == 0) continue;
    const u64 free = backing_.descriptor(d).words[0].load_relaxed();
    for (u32 index = 0; index < script_.blocks; ++index) {
      const bool is_free = (free >> index & 1) != 0;
      model_check(!is_free || places[span][index] == 0, "a block that is in use is not free");
      lost += !is_free && places[span][index] == 0;
    }
  }
  model_check(unreachable <= (somebody_missing ? 1U : 0U), "no superblock is lost");
  model_check(lost <= (somebody_missing ? kMagazines[c].small : 0U), "no block is lost");
}

// Everything is freed and the slabs are emptied: then every span must have been given back.
void CacheProgram::empty_all() {
  Hands all[] = {hands_[0], hands_[1], hands_[2], main_};
  for (Hands& each : all)
    while (each.from < each.to) {
      void* block = give(each);
      magazines_.flush(kCacheClass, &block, 1);
    }
  for (u32 n = 0; n < kCacheSlabs; ++n) magazines_.empty_class(slab_at(n), kCacheClass);
  model_check(backing_.used.load_relaxed() == 0, "when all is freed every span has been given back");
}

}  // namespace freeway::model
