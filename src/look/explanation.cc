// SPDX-License-Identifier: MIT
#include "look/explanation.h"

#include "os/report.h"

namespace freeway {
namespace {

const char* name_of(freeway_kind_t kind) {
  switch (kind) {
    case FREEWAY_SMALL_BLOCK: return "small block";
    case FREEWAY_LARGE_BLOCK: return "large block";
    default: return "guarded block";
  }
}

// Where the address is, seen from the block.
void write_place(Line& line, const freeway_explanation_t& found) {
  const auto bytes = [&](u64 count, const char* where) {
    line.number(count).text(count == 1 ? " byte " : " bytes ").text(where);
  };
  const auto size = static_cast<ptrdiff_t>(found.size);
  if (found.offset < 0) bytes(static_cast<u64>(-found.offset), "before ");
  else if (found.offset == 0) line.text("the beginning of ");
  else if (found.offset < size) bytes(static_cast<u64>(found.offset), "inside ");
  else bytes(static_cast<u64>(found.offset - size) + 1, "past the end of ");
}

void write_call(int fd, const char* did, const void* caller, u64 thread) {
  if (thread == 0) return;
  Line()
      .text("freeway:   ")
      .text(did)
      .text(" by ")
      .hex(reinterpret_cast<u64>(caller))
      .text(" in thread ")
      .number(thread)
      .write(fd);
}

}  // namespace

namespace explanation {

u32 small(freeway_explanation_t& found, const SizeClass& k, uptr address) {
  const uptr span = k.span_of(address);
  const u32 index = k.index_of(address - span);
  if (index >= k.blocks)
    return other(found, FREEWAY_FREE_MEMORY, "the unused end of a superblock"), SizeClass::kNoBlock;
  block(found, FREEWAY_SMALL_BLOCK, FREEWAY_STATE_UNKNOWN, span + u64{index} * k.size, k.size, address);
  return index;
}

void guarded(freeway_explanation_t& found, const guard::Near& near, uptr address) {
  if (near.kind == guard::Near::kNothing) return other(found, FREEWAY_METADATA, "pages for guarded blocks");
  const freeway_state_t state = !near.known ? FREEWAY_STATE_UNKNOWN : near.live ? FREEWAY_LIVE : FREEWAY_FREE;
  block(found, FREEWAY_GUARDED_BLOCK, state, near.birth.address, near.birth.size, address);
  if (!near.known) return;
  found.allocated_by = reinterpret_cast<void*>(near.birth.by.caller);
  found.allocated_in = near.birth.by.thread;
  if (near.live) return;
  found.freed_by = reinterpret_cast<void*>(near.death.caller);
  found.freed_in = near.death.thread;
}

}  // namespace explanation

void write_explanation(int fd, const void* address, const freeway_explanation_t& found) {
  Line line;
  line.text("freeway: ").hex(reinterpret_cast<u64>(address)).text(" is ");
  if (found.kind == FREEWAY_NOT_OURS) return static_cast<void>(line.text("not Freeway's").write(fd));
  if (found.begin == nullptr) {
    const bool is_free =
        found.kind == FREEWAY_FREE_MEMORY;  // else a block that a look from outside cannot tell from free memory
    line.text(found.kind == FREEWAY_METADATA ? "Freeway's own memory" : is_free ? "no block's" : "a block's, or free");
  } else {
    write_place(line, found);
    line.text(found.state == FREEWAY_LIVE   ? "a live "
              : found.state == FREEWAY_FREE ? "a free "
                                            : "a ")
        .text(name_of(found.kind))
        .text(" of ")
        .number(found.size)
        .text(" bytes at ")
        .hex(reinterpret_cast<u64>(found.begin));
  }
  if (found.what[0] != 0) line.text(": ").text(found.what);
  line.write(fd);
  write_call(fd, "allocated", found.allocated_by, found.allocated_in);
  write_call(fd, "freed", found.freed_by, found.freed_in);
}

}  // namespace freeway
