// SPDX-License-Identifier: MIT
#include "os/fault.h"

#include "os/caller.h"

namespace freeway {

namespace {

const char* name_of(Fault fault) {
  switch (fault) {
    case Fault::kForeign: return "a foreign pointer";
    case Fault::kMisaligned: return "a misaligned pointer";
    case Fault::kInterior: return "an interior pointer";
    case Fault::kOtherThreads: return "another thread's local block";
    default: return "a freed pointer";
  }
}

void end(Line& line, const void* caller, bool go_on) {
  if (caller != nullptr) put_code(line.text(" by "), reinterpret_cast<uptr>(caller));
  put_thread(line).write();
  if (!go_on) die();
}

}  // namespace

void report(Fault fault, const char* function, const void* pointer, const void* caller, bool go_on) {
  const bool freed_twice = fault == Fault::kDoubleFree && function[0] == 'f';
  Line line;
  line.text("freeway: ");
  if (freed_twice) line.text("double free of ");
  else line.text(function).text(" of ").text(name_of(fault)).text(" ");
  line.hex(reinterpret_cast<u64>(pointer));
  if (caller == nullptr)
    line.text(" (freed earlier; found when its batch was returned. FREEWAY_HARDEN=1 finds it at once)");
  end(line, caller, go_on);
}

void report_twice(uptr span, u64 size, unsigned word, u64 twice, bool go_on) {
  for (; twice != 0; twice &= twice - 1)
    report(Fault::kDoubleFree, "free", reinterpret_cast<void*>(span + (word * u64{64} + lowest_bit(twice)) * size),
           nullptr, go_on);
}

void report_written(const void* block, std::size_t bytes, std::size_t offset, bool go_on) {
  Line line;
  line.text("freeway: block ").hex(reinterpret_cast<u64>(block)).text(" of ").number(bytes);
  line.text(" bytes was written to after it was freed, at byte ").number(offset).text(" (found when its rest ended)");
  end(line, nullptr, go_on);
}

void report_size(const void* block, std::size_t size, std::size_t bytes, const void* caller, bool go_on) {
  Line line;
  line.text("freeway: sized free of ").number(size).text(" bytes for a block of ").number(bytes);
  end(line.text(" at ").hex(reinterpret_cast<u64>(block)), caller, go_on);
}

void report_batch(std::size_t count, const void* blocks, const void* caller, bool go_on) {
  Line line;
  line.text("freeway: freeway_free_batch of ").number(count).text(" blocks at ").hex(reinterpret_cast<u64>(blocks));
  end(line, caller, go_on);
}

}  // namespace freeway
