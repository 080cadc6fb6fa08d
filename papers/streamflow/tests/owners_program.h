// SPDX-License-Identifier: MIT
//
// owners_program.h: Streamflow's allocator in the smallest world around it, and threads that follow scripts.
//
// World     two page blocks of three objects, one object class, a heap for each of three threads. Each object has
//           contents that its owner writes to, and the headers' plain fields are the owners', so that an object in two
//           hands, a page block with two owners, or one given back under somebody's feet is a race
// Scripts   one letter an action
//             a allocate an object           f free the oldest one that the thread has
//             F free it as a signal handler that interrupted the thread would (or a thread without a heap)
//             x end: let go of the heap      n take the heap up again, as the next thread would
//             e end, and pass the heap on    j take up one that was passed on
//             t trim
//           in the setup, which thread 0's heap makes: 0 1 2 give the oldest object to that thread
// Promises  checked by finish(): every object is in one place; when everything is freed and all threads have ended,
//           every page block has gone back. With a thread stopped for ever: the others' objects can be freed and their
//           page blocks go back, but for those that its heap owns or that have an object of it, and one in its hands;
//           while it trims, what it took off the lists
#ifndef FREEWAY_TESTS_ENGINES_STREAMFLOW_OWNERS_PROGRAM_H
#define FREEWAY_TESTS_ENGINES_STREAMFLOW_OWNERS_PROGRAM_H

#include <array>
#include <cstring>

#include "papers/streamflow/allocator.h"
#include "tests/explorer/explorer.h"
#include "tests/explorer/model_env.h"

namespace freeway::model {

using ModelBlock = streamflow::PageBlock<ModelEnv>;

constexpr u32 kObjects = 3;  // a page block
constexpr u32 kModelBlocks = 2;
constexpr u32 kStride = 16;
constexpr u32 kFirst = align_up(sizeof(ModelBlock), 16);

struct ModelClasses {
  static constexpr unsigned kClasses = 1;
  static constexpr streamflow::ObjectClass kModelClass{kStride, kStride, kFirst, kFirst + kObjects* kStride, 0, 0};
  static constexpr std::array<streamflow::ObjectClass, 2> kAll{{{}, kModelClass}};
};

// Page blocks are called 1 … kModelBlocks.
struct ModelPages {
  struct Taken {
    uptr address = 0;
    u32 name = 0;
  };
  ModelEnv::Atomic<u64> used;  // page blocks, as bits
  ModelEnv::Atomic<u32> links[kModelBlocks];
  ModelEnv::Plain<u32> content[kModelBlocks][kObjects];
  alignas(64) std::byte memory[kModelBlocks][kFirst + kObjects * kStride];

  uptr at(u32 name) const {
    model_check(name >= 1 && name <= kModelBlocks, "a page block that exists");
    return reinterpret_cast<uptr>(memory[name - 1]);
  }
  ModelBlock& block(u32 index) { return *reinterpret_cast<ModelBlock*>(memory[index]); }
  ModelEnv::Atomic<u32>& link(u32 name) { return links[name - 1]; }
  void touch(u32 index) {
    for (auto& each : content[index]) each.set(1);
  }
  Taken take(unsigned) {
    u64 seen = used.load_relaxed();
    while (seen != low_bits(kModelBlocks)) {
      const u32 index = lowest_bit(~seen);
      if (!used.cas_acquire(seen, seen | u64{1} << index)) continue;
      touch(index);
      return {at(index + 1), index + 1};
    }
    return {};
  }
  void give(u32 name, unsigned) {
    touch(name - 1);
    const u64 before = used.fetch_and_release(~(u64{1} << (name - 1)));
    model_check((before >> (name - 1) & 1) != 0, "a page block is given back once");
  }
};

struct OwnersScript {
  const char* setup;
  const char* thread[3];
  u32 global_limit = 0;  // wholly free page blocks that the global cache keeps
};

struct OwnersProgram {
  static constexpr int kThreads = 3;  // a thread with an empty script ends at once
  using Allocator = streamflow::Allocator<ModelEnv, ModelClasses, ModelPages>;
  using Heap = Allocator::Heap;

  struct Object {
    u32 block, object;  // indexes
  };
  struct Hands {
    Object objects[8];
    int from = 0, to = 0;
  };

  OwnersScript script;
  ModelPages pages;
  Allocator allocator;
  Heap heaps[kThreads + 1];  // the last one: finish()'s
  Heap* own[kThreads] = {};
  bool ended[kThreads] = {};
  TaggedStack<ModelEnv> passed_on;
  Hands hands[kThreads + 1];  // the last ones: what the setup made and gave to nobody

  explicit OwnersProgram(OwnersScript s);
  void thread(int id) {
    for (const char* move = script.thread[id]; *move != 0; ++move) act(*move, id);
  }
  void finish();

 private:
  void act(char move, int id);
  void allocate(Heap& heap, Hands& mine);
  void release(Heap* heap, const Object& object);
  void check_places();
  void drain();
  void check_what_is_out_of_reach(int stopped);
  auto heap_links() {
    return [this](u32 id) -> auto& { return heaps[id - 1].link; };
  }
};

inline OwnersProgram::OwnersProgram(OwnersScript s) : script(s) {
  allocator.init(&pages, 1, s.global_limit);
  for (u32 i = 0; i <= kThreads; ++i) heaps[i].id = i + 1;
  for (u32 i = 0; i < kThreads; ++i) own[i] = &heaps[i];
  model_name(passed_on, "heaps");
  model_name(allocator, "lists");
  model_name(pages.used, "used");
  for (u32 i = 0; i < kModelBlocks; ++i) {
    const int index = static_cast<int>(i);
    model_name(pages.memory[i], "block", index);
    model_name(pages.block(i).remotely_freed, "remotely_freed", index);
    model_name(pages.content[i], "content", index);
  }
  Hands& setup = hands[kThreads];
  for (const char* move = script.setup; *move != 0; ++move) {
    if (*move == 'a') {
      allocate(heaps[0], setup);
    } else {
      Hands& receiver = hands[*move - '0'];
      model_check(setup.from < setup.to, "the setup gives what there is");
      receiver.objects[receiver.to++] = setup.objects[setup.from++];
    }
  }
}

inline void OwnersProgram::act(char move, int id) {
  Hands& mine = hands[id];
  Heap* heap = ended[id] ? nullptr : own[id];
  switch (move) {
    case 'a':
      if (heap != nullptr) allocate(*heap, mine);
      break;
    case 'f':
    case 'F':
      if (mine.from < mine.to) release(move == 'f' ? heap : nullptr, mine.objects[mine.from++]);
      break;
    case 'x':
      if (heap != nullptr) allocator.retire(*heap);
      ended[id] = true;
      break;
    case 'n': ended[id] = false; break;
    case 'e':
      if (heap == nullptr) break;
      allocator.retire(*heap);
      ended[id] = true;
      own[id] = nullptr;
      passed_on.push(heap->id, heap_links());
      break;
    case 'j':
      if (heap != nullptr) break;
      if (const u32 got = passed_on.pop(heap_links())) {
        own[id] = &heaps[got - 1];
        ended[id] = false;
      }
      break;
    case 't': allocator.trim(heap); break;
    default: model_check(move == ' ', "a letter that means something");
  }
}

inline void OwnersProgram::allocate(Heap& heap, Hands& mine) {
  const auto got = allocator.allocate(heap, 1);
  if (got.block == nullptr) return;
  const u32 block = static_cast<u32>((got.block->address() - pages.at(1)) / sizeof(pages.memory[0]));
  const u32 object = (got.offset - kFirst) / kStride;
  model_check(block < kModelBlocks && object < kObjects, "an object that exists");
  pages.content[block][object].set(2);
  mine.objects[mine.to++] = {block, object};
}

inline void OwnersProgram::release(Heap* heap, const Object& object) {
  pages.content[object.block][object.object].set(3);
  allocator.free(heap, pages.block(object.block), kFirst + object.object * kStride);
}

inline void OwnersProgram::check_places() {
  int places[kModelBlocks][kObjects] = {};
  for (const Hands& mine : hands)
    for (int i = mine.from; i < mine.to; ++i) ++places[mine.objects[i].block][mine.objects[i].object];
  for (u32 i = 0; i < kModelBlocks; ++i) {
    if ((pages.used.load_relaxed() >> i & 1) == 0) continue;
    ModelBlock& b = pages.block(i);
    auto walk = [&](u32 offset) {
      for (u32 n = 0; offset != 0; offset = b.link(offset).get()) {
        model_check(++n <= kObjects && offset >= kFirst && offset < b.limit.get(), "the lists end");
        ++places[i][(offset - kFirst) / kStride];
      }
    };
    walk(b.freed.get());
    walk(streamflow::remotely_freed::head(b.remotely_freed.load_relaxed()));
    for (u32 offset = b.unallocated.get(); offset < b.limit.get(); offset += kStride)
      ++places[i][(offset - kFirst) / kStride];
    for (int n : places[i]) {
      model_check(n <= 1, "an object is in one place");
      model_check(n == 1 || model_stalled() >= 0, "no object is lost");
    }
    const u64 word = b.remotely_freed.load_relaxed();
    model_check(streamflow::remotely_freed::owner(word) != streamflow::remotely_freed::kNobody ||
                    streamflow::remotely_freed::head(word) == 0,
                "nothing is freed to a page block that nobody owns or will own");
    model_observe(streamflow::remotely_freed::owner(word));
  }
}

// Everything is freed, by turns with and without a heap, and all threads end.
inline void OwnersProgram::drain() {
  bool with_heap = true;
  const int stopped = model_stalled();
  for (int id = 0; id < kThreads; ++id)
    if (id != stopped && !ended[id]) allocator.retire(*own[id]);
  for (int id = 0; id <= kThreads; ++id)
    while (id != stopped && hands[id].from < hands[id].to) {
      release(with_heap ? &heaps[kThreads] : nullptr, hands[id].objects[hands[id].from++]);
      with_heap = !with_heap;
    }
  allocator.retire(heaps[kThreads]);
  allocator.trim(nullptr);
  if (stopped >= 0) return check_what_is_out_of_reach(stopped);
  model_check(pages.used.load_relaxed() == 0, "no page block is lost");
}

inline void OwnersProgram::check_what_is_out_of_reach(int stopped) {
  u32 in_hand = 0;
  for (u32 i = 0; i < kModelBlocks; ++i) {
    if ((pages.used.load_relaxed() >> i & 1) == 0) continue;
    const u64 word = pages.block(i).remotely_freed.load_relaxed();
    bool its = own[stopped] != nullptr && streamflow::remotely_freed::owner(word) == own[stopped]->id;
    for (int n = hands[stopped].from; n < hands[stopped].to; ++n) its |= hands[stopped].objects[n].block == i;
    in_hand += !its;
  }
  const bool trims = std::strchr(script.thread[stopped], 't') != nullptr;
  model_check(in_hand <= (trims ? kModelBlocks : 1), "one page block at most is out of reach");
}

inline void OwnersProgram::finish() {
  model_observe(pages.used.load_relaxed());
  if (model_stalled() < 0) check_places();  // else the headers may be half written
  drain();
}

}  // namespace freeway::model

#endif  // FREEWAY_TESTS_ENGINES_STREAMFLOW_OWNERS_PROGRAM_H
