// SPDX-License-Identifier: MIT
// classes.cc: what each size class did, for people and as JSON.
#include "malloc/heap.h"
#include "os/report.h"

namespace freeway {
namespace {

template <class F>
void each_used_class(Heap& owner, F&& f) {
  for (unsigned c = 1; c < kClassCount; ++c) {
    const ClassAccount a = owner.account_of(c);
    if (a.superblocks + a.slow_mallocs + a.slow_frees != 0) f(kSizeClasses[c].size, a);
  }
}

// Bytes of its superblocks that are not live: free, cached, and their unused ends.
u64 waste_of(const ClassAccount& a) { return a.mapped_bytes - clamp(a.live_bytes, 0, a.mapped_bytes); }

}  // namespace

void Heap::write_classes(int fd) {
  Line().text("   size  superblocks       live     cached       free  slow mallocs  slow frees    refills    flushes")
      .write(fd);
  each_used_class(*this, [&](u64 size, const ClassAccount& a) {
    Line().number(size, 7).number(a.superblocks, 13).bytes(a.live_bytes, 11).bytes(a.cached_bytes, 11)
        .bytes(a.free_bytes, 11).number(a.slow_mallocs, 14).number(a.slow_frees, 12).number(a.refills, 11)
        .number(a.flushes, 11).write(fd);
  });
}

void Heap::write_classes_json(int fd) {
  bool first = true;
  each_used_class(*this, [&](u64 size, const ClassAccount& a) {
    Line line;
    line.text(first ? "  " : "  ,").text("{\"size\": ").number(size).text(", \"superblocks\": ").number(a.superblocks)
        .text(", \"live\": ").number(a.live_bytes).text(", \"cached\": ").number(a.cached_bytes)
        .text(", \"free\": ").number(a.free_bytes).write(fd);
    line.text("   , \"blocks\": ").number(a.blocks).text(", \"waste\": ").number(waste_of(a)).text(", \"occupancy\": [");
    for (unsigned i = 0; i < occupancy::kTenths; ++i) line.text(i == 0 ? "" : ", ").number(a.occupancy[i]);
    line.text("]").write(fd);
    line.text("   , \"slow_mallocs\": ").number(a.slow_mallocs).text(", \"slow_frees\": ").number(a.slow_frees)
        .text(", \"refills\": ").number(a.refills).text(", \"flushes\": ").number(a.flushes).text("}").write(fd);
    first = false;
  });
}

}  // namespace freeway
