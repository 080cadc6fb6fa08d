// SPDX-License-Identifier: MIT
// helper.cc: makes the helper, wakes it, and does its work.
//
// It never sleeps for longer than a minute. Then it looks whether it is the last thread of its process (whose others
// ended by the bare system call; the C library's exit takes all threads along). A wake that never came, because its
// thread was stopped for good, costs no more than that minute.
#include "background/helper.h"

#include "arch/tsan.h"
#include "background/confinement.h"
#include "background/helper_word.h"
#include "os/machine.h"
#include "os/process.h"
#include "os/report.h"
#include "sync/once.h"

namespace freeway::background {

namespace {

struct Words {
  HelperWord<Machine> helper;
  Atomic<u64> process;     // 0: not known
  Atomic<u64> not_before;  // a time in ns, set when a thread was refused
};
static_assert(sizeof(Words) <= bare_thread::kWordBytes);

constexpr u64 kNever = ~u64{0}, kRetryNs = 20'000'000;

constinit Work work;
constinit bool speaks = false;
constinit Once<Machine> block;

// Null: there can be no helper, or there is no memory for it now.
Words* words() {
  const uptr base = block.get(bare_thread::make_block, bare_thread::drop_block);
  return base == 0 || base == bare_thread::kNoSupport ? nullptr : reinterpret_cast<Words*>(base);
}

// Whether the words belong to this process.
bool is_theirs(Words& mine) {
  const u64 process = process::id();
  u64 known = mine.process.load_relaxed();
  if (known == 0 && mine.process.cas_relaxed(known, process)) return true;
  return known == process;
}

void refuse(const char* why) {
  if (speaks) Line().text("freeway: no background thread: ").text(why).write();
}

// Waits, then does as the request says. False: it cannot even wait, so there can be no helper.
bool attend(u64 ns) {
  const bare_thread::Request request = bare_thread::wait(ns);
  if (request.failed) words()->not_before.store_relaxed(kNever);
  if (request.is_order && (request.value & 1) != 0) work.trim(request.value / 2);
  return !request.failed;
}

int live() {
  HelperWord<Machine>& word = words()->helper;
  Beats beats;
  for (;;) {
    const u64 from = process::coarse_time_ns();
    const Care care = beats.next(word.ticks(), from);
    if (care == Care::kSleep) {
      if (const int status = bare_thread::status_if_last(); status >= 0) return status;
      if (!word.lie_down(beats.seen())) continue;
      if (!attend(kLongNs)) return 0;
      word.rise();
    } else {
      const bool complete = work.care(care);
      beats.done(care, from, process::coarse_time_ns(), complete);
      if (!attend(kBeatNs)) return 0;
    }
  }
}

int begin() {
  bare_thread::introduce("freeway");
  if (confine()) return live();
  words()->not_before.store_relaxed(kNever);
  refuse("a thread cannot be confined here (seccomp)");
  return 0;
}

FREEWAY_NOINLINE void make(Words& mine) {
  const u64 now = process::coarse_time_ns();
  if (now < mine.not_before.load_relaxed() || !work.is_worth_it() || !is_theirs(mine)) return;
  process::claimant();                        // the helper must not be the first to ask in this process (process.h)
  const bare_thread::SignalsBlocked blocked;  // else a handler could fork, and the child would have two makers
  if (!mine.helper.begin()) return;
  mine.not_before.store_relaxed(now + kRetryNs);  // a filter may kill it at once
  if (bare_thread::make(block.peek(), mine.helper.thread(), begin)) return;
  mine.not_before.store_relaxed(now + kLongNs);
  mine.helper.refused();
}

}  // namespace

void start(const Work& given, bool speak) {
  work = given;
  speaks = speak;
  if (tsan::fixes_addresses()) return refuse("a sanitizer knows all threads");
  if (words() != nullptr) know_process();
  else if (block.peek() == bare_thread::kNoSupport) refuse("the kernel wipes no memory at forks");
}

void know_process() {
  if (block.peek() > bare_thread::kNoSupport) is_theirs(*words());
}

void tick() {
  Words* mine = work.care == nullptr ? nullptr : words();
  if (mine == nullptr || process::is_bare()) return;  // the helper's own slow paths are not the program's
  const Due due = mine->helper.tick();
  if (due == Due::kHelper) make(*mine);
  if (due != Due::kWake) return;
  const u32 thread = mine->helper.id();
  if (thread != 0 && !bare_thread::wake(mine->process.load_relaxed(), thread)) mine->helper.not_woken();
}

}  // namespace freeway::background
