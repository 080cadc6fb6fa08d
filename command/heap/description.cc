// SPDX-License-Identifier: MIT
#include "heap/description.h"

#include <algorithm>
#include <filesystem>
#include <set>

#include "arch/registers.h"
#include "report.h"

namespace freeway_command {
namespace {

using std::uint64_t;

constexpr std::size_t kAlignment = 64;  // of the description
constexpr std::size_t kPiece = 1 << 20;

std::string name_of(const Memory& memory) {
  if (memory.is_live()) return "process " + std::to_string(memory.pid());
  return memory.pid() == 0 ? "the core file's process"
                           : "the core file's process (" + std::to_string(memory.pid()) + ")";
}

// "libfreeway.so.0.2.0" or "libfreeway-michael.so.0": the library's name without what follows ".so"; empty: another's.
std::string library_name(const std::string& file) {
  const std::string name = std::filesystem::path(file).filename().string();
  const std::size_t end = name.find(".so");
  return name.starts_with("libfreeway") && end != std::string::npos ? name.substr(0, end) : "";
}

// Where a description begins in the mapping, 0: nowhere.
uint64_t find_in(const Memory& memory, const Mapping& mapping) {
  std::vector<char> piece;
  uint64_t found = 0;
  any_piece(mapping.begin, mapping.end, kPiece, [&](uint64_t at, uint64_t bytes) {
    piece.resize(bytes);
    if (!memory.read(at, piece.data(), bytes)) return true;
    for (std::size_t i = 0; i + sizeof(freeway_debug_t::magic) <= bytes; i += kAlignment) {
      if (std::memcmp(&piece[i], FREEWAY_DEBUG_MAGIC, sizeof(freeway_debug_t::magic)) != 0) continue;
      uint64_t self = 0;
      if (!memory.read(at + i + offsetof(freeway_debug_t, self), &self, sizeof(self)) || self != at + i) continue;
      found = self;
      return true;
    }
    return false;
  });
  return found;
}

// libfreeway.so is looked at first, then the executable and whatever else may have been linked with the static library:
// files that have code in memory. What else is mapped is data. (A core file need not tell of code.)
uint64_t find(const Memory& memory) {
  std::set<std::string> programs;
  for (const Mapping& each : memory.mappings())
    if (each.executable) programs.insert(each.file);
  for (const bool library : {true, false})
    for (const Mapping& each : memory.mappings()) {
      const bool is_program = programs.contains(each.file) || !memory.is_live();
      if (!each.readable || each.executable || !is_program || library_name(each.file).empty() == library) continue;
      if (const uint64_t found = find_in(memory, each)) return found;
    }
  return 0;
}

[[noreturn]] void fail_without(const Memory& memory) {
  // Mappings may be listed for who may not read them (yama's ptrace_scope), or of who has ended by now.
  char byte;
  for (const Mapping& each : memory.mappings())
    if (memory.is_live() && each.readable && !each.file.empty()) {
      if (!memory.read(each.begin, &byte, 1)) throw Failure(kCannot, memory.why_unreadable());
      break;
    }
  for (const Mapping& each : memory.mappings()) {
    const std::string library = library_name(each.file);
    if (library.starts_with("libfreeway-"))
      throw Failure(kCannot, name_of(memory) + " is under Freeway, but its engine is " +
                                 library.substr(sizeof("libfreeway-") - 1) +
                                 ", which cannot be looked into (only the flagship, libfreeway.so, can)");
    if (!library.empty() && !memory.is_live() && !memory.warning().empty())
      throw Failure(kCannot, memory.why_unreadable());
    if (!library.empty())
      throw Failure(kCannot,
                    name_of(memory) + " has " + each.file +
                        ", which does not say where its heap is: it is older than "
                        "this command (use the command that came with it), or the process has only just begun" +
                        (memory.is_live() ? "" : ", or the core file lacks its private memory (coredump_filter)"));
  }
  if (!memory.warning().empty()) throw Failure(kCannot, memory.why_unreadable());
  throw Failure(kCannot,
                name_of(memory) + " does not run under Freeway (`freeway run -- PROGRAM` starts one that does)");
}

}  // namespace

void read_or_throw(const Memory& memory, uint64_t address, void* to, std::size_t bytes) {
  if (!memory.read(address, to, bytes)) throw Failure(kCannot, memory.why_unreadable());
}

uint64_t Object::word(uint64_t offset, std::uint32_t bytes) const {
  uint64_t value = 0;
  if (bytes > sizeof(value) || offset > bytes_.size() || bytes > bytes_.size() - offset)
    throw Failure(kCannot, "the description of the heap is damaged: it leads out of an object");
  std::memcpy(&value, &bytes_[offset], bytes);
  return value;
}

Description::Description(const Memory& memory) : memory_(memory) {
  const uint64_t address = find(memory);
  if (address == 0) fail_without(memory);
  read_or_throw(memory, address, &layout_, offsetof(freeway_debug_t, heap));
  if (layout_.version != FREEWAY_DEBUG_VERSION || layout_.bytes != sizeof(layout_)) {
    const std::string library(layout_.library, strnlen(layout_.library, sizeof(layout_.library)));
    throw Failure(kCannot, name_of(memory) + " has Freeway " + library + ", whose heap is laid out by version " +
                               std::to_string(layout_.version) + "; this command, of Freeway " + command_version() +
                               ", knows version " + std::to_string(FREEWAY_DEBUG_VERSION) +
                               ": use the one that came with it");
  }
  read_or_throw(memory, address, &layout_, sizeof(layout_));
  check();
  for (unsigned c = 1; c < layout_.class_count; ++c) {
    const freeway_debug_class_t& from = layout_.classes[c];
    freeway::SizeClass& k = classes_[c];
    k.size = from.size;
    k.blocks = from.blocks;
    k.words = from.words;
    k.span_frames = from.span_frames;
    k.last_word = freeway::low_bits(k.blocks - (k.words - 1) * 64);
    k.magic = static_cast<freeway::u32>(((uint64_t{1} << 35) + k.size - 1) / k.size);
  }
}

// Entries of the profile's tables have lengths that pages are multiples of.
static bool good_profile(const freeway_debug_t& d) {
  const auto fits = [](const freeway_debug_field_t& field, std::uint32_t bytes) {
    return field.size == 8 && field.offset + field.size <= bytes;
  };
  return d.site_bytes >= 16 && d.site_bytes <= 4096 && d.site_words <= 4096 && d.site_depth_bits <= 16 &&
         d.site_head >= 2 && d.site_head <= 64 && d.live_bytes >= 32 && d.live_bytes <= 512 &&
         freeway::is_power_of_two(d.live_bytes) && d.copy_head_bytes >= 64 && d.copy_head_bytes <= 4096 &&
         d.copy_registers.count == freeway::Registers::kCount && fits(d.live_address, d.live_bytes) &&
         fits(d.live_site, d.live_bytes) && fits(d.live_size, d.live_bytes) && fits(d.live_born, d.live_bytes);
}

// What the rest divides by, shifts by, or trusts as a bound.
void Description::check() {
  const freeway_debug_t& d = layout_;
  bool good = d.class_count >= 2 && d.class_count <= FREEWAY_DEBUG_CLASSES && d.frame_shift == freeway::kFrameShift &&
              d.chunk_frames == 64 && d.unit_bytes >= 16 && d.unit_bytes <= 4096 && d.segment_shift >= 10 &&
              d.segment_shift <= 24 && d.leaf_shift >= 10 && d.leaf_shift <= 20 && d.slab_bytes <= (16 << 20) &&
              d.beds <= 4096 && d.guard_slot_count <= 65536 && d.descriptor_bytes <= 4096 && d.chunk_bytes >= 16 &&
              d.chunk_bytes <= 4096 && good_profile(d);
  good = good && d.engine[sizeof(d.engine) - 1] == 0 && d.library[sizeof(d.library) - 1] == 0;
  for (unsigned c = 1; good && c < d.class_count; ++c) {
    const freeway_debug_class_t& k = d.classes[c];
    good = k.size >= 16 && k.size <= freeway::kMaxSmall && k.words >= 1 && k.words <= freeway::kMaxWords &&
           k.blocks > (k.words - 1) * 64 && k.blocks <= k.words * 64 && freeway::is_power_of_two(k.span_frames) &&
           k.span_frames <= 64 && uint64_t{k.blocks} * k.size <= uint64_t{k.span_frames} << d.frame_shift &&
           k.small_slots <= (1 << 20) && k.big_slots <= (1 << 20) && k.bed_slots <= (1 << 20);
  }
  if (!good) throw Failure(kCannot, "the description of the heap of " + name_of(memory_) + " is damaged");
}

void Description::expect(bool holds, const char* what) {
  if (!holds)
    throw Failure(kCannot, std::string("the heap is damaged: ") + what +
                               " cannot be true (see `freeway_audit`, or a core file of an earlier moment)");
}

}  // namespace freeway_command
