// SPDX-License-Identifier: MIT
//
// ground.h: what the tests of shared/ stand on: a memory file with the tables of a heap and its data, which each
// process maps where it likes, and the World of it. Who is gone, the test says.
#ifndef FREEWAY_TESTS_UNIT_SHARED_GROUND_H
#define FREEWAY_TESTS_UNIT_SHARED_GROUND_H

#include <sys/mman.h>
#include <unistd.h>

#include <cstdlib>

#include "shared/heap.h"
#include "tests/support/test_env.h"

namespace freeway::test {

class SharedGround {
 public:
  static constexpr u32 kSeats = 24;

  struct World {
    using Env = TestEnv;
    using Shape = shared::FlagshipShape;
    using Tables = shared::Tables<Env, Shape>;
    Tables tables;
    SharedGround* ground;

    bool gone(u32 token) {
      return ground->head().gone[token % kSeats].load_acquire() != 0;
    }  // stored once it was reaped
    u32 frames() { return ground->head().frames.load_acquire(); }
    bool grow(u32 n) {
      auto& frames = ground->head().frames;
      u32 now = frames.load_acquire();
      if (now == tables.capacity) return false;
      const u32 more = now + n < tables.capacity ? now + n : tables.capacity;
      frames.cas_acq_rel(now, more);
      return true;
    }
    bool back(u32, u32) { return ground->refusals == 0 || --ground->refusals != 0; }
    bool back_tables(u32) { return true; }
    bool is_punched_at_once(u32) const { return ground->at_once; }
    shared::Punched punch(u32 first, u32 n) {
      ground->given_back.fetch_add_relaxed(n);
      if (ground->punches) madvise(ground->at(tables.offset_of(first)), u64{n} << kFrameShift, MADV_REMOVE);
      return shared::Punched::kDone;
    }
    TestEnv::Atomic<u64>* slot(u64 offset) {
      const bool inside = offset % 8 == 0 && shared::Heap<World>(*this).is_in_live_block(offset);
      return inside ? static_cast<TestEnv::Atomic<u64>*>(ground->at(offset)) : nullptr;
    }
  };
  using Heap = shared::Heap<World>;

  explicit SharedGround(u32 capacity, u32 frames = 1) : capacity_(capacity), fd_(memfd_create("shared heap", 0)) {
    if (fd_ < 0 || ftruncate(fd_, static_cast<off_t>(bytes())) != 0) abort();
    map();
    head().frames.store_relaxed(frames);
  }
  ~SharedGround() {
    munmap(base_, bytes());
    close(fd_);
  }
  SharedGround(const SharedGround&) = delete;

  // A child of a fork maps the file anew, elsewhere.
  void map_again() {
    char* old = base_;
    map();
    munmap(old, bytes());
  }

  World& world() { return world_; }
  Heap heap() { return Heap(world_); }
  void* at(u64 offset) { return base_ + offset; }
  u32 capacity() const { return capacity_; }
  void set_gone(u32 token) { head().gone[token].store_release(1); }
  void set_alive(u32 token) { head().gone[token].store_release(0); }

  bool punches = false, at_once = true;
  u32 refusals = 0;  // the so-manieth call of back() from now on is refused; 0: none
  TestEnv::Atomic<u64> given_back;

 private:
  struct Head {
    TestEnv::Atomic<u32> frames;
    TestEnv::Atomic<u32> gone[kSeats];
  };
  using Tables = World::Tables;
  using Shape = World::Shape;

  Head& head() { return *reinterpret_cast<Head*>(base_); }
  u64 data_at() const {
    const u64 tables = sizeof(Head) + u64{capacity_} * (8 + 8 * Shape::kWords + Shape::kBlocks + 1) +
                       8 * Shape::kClasses * Tables::hint_words(capacity_) + kSeats * (8 + sizeof(Tables::Slab));
    return align_up(tables + 8 * 64, kFrameSize);
  }
  u64 bytes() const { return data_at() + (u64{capacity_} << kFrameShift); }

  void map() {
    void* const memory = mmap(nullptr, bytes(), PROT_READ | PROT_WRITE, MAP_SHARED, fd_, 0);
    if (memory == MAP_FAILED) abort();
    base_ = static_cast<char*>(memory);
    u64 next = align_up(sizeof(Head), 64);
    const auto table = [&](auto*& pointer, u64 count) {
      pointer = reinterpret_cast<std::remove_reference_t<decltype(pointer)>>(base_ + next);
      next = align_up(next + count * sizeof(*pointer), 64);
    };
    Tables& t = world_.tables;
    table(t.entries, capacity_);
    table(t.bits, u64{capacity_} * Shape::kWords);
    table(t.states, u64{capacity_} * Shape::kBlocks);
    table(t.backing, capacity_);
    table(t.hints, Shape::kClasses * Tables::hint_words(capacity_));
    table(t.participants, kSeats);
    table(t.slabs, kSeats);
    t.data_at = data_at();
    t.capacity = capacity_;
    t.seats = kSeats;
    world_.ground = this;
  }

  u32 capacity_;
  int fd_;
  char* base_ = nullptr;
  World world_ = {};
};

}  // namespace freeway::test

#endif  // FREEWAY_TESTS_UNIT_SHARED_GROUND_H
