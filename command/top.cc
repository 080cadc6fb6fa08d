// SPDX-License-Identifier: MIT
// top.cc: `freeway top`: what a heap holds, how it changes, and its largest classes.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <deque>
#include <string>

#include "heap/figures.h"
#include "heap/resident.h"
#include "largest_stacks.h"
#include "look.h"
#include "look/words.h"
#include "process.h"
#include "report.h"
#include "screen.h"
#include "subcommands.h"

namespace freeway_command {
namespace {

namespace look = freeway::look;
using std::uint64_t;

constexpr double kMinute = 60;
constexpr std::size_t kColumns = 30;  // of a sparkline
constexpr std::size_t kClasses = 10;
constexpr double kRest = 20;  // times what a look took: large heaps take long

struct Sample {
  double at = 0;  // seconds
  freeway_stats_t stats = {};
  uint64_t process = 0;  // resident bytes
  Contents heap;
};

struct Order {
  const char* name;
  uint64_t (*key)(uint64_t size, const Parts& parts);
};

constexpr Order kOrders[] = {
    {"resident", [](uint64_t, const Parts& parts) { return parts.all(); }},
    {look::kLive.name, [](uint64_t, const Parts& parts) { return parts.live; }},
    {look::kCached.name, [](uint64_t, const Parts& parts) { return parts.cached; }},
    {look::kStuck.name, [](uint64_t, const Parts& parts) { return parts.stuck; }},
    {"size", [](uint64_t size, const Parts&) { return size; }},
};

class Top {
 public:
  Top(const Screen& screen, double interval) : screen_(screen), interval_(interval) {}

  // `waits`: for the largest stacks, too.
  void look(const Heap& heap, bool waits) {
    stacks_.look(heap, waits);
    const std::optional<Contents> resident = resident_of(heap);
    is_resident_ = resident.has_value();
    Sample now{static_cast<double>(now_ns()) / 1e9, stats_of(heap.walk()), resident_bytes(heap.memory()).value_or(0),
               resident ? *resident : sizes_of(heap)};
    while (!samples_.empty() && samples_.front().at < now.at - kMinute) samples_.pop_front();
    samples_.push_back(now);
    title_ = heap.memory().program() + " (" + std::to_string(heap.memory().pid()) + ")";
    mode_ = std::string(", Freeway ") + heap.layout().library + ", " + look::mode_of(heap.walk());
    classes_ = heap.accounts();
    sizes_.clear();
    for (unsigned c = 0; c < classes_.size(); ++c) sizes_.push_back(c == 0 ? 0 : heap.description().size_class(c).size);
  }
  bool has_looked() const { return !samples_.empty(); }

  // Of the last look.
  std::vector<std::string> page() const {
    std::vector<std::string> lines{screen_.in(1, title_) + mode_ + (is_resident_ ? "" : "; sizes, resident or not")};
    add_figure(lines, "resident", 35, [](const Sample& s) { return s.process; });
    add_figure(lines, look::kLive.name, 32, [](const Sample& s) { return s.heap.live; });
    add_figure(lines, look::kCached.name, 36, [](const Sample& s) { return s.heap.cached; });
    add_figure(lines, look::kStuck.name, 33, [](const Sample& s) { return s.heap.stuck; });
    add_figure(lines, look::kFree.name, 34, [](const Sample& s) { return s.heap.free; });
    add_rates(lines);
    if (!stacks_.lines().empty()) lines.push_back("");
    lines.insert(lines.end(), stacks_.lines().begin(), stacks_.lines().end());
    lines.push_back("");
    add_classes(lines);
    if (screen_.has_keys())
      lines.push_back(std::string("q quit   s sort: ") + kOrders[order_].name + "   p " +
                      (is_paused ? "go on (paused)" : "pause"));
    return lines;
  }

  void sort_otherwise() { order_ = (order_ + 1) % std::size(kOrders); }
  bool is_paused = false;

 private:
  template <class F> void add_figure(std::vector<std::string>& lines, const char* name, int colour, F&& value) const {
    char text[64];
    std::snprintf(text, sizeof(text), "  %-9s %10s  ", name, in_units(value(samples_.back())).c_str());
    lines.push_back(text + screen_.in(colour, screen_.sparkline(history(value))));
  }

  // The last minute, or as much as is known of it: of what fell into one column the last.
  template <class F> std::vector<double> history(F&& value) const {
    const std::size_t columns =
        std::max<std::size_t>(1, std::min(kColumns, static_cast<std::size_t>(kMinute / interval_)));
    std::vector<double> values;
    std::size_t last = columns;
    for (const Sample& each : samples_) {
      const double age = samples_.back().at - each.at;
      const auto column = static_cast<std::size_t>(std::floor(age / kMinute * static_cast<double>(columns)));
      if (column != last || values.empty()) values.push_back(static_cast<double>(value(each)));
      else values.back() = static_cast<double>(value(each));
      last = column;
    }
    return values;
  }

  void add_rates(std::vector<std::string>& lines) const {
    if (samples_.size() < 2) return;  // of one look nothing is known
    const auto rate = [&](uint64_t freeway_stats_t::* counter) {
      const Sample &before = samples_[samples_.size() - 2], &now = samples_.back();
      const double seconds = std::max(now.at - before.at, 1e-3);
      const uint64_t more = now.stats.*counter > before.stats.*counter ? now.stats.*counter - before.stats.*counter : 0;
      return std::to_string(std::llround(static_cast<double>(more) / seconds)) + "/s";
    };
    lines.push_back("  slow path " + rate(&freeway_stats_t::slow_mallocs) + " mallocs, " +
                    rate(&freeway_stats_t::slow_frees) + " frees; batches: " + rate(&freeway_stats_t::refills) +
                    " from superblocks, " + rate(&freeway_stats_t::flushes) + " back");
  }

  // The first by the order that was chosen.
  void add_classes(std::vector<std::string>& lines) const {
    std::vector<unsigned> order;
    for (unsigned c = 1; c < classes_.size(); ++c)
      if (classes_[c].superblocks != 0) order.push_back(c);
    const auto& parts = samples_.back().heap.by_class;
    const auto key = [&](unsigned c) { return kOrders[order_].key(sizes_[c], parts[c]); };
    std::stable_sort(order.begin(), order.end(), [&](unsigned a, unsigned b) { return key(a) > key(b); });
    const std::size_t others = lines.size() + 1 + screen_.has_keys();
    const std::size_t room = screen_.rows() > others ? screen_.rows() - others : 0;
    order.resize(std::min({order.size(), kClasses, room}));
    char text[160];
    std::snprintf(text, sizeof(text), "%7s %12s %12s %12s %12s   %s", "size", "superblocks", look::kLive.name,
                  look::kCached.name, look::kStuck.name, "live of it");
    lines.push_back(screen_.in(1, text));
    for (const unsigned c : order) {
      std::snprintf(text, sizeof(text), "%7lu %12lu %12s %12s %12s   ", sizes_[c], classes_[c].superblocks,
                    in_units(parts[c].live).c_str(), in_units(parts[c].cached).c_str(),
                    in_units(parts[c].stuck).c_str());
      lines.push_back(text + screen_.in(32, screen_.bar(parts[c].live_share(), 18)));
    }
  }

  const Screen& screen_;
  double interval_;
  std::deque<Sample> samples_;
  std::string title_, mode_;
  bool is_resident_ = true;  // else sizes: the kernel does not tell
  std::vector<look::ClassAccount> classes_;
  std::vector<uint64_t> sizes_;  // of the blocks of each class
  std::size_t order_ = 0;
  LargestStacks stacks_;
};

double seconds_of(const Arguments& arguments) {
  const std::string text = arguments.value("--interval", "1");
  char* rest = nullptr;
  const double seconds = std::strtod(text.c_str(), &rest);
  if (text.empty() || *rest != 0 || !(seconds >= 0.05 && seconds <= 86400))
    arguments.refuse("--interval wants seconds, 0.05 to 86400, not '" + text + "'");
  return seconds;
}

// Of a CPU's time.
double own_seconds() { return static_cast<double>(std::clock()) / CLOCKS_PER_SEC; }

}  // namespace

int top(const Arguments& arguments) {
  const double interval = seconds_of(arguments);
  const bool once = arguments.has("--once");
  const auto memory = memory_of(arguments.others()[0]);
  if (!memory->is_live())
    throw Failure(kCannot, "top: a core file does not change (`freeway stat` and `freeway classes` tell of it)");
  { Description known(*memory); }  // what is refused is refused before the screen is another
  Screen screen(!once);
  Top pages(screen, interval);
  try {
    for (int key = Screen::kNoKey; key != 'q' && key != Screen::kEnd;) {
      const double before = own_seconds();
      if (!pages.is_paused && key == Screen::kNoKey) pages.look(Heap(*memory), once);
      screen.show(pages.page());
      if (once) break;
      key = screen.wait(std::max(interval, kRest * (own_seconds() - before)));
      if (key == 's') pages.sort_otherwise();
      if (key == 'p') pages.is_paused = !pages.is_paused;
    }
  } catch (const Failure&) {
    if (!pages.has_looked() || !has_ended(memory->pid(), memory->pid())) throw;
  }
  return kOk;
}

}  // namespace freeway_command
