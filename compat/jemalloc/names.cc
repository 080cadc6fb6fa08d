// SPDX-License-Identifier: MIT
#include "names.h"

#include <array>
#include <cstdint>
#include <string_view>
#include <type_traits>

#include "arenas.h"
#include "exported.h"
#include "figures.h"
#include "freeway/freeway.h"
#include "profile.h"

namespace freeway_jemalloc {
namespace {

static_assert(kAllArenas == MALLCTL_ARENAS_ALL && kDestroyedArenas == MALLCTL_ARENAS_DESTROYED);

#define FREEWAY_STRING_OF(x) #x
#define FREEWAY_STRING(x) FREEWAY_STRING_OF(x)
constexpr const char* kVersion = JEMALLOC_VERSION " (Freeway " FREEWAY_STRING(FREEWAY_VERSION_MAJOR) "." FREEWAY_STRING(
    FREEWAY_VERSION_MINOR) "." FREEWAY_STRING(FREEWAY_VERSION_PATCH) ")";
#undef FREEWAY_STRING
#undef FREEWAY_STRING_OF

// Free memory goes back by the recent peak, which is forgotten within a second or two: about that.
constexpr ssize_t kDecayMs = 1000;
constexpr ssize_t kMuzzyDecayMs = 0;  // there is no such state
constexpr std::size_t kQuantum = 16;
// None: what is known of them in jemalloc is not known of Freeway's size classes, and programs that find bins count on
// it all.
constexpr unsigned kBins = 0;
constexpr std::size_t kLargestCached = std::size_t{32} << 10;

// --- What names do ---------------------------------------------------------------------------------------------------

// A constant, and one that can be set to itself.
template <auto kValue> int constant(const Call& call) { return show(call, kValue); }
template <auto kValue> int fixed(const Call& call) { return keep(call, kValue); }
constexpr const char kDefault[] = "default", kDisabled[] = "disabled", kEmpty[] = "", kFalse[] = "false",
                     kFree[] = "free";
template <const char* kText> int words(const Call& call) { return show(call, static_cast<const char*>(kText)); }

template <auto kWhich> int figure(const Call& call) { return show(call, static_cast<std::size_t>(read(kWhich))); }
// As in jemalloc, the count of arenas stands for all of them, too.
bool is_all(std::size_t number) { return number == kAllArenas || number == arenas.end(); }
// All arenas but the first have nothing.
bool has_heap(const Call& call) { return call.numbers[0] == 0 || is_all(call.numbers[0]); }
template <auto kWhich, class T = std::size_t> int arena_figure(const Call& call) {
  return show(call, has_heap(call) ? static_cast<T>(read(kWhich)) : T{0});
}
template <auto kWhich, class T = std::size_t> int arena_pages(const Call& call) {
  return show(call, has_heap(call) ? static_cast<T>(read(kWhich) / page_size()) : T{0});
}

int tell_version(const Call& call) { return show(call, kVersion); }
int tell_prefix(const Call& call) { return show(call, profile::kPrefix); }

int tell_epoch(const Call& call) {
  if (call.writes()) {
    std::uint64_t ignored;
    if (!fetch(call, ignored)) return EINVAL;
    take();
  }
  return give(call, epoch());
}

int tell_arenas(const Call& call) { return show(call, arenas.end()); }
int tell_page(const Call& call) { return show(call, page_size()); }

template <auto& kNumbers, int kNoneLeft> int create(const Call& call) {
  if (call.writes()) return EPERM;  // of arenas: extent hooks
  if (!call.reads() || *call.old_size != sizeof(unsigned)) return EINVAL;
  const unsigned number = kNumbers.create();
  return number == kNumbers.kNone ? kNoneLeft : give(call, number);
}
int destroy(const Call& call) {
  if (!is_plain(call)) return EPERM;
  return arenas.destroy(call.numbers[0]) ? 0 : EFAULT;
}
int flush_cache(const Call& call) {
  unsigned number;
  if (call.reads()) return EPERM;
  return fetch(call, number) && caches.has(number) ? 0 : EINVAL;
}
int destroy_cache(const Call& call) {
  unsigned number;
  if (call.reads()) return EPERM;
  return fetch(call, number) && caches.destroy(number) ? 0 : EINVAL;
}
int lookup(const Call& call) {
  void* address;
  if (!fetch(call, address)) return EINVAL;
  freeway_explanation_t found;
  freeway_explain(address, &found, sizeof found);
  return found.begin != nullptr && found.state == FREEWAY_LIVE ? give(call, 0u) : EINVAL;
}
int tell_initialized(const Call& call) { return show(call, is_all(call.numbers[0]) || arenas.has(call.numbers[0])); }
int purge(const Call& call) {
  if (!is_plain(call)) return EPERM;
  freeway_trim(0);
  return 0;
}
// What is due: after a hint, Freeway looks.
int idle(const Call& call) {
  if (!is_plain(call)) return EPERM;
  freeway_idle();
  return 0;
}

int set_thread_arena(const Call& call) {
  if (call.writes()) {
    unsigned number;
    if (!fetch(call, number)) return EINVAL;
    if (!arenas.has(number)) return EFAULT;
  }
  return give(call, 0u);
}

int set_profile_active(const Call& call) {
  const bool was = profile::is_active();
  if (call.writes()) {
    bool wanted;
    if (!fetch(call, wanted)) return EINVAL;
    if (const int fault = profile::set_active(wanted); fault != 0) return fault;
  }
  return give(call, was);
}
int dump_profile(const Call& call) {
  if (call.reads()) return EPERM;
  const char* path = nullptr;
  if (call.writes() && !fetch(call, path)) return EINVAL;
  return profile::dump(path);
}
int reset_profile(const Call& call) {
  if (call.reads()) return EPERM;
  std::size_t lg = profile::lg_sample();
  if (call.writes() && !fetch(call, lg)) return EINVAL;
  return profile::reset(lg);
}
int tell_lg_sample(const Call& call) { return show(call, profile::lg_sample()); }

// --- The names -------------------------------------------------------------------------------------------------------

using enum Type;
using F = Figures;
using u32 = std::uint32_t;
using u64 = std::uint64_t;
using std::size_t;

// Names that begin alike stand together.
constexpr Name kNames[] = {
    {"version", kString, tell_version},
    {"epoch", kUint64, tell_epoch},
    {"background_thread", kBool, fixed<false>},

    {"thread.arena", kUnsigned, set_thread_arena},
    {"thread.tcache.enabled", kBool, fixed<true>},
    {"thread.tcache.flush", kAction, idle},
    {"thread.prof.active", kBool, fixed<true>},
    {"thread.idle", kAction, idle},

    {"tcache.create", kUnsigned, create<caches, EFAULT>},
    {"tcache.flush", kAction, flush_cache},
    {"tcache.destroy", kAction, destroy_cache},

    {"config.cache_oblivious", kBool, constant<false>},
    {"config.debug", kBool, constant<false>},
    {"config.fill", kBool, constant<false>},
    {"config.lazy_lock", kBool, constant<false>},
    {"config.malloc_conf", kString, words<kEmpty>},
    {"config.opt_safety_checks", kBool, constant<false>},
    {"config.prof", kBool, constant<true>},
    {"config.prof_libgcc", kBool, constant<false>},
    {"config.prof_libunwind", kBool, constant<false>},
    {"config.stats", kBool, constant<true>},
    {"config.utrace", kBool, constant<false>},
    {"config.xmalloc", kBool, constant<false>},

    {"opt.narenas", kUnsigned, constant<1u>},
    {"opt.percpu_arena", kString, words<kDisabled>},
    {"opt.background_thread", kBool, constant<false>},
    {"opt.dirty_decay_ms", kSigned, constant<kDecayMs>},
    {"opt.muzzy_decay_ms", kSigned, constant<kMuzzyDecayMs>},
    {"opt.dss", kString, words<kDisabled>},
    {"opt.thp", kString, words<kDefault>},
    {"opt.metadata_thp", kString, words<kDisabled>},
    {"opt.junk", kString, words<kFalse>},
    {"opt.zero", kBool, constant<false>},
    {"opt.utrace", kBool, constant<false>},
    {"opt.xmalloc", kBool, constant<false>},
    {"opt.zero_realloc", kString, words<kFree>},
    {"opt.tcache", kBool, constant<true>},
    {"opt.tcache_max", kSize, constant<kLargestCached>},
    {"opt.stats_print", kBool, constant<false>},
    {"opt.prof", kBool, constant<true>},
    {"opt.prof_prefix", kString, tell_prefix},
    {"opt.prof_active", kBool, constant<false>},
    {"opt.prof_thread_active_init", kBool, constant<true>},
    {"opt.lg_prof_sample", kSize, constant<profile::kLgSample>},
    {"opt.lg_prof_interval", kSigned, constant<ssize_t{-1}>},
    {"opt.prof_gdump", kBool, constant<false>},
    {"opt.prof_final", kBool, constant<false>},
    {"opt.prof_leak", kBool, constant<false>},

    {"arena.#.initialized", kBool, tell_initialized},
    {"arena.#.decay", kAction, idle},
    {"arena.#.purge", kAction, purge},
    {"arena.#.destroy", kAction, destroy},
    {"arena.#.dirty_decay_ms", kSigned, fixed<kDecayMs>},
    {"arena.#.muzzy_decay_ms", kSigned, fixed<kMuzzyDecayMs>},

    {"arenas.narenas", kUnsigned, tell_arenas},
    {"arenas.dirty_decay_ms", kSigned, fixed<kDecayMs>},
    {"arenas.muzzy_decay_ms", kSigned, fixed<kMuzzyDecayMs>},
    {"arenas.quantum", kSize, constant<kQuantum>},
    {"arenas.page", kSize, tell_page},
    {"arenas.tcache_max", kSize, constant<kLargestCached>},
    {"arenas.nbins", kUnsigned, constant<kBins>},
    {"arenas.nhbins", kUnsigned, constant<kBins>},
    {"arenas.create", kAction, create<arenas, EAGAIN>},
    {"arenas.lookup", kAction, lookup},

    {"prof.active", kBool, set_profile_active},
    {"prof.thread_active_init", kBool, fixed<true>},
    {"prof.dump", kAction, dump_profile},
    {"prof.reset", kAction, reset_profile},
    {"prof.gdump", kBool, fixed<false>},
    {"prof.interval", kUint64, constant<u64{0}>},
    {"prof.lg_sample", kSize, tell_lg_sample},

    {"stats.allocated", kSize, figure<&F::allocated>},
    {"stats.active", kSize, figure<&F::active>},
    {"stats.metadata", kSize, figure<&F::metadata>},
    {"stats.metadata_thp", kSize, constant<size_t{0}>},
    {"stats.resident", kSize, figure<&F::resident>},
    {"stats.mapped", kSize, figure<&F::mapped>},
    {"stats.background_thread.num_threads", kSize, constant<size_t{0}>},
    {"stats.background_thread.num_runs", kUint64, constant<u64{0}>},
    {"stats.background_thread.run_interval", kUint64, constant<u64{0}>},
    {"stats.arenas.#.dirty_decay_ms", kSigned, constant<kDecayMs>},
    {"stats.arenas.#.muzzy_decay_ms", kSigned, constant<kMuzzyDecayMs>},
    {"stats.arenas.#.pactive", kSize, arena_pages<&F::active>},
    {"stats.arenas.#.pdirty", kSize, arena_pages<&F::dirty>},
    {"stats.arenas.#.pmuzzy", kSize, constant<size_t{0}>},
    {"stats.arenas.#.mapped", kSize, arena_figure<&F::mapped>},
    {"stats.arenas.#.resident", kSize, arena_figure<&F::resident>},
    {"stats.arenas.#.base", kSize, arena_figure<&F::metadata>},
    {"stats.arenas.#.internal", kSize, constant<size_t{0}>},
    {"stats.arenas.#.metadata_thp", kSize, constant<size_t{0}>},
    {"stats.arenas.#.tcache_bytes", kSize, arena_figure<&F::cached>},
    {"stats.arenas.#.dirty_npurge", kUint64, arena_figure<&F::purges, u64>},
    {"stats.arenas.#.dirty_nmadvise", kUint64, arena_figure<&F::purges, u64>},
    {"stats.arenas.#.dirty_purged", kUint64, arena_pages<&F::purged, u64>},
    {"stats.arenas.#.muzzy_npurge", kUint64, constant<u64{0}>},
    {"stats.arenas.#.muzzy_nmadvise", kUint64, constant<u64{0}>},
    {"stats.arenas.#.muzzy_purged", kUint64, constant<u64{0}>},
    {"stats.arenas.#.small.allocated", kSize, arena_figure<&F::small>},
    {"stats.arenas.#.large.allocated", kSize, arena_figure<&F::large>},
};
constexpr unsigned kCount = sizeof kNames / sizeof *kNames;

// --- Finding them ----------------------------------------------------------------------------------------------------

// std::string_view's own substr, and what is made of it, may throw, which takes libstdc++.
constexpr std::string_view up_to(std::string_view text, std::size_t end) {
  // NOLINTNEXTLINE(bugprone-suspicious-stringview-data-usage): its length is `end`
  return end < text.size() ? std::string_view(text.data(), end) : text;
}
constexpr std::string_view from(std::string_view text, std::size_t begin) {
  return begin < text.size() ? std::string_view(text.data() + begin, text.size() - begin) : std::string_view();
}

using Parts = std::array<std::string_view, kMostParts>;

constexpr Parts parts_of(std::string_view text) {
  Parts parts = {};
  for (unsigned i = 0; i < kMostParts && !text.empty(); ++i) {
    const std::size_t end = text.find('.');
    parts[i] = up_to(text, end);
    text = end == std::string_view::npos ? std::string_view() : from(text, end + 1);
  }
  return parts;
}

struct Ids {
  static constexpr unsigned kNone = kMostParts;

  std::array<std::array<unsigned, kMostParts>, kCount> of = {};  // a part's: the first name that is the same so far
  std::array<unsigned, kCount> parts = {};
  std::array<unsigned, kCount> number = {};  // which part is one; kNone
};

constexpr Ids make_ids() {
  Ids ids;
  Parts before = {};
  for (unsigned i = 0; i < kCount; ++i) {
    const Parts now = parts_of(kNames[i].text);
    bool same = true;
    ids.number[i] = Ids::kNone;
    for (unsigned part = 0; part < kMostParts && !now[part].empty(); ++part) {
      same = same && now[part] == before[part];
      ids.of[i][part] = same ? ids.of[i - 1][part] : i;
      ids.parts[i] = part + 1;
      if (now[part] == "#") ids.number[i] = part;
    }
    before = now;
  }
  return ids;
}
constexpr Ids kIds = make_ids();

// "12" -> 12; false if it is no number, or has too many digits to be one that exists.
bool read_number(std::string_view digits, std::size_t& number) {
  if (digits.empty() || digits.size() > 9) return false;
  number = 0;
  for (const char c : digits) {
    if (c < '0' || c > '9') return false;
    number = number * 10 + static_cast<std::size_t>(c - '0');
  }
  return true;
}

bool matches(std::string_view pattern, std::string_view text, std::size_t numbers[kMostNumbers]) {
  const std::size_t place = pattern.find('#');
  if (place == std::string_view::npos) return pattern == text;
  if (up_to(text, place) != up_to(pattern, place)) return false;
  const std::string_view after = from(text, place);
  const std::size_t end = after.find('.');
  if (end == std::string_view::npos || from(after, end) != from(pattern, place + 1)) return false;
  return read_number(up_to(after, end), numbers[0]);
}

}  // namespace

unsigned name_count() { return kCount; }
const Name& name(unsigned index) { return kNames[index]; }

unsigned find(const char* text, std::size_t numbers[kMostNumbers]) {
  const std::string_view wanted = text;
  unsigned index = 0;
  while (index < kCount && !matches(kNames[index].text, wanted, numbers)) ++index;
  if (index < kCount && !number_exists(index, numbers[0])) return kCount;
  return index;
}

unsigned part_count(unsigned index) { return kIds.parts[index]; }
bool is_number(unsigned index, unsigned part) { return kIds.number[index] == part; }
std::size_t part_id(unsigned index, unsigned part) { return kIds.of[index][part]; }

bool number_exists(unsigned index, std::size_t number) {
  if (kIds.number[index] == Ids::kNone) return true;
  if (number == kDestroyedArenas) return up_to(kNames[index].text, 6) == "stats.";
  return number < arenas.end() || is_all(number);
}

const char* version() { return kVersion; }

}  // namespace freeway_jemalloc
