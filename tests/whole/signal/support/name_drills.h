// SPDX-License-Identifier: MIT
//
// NameDrills: the functions of the interface that are malloc and free under other names: C++'s operators, the older
// aligned ones, batches, the sized frees. Those that the C library in use does not declare are looked up.
#ifndef FREEWAY_TESTS_SIGNAL_SUPPORT_NAME_DRILLS_H
#define FREEWAY_TESTS_SIGNAL_SUPPORT_NAME_DRILLS_H

#include <dlfcn.h>
#include <malloc.h>
#include <unistd.h>

#include <cstdlib>
#include <new>

#include "freeway/freeway.h"
#include "freeway/heap.h"
#include "tests/whole/signal/support/block_mix.h"
#include "tests/whole/signal/support/heap_account.h"

namespace freeway_test {

class NameDrills {
 public:
  // `in_hand`: what a jump out of a call would lose now, in bytes.
  NameDrills(volatile size_t& in_hand, Random& random) : in_hand_(in_hand), random_(random) {}

  void trim_keeping_some() {
    if (functions_.trim == nullptr) return;
    enter_allocator(Call::kTrim);
    functions_.trim(random_.below(1 << 20));
    if (functions_.trim_step != nullptr) functions_.trim_step(random_.below(1 << 20));
    if (functions_.idle != nullptr) functions_.idle();
    leave_allocator();
  }

  // Blocks of three superblocks, few of them left, which move together where the hint says so.
  void moves() {
    if (heap_account.should_move == nullptr) return;
    constexpr size_t kSize = 5000, kCount = 150;
    void* blocks[kCount];
    note(kCount * (kSize + kFrameBytes));
    for (size_t i = 0; i < kCount; i++) blocks[i] = allocate_block(random_, kSize);
    for (size_t i = 0; i < kCount; i++)
      if (i % 5 != 0) release_block(blocks[i]);
    for (size_t i = 0; i < kCount; i += 5) {
      enter_allocator(Call::kOthers);
      const bool moves = heap_account.should_move(blocks[i]) != 0;
      leave_allocator();
      verify(blocks[i], "a block that was asked about is damaged");
      if (!moves) continue;
      void* const other = allocate_block(random_, kSize);
      release_block(blocks[i]);
      blocks[i] = other;
    }
    for (size_t i = 0; i < kCount; i += 5) release_block(blocks[i]);
    note(0);
  }

  // Many blocks in one call; half of them go back one by one.
  void batches() {
    if (functions_.malloc_batch == nullptr || functions_.free_batch == nullptr) return;
    const size_t size = random_.one_in(4) ? random_.between(33'000, 200'000) : random_.between(16, 5000);
    const size_t count = size > 32768 ? 4 : 150;
    void* blocks[150];
    note(count * (size + kFrameBytes));
    enter_allocator(Call::kMallocBatch);
    const size_t got = functions_.malloc_batch(size, count, blocks);
    leave_allocator();
    require(got == count, "a batch is not complete", got, count);
    for (size_t i = 0; i < count; i++) stamp(blocks[i], size, static_cast<uint32_t>(i));
    for (size_t i = 0; i < count; i++) verify(blocks[i], "a block of a batch is damaged");
    enter_allocator(Call::kFreeBatch);
    functions_.free_batch(count / 2, blocks);
    leave_allocator();
    for (size_t i = count / 2; i < count; i++) release_block(blocks[i]);
    note(0);
  }
  // A heap of its own: blocks of many sizes, some freed and resized, some left to its end.
  void heaps() {
    if (heap_account.heap_new == nullptr) return;
    constexpr size_t kCount = 160;
    note(kOwnHeap);
    enter_allocator(Call::kOthers);
    const freeway_heap_options_t options = {"drill", kOwnHeap};
    const freeway_heap_t heap = heap_account.heap_new(&options, sizeof options);
    leave_allocator();
    if (heap == nullptr) return note(0);  // the papers' engines
    void* blocks[kCount];
    for (size_t i = 0; i < kCount; i++) {
      const size_t size =
          i % 40 == 39 ? random_.between(33'000, 200'000) : random_.between(16, i % 8 == 0 ? 9000 : 600);
      enter_allocator(Call::kOthers);
      if (i % 20 == 19) blocks[i] = heap_account.heap_aligned_alloc(heap, 4096, size);
      else if (i % 5 == 0) blocks[i] = heap_account.heap_calloc(heap, 1, size);
      else blocks[i] = heap_account.heap_malloc(heap, size);
      leave_allocator();
      require(blocks[i] != nullptr, "no memory in a heap", size);
      stamp(blocks[i], size, static_cast<uint32_t>(i));
      if (i % 3 != 2) continue;
      const size_t other = random_.below(i);
      if (blocks[other] == nullptr) continue;
      verify(blocks[other], "a block of a heap is damaged");
      enter_allocator(Call::kFree);
      ::free(blocks[other]);
      leave_allocator();
      blocks[other] = nullptr;
    }
    for (void* const block : blocks)
      if (block != nullptr) verify(block, "a block of a heap is damaged");
    for (size_t i = 0; i < kCount; i += 2) {
      enter_allocator(Call::kFree);
      ::free(blocks[i]);
      leave_allocator();
    }
    enter_allocator(Call::kOthers);
    if (random_.one_in(2)) heap_account.heap_trim(heap);
    require(heap_account.heap_destroy(heap) == 0, "a heap cannot be destroyed");
    leave_allocator();
    note(0);
  }
  // The functions that are others under another name.
  void other_names() {
    const std::align_val_t alignment{64};
    const auto page = static_cast<size_t>(::sysconf(_SC_PAGESIZE));
    note(size_t{1} << 20);
    for (size_t i = 0; i < 20; i++) {
      const size_t size = i < 10 ? random_.between(16, 3000) : random_.between(16, 40'000);
      void* blocks[15] = {};
      enter_allocator(Call::kOthers);
      blocks[0] = ::memalign(48, size);
      blocks[1] = ::malloc(size);
      blocks[2] = ::pvalloc(size);
      blocks[3] = ::reallocarray(nullptr, 2, size / 2);
      blocks[4] = ::operator new(size);
      blocks[5] = ::operator new[](size);
      blocks[6] = ::operator new(size, std::nothrow);
      blocks[7] = ::operator new[](size, std::nothrow);
      blocks[8] = ::operator new(size, alignment);
      blocks[9] = ::operator new[](size, alignment);
      blocks[10] = ::operator new(size, alignment, std::nothrow);
      blocks[11] = ::operator new[](size, alignment, std::nothrow);
      blocks[12] = ::valloc(size);
      const freeway_sized_block_t told[] = {at_least(functions_.at_least, size), at_least(functions_.sized_new, size)};
      blocks[13] = told[0].ptr;
      blocks[14] = told[1].ptr;
      if (functions_.nallocx != nullptr) require(functions_.nallocx(size, 0) >= size, "nallocx", size);
      leave_allocator();
      for (void* const block : blocks) {
        require(block != nullptr, "no memory", size);
        stamp(block, size & ~size_t{1}, static_cast<uint32_t>(i));
      }
      for (void* const block : blocks) verify(block, "a block of another name is damaged");
      enter_allocator(Call::kOthers);
      if (functions_.cfree != nullptr) functions_.cfree(blocks[0]);
      else ::free(blocks[0]);
      if (functions_.free_sized != nullptr) functions_.free_sized(blocks[1], size);
      else ::free(blocks[1]);
      if (functions_.free_aligned_sized != nullptr) functions_.free_aligned_sized(blocks[2], page, size);
      else ::free(blocks[2]);
      ::free(blocks[3]);
      ::operator delete(blocks[4]);
      ::operator delete[](blocks[5]);
      ::operator delete(blocks[6], size);
      ::operator delete[](blocks[7], size);
      ::operator delete(blocks[8], alignment);
      ::operator delete[](blocks[9], alignment);
      ::operator delete(blocks[10], size, alignment);
      ::operator delete[](blocks[11], size, alignment);
      ::free(blocks[12]);
      for (const freeway_sized_block_t& block : told) {
        if (functions_.free_sized != nullptr) functions_.free_sized(block.ptr, block.size);
        else ::free(block.ptr);
      }
      blocks[0] = ::operator new[](size, std::nothrow);
      blocks[1] = ::operator new(size, alignment);
      blocks[2] = ::operator new[](size, alignment);
      blocks[3] = ::operator new(size);
      ::operator delete[](blocks[0], std::nothrow);
      ::operator delete(blocks[3], std::nothrow);
      ::operator delete(blocks[1], alignment, std::nothrow);
      ::operator delete[](blocks[2], alignment, std::nothrow);
      leave_allocator();
    }
    const volatile size_t too_much = SIZE_MAX;
    void* volatile none;
    enter_allocator(Call::kOthers);
    none = ::memalign(too_much, 100);
    none = ::pvalloc(too_much);
    none = ::reallocarray(nullptr, too_much, 16);
    leave_allocator();
    (void)none;
    note(0);
  }

 private:
  static constexpr size_t kOwnHeap = size_t{8} << 20;

  static freeway_sized_block_t at_least(freeway_sized_block_t (*give)(size_t), size_t size) {
    return give != nullptr ? give(size) : freeway_sized_block_t{::malloc(size), size};
  }

  void note(size_t bytes) {
    in_hand_ = bytes;
    std::atomic_signal_fence(std::memory_order_seq_cst);
  }

  // What the C library in use does not declare.
  struct Functions {
    template <class F> static F* find(const char* name) { return HeapAccount::find<F>(name); }
    size_t (*malloc_batch)(size_t, size_t, void**) = find<size_t(size_t, size_t, void**)>("freeway_malloc_batch");
    void (*free_batch)(size_t, void**) = find<void(size_t, void**)>("freeway_free_batch");
    size_t (*trim)(size_t) = find<size_t(size_t)>("freeway_trim");
    size_t (*trim_step)(size_t) = find<size_t(size_t)>("freeway_trim_step");
    void (*idle)() = find<void()>("freeway_idle");
    freeway_sized_block_t (*at_least)(size_t) = find<freeway_sized_block_t(size_t)>("freeway_alloc_at_least");
    freeway_sized_block_t (*sized_new)(size_t) = find<freeway_sized_block_t(size_t)>("__size_returning_new");
    size_t (*nallocx)(size_t, int) = find<size_t(size_t, int)>("nallocx");
    void (*cfree)(void*) = find<void(void*)>("cfree");
    void (*free_sized)(void*, size_t) = find<void(void*, size_t)>("free_sized");
    void (*free_aligned_sized)(void*, size_t, size_t) = find<void(void*, size_t, size_t)>("free_aligned_sized");
  };
  const Functions functions_;
  volatile size_t& in_hand_;
  Random& random_;
};

}  // namespace freeway_test
#endif
