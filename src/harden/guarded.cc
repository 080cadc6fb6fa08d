// SPDX-License-Identifier: MIT
#include "harden/guarded.h"

#include <errno.h>
#include <string.h>

#include "harden/fault_signal.h"
#include "os/caller.h"
#include "os/process.h"
#include "os/signal_action.h"
#include "os/syscall.h"
#include "os/window.h"
#include "sync/once.h"

namespace freeway::guard {

constinit Range range;
constinit FREEWAY_LARGE ProcessSlots process_slots;
constinit Atomic<u64> faults;

namespace {

constexpr std::size_t kAlignment = 16;
constexpr int kSlack = 0xa5;        // fills the bytes between a block's end and the next multiple of 16
constexpr u64 kMostExplained = 32;  // faults: a handler that returns may cause many

constinit Once<Machine> place;
constinit Atomic<u64> odds_word, lottery, explained;
constinit Atomic<u64> last_explained[16];
constinit Atomic<FindEnd> find_end;

std::size_t page() { return vm::page_size(); }
std::size_t range_bytes() { return (2 * kSlots + 1) * page(); }
uptr page_of(unsigned slot) { return range.begin.load_relaxed() + (2 * std::size_t{slot} + 1) * page(); }

Call call_of(const void* caller) { return {reinterpret_cast<u64>(caller), static_cast<u64>(raw_syscall(SYS_gettid))}; }

std::size_t room_of(std::size_t size) { return align_up(size, kAlignment); }

bool is_overrun(const Birth& birth) {
  const auto* bytes = reinterpret_cast<const unsigned char*>(birth.address);
  for (std::size_t i = birth.size; i < room_of(birth.size); ++i)
    if (bytes[i] != kSlack) return true;
  return false;
}

// The slot on whose page the address lies; kSlots: it is on a fence.
unsigned slot_of(uptr address) {
  const std::size_t number = (address - range.begin.load_relaxed()) / page();
  return number % 2 == 1 ? static_cast<unsigned>(number / 2) : kSlots;
}

}  // namespace

void start(u64 odds) {
  if (odds == 0) return;
  const u64 begin = place.get([] { return vm::reserve(align_up(range_bytes(), 64 * kKiB), 64 * kKiB); },
                              [](u64 late) { vm::release(late, align_up(range_bytes(), 64 * kKiB)); });
  if (begin == 0 || is_on()) return;
  lottery.store_relaxed(window::mixed(process::coarse_time_ns() ^ process::id() << 32));
  odds_word.store_relaxed(odds);
  watch_faults();
  range.begin.store_relaxed(begin);
  range.bytes.store_release(range_bytes());  // [R1] pairs with [A1]
}

void* sample(std::size_t bytes, const void* caller, u64 owner) {
  if (range.bytes.load_acquire() == 0 || bytes > page()) return nullptr;  // [A1] pairs with [R1]
  const u64 drawn = window::mixed(lottery.fetch_add_relaxed(window::kStep));
  if ((drawn >> 1) % odds_word.load_relaxed() != 0) return nullptr;
  const unsigned slot = process_slots.take();
  if (slot == ProcessSlots::kNone) return nullptr;
  const uptr begin = page_of(slot);
  if (!vm::commit(begin, page())) {
    process_slots.abandon(slot);
    return nullptr;
  }
  const std::size_t size = bytes == 0 ? 1 : bytes;
  const uptr address = (drawn & 1) != 0 ? begin : begin + page() - room_of(size);
  memset(reinterpret_cast<void*>(address + size), kSlack, room_of(size) - size);
  process_slots.publish(slot, {address, size, call_of(caller), owner});
  return reinterpret_cast<void*>(address);
}

namespace {

// Of a block that the caller has retired: whether it was overrun.
bool put_to_rest(unsigned slot, const Birth& birth) {
  const bool overrun = is_overrun(birth);
  // A page that stays accessible for want of a mapping is no longer guarded, but it has no owner either.
  vm::forbid(page_of(slot), page());
  vm::purge(page_of(slot), page());
  process_slots.rest(slot);
  return overrun;
}

}  // namespace

Freed give(uptr address, const void* caller) {
  const unsigned slot = slot_of(address);
  if (slot == kSlots) return Freed::kForeign;
  const Seen seen = process_slots.look(slot);
  if (!slot_word::was_used(seen.word)) return Freed::kForeign;
  if (seen.stable && seen.birth.address != address) return Freed::kInterior;
  if (!process_slots.retire(slot, seen.word, call_of(caller))) return Freed::kTwice;
  return put_to_rest(slot, seen.birth) ? Freed::kOverrun : Freed::kOk;
}

void give_all(u64 owner, const void* caller, void (*overrun)(uptr address, const void* caller)) {
  if (!is_on()) return;
  process_slots.retire_all(owner, call_of(caller), [&](unsigned slot, const Seen& seen) {
    if (put_to_rest(slot, seen.birth)) overrun(seen.birth.address, caller);
  });
}

Sum live_of(u64 owner) {
  Sum sum;
  if (!is_on() || owner == 0) return sum;
  process_slots.each_of(owner, [&](unsigned, const Seen& seen) {
    ++sum.blocks;
    sum.bytes += seen.birth.size;
  });
  return sum;
}

u64 owner(uptr address) {
  const unsigned slot = slot_of(address);
  return slot == kSlots ? 0 : process_slots.look(slot).birth.owner;
}

std::size_t usable(uptr address) {
  const unsigned slot = slot_of(address);
  if (slot == kSlots) return 0;
  const Seen seen = process_slots.look(slot);
  return slot_word::is_live(seen.word) && seen.birth.address == address ? seen.birth.size : 0;
}

Freed classify(uptr address) {
  const unsigned slot = slot_of(address);
  if (slot == kSlots) return Freed::kForeign;
  const Seen seen = process_slots.look(slot);
  if (!slot_word::was_used(seen.word)) return Freed::kForeign;
  return seen.birth.address == address ? Freed::kTwice : Freed::kInterior;
}

void name_maker(const void* block, const void* caller) {
  const unsigned slot = slot_of(reinterpret_cast<uptr>(block));
  if (slot != kSlots) process_slots.name_maker(slot, reinterpret_cast<u64>(caller));
}

Near near(uptr address) {
  return nearest(address, address - range.begin.load_relaxed(), page(), kSlots,
                 [](u64 slot) { return process_slots.look(static_cast<unsigned>(slot)); });
}

long write_history(const Near& what, int fd) {
  const auto write = [fd](const char* did, const Call& call) {
    Line line;
    line.text("freeway:   ").text(did).text(" by ");
    if (call.caller == 0) line.text("an unknown caller");
    else put_code(line, call.caller);
    return line.text(" in thread ").number(call.thread).write(fd);
  };
  if (what.kind == Near::kNothing) return 0;
  if (!what.known)
    return Line().text("freeway:   another thread has that slot in hand: who had it is not known").write(fd);
  const long failed = write("allocated", what.birth.by);
  return what.live || failed != 0 ? failed : write("freed", what.death);
}

void know_ends(FindEnd find) { find_end.store_relaxed(find); }

namespace {

struct Access {
  uptr address, pc;
  char kind;
  u64 thread;
};

bool is_repeated(const Access& access, const Near& what) {
  const u64 parts[] = {access.address, access.pc, access.thread, what.word};
  u64 fault = 0;
  for (const u64 part : parts) fault = window::mixed(fault ^ part);
  return last_explained[access.thread % 16].exchange_relaxed(fault) == fault;
}

long write_fault(const Access& access, const Near& what) {
  Line line;
  line.text("freeway: ");
  if (!what.live) line.text("use after free");
  else line.text(what.kind == Near::kBefore ? "underflow" : "overflow");
  line.text(": a ").text(access.kind == 'w' ? "write" : access.kind == 'r' ? "read" : "read or write");
  line.text(" at ").hex(access.address).text(", ").number(what.distance);
  line.text(what.distance == 1 ? " byte " : " bytes ");
  line.text(what.kind == Near::kBefore ? "before" : what.kind == Near::kInside ? "inside" : "past the end of");
  line.text(" a block of ").number(what.birth.size).text(" at ").hex(what.birth.address);
  const long failed = put_thread(put_code(line.text(", by "), access.pc)).write();
  return failed != 0 || !owns(access.address) ? failed : write_history(what);
}

}  // namespace

bool explain_fault(uptr address, uptr pc, char kind) {
  Near what;
  if (owns(address)) what = near(address);
  else if (const FindEnd find = find_end.load_relaxed(); find == nullptr || !find(address, what)) return false;
  if (what.kind == Near::kNothing || (what.kind == Near::kInside && what.live)) return false;
  faults.fetch_add_relaxed(1);
  const Access access{address, pc, kind, static_cast<u64>(raw_syscall(SYS_gettid))};
  if (is_repeated(access, what)) return true;
  const u64 number = explained.fetch_add_relaxed(1);
  if (number > kMostExplained) return true;
  // The reader of fd 2 may be gone: the program must end by its fault, not by SIGPIPE.
  HeldPipeSignal held;
  const long failed = number < kMostExplained ? write_fault(access, what)
                                              : Line().text("freeway: further faults are not explained").write();
  if (failed == -EPIPE) held.drop();
  return true;
}

}  // namespace freeway::guard
