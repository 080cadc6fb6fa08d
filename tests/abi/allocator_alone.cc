// SPDX-License-Identifier: MIT
//
// allocator_alone.cc: freeway/allocator.h as the only header, in the C++ of its compilation.
#include <freeway/allocator.h>

extern "C" int FREEWAY_TEST_NAME();

extern "C" int FREEWAY_TEST_NAME() {
  freeway::allocator<short> shorts;
  const auto room = shorts.allocate_at_least(9);
  const bool is_right = room.count >= 9;
  shorts.deallocate(room.ptr, room.count);
  return is_right ? 1 : 0;
}
