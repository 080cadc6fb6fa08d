// SPDX-License-Identifier: MIT
// map.cc: `freeway map`: the frames of each arena in rows of 4 MiB, and where fragmentation is.
#include <algorithm>
#include <cinttypes>
#include <cstdio>
#include <cstring>
#include <sstream>
#include <string>

#include "heap/figures.h"
#include "heap/resident.h"
#include "look.h"
#include "look/words.h"
#include "map_page.h"
#include "os/output_file.h"
#include "pages/page_map.h"
#include "report.h"
#include "subcommands.h"

namespace freeway_command {
namespace {

namespace look = freeway::look;
using freeway::FrameInfo;
using std::uint32_t, std::uint64_t;

std::string escaped(const std::string& text) {
  std::string safe;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '&' || c == '<' || c == '>' || c == '"' || c == '\'' || byte < 0x20 || byte >= 0x7f)
      safe += "&#" + std::to_string(byte < 0x20 || byte == 0x7f ? '?' : byte) + ";";
    else safe += c;
  }
  return safe;
}

void write_data(std::ostream& page, const Heap& heap) {
  page << "const heap = {classes: [0";
  for (unsigned c = 1; c < heap.layout().class_count; ++c) page << "," << heap.description().size_class(c).size;
  page << "],\narenas: [";
  for (const ArenaView& arena : heap.arenas()) {
    page << "{base: \"" << arena.base() << "\", frames: " << arena.committed() / heap.description().frame_bytes()
         << ", runs: [";
    for (const Run& run : runs_of(heap, arena)) {
      page << "[" << run.frame << "," << run.frames << "," << run.kind;
      if (const Superblock* s = run.superblock) {
        const uint32_t blocks = heap.description().size_class(s->size_class).blocks;
        page << "," << s->size_class << "," << blocks - s->free - s->cached << "," << s->cached << "," << blocks;
      }
      page << "],";
    }
    page << "]},\n";
  }
  page << "]};\n";
}

void write_figures(std::ostream& page, const Contents& of) {
  const std::pair<look::Word, uint64_t> figures[] = {{look::kLive, of.live},
                                                     {look::kCached, of.cached},
                                                     {look::kStuck, of.stuck},
                                                     {look::kFree, of.free},
                                                     {look::kMetadata, of.metadata}};
  page << "<div id=\"figures\">";
  for (const auto& [word, bytes] : figures)
    page << "<div title=\"" << word.meaning << "\">" << word.name << "<b>" << in_units(bytes) << "</b></div>";
  page << "</div>\n";
}

// Classes by what is stuck there, and how full their superblocks are.
void write_classes(std::ostream& page, const Heap& heap, const Contents& of) {
  const auto all = class_figures_of(heap);
  std::vector<unsigned> order;
  for (unsigned c = 1; c < all.size(); ++c)
    if (all[c].superblocks != 0) order.push_back(c);
  std::stable_sort(order.begin(), order.end(),
                   [&](unsigned a, unsigned b) { return of.by_class[a].stuck > of.by_class[b].stuck; });
  page << "<h2>Where fragmentation is</h2>\n<p>Stuck: free blocks on superblocks that live blocks keep. The bars count "
          "superblocks by how many of their blocks are live, from under 10 % to over 90 %.</p>\n"
          "<table><tr><th>block size<th>colour<th>superblocks<th>live blocks<th>live<th>cached<th>stuck<th>live of it"
          "<th>superblocks by tenths</tr>\n";
  for (const unsigned c : order) {
    const ClassFigures& f = all[c];
    const Parts& parts = of.by_class[c];
    char share[32];
    std::snprintf(share, sizeof(share), "%.0f %%", 100.0 * parts.live_share());
    page << "<tr data-stuck=\"" << parts.stuck << "\"><td>" << heap.description().size_class(c).size
         << "<td><i class=\"swatch\" data-class=\"" << c << "\"></i><td>" << f.superblocks << "<td>" << f.live()
         << "<td>" << in_units(parts.live) << "<td>" << in_units(parts.cached) << "<td>" << in_units(parts.stuck)
         << "<td>" << share << "<td><span class=\"tenths\">";
    const uint64_t most = *std::max_element(std::begin(f.live_tenths), std::end(f.live_tenths));
    for (const uint64_t count : f.live_tenths)
      page << "<span title=\"" << count << "\" style=\"height:" << (most == 0 ? 0 : count * 100 / most)
           << "%\"></span>";
    page << "</span></tr>\n";
  }
  page << "</table>\n";
}

void write_huge(std::ostream& page, const Heap& heap) {
  const auto outside = heap.outside();
  bool any = false;
  for (const auto& [address, bits] : outside) {
    const FrameInfo info{bits};
    if (info.kind() != FrameInfo::kHuge) continue;
    if (!any)
      page << "<h2>Huge blocks</h2>\n<p>Mappings of their own, beside the "
              "arenas.</p>\n<table><tr><th>address<th>bytes</tr>\n";
    any = true;
    page << "<tr><td>0x" << std::hex << address << std::dec << "<td>"
         << in_units(info.frames() * heap.description().frame_bytes()) << "</tr>\n";
  }
  if (any) page << "</table>\n";
}

std::string page_of(const Heap& heap) {
  std::ostringstream page;
  const std::optional<Contents> resident = resident_of(heap);
  const Contents of = resident ? *resident : sizes_of(heap);
  const std::string name = escaped(heap.memory().program()) + " (" + std::to_string(heap.memory().pid()) + ")";
  page << "<!DOCTYPE html>\n<html lang=\"en\">\n<title>" << name << ": the heap</title>\n"
       << kMapHead << "<h1>" << name << "</h1>\n"
       << "<p>Freeway " << escaped(heap.layout().library) << ", " << look::mode_of(heap.walk()) << "; "
       << (heap.memory().is_live() ? "of a process" : "of a core file")
       << (heap.memory().warning().empty() ? "" : ", truncated") << "; "
       << (resident ? "resident bytes" : "sizes, resident or not") << "</p>\n";
  write_figures(page, of);
  page << "<div id=\"legend\"></div>\n<div id=\"arenas\"></div>\n";
  write_huge(page, heap);
  write_classes(page, heap, of);
  page << "<div id=\"hover\"></div>\n<script>\n";
  write_data(page, heap);
  page << kMapScript << "</script>\n</html>\n";
  return page.str();
}

// A new file, and its name: where there is one already, or somebody else's link, it gets another number.
std::FILE* create_page(int pid, std::string& path) {
  int number = 0;
  const long file = freeway::output_file::create_first(freeway::output_file::kForAll, [&] {
    ++number;
    path = "freeway-map." + std::to_string(pid) + (number == 1 ? "" : "." + std::to_string(number)) + ".html";
    return path.c_str();
  });
  errno = file < 0 ? static_cast<int>(-file) : 0;
  return file < 0 ? nullptr : fdopen(static_cast<int>(file), "w");
}

}  // namespace

int map(const Arguments& arguments) {
  const auto memory = memory_of(arguments.others()[0]);
  const Heap heap(*memory);
  warn_of(*memory);
  const std::string page = page_of(heap);
  std::string path = arguments.value("-o");
  if (path == "-") {
    std::fwrite(page.data(), 1, page.size(), stdout);
    return kOk;
  }
  const bool is_named = arguments.has("-o");
  std::FILE* const file = is_named ? std::fopen(path.c_str(), "w") : create_page(memory->pid(), path);
  const bool is_written = file != nullptr && std::fwrite(page.data(), 1, page.size(), file) == page.size();
  if (file == nullptr || std::fclose(file) != 0 || !is_written)
    throw Failure(kCannot, "map: " + path + " cannot be written: " + std::strerror(errno));
  if (!is_named) std::printf("The map is in %s: open it in a browser.\n", path.c_str());
  return kOk;
}

}  // namespace freeway_command
