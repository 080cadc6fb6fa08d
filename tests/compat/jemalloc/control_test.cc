// SPDX-License-Identifier: MIT
//
// mallctl: every name with its type and its value, by name and by numbers; and what it refuses.
#include <unistd.h>

#include <cstring>
#include <string>
#include <vector>

#include "control.h"
#include "freeway/freeway.h"

namespace {

struct Row {
  const char* name;
  std::size_t size;
};

constexpr std::size_t kBool = sizeof(bool), kUnsigned = sizeof(unsigned), kWord = 8;

// All that can be read, with the sizes of jemalloc's manual page.
// clang-format off: a table
const Row kReadable[] = {
    {"version", kWord}, {"epoch", kWord}, {"background_thread", kBool}, {"thread.arena", kUnsigned},
    {"thread.tcache.enabled", kBool}, {"thread.prof.active", kBool},
    {"config.cache_oblivious", kBool}, {"config.debug", kBool}, {"config.fill", kBool}, {"config.lazy_lock", kBool},
    {"config.malloc_conf", kWord}, {"config.opt_safety_checks", kBool}, {"config.prof", kBool},
    {"config.prof_libgcc", kBool}, {"config.prof_libunwind", kBool}, {"config.stats", kBool}, {"config.utrace", kBool},
    {"config.xmalloc", kBool},
    {"opt.narenas", kUnsigned}, {"opt.percpu_arena", kWord}, {"opt.background_thread", kBool},
    {"opt.dirty_decay_ms", kWord}, {"opt.muzzy_decay_ms", kWord}, {"opt.dss", kWord}, {"opt.thp", kWord},
    {"opt.metadata_thp", kWord}, {"opt.junk", kWord}, {"opt.zero", kBool}, {"opt.utrace", kBool},
    {"opt.xmalloc", kBool}, {"opt.zero_realloc", kWord}, {"opt.tcache", kBool}, {"opt.tcache_max", kWord},
    {"opt.stats_print", kBool}, {"opt.prof", kBool}, {"opt.prof_prefix", kWord}, {"opt.prof_active", kBool},
    {"opt.prof_thread_active_init", kBool}, {"opt.lg_prof_sample", kWord}, {"opt.lg_prof_interval", kWord},
    {"opt.prof_gdump", kBool}, {"opt.prof_final", kBool}, {"opt.prof_leak", kBool},
    {"arena.0.initialized", kBool}, {"arena.0.dirty_decay_ms", kWord}, {"arena.0.muzzy_decay_ms", kWord},
    {"arenas.narenas", kUnsigned}, {"arenas.dirty_decay_ms", kWord}, {"arenas.muzzy_decay_ms", kWord},
    {"arenas.quantum", kWord}, {"arenas.page", kWord}, {"arenas.tcache_max", kWord}, {"arenas.nbins", kUnsigned},
    {"arenas.nhbins", kUnsigned},
    {"prof.active", kBool}, {"prof.thread_active_init", kBool}, {"prof.gdump", kBool}, {"prof.interval", kWord},
    {"prof.lg_sample", kWord},
    {"stats.allocated", kWord}, {"stats.active", kWord}, {"stats.metadata", kWord}, {"stats.metadata_thp", kWord},
    {"stats.resident", kWord}, {"stats.mapped", kWord}, {"stats.background_thread.num_threads", kWord},
    {"stats.background_thread.num_runs", kWord}, {"stats.background_thread.run_interval", kWord},
    {"stats.arenas.0.dirty_decay_ms", kWord}, {"stats.arenas.0.muzzy_decay_ms", kWord},
    {"stats.arenas.0.pactive", kWord}, {"stats.arenas.0.pdirty", kWord}, {"stats.arenas.0.pmuzzy", kWord},
    {"stats.arenas.0.mapped", kWord}, {"stats.arenas.0.resident", kWord}, {"stats.arenas.0.base", kWord},
    {"stats.arenas.0.internal", kWord}, {"stats.arenas.0.metadata_thp", kWord}, {"stats.arenas.0.tcache_bytes", kWord},
    {"stats.arenas.0.dirty_npurge", kWord}, {"stats.arenas.0.dirty_nmadvise", kWord},
    {"stats.arenas.0.dirty_purged", kWord}, {"stats.arenas.0.muzzy_npurge", kWord},
    {"stats.arenas.0.muzzy_nmadvise", kWord}, {"stats.arenas.0.muzzy_purged", kWord},
    {"stats.arenas.0.small.allocated", kWord}, {"stats.arenas.0.large.allocated", kWord},
};

// What acts, with nothing to read.
const char* const kActions[] = {"thread.tcache.flush", "thread.idle", "arena.0.decay", "arena.0.purge"};

// What can be written; anything else that can be read cannot.
const char* const kWritable[] = {
    "epoch", "background_thread", "thread.arena", "thread.tcache.enabled", "thread.prof.active",
    "arena.0.dirty_decay_ms", "arena.0.muzzy_decay_ms", "arenas.dirty_decay_ms", "arenas.muzzy_decay_ms", "prof.active",
    "prof.thread_active_init", "prof.gdump"};
// clang-format on

bool is_writable(const std::string& name) {
  for (const char* writable : kWritable)
    if (name == writable) return true;
  return false;
}

TEST(EveryName, CanBeReadInItsSizeOnly) {
  for (const Row& row : kReadable) {
    unsigned char value[16];
    std::size_t size = row.size;
    EXPECT_EQ(mallctl(row.name, value, &size, nullptr, 0), 0) << row.name;
    EXPECT_EQ(size, row.size) << row.name;
    // Too small a place: what fits, and no more.
    unsigned char part[16];
    std::memset(part, 0xa5, sizeof part);
    size = row.size - 1;
    EXPECT_EQ(mallctl(row.name, part, &size, nullptr, 0), EINVAL) << row.name;
    EXPECT_EQ(size, row.size - 1) << row.name;
    EXPECT_EQ(part[row.size - 1], 0xa5) << row.name;
    size = row.size + 1;
    EXPECT_EQ(mallctl(row.name, part, &size, nullptr, 0), EINVAL) << row.name;
    EXPECT_EQ(size, row.size) << row.name;
    EXPECT_EQ(part[row.size], 0xa5) << row.name;
  }
}

TEST(EveryName, ThatIsReadOnlyRefusesToBeWritten) {
  for (const Row& row : kReadable) {
    if (is_writable(row.name)) continue;
    unsigned char value[16] = {};
    EXPECT_EQ(mallctl(row.name, nullptr, nullptr, value, row.size), EPERM) << row.name;
  }
}

TEST(EveryName, ThatIsWrittenTakesOnlyItsSize) {
  for (const Row& row : kReadable) {
    if (!is_writable(row.name)) continue;
    unsigned char value[16];
    std::size_t size = row.size;
    ASSERT_EQ(mallctl(row.name, value, &size, nullptr, 0), 0) << row.name;
    EXPECT_EQ(mallctl(row.name, nullptr, nullptr, value, row.size), 0) << row.name << ": to what it is";
    EXPECT_EQ(mallctl(row.name, nullptr, nullptr, value, row.size + 1), EINVAL) << row.name;
    EXPECT_EQ(mallctl(row.name, nullptr, nullptr, nullptr, row.size), EINVAL) << row.name;
  }
}

TEST(EveryName, HasNumbersThatSayTheSame) {
  for (const Row& row : kReadable) {
    std::size_t mib[8], length = 8;
    ASSERT_EQ(mallctlnametomib(row.name, mib, &length), 0) << row.name;
    std::size_t dots = 0;
    for (const char* c = row.name; *c != 0; ++c) dots += *c == '.';
    EXPECT_EQ(length, dots + 1) << row.name;
    unsigned char by_name[16] = {}, by_mib[16] = {};
    std::size_t size = row.size;
    ASSERT_EQ(mallctl(row.name, by_name, &size, nullptr, 0), 0);
    EXPECT_EQ(mallctlbymib(mib, length, by_mib, &size, nullptr, 0), 0) << row.name;
    EXPECT_EQ(std::memcmp(by_name, by_mib, row.size), 0) << row.name;
    // A part less or more is another name, or none.
    EXPECT_EQ(mallctlbymib(mib, length - 1, nullptr, nullptr, nullptr, 0), ENOENT) << row.name;
    mib[length] = 0;
    EXPECT_EQ(mallctlbymib(mib, length + 1, nullptr, nullptr, nullptr, 0), ENOENT) << row.name;
  }
}

TEST(Actions, ActAndHaveNothingToReadOrWrite) {
  for (const char* name : kActions) {
    EXPECT_EQ(act(name), 0) << name;
    unsigned value = 0;
    std::size_t size = sizeof value;
    EXPECT_EQ(mallctl(name, &value, &size, nullptr, 0), EPERM) << name;
    EXPECT_EQ(set(name, 0u), EPERM) << name;
  }
}

TEST(Names, ThatAreUnknownAreNotFound) {
  for (const char* name : {"",
                           ".",
                           "stats",
                           "stats.",
                           "stats.allocate",
                           "stats.allocated.",
                           "stats.allocatedd",
                           "Stats.allocated",
                           "stats..allocated",
                           "arena.0",
                           "arena..purge",
                           "arena.x.purge",
                           "arena.-1.purge",
                           "arena.0x0.purge",
                           "arena.2.purge",
                           "arena.4095.purge",
                           "arena.99999999999999999999.purge",
                           "arena.4097.purge",
                           "arenas.bin.0.size",
                           "stats.arenas.0.bins.0.curregs",
                           "thread.allocatedp",
                           "thread.allocated",
                           "stats.retained",
                           "arena.0.reset",
                           "arena.0.extent_hooks",
                           "experimental.utilization.batch_query",  // valkey would go on to assert jemalloc's bins
                           "experimental.utilization.query",
                           "tcache.size",
                           "prof.prefix"}) {
    EXPECT_EQ(act(name), ENOENT) << '"' << name << '"';
    std::size_t mib[8], length = 8;
    EXPECT_EQ(mallctlnametomib(name, mib, &length), ENOENT) << '"' << name << '"';
  }
}

TEST(Numbers, ThatAreUnknownAreNotFound) {
  const std::size_t wild[8] = {SIZE_MAX, 1000000, 3, 3, 3, 3, 3, 3};
  for (std::size_t length = 0; length <= 8; ++length)
    EXPECT_EQ(mallctlbymib(wild, length, nullptr, nullptr, nullptr, 0), ENOENT) << length;
  std::size_t mib[4], length = 4;
  ASSERT_EQ(mallctlnametomib("stats.arenas.0.pactive", mib, &length), 0);
  std::size_t value, size = sizeof value;
  EXPECT_EQ(mallctlbymib(mib, 4, &value, &size, nullptr, 0), 0);
  mib[2] = 3;  // no such arena
  EXPECT_EQ(mallctlbymib(mib, 4, &value, &size, nullptr, 0), ENOENT);
  mib[2] = 0;
  ++mib[1];  // no such group
  EXPECT_EQ(mallctlbymib(mib, 4, &value, &size, nullptr, 0), ENOENT);
}

TEST(Numbers, OfAPartOfANameAreItsBeginning) {
  std::size_t whole[4], part[4] = {77, 77, 77, 77}, length = 4, two = 2;
  ASSERT_EQ(mallctlnametomib("stats.arenas.4096.pactive", whole, &length), 0);
  ASSERT_EQ(mallctlnametomib("stats.arenas.4096.pactive", part, &two), 0);
  EXPECT_EQ(two, 2u);
  EXPECT_EQ(part[0], whole[0]);
  EXPECT_EQ(part[1], whole[1]);
  EXPECT_EQ(part[2], 77u);
  EXPECT_EQ(whole[2], 4096u);
}

TEST(Numbers, WithinANameMayBeChanged) {
  const unsigned arena = value_of<unsigned>("arenas.create");
  std::size_t mib[3], length = 3, size = sizeof(bool);
  ASSERT_EQ(mallctlnametomib("arena.0.initialized", mib, &length), 0);
  bool is = false;
  mib[1] = arena;
  EXPECT_EQ(mallctlbymib(mib, length, &is, &size, nullptr, 0), 0);
  EXPECT_TRUE(is);
  EXPECT_EQ(act("arena." + std::to_string(arena) + ".destroy"), 0);
  mib[1] = 3;
  EXPECT_EQ(mallctlbymib(mib, length, &is, &size, nullptr, 0), ENOENT);
}

TEST(Version, BeginsAsJemallocsAndNamesFreeway) {
  const std::string version = value_of<const char*>("version");
  EXPECT_TRUE(version.starts_with("5.3.0-0-g0 ")) << version;
  EXPECT_NE(version.find(std::string("Freeway ") + freeway_version()), std::string::npos) << version;
}

TEST(Values, ThatCannotBeOtherwiseSaySo) {
  EXPECT_EQ(set("background_thread", true), EPERM);
  EXPECT_EQ(set("thread.tcache.enabled", false), EPERM);
  EXPECT_EQ(set<ssize_t>("arenas.dirty_decay_ms", 0), EPERM);
  EXPECT_EQ(set<ssize_t>("arena.0.dirty_decay_ms", -1), EPERM);
  EXPECT_EQ(set<ssize_t>("arena.4096.muzzy_decay_ms", 5), EPERM);
  EXPECT_EQ(value_of<bool>("background_thread"), false);
}

TEST(Values, AreFreeways) {
  EXPECT_EQ(value_of<std::size_t>("arenas.page"), static_cast<std::size_t>(sysconf(_SC_PAGESIZE)));
  EXPECT_EQ(value_of<std::size_t>("arenas.quantum"), 16u);
  EXPECT_STREQ(value_of<const char*>("opt.zero_realloc"), "free");
  EXPECT_EQ(realloc(malloc(1), 0), nullptr);
  // The largest block that is not made of whole frames.
  const auto largest = value_of<std::size_t>("arenas.tcache_max");
  EXPECT_EQ(nallocx(largest, 0), largest);
  EXPECT_EQ(nallocx(largest + 1, 0), 65536u);
}

// Valkey makes sure of every name of every bin by assertions, and goes on without where there are none.
TEST(Values, TellOfNoBins) { EXPECT_EQ(value_of<unsigned>("arenas.nbins"), 0u); }

TEST(Arenas, AreNumbersThatComeAndGo) {
  ASSERT_EQ(value_of<unsigned>("arenas.narenas"), 1u);
  const unsigned first = value_of<unsigned>("arenas.create"), second = value_of<unsigned>("arenas.create");
  EXPECT_EQ(first, 1u);
  EXPECT_EQ(second, 2u);
  EXPECT_EQ(value_of<unsigned>("arenas.narenas"), 3u);
  EXPECT_TRUE(value_of<bool>("arena.2.initialized"));
  EXPECT_EQ(set("thread.arena", 2u), 0);
  EXPECT_EQ(set("thread.arena", 9u), EFAULT);
  void* block = mallocx(100, MALLOCX_ARENA(second));
  EXPECT_EQ(act("arena.1.destroy"), 0);
  EXPECT_FALSE(value_of<bool>("arena.1.initialized"));
  EXPECT_EQ(act("arena.1.destroy"), EFAULT);
  EXPECT_EQ(act("arena.0.destroy"), EFAULT);
  EXPECT_EQ(value_of<unsigned>("arenas.create"), 1u) << "used again";
  EXPECT_EQ(act("arena.1.destroy"), 0);
  EXPECT_EQ(act("arena.2.destroy"), 0);
  EXPECT_EQ(value_of<unsigned>("arenas.narenas"), 1u);
  dallocx(block, 0);
}

TEST(Arenas, RunOut) {
  unsigned made = 0, number = 0;
  std::size_t size = sizeof number;
  while (mallctl("arenas.create", &number, &size, nullptr, 0) == 0) ++made;
  EXPECT_EQ(mallctl("arenas.create", &number, &size, nullptr, 0), EAGAIN);
  EXPECT_EQ(made, 4095u);
  for (unsigned i = 1; i <= made; ++i) EXPECT_EQ(act("arena." + std::to_string(i) + ".destroy"), 0);
  EXPECT_EQ(act("arenas.create"), EINVAL);
  EXPECT_EQ(value_of<unsigned>("arenas.narenas"), 1u);
}

// As arenas: numbers, here from 0 on. What is allocated with MALLOCX_TCACHE is in the same heap.
TEST(Caches, AreNumbersThatComeAndGo) {
  const unsigned first = value_of<unsigned>("tcache.create"), second = value_of<unsigned>("tcache.create");
  EXPECT_EQ(first, 0u);
  EXPECT_EQ(second, 1u);
  void* block = mallocx(100, MALLOCX_TCACHE(second) | MALLOCX_ARENA(0));
  dallocx(block, MALLOCX_TCACHE(second));
  EXPECT_EQ(set("tcache.flush", second), 0);
  EXPECT_EQ(set("tcache.flush", 2u), EINVAL) << "never made";
  EXPECT_EQ(set("tcache.destroy", first), 0);
  EXPECT_EQ(set("tcache.destroy", first), EINVAL) << "gone";
  EXPECT_EQ(set("tcache.flush", first), EINVAL) << "gone";
  EXPECT_EQ(value_of<unsigned>("tcache.create"), 0u) << "used again";
  EXPECT_EQ(set("tcache.destroy", first), 0);
  EXPECT_EQ(set("tcache.destroy", second), 0);
  EXPECT_EQ(act("tcache.create"), EINVAL);
  EXPECT_EQ(act("tcache.destroy"), EINVAL);
}

TEST(Arenas, CanBeLookedUp) {
  const auto lookup = [](const void* address) {
    unsigned arena = 77;
    std::size_t size = sizeof arena;
    const int said = mallctl("arenas.lookup", &arena, &size, &address, sizeof address);
    EXPECT_EQ(arena, said == 0 ? 0u : 77u);
    return said;
  };
  void* block = malloc(100);
  EXPECT_EQ(lookup(block), 0);
  EXPECT_EQ(lookup(&block), EINVAL);
  EXPECT_EQ(lookup(nullptr), EINVAL);
  free(block);
}

}  // namespace
