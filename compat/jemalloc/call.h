// SPDX-License-Identifier: MIT
// call.h: one call of mallctl, and the rules of reading and writing that all names share.
//
// Reading with another size than the value's gives as much of it as there is room for, and EINVAL.
#pragma once

#include <cerrno>
#include <cstddef>
#include <cstring>

namespace freeway_jemalloc {

struct Call {
  const std::size_t* numbers;  // those within the name
  void* old_value;
  std::size_t* old_size;
  const void* new_value;
  std::size_t new_size;

  bool reads() const { return old_value != nullptr && old_size != nullptr; }
  bool writes() const { return new_value != nullptr || new_size != 0; }
};

// Hands `value` to the caller, if it wants it.
template <class T> int give(const Call& call, const T& value) {
  if (!call.reads()) return 0;
  const bool fits = *call.old_size == sizeof value;
  if (*call.old_size > sizeof value) *call.old_size = sizeof value;
  std::memcpy(call.old_value, &value, *call.old_size);
  return fits ? 0 : EINVAL;
}

// Fetches what the caller writes; false if it is of another size.
template <class T> bool fetch(const Call& call, T& value) {
  if (call.new_value == nullptr || call.new_size != sizeof value) return false;
  std::memcpy(&value, call.new_value, sizeof value);
  return true;
}

// A value that can be read only.
template <class T> int show(const Call& call, const T& value) { return call.writes() ? EPERM : give(call, value); }

// A value that is what it is: it can only be set to that.
template <class T> int keep(const Call& call, const T& value) {
  if (call.writes()) {
    T wanted;
    if (!fetch(call, wanted)) return EINVAL;
    if (wanted != value) return EPERM;
  }
  return give(call, value);
}

// Something to do, with nothing to read or write.
inline bool is_plain(const Call& call) {
  return call.old_value == nullptr && call.old_size == nullptr && !call.writes();
}

}  // namespace freeway_jemalloc
