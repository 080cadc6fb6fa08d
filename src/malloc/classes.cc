// SPDX-License-Identifier: MIT
// classes.cc: what each size class did, for people and as JSON.
#include "malloc/walk.h"
#include "os/report.h"

namespace freeway {

void write_classes(int fd) {
  Line().text("   size  superblocks       live     cached       free  slow mallocs  slow frees    refills    flushes")
      .write(fd);
  each_account([&](unsigned c, const look::ClassAccount& a) {
    const SizeClass& k = kSizeClasses[c];
    Line().number(k.size, 7).number(a.superblocks, 13).bytes(a.live() * k.size, 11).bytes(a.cached * k.size, 11)
        .bytes(a.free * k.size, 11).number(a.slow_mallocs, 14).number(a.slow_frees, 12).number(a.refills, 11)
        .number(a.flushes, 11).write(fd);
  });
}

void write_classes_json(int fd) {
  bool first = true;
  each_account([&](unsigned c, const look::ClassAccount& a) {
    const SizeClass& k = kSizeClasses[c];
    const u64 live = a.live() * k.size;
    Line line;
    line.text(first ? "  " : "  ,").text("{\"size\": ").number(k.size).text(", \"superblocks\": ").number(a.superblocks)
        .text(", \"live\": ").number(live).text(", \"cached\": ").number(a.cached * k.size)
        .text(", \"free\": ").number(a.free * k.size).write(fd);
    line.text("   , \"blocks\": ").number(a.blocks).text(", \"waste\": ").number(a.superblocks * k.span_bytes() - live)
        .text(", \"occupancy\": [");
    for (unsigned i = 0; i < occupancy::kTenths; ++i) line.text(i == 0 ? "" : ", ").number(a.occupancy[i]);
    line.text("]").write(fd);
    line.text("   , \"slow_mallocs\": ").number(a.slow_mallocs).text(", \"slow_frees\": ").number(a.slow_frees)
        .text(", \"refills\": ").number(a.refills).text(", \"flushes\": ").number(a.flushes).text("}").write(fd);
    first = false;
  });
}

}  // namespace freeway
