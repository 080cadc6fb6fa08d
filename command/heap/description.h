// SPDX-License-Identifier: MIT
// description.h: finding `freeway_debug` (freeway/debug.h) in a process, and reading the words that it tells of.
#pragma once

#include <array>
#include <cstring>

#include "freeway/debug.h"
#include "heap/memory.h"
#include "look/walk.h"

namespace freeway_command {

// Reads `bytes` at an address; throws Failure where that cannot be.
void read_or_throw(const Memory& memory, std::uint64_t address, void* to, std::size_t bytes);
// The same for a long row, of which much may be missing, or which may be no row at all.
template <class T> std::vector<T> read_row(const Memory& memory, std::uint64_t address, std::size_t count) {
  constexpr std::size_t kPiece = (1 << 20) / sizeof(T);
  std::vector<T> row;
  for (std::size_t done = 0; done < count;) {
    const std::size_t here = count - done < kPiece ? count - done : kPiece;
    row.resize(done + here);
    read_or_throw(memory, address + done * sizeof(T), &row[done], here * sizeof(T));
    done += here;
  }
  return row;
}

// An object that was copied out of the process, or a part of one from its beginning.
class Object {
 public:
  Object(const Memory& memory, std::uint64_t address, std::size_t bytes)
      : address_(address), bytes_(read_row<char>(memory, address, bytes)) {}
  std::uint64_t address() const { return address_; }
  // Throws where the description does not fit the object.
  std::uint64_t word(std::uint64_t offset, std::uint32_t bytes) const;

 private:
  std::uint64_t address_;
  std::vector<char> bytes_;
};

// Of a process that has the flagship in it: the Reader of look/walk.h, which copies.
class Description {
 public:
  // Throws Failure where there is none, or one that this command was not made for.
  explicit Description(const Memory& memory);

  const Memory& memory() const { return memory_; }
  const freeway_debug_t& layout() const { return layout_; }
  // By the target's own table.
  const freeway::SizeClass& size_class(unsigned c) const { return classes_[c]; }
  std::uint64_t frame_bytes() const { return std::uint64_t{1} << layout_.frame_shift; }
  Object view(std::uint64_t address, std::uint64_t bytes) const { return {memory_, address, bytes}; }
  // Throws unless `holds`.
  static void expect(bool holds, const char* what);

 private:
  void check();
  const Memory& memory_;
  freeway_debug_t layout_ = {};
  std::array<freeway::SizeClass, FREEWAY_DEBUG_CLASSES> classes_ = {};
};

using Walk = freeway::look::Walk<Description>;

}  // namespace freeway_command
