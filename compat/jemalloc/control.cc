// SPDX-License-Identifier: MIT
//
// control.cc: mallctl and its two relatives.
#include "call.h"
#include "exported.h"
#include "names.h"

using freeway_jemalloc::Call;
using freeway_jemalloc::is_number;
using freeway_jemalloc::kMostNumbers;
using freeway_jemalloc::name;
using freeway_jemalloc::name_count;
using freeway_jemalloc::part_count;
using freeway_jemalloc::part_id;
using std::size_t;

extern "C" {

int mallctl(const char* text, void* old_value, size_t* old_size, void* new_value, size_t new_size) noexcept {
  size_t numbers[kMostNumbers] = {};
  const unsigned index = freeway_jemalloc::find(text, numbers);
  if (index == name_count()) return ENOENT;
  return name(index).act(Call{numbers, old_value, old_size, new_value, new_size});
}

int mallctlnametomib(const char* text, size_t* mib, size_t* length) noexcept {
  size_t numbers[kMostNumbers] = {};
  const unsigned index = freeway_jemalloc::find(text, numbers);
  if (index == name_count()) return ENOENT;
  const unsigned parts = part_count(index);
  if (*length > parts) *length = parts;
  for (unsigned part = 0; part < *length; ++part)
    mib[part] = is_number(index, part) ? numbers[0] : part_id(index, part);
  return 0;
}

int mallctlbymib(const size_t* mib, size_t length, void* old_value, size_t* old_size, void* new_value,
                 size_t new_size) noexcept {
  // The last part is never a number, and is the name's own.
  if (length == 0 || mib[length - 1] >= name_count()) return ENOENT;
  const auto index = static_cast<unsigned>(mib[length - 1]);
  if (part_count(index) != length) return ENOENT;
  size_t numbers[kMostNumbers] = {};
  for (unsigned part = 0; part < length; ++part) {
    if (is_number(index, part)) numbers[0] = mib[part];
    else if (mib[part] != part_id(index, part)) return ENOENT;
  }
  if (!freeway_jemalloc::number_exists(index, numbers[0])) return ENOENT;
  return name(index).act(Call{numbers, old_value, old_size, new_value, new_size});
}

}  // extern "C"
