// SPDX-License-Identifier: MIT
// description.h: finding `freeway_debug` (freeway/debug.h) in a process, and reading the words that it tells of.
#pragma once

#include <array>
#include <cstring>

#include "freeway/debug.h"
#include "heap/memory.h"
#include "size/size_classes.h"

namespace freeway_command {

// Reads `bytes` at an address; throws Failure where that cannot be.
void read_or_throw(const Memory& memory, std::uint64_t address, void* to, std::size_t bytes);
// The same for a long row, of which much may be missing, or which may be no row at all.
template <class T>
std::vector<T> read_row(const Memory& memory, std::uint64_t address, std::size_t count) {
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
  // Word i of a field; throws where the description does not fit the object.
  std::uint64_t word(const freeway_debug_field_t& field, std::size_t i = 0) const;

 private:
  std::uint64_t address_;
  std::vector<char> bytes_;
};

// Of a process that has the flagship in it.
class Description {
 public:
  // Throws Failure where there is none, or one that this command was not made for.
  explicit Description(const Memory& memory);

  const freeway_debug_t& layout() const { return layout_; }
  // By the target's own table.
  const freeway::SizeClass& size_class(unsigned c) const { return classes_[c]; }
  std::uint64_t frame_bytes() const { return std::uint64_t{1} << layout_.frame_shift; }
  // A word of the heap as it is now, or a row of them.
  std::uint64_t heap_word(const Memory& memory, const freeway_debug_field_t& field) const;
  std::vector<std::uint64_t> heap_row(const Memory& memory, const freeway_debug_field_t& field) const;

 private:
  void check(const Memory& memory);
  freeway_debug_t layout_ = {};
  std::array<freeway::SizeClass, FREEWAY_DEBUG_CLASSES> classes_ = {};
};

}  // namespace freeway_command
