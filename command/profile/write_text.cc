// SPDX-License-Identifier: MIT
// write_text.cc: the table for terminals.
//
//        live   share   blocks     age   where
//    9.54 MiB  87.3 %   10,000   1.2 s   grow(int) (leak.cc:12)
//                                        main (leak.cc:40)
#include <algorithm>
#include <cmath>

#include "callers.h"
#include "readable.h"
#include "waste.h"
#include "write.h"

namespace freeway_profile {
namespace {

constexpr std::size_t kMostFrames = 8;  // of a stack
constexpr std::size_t kLongName = 80;   // characters

std::string in_words(double value, Measure measure) {
  return is_space(measure) ? bytes_in_words(value) : count_in_words(value);
}

std::string signed_in_words(double value, Measure measure) { return (value > 0 ? "+" : "") + in_words(value, measure); }

// A terminal obeys control characters, and a name may have any.
std::string harmless(std::string text) {
  std::replace_if(text.begin(), text.end(), [](unsigned char c) { return c < ' ' || c == 127; }, '?');
  return text;
}

// Of long names of templates, what they are made for is left out: "std::map<...>::insert".
std::string without_arguments(const std::string& name) {
  std::string out;
  int depth = 0;
  for (std::size_t i = 0; i < name.size(); ++i) {
    const bool is_arrow = i > 0 && name[i] == '>' && name[i - 1] == '-';
    if (name[i] == '<' && depth++ == 0) out += "<...";
    if (name[i] == '>' && !is_arrow && depth > 0) --depth;
    if (depth == 0) out += name[i];
  }
  return depth == 0 ? out : name;
}

std::string what_is_counted(Measure measure) {
  switch (measure) {
    case kInuseSpace: return "live bytes";
    case kInuseObjects: return "live blocks";
    case kAllocSpace: return "allocated bytes";
    case kWaste: return "waste that live blocks pin";
    case kPeakSpace: return "live bytes at the peak";
    case kPeakObjects: return "live blocks at the peak";
    default: return "allocated blocks";
  }
}

// Whether all blocks were sampled, so that chance has no part in it.
bool is_exact(const Dump& dump) { return dump.interval <= 1; }

// Which classes the waste is in; what of it nobody is named for.
std::string about_waste(const Dump& dump, const Estimate& attributed) {
  constexpr std::size_t kMostClasses = 3;
  if (dump.classes.empty()) return "waste: not known, since the dump does not say what superblocks hold\n";
  std::vector<SizeClass> classes = dump.classes;
  std::stable_sort(classes.begin(), classes.end(),
                   [](const SizeClass& a, const SizeClass& b) { return a.waste() > b.waste(); });
  double bytes = 0, shown = 0;
  for (const SizeClass& each : classes) bytes += static_cast<double>(each.bytes);
  const double all = waste_of(dump), others = all - attributed.value[kWaste];
  std::string text = "waste: " + bytes_in_words(all) + " of " + bytes_in_words(bytes) + " in superblocks";
  for (std::size_t i = 0; i < std::min(kMostClasses, classes.size()) && classes[i].waste() != 0; ++i) {
    const double waste = static_cast<double>(classes[i].waste());
    text += (i == 0 ? ": " : ", ") + bytes_in_words(waste) + " between blocks of " + std::to_string(classes[i].size);
    shown += waste;
  }
  if (all - shown >= 1) text += ", " + bytes_in_words(all - shown) + " between others";
  if (others >= 1) text += "; " + bytes_in_words(others) + " of it where no live block was sampled";
  if (lacks_shares(dump)) text += "\nwhere most samples would lie is not known: all superblocks count as equally full";
  return text + "\n";
}

std::string header(const Profile& profile, const Stacks& stacks, Measure measure) {
  const Dump& dump = profile.dump;
  const auto about = [&dump](const char* key, const char* before) {
    const auto found = dump.about.find(key);
    return found == dump.about.end() ? "" : before + harmless(found->second);
  };
  const bool is_of_leaks = dump.number("leaks") != 0;
  std::string text = (is_of_leaks ? "leaks" : "heap profile") + about("program", " of ") + about("pid", ", process ");
  if (const std::uint64_t time = dump.number("time_ns"); time != 0) text += ", " + date_in_words(time);
  text += "\n";
  const auto sum = [&](const Estimate& estimate, Measure bytes, Measure blocks) {
    const std::string count = count_in_words(estimate.value[blocks]);
    return bytes_in_words(estimate.value[bytes]) +
           (is_exact(dump) ? "" : " ± " + bytes_in_words(estimate.deviation(bytes))) + " in " + count +
           (count == "1" ? " block" : " blocks");
  };
  text += (is_of_leaks ? "leaked: " : "live: ") + sum(stacks.now(), kInuseSpace, kInuseObjects);
  text += (is_of_leaks ? "; allocated by these stacks: " : "; allocated so far: ") +
          sum(stacks.now(), kAllocSpace, kAllocObjects) + "\n";
  if (dump.has_peak())
    text += "peak: " + sum(stacks.now(), kPeakSpace, kPeakObjects) + ", " +
            time_in_words(static_cast<double>(dump.number("peak_ms"))) + " after the profile began\n";
  if (stacks.has_base()) text += "before: live: " + sum(stacks.before(), kInuseSpace, kInuseObjects) + "\n";
  if (measure == kWaste) text += about_waste(dump, stacks.now());
  text += dump.interval > 1
              ? "estimated from one sample in " + bytes_in_words(static_cast<double>(dump.interval)) + " allocated"
              : "all blocks were sampled";
  for (const char* lost : {"lost_stacks", "lost_blocks"})
    if (const std::uint64_t count = dump.number(lost); count != 0)
      text += "; not counted: " + std::to_string(count) +
              (lost[5] == 's' ? " samples whose stacks found no room" : " blocks that found no room");
  return text + "\n\nby " + what_is_counted(measure) + (stacks.has_base() ? ", the largest changes" : "") + ":\n";
}

// A column of the table: as wide as its widest cell.
struct Column {
  std::string name;
  std::vector<std::string> cells;
};

// Some characters take several bytes, and one place.
std::size_t width_of(const std::string& text) {
  return static_cast<std::size_t>(std::count_if(text.begin(), text.end(), [](char c) { return (c & 0xc0) != 0x80; }));
}

std::string right(const std::string& text, std::size_t width) {
  return std::string(width - std::min(width, width_of(text)), ' ') + text;
}

std::vector<Column> columns_of(const Stacks& stacks, const std::vector<const Stack*>& shown, Measure measure,
                               bool exact) {
  const bool is_live = is_of_live(measure), is_peak = is_of_peak(measure);
  const Measure counted = is_peak ? kPeakObjects : is_live ? kInuseObjects : kAllocObjects;
  const char* const name = measure == kWaste ? "waste" : is_peak ? "at peak" : is_live ? "live" : "allocated";
  const bool by_bytes = is_space(measure);
  std::vector<Column> columns = {{stacks.has_base() ? "change" : name, {}}};
  if (!exact) columns.push_back({"±", {}});
  columns.push_back({stacks.has_base() ? "now" : "share", {}});
  if (by_bytes) columns.push_back({"blocks", {}});
  columns.push_back({is_peak ? "live" : is_live ? "age" : "lifetime", {}});
  for (const Stack* each : shown) {
    std::size_t i = 0;
    const double change = each->change(measure);
    columns[i++].cells.push_back(stacks.has_base() ? signed_in_words(change, measure) : in_words(change, measure));
    if (!exact)
      columns[i++].cells.push_back(
          in_words(std::sqrt(each->now.variance[measure] + each->before.variance[measure]), measure));
    columns[i++].cells.push_back(stacks.has_base() ? in_words(each->now.value[measure], measure)
                                                   : percent(change, stacks.now().value[measure]));
    if (by_bytes)
      columns[i++].cells.push_back(stacks.has_base() ? signed_in_words(each->change(counted), counted)
                                                     : count_in_words(each->now.value[counted]));
    const Mean& mean = is_live ? each->age_ms : each->lifetime_ms;
    const Measure end = is_space(measure) ? kInuseSpace : kInuseObjects;
    if (is_peak) columns[i++].cells.push_back(in_words(each->now.value[end], end));
    else columns[i++].cells.push_back(mean.is_known() ? time_in_words(mean.value()) : "");
  }
  return columns;
}

// "begin_session (server.c:57)"
std::string frame_text(const Function& function, int line) {
  const std::string place = function.file.substr(function.file.rfind('/') + 1);
  const std::string name = function.name.size() > kLongName ? without_arguments(function.name) : function.name;
  return harmless(name + (place.empty() ? "" : " (" + place + (line == 0 ? "" : ":" + std::to_string(line)) + ")"));
}

std::vector<std::string> frames_of(const Stacks& stacks, const Stack& stack) {
  std::vector<std::string> lines;
  const std::vector<std::size_t> all = frames_to_show(stacks, stack);
  // One line that says "1 more" is no shorter than that one.
  const std::size_t shown = all.size() <= kMostFrames + 1 ? all.size() : kMostFrames;
  for (std::size_t row = 0; row < shown; ++row) {
    const std::size_t i = all[row];
    lines.push_back(frame_text(stacks.functions()[stack.functions[i]], stack.lines[i]));
  }
  if (shown < all.size()) lines.push_back("... and " + std::to_string(all.size() - shown) + " more");
  if (lines.empty()) lines.push_back("(no stack)");
  return lines;
}

using Lines = std::vector<std::vector<std::string>>;  // of each row

std::string table(const std::vector<Column>& columns, const Lines& where) {
  std::vector<std::size_t> widths;
  for (const Column& column : columns) {
    widths.push_back(width_of(column.name));
    for (const std::string& cell : column.cells) widths.back() = std::max(widths.back(), width_of(cell));
  }
  std::string text, margin;
  for (std::size_t i = 0; i < columns.size(); ++i) {
    text += "  " + right(columns[i].name, widths[i]);
    margin += std::string(2 + widths[i], ' ');
  }
  text += "  where\n";
  for (std::size_t row = 0; row < where.size(); ++row) {
    for (std::size_t i = 0; i < columns.size(); ++i) text += "  " + right(columns[i].cells[row], widths[i]);
    bool is_first = true;
    for (const std::string& line : where[row]) {
      text += (is_first ? "  " : margin + "  ") + line + "\n";
      is_first = false;
    }
  }
  return text;
}

// How many rows of the same kind are not shown.
std::string about_rest(std::size_t shown, std::size_t all) {
  return shown < all ? "and " + std::to_string(all - shown) + " smaller ones (-n shows more)\n" : "";
}

std::string table_of_stacks(const Stacks& stacks, Measure measure, std::size_t most, bool exact) {
  std::vector<const Stack*> shown = stacks.largest(measure);
  const std::size_t all = shown.size();
  shown.resize(std::min(all, most));
  Lines lines;
  for (const Stack* each : shown) lines.push_back(frames_of(stacks, *each));
  return table(columns_of(stacks, shown, measure, exact), lines) + about_rest(shown.size(), all);
}

std::string table_of_functions(const Stacks& stacks, Measure measure, std::size_t most, bool exact) {
  std::size_t all = 0;
  const std::vector<Caller> callers = bottom_up(stacks, measure, most, all);
  std::vector<const Stack*> sums;
  Lines lines;
  for (const Caller& each : callers) {
    sums.push_back(&each.sum);
    const std::string before = each.depth == 0 ? "" : std::string(2 * each.depth, ' ') + "← ";
    if (each.others != 0)
      lines.push_back({before + std::to_string(each.others) + " smaller caller" + (each.others == 1 ? "" : "s")});
    else if (each.sum.functions.empty()) lines.push_back({before + "(no stack)"});
    else lines.push_back({before + frame_text(stacks.functions()[each.sum.functions[0]], 0)});
  }
  std::vector<Column> columns = columns_of(stacks, sums, measure, exact);
  for (std::size_t row = 0; row < callers.size(); ++row)
    for (Column& column : columns)
      if (callers[row].is_only) column.cells[row].clear();
  return table(columns, lines) + about_rest(std::min(most, all), all);
}

}  // namespace

std::string write_text(const Profile& profile, const Stacks& stacks, Measure measure, const TextForm& form) {
  const std::string text = header(profile, stacks, measure);
  if (stacks.largest(measure).empty()) {
    if (stacks.has_base()) return text + "nothing has changed\n";
    if (measure == kWaste) return text + "nothing is pinned\n";
    if (stacks.now().value[kAllocObjects] > 0)
      return text + "nothing was live (--sample alloc_space: what was allocated)\n";
    return text + "nothing was sampled\n";
  }
  const bool exact = is_exact(profile.dump) && !stacks.has_base();
  return text + (form.is_bottom_up ? table_of_functions : table_of_stacks)(stacks, measure, form.most, exact);
}

}  // namespace freeway_profile
