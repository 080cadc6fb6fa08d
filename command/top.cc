// SPDX-License-Identifier: MIT
// top.cc: `freeway top PID [--interval S] [--once]`: what a heap holds, how it changes, and its largest classes.
#include "top.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <string>

#include "heap/figures.h"
#include "look.h"
#include "report.h"
#include "screen.h"

namespace freeway_command {
namespace {

using std::uint64_t;

constexpr const char* kUsage = "freeway top PID [--interval SECONDS] [--once]";
constexpr double kMinute = 60;
constexpr std::size_t kColumns = 30;  // of a sparkline
constexpr std::size_t kClasses = 10;

struct Sample {
  double at = 0;  // seconds
  freeway_stats_t stats = {};
  uint64_t resident = 0;
};

class Top {
 public:
  Top(const Screen& screen, double interval) : screen_(screen), interval_(interval) {}

  std::vector<std::string> page(const Heap& heap) {
    Sample now{static_cast<double>(now_ns()) / 1e9, stats_of(heap.walk()), resident_bytes(heap.memory()).value_or(0)};
    while (!samples_.empty() && samples_.front().at < now.at - kMinute) samples_.pop_front();
    samples_.push_back(now);
    std::vector<std::string> lines{screen_.in(1, heap.memory().program()) + " (" + std::to_string(heap.memory().pid()) +
                                   "), Freeway " + heap.layout().library + ", " + freeway::look::mode_of(heap.walk())};
    add_figure(lines, "live", 32, [](const Sample& s) { return s.stats.live; });
    add_figure(lines, "cached", 36, [](const Sample& s) { return s.stats.cached; });
    add_figure(lines, "dirty", 33, [](const Sample& s) { return s.stats.dirty; });
    add_figure(lines, "resident", 35, [](const Sample& s) { return s.resident; });
    add_rates(lines);
    add_classes(lines, heap);
    return lines;
  }

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
    const auto rate = [&](uint64_t freeway_stats_t::* counter) -> std::string {
      if (samples_.size() < 2) return "?";
      const Sample &before = samples_[samples_.size() - 2], &now = samples_.back();
      const double seconds = std::max(now.at - before.at, 1e-3);
      const uint64_t more = now.stats.*counter > before.stats.*counter ? now.stats.*counter - before.stats.*counter : 0;
      return std::to_string(std::llround(static_cast<double>(more) / seconds)) + "/s";
    };
    lines.push_back("  slow path " + rate(&freeway_stats_t::slow_mallocs) + " mallocs, " +
                    rate(&freeway_stats_t::slow_frees) + " frees; batches " + rate(&freeway_stats_t::refills) +
                    " in, " + rate(&freeway_stats_t::flushes) + " out");
    lines.push_back("");
  }

  // Those whose superblocks have the most bytes.
  void add_classes(std::vector<std::string>& lines, const Heap& heap) const {
    const auto all = class_figures_of(heap);
    std::vector<unsigned> order;
    for (unsigned c = 1; c < all.size(); ++c)
      if (all[c].superblocks != 0) order.push_back(c);
    std::stable_sort(order.begin(), order.end(), [&](unsigned a, unsigned b) { return all[a].bytes > all[b].bytes; });
    order.resize(std::min(order.size(), kClasses));
    char text[160];
    std::snprintf(text, sizeof(text), "%7s %12s %12s %12s %12s   %s", "size", "superblocks", "live", "cached", "waste",
                  "live of it");
    lines.push_back(screen_.in(1, text));
    for (const unsigned c : order) {
      const ClassFigures& f = all[c];
      const uint64_t size = heap.description().size_class(c).size;
      std::snprintf(text, sizeof(text), "%7lu %12lu %12s %12s %12s   ", size, f.superblocks,
                    in_units(f.live() * size).c_str(), in_units(f.cached * size).c_str(), in_units(f.waste).c_str());
      lines.push_back(
          text + screen_.in(32, screen_.bar(static_cast<double>(f.live() * size) / static_cast<double>(f.bytes), 20)));
    }
  }

  const Screen& screen_;
  double interval_;
  std::deque<Sample> samples_;
};

double seconds_of(const std::string& text) {
  char* rest = nullptr;
  const double seconds = std::strtod(text.c_str(), &rest);
  if (text.empty() || *rest != 0 || !(seconds >= 0.05 && seconds <= 86400))
    throw Failure(kWrongValue, "top: --interval wants seconds, 0.05 to 86400, not '" + text + "'");
  return seconds;
}

}  // namespace

int top(char** argv) {
  return look([argv] {
    double interval = 1;
    bool once = false;
    const auto arguments =
        read_arguments(argv,
                       {{"--interval", true, [&](const std::string& text) { interval = seconds_of(text); }},
                        {"--once", false, [&](const std::string&) { once = true; }}},
                       kUsage);
    if (arguments.size() != 1) throw Failure(kOwnFailure, std::string("top: of one process (") + kUsage + ")");
    const auto memory = memory_of(arguments[0]);
    if (!memory->is_live())
      throw Failure(kOwnFailure, "top: a core file does not change (`freeway stat` and `freeway classes` tell of it)");
    { Description known(*memory); }  // what is refused is refused before the screen is another
    Screen screen(!once);
    Top pages(screen, interval);
    do screen.show(pages.page(Heap(*memory)));
    while (!once && screen.wait(interval));
    return static_cast<int>(kOk);
  });
}

}  // namespace freeway_command
