// SPDX-License-Identifier: MIT
#include "profile/dump.h"

#include <string.h>

#include "os/process.h"
#include "os/report.h"
#include "os/text_file.h"
#include "profile/profiler.h"

namespace freeway::profile {
namespace {

constinit Atomic<const Superblocks*> superblocks;

// Text that is written in pieces, up to the first error.
class Text {
 public:
  explicit Text(int fd) : fd_(fd) {}

  Text& text(const char* s) { return put(s, strlen(s)); }
  FREEWAY_NOINLINE Text& number(u64 value) { return put(Line().number(value)); }
  FREEWAY_NOINLINE Text& hex(u64 value) { return put(Line().hex(value)); }
  FREEWAY_NOINLINE Text& quoted(const char* s) { return put(Line().quoted(s, 100)); }
  Text& put(const Line& line) { return put(line.data(), line.size()); }
  Text& put(const char* data, std::size_t bytes) {
    if (used_ + bytes > sizeof(buffer_)) flush();
    if (bytes > sizeof(buffer_)) return write(data, bytes), *this;
    memcpy(buffer_ + used_, data, bytes);
    used_ += bytes;
    return *this;
  }
  // The error of the first failed write, or 0.
  int finish() {
    flush();
    return error_;
  }
  int error() const { return error_; }

 private:
  void flush() {
    write(buffer_, used_);
    used_ = 0;
  }
  void write(const char* data, std::size_t bytes) {
    if (error_ == 0) error_ = static_cast<int>(-write_all(fd_, data, bytes));
  }

  int fd_;
  int error_ = 0;
  std::size_t used_ = 0;
  char buffer_[512];
};

// clang-format off: lines of text stay lines
void put_counts(Text& text, const Counts& c) {
  text.number(c.live()).text(": ").number(c.live_bytes()).text(" [").number(c.allocated).text(": ")
      .number(c.allocated == 0 ? 0 : c.allocated_bytes).text("] @");
}
// clang-format on

// Calls f(view, number) for each site of the profile. Not inlined: handlers' stacks are small.
template <class F> FREEWAY_NOINLINE void each_site(u64 interval, F&& f) {
  const Sites<Machine>& table = process_profile.sites;
  const u64 epoch = process_profile.peak.epoch(interval);
  Sites<Machine>::View view;
  for (u32 i = 0; i < table.count(); ++i)
    if (table.look(i, view, epoch) && view.interval == interval) f(view, i);
}

Counts sum_of(u64 interval) {
  Counts sum;
  u64 live = 0, live_bytes = 0;
  each_site(interval, [&](const auto& view, u32) {
    live += view.counts.live();
    live_bytes += view.counts.live_bytes();
    sum.allocated += view.counts.allocated;
    sum.allocated_bytes += view.counts.allocated_bytes;
  });
  sum.freed = sum.allocated - live;
  sum.freed_bytes = sum.allocated_bytes - live_bytes;
  return sum;
}

// clang-format off: lines of text stay lines
FREEWAY_NOINLINE void put_classes(Text& text) {
  const Superblocks* const known = superblocks.load_relaxed();
  if (known == nullptr) return;
  const auto put = [](void* to, const ClassFigures& c) {
    static_cast<Text*>(to)->text("#class from=").number(c.from).text(" size=").number(c.size).text(" superblocks=")
        .number(c.superblocks).text(" sampled=").number(c.sampled).text(" bytes=").number(c.bytes).text(" live=")
        .number(c.live).text(" cached=").number(c.cached).text("\n");
  };
  known->each_class(put, &text);
}
// clang-format on

FREEWAY_NOINLINE void put_pins(Text& text) {
  const Superblocks* const known = superblocks.load_relaxed();
  if (known == nullptr) return;
  process_profile.blocks.each([&](const LiveBlock& block) {
    if (block.place == 0 || text.error() != 0) return;
    const Pin pin = known->pinned(block.address, block.place, block.bytes);
    text.text("#pin ").number(block.site).text(" ").number(pin.share).text(" size=").number(pin.size).text("\n");
  });
}

FREEWAY_NOINLINE void put_mappings(Text& text) {
  text.text("MAPPED_LIBRARIES:\n");
  TextFile mappings("/proc/self/maps");
  char piece[256];
  while (const std::size_t bytes = mappings.read(piece, sizeof(piece))) text.put(piece, bytes);
}

FREEWAY_NOINLINE void put_copy(Text& text, u32 number) {
  constexpr std::size_t kBytesALine = 64;
  const StackCopies<Machine>& copies = process_profile.copies;
  text.text("#copy ").number(number).text(" arch=").text(Registers::kArchitecture);
  for (unsigned i = 0; i < Registers::kCount; ++i)
    text.text(" ").text(Registers::kNames[i]).text("=").hex(copies.register_of(number, i));
  text.text("\n");
  for (std::size_t at = 0; at < copies.length(number) && text.error() == 0; ++at) {
    if (at % kBytesALine == 0) text.text(at == 0 ? "#copy+ " : "\n#copy+ ");
    const u64 byte = copies.word(number, at) >> (at % 8 * 8) & 0xff;
    const char digits[] = {"0123456789abcdef"[byte >> 4], "0123456789abcdef"[byte & 15]};
    text.put(digits, sizeof(digits));
  }
  text.text("\n");
}

}  // namespace

void know_superblocks(const Superblocks* known) { superblocks.store_relaxed(known); }

int dump(int fd) {
  Text text(fd);
  const Figures all = figures();
  const u64 interval = all.interval != 0 ? all.interval : kUsualInterval, now = now_ms();
  put_counts(text.text("heap profile: "), sum_of(interval));
  // clang-format off: lines of text stay lines
  text.text(" heap_v2/").number(interval).text("\n# freeway-profile 1\n# pid=").number(process::id()).text(" time_ns=")
      .number(process::wall_time_ns()).text(" program=").quoted(process::program_name()).text(" interval=")
      .number(interval).text(" samples=").number(all.samples).text(" lost_stacks=").number(all.lost_stacks)
      .text(" lost_blocks=").number(all.lost_blocks);
  // clang-format on
  if (process_profile.peak.epoch(interval) != 0) text.text(" peak_ms=").number(process_profile.peak.began_ms());
  text.text("\n");
  put_classes(text);
  each_site(interval, [&](const auto& view, u32 number) {
    if (view.counts.allocated == 0 || text.error() != 0) return;
    put_counts(text, view.counts);
    for (unsigned f = 0; f < view.stack.depth; ++f) text.text(" ").hex(view.stack.frames[f]);
    text.text("\n#@ site=").number(number);
    if (view.tag != 0) text.text(" tag=").number(view.tag);
    if (view.copy != 0) text.text(" copy=").number(view.copy - 1);
    text.text(" age_ms=").number(view.counts.age(now)).text(" lifetime_ms=").number(view.counts.lifetime());
    if (view.at_peak != 0) text.text(" peak_bytes=").number(view.at_peak);
    text.text("\n");
  });
  if (text.error() == 0) put_pins(text);
  each_site(interval, [&](const auto& view, u32) {
    if (view.copy != 0 && text.error() == 0) put_copy(text, static_cast<u32>(view.copy - 1));
  });
  if (text.error() == 0) put_mappings(text);
  return text.finish();
}

}  // namespace freeway::profile
