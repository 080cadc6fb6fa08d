// SPDX-License-Identifier: MIT
#include "malloc/errors.h"

#include "harden/guarded.h"
#include "os/caller.h"

namespace freeway {

namespace {

Fault guarded_fault(guard::Freed freed, uptr address) {
  if (freed == guard::Freed::kTwice) return Fault::kDoubleFree;
  if (freed == guard::Freed::kForeign) return Fault::kForeign;
  return address % kMinBlock != 0 ? Fault::kMisaligned : Fault::kInterior;
}

}  // namespace

void bad(Fault fault, const char* function, const void* pointer, const void* caller) {
  // Where there has been no memory to start with, the options have not been read.
  const bool read = process_malloc.ready() || !options_available();
  report(fault, function, pointer, caller, (read ? process_malloc.options() : read_options(false)).report_only);
}

Fault classify(uptr address, FrameInfo info) {
  if (info.kind() == FrameInfo::kNothing && guard::owns(address))
    return guarded_fault(guard::classify(address), address);
  if (info.kind() == FrameInfo::kNothing) return process_malloc.substrate().classify_outside(address);
  if (info.kind() == FrameInfo::kSmall && process_malloc.heap().begins_block(address, info.value()))
    return Fault::kDoubleFree;  // a block, but a free one
  return address % kMinBlock != 0 ? Fault::kMisaligned : Fault::kInterior;
}

namespace {

void end_report(uptr address) {
  guard::write_history(guard::near(address));
  if (!process_malloc.options().report_only) die();
}

}  // namespace

void report_overrun(uptr address, const void* caller) {
  Line line;
  line.text("freeway: overflow: the bytes past the end of ").hex(address).text(" were written before it was freed by ");
  put_thread(put_code(line, reinterpret_cast<uptr>(caller))).write();
  end_report(address);
}

FREEWAY_NOINLINE void free_guarded(uptr address, const void* caller) {
  const guard::Freed freed = guard::give(address, caller);
  if (freed == guard::Freed::kOk) return;
  if (freed == guard::Freed::kOverrun) return report_overrun(address, caller);
  report(guarded_fault(freed, address), "free", reinterpret_cast<const void*>(address), caller, /*go_on=*/true);
  end_report(address);
}

}  // namespace freeway
