// SPDX-License-Identifier: MIT
#include "heap/dump_text.h"

#include <unistd.h>

#include <cerrno>
#include <cinttypes>
#include <cstdio>
#include <cstring>

#include "arch/registers.h"
#include "heap/figures.h"
#include "look.h"
#include "os/output_file.h"
#include "profile/sites.h"
#include "report.h"

namespace freeway_command {

using std::uint64_t;

namespace {

std::string hex(uint64_t value) {
  char text[24];
  std::snprintf(text, sizeof(text), "0x%" PRIx64, value);
  return text;
}

std::string label(const char* key, uint64_t value) { return std::string(" ") + key + "=" + std::to_string(value); }

// "3: 300 [10: 1000] @"
std::string counts(const Tally& live, const Tally& all) {
  const auto pair = [](const Tally& tally) {
    return std::to_string(tally.blocks) + ": " + std::to_string(tally.bytes);
  };
  return pair(live) + " [" + pair(all) + "] @";
}

std::string copy_text(uint64_t number, const StackCopy& copy) {
  constexpr std::size_t kBytesALine = 64;
  constexpr const char* kDigits = "0123456789abcdef";
  std::string text = "#copy " + std::to_string(number) + " arch=" + freeway::Registers::kArchitecture;
  for (std::size_t i = 0; i < copy.registers.size() && i < freeway::Registers::kCount; ++i)
    text += std::string(" ") + freeway::Registers::kNames[i] + "=" + hex(copy.registers[i]);
  for (std::size_t at = 0; at < copy.stack.size(); ++at) {
    if (at % kBytesALine == 0) text += "\n#copy+ ";
    text += {kDigits[copy.stack[at] >> 4], kDigits[copy.stack[at] & 15]};
  }
  return text + "\n";
}

std::string class_text(const Heap& heap) {
  std::string text;
  uint64_t from = 0;
  const std::vector<ClassFigures> all = class_figures_of(heap);
  for (unsigned c = 1; c < all.size(); ++c) {
    const uint64_t size = heap.description().size_class(c).size;
    if (all[c].superblocks != 0)
      text += "#class" + label("from", from) + label("size", size) + label("superblocks", all[c].superblocks) +
              label("sampled", all[c].sampled) + label("bytes", all[c].bytes) + label("live", all[c].live() * size) +
              label("cached", all[c].cached * size) + "\n";
    from = size + 1;
  }
  return text;
}

void write_to(long file, const std::string& text, const std::string& path) {
  bool good = file >= 0;
  int error = good ? 0 : static_cast<int>(-file);
  for (std::size_t done = 0; good && done < text.size();) {
    const ssize_t put = write(static_cast<int>(file), text.data() + done, text.size() - done);
    good = put > 0;
    if (!good) error = errno;
    done += good ? static_cast<std::size_t>(put) : 0;
  }
  if (file >= 0 && close(static_cast<int>(file)) != 0 && good) good = false, error = errno;
  if (!good) throw Failure(kCannot, path + " cannot be written: " + std::strerror(error));
}

}  // namespace

void write_chosen(const std::string& text, const std::string& path) {
  write_to(freeway::output_file::open_chosen(path.c_str(), freeway::output_file::kOwnersAlone), text, path);
}

void write_new(const std::string& text, const std::function<std::string(int)>& name) {
  std::string path;
  int number = 0;
  const long file = freeway::output_file::create_first(freeway::output_file::kOwnersAlone, [&] {
    path = name(++number);
    return path.c_str();
  });
  write_to(file, text, path);
}

std::string harmless(std::string text) {
  for (char& c : text)
    if (static_cast<unsigned char>(c) < ' ' || c == 127) c = '?';
  return text;
}

std::string dump_text(const Samples& samples, const Memory& memory, const std::vector<DumpedSite>& sites,
                      const std::string& about, const std::string& classes) {
  Tally live, all;
  std::string lines, copies;
  for (const DumpedSite& each : sites) {
    live += each.live;
    all += each.all;
    lines += counts(each.live, each.all);
    for (const uint64_t frame : each.site->frames) lines += " " + hex(frame);
    lines += "\n#@";
    if (each.site->tag != 0) lines += label("tag", each.site->tag);
    if (each.site->copy != 0) lines += label("copy", each.site->copy - 1);
    lines += each.labels + "\n";
    if (each.site->copy == 0) continue;
    if (const auto copy = samples.copy(each.site->copy - 1)) copies += copy_text(each.site->copy - 1, *copy);
  }
  return "heap profile: " + counts(live, all) + " heap_v2/" + std::to_string(samples.interval()) +
         "\n# freeway-profile 1\n#" + label("pid", static_cast<uint64_t>(memory.pid())) + label("time_ns", now_ns()) +
         " program=" + harmless(memory.program()) + about + label("interval", samples.interval()) +
         label("samples", samples.taken()) + label("lost_stacks", samples.lost_stacks()) +
         label("lost_blocks", samples.lost_blocks()) + "\n" + classes + lines + copies + "MAPPED_LIBRARIES:\n" +
         memory.maps();
}

std::string profile_of(const Heap& heap) {
  const Samples samples(heap);
  if (!samples.exist()) throw Failure(kCannot, samples.fault());
  const uint64_t now = samples.now(), epoch = samples.peak_epoch();
  std::vector<DumpedSite> sites;
  samples.each_site([&](uint64_t, const Site& site) {
    const freeway::profile::Counts& c = site.counts;
    if (site.interval != samples.interval() || c.allocated == 0) return;
    const uint64_t at_peak = epoch == 0 ? 0 : freeway::profile::peak::bytes_in(epoch, site.at_peak, c.live_bytes());
    sites.push_back({&site,
                     {c.live(), c.live_bytes()},
                     {c.allocated, c.allocated_bytes},
                     label("age_ms", c.age(now)) + label("lifetime_ms", c.lifetime()) +
                         (at_peak != 0 ? label("peak_bytes", at_peak) : "")});
  });
  return dump_text(samples, heap.memory(), sites, epoch != 0 ? label("peak_ms", samples.peak_began()) : "",
                   class_text(heap));
}

}  // namespace freeway_command
