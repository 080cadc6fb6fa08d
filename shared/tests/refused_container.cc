// SPDX-License-Identifier: MIT
//
// refused_container.cc: compiled with FREEWAY_TEST_ELEMENT: a vector of it in a shared heap, in whatever way it is
// named.
#include <deque>
#include <vector>

#include "freeway/shared.hpp"

using Element = FREEWAY_TEST_ELEMENT;
using Elements = std::vector<Element, freeway::shared_allocator<Element>>;

Elements* make(freeway_shared_t* heap) {
  return freeway::shared_new<Elements>(heap, freeway::shared_allocator<Element>(heap));
}

// A deque of it keeps pointers of the allocator's kind.
std::deque<bool, freeway::shared_allocator<bool>>* make_deque(freeway_shared_t* heap) {
  return freeway::shared_new<std::deque<bool, freeway::shared_allocator<bool>>>(heap,
                                                                                freeway::shared_allocator<bool>(heap));
}
