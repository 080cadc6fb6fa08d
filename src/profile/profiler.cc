// SPDX-License-Identifier: MIT
#include "profile/profiler.h"

#include <elf.h>
#include <errno.h>
#include <signal.h>
#include <sys/auxv.h>

#include "os/mapping.h"
#include "os/process.h"
#include "os/syscall.h"
#include "os/text_file.h"
#include "profile/code_ranges.h"
#include "profile/dumps.h"
#include "profile/gap.h"
#include "profile/probes.h"
#include "profile/settings.h"
#include "profile/wanted.h"
#include "sync/once.h"

extern "C" FREEWAY_HIDDEN const Elf64_Ehdr __ehdr_start;  // the linker's: the start of the file that holds this code

namespace freeway::profile {

constinit Profile process_profile;

namespace {

constinit Atomic<u64> lottery;
constinit Atomic<u32> site_count, block_count;
constinit Once<Machine> tables;
constinit FREEWAY_LARGE CodeRanges<Machine> the_code;
constinit Atomic<u64> copy_bytes{kUsualCopy}, code_read_ms;
constinit Atomic<uptr> own_code, own_code_bytes;
constinit thread_local u64 the_tag = 0;

u64 coarse_ms() { return process::coarse_time_ns() / 1000000; }

// Finds the library's own code, whose frames are left out. None if it is a part of the program.
void find_own_code() {
  const Elf64_Ehdr& file = __ehdr_start;
  const auto base = reinterpret_cast<uptr>(&file);
  if (getauxval(AT_PHDR) == base + file.e_phoff) return;
  const auto* segments = reinterpret_cast<const Elf64_Phdr*>(base + file.e_phoff);
  for (unsigned i = 0; i < file.e_phnum; ++i) {
    if (segments[i].p_type != PT_LOAD || (segments[i].p_flags & PF_X) == 0) continue;
    own_code.store_relaxed(base + segments[i].p_vaddr);
    own_code_bytes.store_relaxed(segments[i].p_memsz);
  }
}

bool is_own_code(u64 address) { return address - own_code.load_relaxed() < own_code_bytes.load_relaxed(); }

constexpr std::size_t kPlaceUnit = 64 * kKiB;  // of memory from the kernel

bool make_tables() {
  u32 none = 0;
  site_count.cas_relaxed(none, kUsualSites);
  none = 0;
  block_count.cas_relaxed(none, kUsualBlocks);
  const u32 sites = site_count.load_relaxed(), blocks = block_count.load_relaxed();
  const std::size_t site_bytes = align_up(Sites<Machine>::bytes(sites), kPlaceUnit);
  const std::size_t block_bytes = align_up(LiveBlocks<Machine>::bytes(blocks), kPlaceUnit);
  const std::size_t piece = copy_bytes.load_relaxed();
  const u32 copies = piece == 0 ? 0 : kCopies;
  const std::size_t bytes = site_bytes + block_bytes + align_up(StackCopies<Machine>::bytes(copies, piece), kPlaceUnit);
  const auto make = [bytes]() -> u64 {
    const uptr fresh = vm::map(bytes, kPlaceUnit);
    if (fresh != 0) vm::prefer_small(fresh, bytes);
    return fresh;
  };
  const uptr memory = tables.get(make, [bytes](u64 late) { vm::release(late, bytes); });
  if (memory == 0) return false;
  process_profile.sites.init(memory, sites);
  process_profile.blocks.init(memory + site_bytes, blocks);
  process_profile.copies.init(memory + site_bytes + block_bytes, copies, piece);
  u64 never = 0;
  process_profile.began_ms.cas_relaxed(never, coarse_ms());
  find_own_code();
  return true;
}

// The kernel copies the set before it finds that there is no such operation.
bool can_read(uptr page) {
  constexpr u64 kNoOperation = ~u64{0};
  return raw_syscall(SYS_rt_sigprocmask, kNoOperation, page, 0, sizeof(u64)) != -EFAULT;
}

// Reads the ranges of code, at most once a second.
FREEWAY_NOINLINE void read_code() {
  constexpr u64 kLeastMs = 1000;
  const u64 now = coarse_ms();
  u64 seen = code_read_ms.load_relaxed();
  if ((seen != 0 && now - seen < kLeastMs) || !code_read_ms.cas_relaxed(seen, now)) return;
  the_code.read([](auto&& add) {
    TextLines mappings("/proc/self/maps");
    char line[64];  // addresses and rights are at its beginning
    while (mappings.next(line, sizeof(line)))
      if (const Mapping mapping = parse_mapping(line); mapping.is_code) add(mapping.begin, mapping.end);
  });
}

// A stack as frame pointers give it, or else its shape: the words there that look like return addresses.
struct Taken {
  Stack stack;
  Registers registers;
  uptr begin = 0, end = 0;  // the part of the stack that may be copied
};

constexpr unsigned kToldByFrames =
    3;  // frames of ours not counted: malloc's caller is known also without frame pointers

// The furthest end of the stack at `begin` that may be worth a look, readable or not: a thread's lies below its own
// record, in the same mapping; the first one's below the data that the kernel left there for the program.
uptr farthest(uptr begin) {
  const uptr left_by_kernel = getauxval(AT_RANDOM), thread = reinterpret_cast<uptr>(__builtin_thread_pointer());
  uptr end = begin + process_profile.copies.piece();
  if (thread > begin && thread < end) end = thread;
  if (left_by_kernel > begin && left_by_kernel < end) end = left_by_kernel;
  return align_down(end, sizeof(u64));
}

void take_shape(Taken& taken) {
  const std::size_t page = vm::page_size();
  taken.begin = taken.registers.values[1];
  const uptr farthest_end = farthest(taken.begin);
  taken.end = align_down(taken.begin, page) + page;
  while (taken.end < farthest_end && can_read(taken.end)) taken.end += page;
  if (taken.end > farthest_end) taken.end = farthest_end;
  if (taken.stack.depth > 0 && !the_code.contains(taken.stack.frames[0])) read_code();
  u64 shape = 1;
  for (uptr at = taken.begin; at < taken.end; at += 8) {
    const u64 word = *reinterpret_cast<const volatile u64*>(at);
    if (the_code.contains(word) && !is_own_code(word)) shape = window::mixed(shape ^ word);
  }
  taken.stack.shape = shape;
}

// The stack of the caller's callers outside the library.
FREEWAY_NOINLINE void take_stack(Taken& taken) {
  read_registers(taken.registers);
  taken.stack.depth =
      walk_stack(reinterpret_cast<uptr>(__builtin_frame_address(0)), vm::page_size(), taken.stack.frames, kMostFrames,
                 can_read, [](u64 address) { return !is_own_code(address); });
  if (taken.stack.depth < kToldByFrames && process_profile.copies.is_on()) take_shape(taken);
}

}  // namespace

void set_copy(u64 bytes) { copy_bytes.store_relaxed(bytes); }

void set_sizes(u32 sites, u32 blocks) {
  site_count.store_relaxed(sites);
  block_count.store_relaxed(blocks);
}

namespace {

// Makes the tables, before each profile; false: no memory for them.
bool make_ready() {
  if (!make_tables()) return false;
  lottery.fetch_add_relaxed(process::coarse_time_ns() ^ process::id() << 32);
  return true;
}

}  // namespace

int start(u64 bytes) {
  if (bytes == 0 || bytes > wanted::kMostInterval) return EINVAL;
  if (!make_ready()) return ENOMEM;
  return process_profile.wanted.want(wanted::kProgram, bytes) ? 0 : EBUSY;
}
void stop() { process_profile.wanted.want_no_more(wanted::kProgram); }
bool follow_listeners() { return process_profile.wanted.follow_tracers(anybody_listens(), kUsualInterval, make_ready); }

void keep_peak(u64 interval) { process_profile.peak.begin(interval); }

u64 interval() { return process_profile.wanted.interval(); }
u64 confirm_interval() { return process_profile.wanted.confirm(); }

u64 next_gap() { return gap(window::mixed(lottery.fetch_add_relaxed(window::kStep)), interval()); }

bool draws(std::size_t bytes) { return next_gap() <= bytes; }

void sampled(uptr block, std::size_t bytes, u32 place) {
  const u64 every = interval();
  if (every == 0) return;
  Profile& profile = process_profile;
  profile.samples.fetch_add_relaxed(1);
  Taken taken;
  take_stack(taken);
  const u32 site = profile.sites.at(taken.stack, the_tag, bytes, every);
  if (site == Sites<Machine>::kNone) return profile.lost_stacks.fetch_add_relaxed(1), void();
  const u64 now = now_ms();
  if (!profile.blocks.put({block, site, bytes, now, place})) return profile.lost_blocks.fetch_add_relaxed(1), void();
  const u64 epoch = profile.peak.epoch(every);
  profile.sites.allocated(site, bytes, now, epoch);
  if (epoch != 0) profile.peak.more(peak::weight(bytes, every), now);
  if (taken.end != 0 && profile.sites.wants_copy(site))
    if (const u32 copy = profile.copies.add(taken.registers, taken.begin, taken.end);
        copy != StackCopies<Machine>::kNone)
      profile.sites.set_copy(site, copy);
  tell_allocated(block, bytes, every, the_tag);
  dump_if_due(bytes > every ? bytes : every);
}

LiveBlock forget(uptr block) {
  LiveBlock sample;
  if (!process_profile.blocks.take(block, sample)) sample.address = 0;
  return sample;
}

void freed(uptr block) { ended(forget(block)); }

void ended(const LiveBlock& sample) {
  if (sample.address == 0) return;
  const u64 now = now_ms();
  Profile& profile = process_profile;
  const auto site = static_cast<u32>(sample.site);
  const u64 every = profile.sites.interval_of(site), epoch = profile.peak.epoch(every);
  profile.sites.freed(site, sample.bytes, sample.born, now, epoch);
  if (epoch != 0) profile.peak.less(peak::weight(sample.bytes, every));
  tell_freed(sample, now);
}

void put_back(const LiveBlock& sample) {
  if (sample.address != 0 && !process_profile.blocks.put(sample)) ended(sample);
}

bool has_samples() { return process_profile.samples.load_relaxed() != 0; }

u64 tag(u64 value) {
  const u64 old = the_tag;
  the_tag = value;
  return old;
}

Figures figures() {
  const Profile& profile = process_profile;
  return {profile.wanted.last(), profile.samples.load_relaxed(), profile.lost_stacks.load_relaxed(),
          profile.lost_blocks.load_relaxed()};
}

u64 now_ms() { return coarse_ms() - process_profile.began_ms.load_relaxed(); }

}  // namespace freeway::profile
