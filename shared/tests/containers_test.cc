// SPDX-License-Identifier: MIT
//
// freeway/shared.hpp: containers of containers in the heap, made in one process and used in another at another address.
#include "freeway/shared.hpp"

#include <algorithm>
#include <deque>
#include <limits>
#include <numeric>
#include <vector>

#include "shared/tests/shared_file.h"

namespace {
using namespace freeway_test;

template <class T> using Allocator = freeway::shared_allocator<T>;
using Numbers = std::vector<int, Allocator<int>>;
using Table = std::vector<Numbers, Allocator<Numbers>>;
using Queue = std::deque<int, Allocator<int>>;

template <class T> T* find(freeway_shared_t* heap, const char* name) {
  return static_cast<T*>(::freeway_shared_pointer(heap, ::freeway_shared_root_find(heap, name)));
}

TEST(SharedContainers, MadeHereUsedThere) {
  const File fd = memory_file();
  const Heap heap = make_heap(fd);
  const auto make = [&] {
    const Heap own(::freeway_shared_attach(fd));
    auto* table = freeway::shared_new<Table>(own, Allocator<Numbers>(own));
    for (int i = 0; i < 300; i++) {
      table->emplace_back(Allocator<int>(own));
      for (int k = 0; k < i; k++) table->back().push_back(k);
    }
    auto* queue = freeway::shared_new<Queue>(own, Allocator<int>(own));
    for (int i = 0; i < 5000; i++) i % 2 != 0 ? queue->push_front(i) : queue->push_back(i);
    ::freeway_shared_root_replace(own, "table", 0, ::freeway_shared_offset(own, table));
    ::freeway_shared_root_replace(own, "queue", 0, ::freeway_shared_offset(own, queue));
    return 0;
  };
  ASSERT_EQ(in_child(make), 0);
  const Heap again(::freeway_shared_attach(fd));  // neither of the maker's addresses
  for (freeway_shared_t* own : {static_cast<freeway_shared_t*>(heap), static_cast<freeway_shared_t*>(again)}) {
    auto* table = find<Table>(own, "table");
    auto* queue = find<Queue>(own, "queue");
    ASSERT_EQ(table->size() % 300, 0u);
    EXPECT_EQ(table->get_allocator().heap(), own);
    for (size_t i = 0; i < 300; i++) {
      ASSERT_EQ((*table)[i].size(), i);
      ASSERT_EQ(std::accumulate((*table)[i].begin(), (*table)[i].end(), 0),
                static_cast<int>(i * (i - 1) / 2 * (i > 0)));
    }
    std::sort(queue->begin(), queue->end());
    for (int i = 0; i < 5000; i++) ASSERT_EQ((*queue)[static_cast<size_t>(i)], i);
    queue->push_back(5000);  // may take memory here
    queue->pop_back();
  }
  freeway::shared_delete(again, find<Table>(again, "table"));
  freeway::shared_delete(again, find<Queue>(again, "queue"));
  freeway::shared_delete(again, static_cast<Table*>(nullptr));
  EXPECT_EQ(stats_of(heap).live, 0u);
  expect_in_order(heap);
}

TEST(SharedContainers, WhatIsRefusedThrows) {
  const File fd = memory_file();
  const Heap heap = make_heap(fd, 1 << 20);
  Numbers numbers{Allocator<int>(heap)};
  EXPECT_THROW(numbers.reserve(1 << 20), std::bad_alloc);
  EXPECT_THROW((void)Allocator<int>(heap).allocate(std::numeric_limits<size_t>::max() / 2), std::bad_alloc);
  struct Throws {
    Throws() { throw 1; }
  };
  EXPECT_THROW(freeway::shared_new<Throws>(heap), int);
  EXPECT_EQ(stats_of(heap).live, 0u);
}

TEST(SharedContainers, Pointers) {
  struct Base {
    int value = 7;
  };
  struct Derived : Base {};
  Derived objects[3];
  freeway::offset_ptr<Derived> at = &objects[1];
  freeway::offset_ptr<Base> base = at;
  freeway::offset_ptr<const Base> constant = base;
  freeway::offset_ptr<void> anything = at;
  EXPECT_EQ(base.get(), &objects[1]);
  EXPECT_EQ(constant->value, 7);
  EXPECT_EQ(static_cast<freeway::offset_ptr<Derived>>(anything), at);
  EXPECT_EQ((at + 1).get(), &objects[2]);
  EXPECT_EQ((--at).get(), &objects[0]);
  EXPECT_EQ(freeway::offset_ptr<Derived>(&objects[2]) - at, 2);
  EXPECT_TRUE(at < freeway::offset_ptr<Derived>(&objects[2]));
  EXPECT_EQ(freeway::offset_ptr<Derived>::pointer_to(objects[2]).get(), &objects[2]);
  freeway::offset_ptr<int> none;
  EXPECT_FALSE(none);
  EXPECT_TRUE(none == nullptr);
  const freeway::offset_ptr<int> copy = none;
  EXPECT_EQ(copy.get(), nullptr);
  freeway::offset_ptr<freeway::offset_ptr<int>> itself = &none;  // the distance is that of two objects on the stack
  EXPECT_EQ(itself.get(), &none);
  freeway::offset_ptr<void> own;
  own = freeway::offset_ptr<void>(&own);
  EXPECT_EQ(own.get(), &own);  // distance 0 is no null
}

}  // namespace
