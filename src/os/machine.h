// SPDX-License-Identifier: MIT
// machine.h: the Env of the product: real atomics, the real kernel, steps that compile to nothing.
//
// Every concurrent template of Freeway takes an Env. Tests pass others: one that explores interleavings, one that stops
// a thread at a step, one whose memory runs out.
#pragma once

#include "arch/alone.h"
#include "arch/atomic.h"
#include "os/vm.h"

namespace freeway {

struct Machine {
  template <class T> using Atomic = freeway::Atomic<T>;
  template <class T> using Plain = freeway::Plain<T>;

  static void fence_acquire() { freeway::fence_acquire(); }
  static void fence_full() { freeway::fence_full(); }
  static void fence_signal() { freeway::fence_signal(); }
  static void step(const char*) {}

  // While the process has one thread, bitmap words need no atomic instruction (arch/alone.h).
  static bool set_bits_alone(Atomic<u64>& word, u64 mask, u64& old) { return alone::set_bits(word, mask, old); }
  static bool clear_bits_alone(Atomic<u64>& word, u64 mask, u64& old) { return alone::clear_bits(word, mask, old); }

  static Space space(std::size_t bytes, std::size_t alignment) { return vm::space(bytes, alignment); }
  static Extended extend(uptr address, std::size_t bytes) { return vm::extend(address, bytes); }
  static uptr reserve(std::size_t bytes, std::size_t alignment) { return vm::reserve(bytes, alignment); }
  static uptr map(std::size_t bytes, std::size_t alignment) { return vm::map(bytes, alignment); }
  static bool commit(uptr address, std::size_t bytes) { return vm::commit(address, bytes); }
  static bool forbid(uptr address, std::size_t bytes) { return vm::forbid(address, bytes); }
  static bool purge(uptr address, std::size_t bytes) { return vm::purge(address, bytes); }
  static bool populate(uptr address, std::size_t bytes) { return vm::populate(address, bytes); }
  // Writes to a zero page for the first time: it gets memory.
  static void touch(uptr address) { *reinterpret_cast<volatile u64*>(address) = 0; }
  static void prefer_small(uptr address, std::size_t bytes) { vm::prefer_small(address, bytes); }
  static void prefer_huge(uptr address, std::size_t bytes) { vm::prefer_huge(address, bytes); }
  static void forbid_huge(uptr address, std::size_t bytes) { vm::forbid_huge(address, bytes); }
  static bool huge_on_request() { return vm::huge_on_request(); }
  static u64 populate_huge(uptr address, std::size_t bytes) { return vm::populate_huge(address, bytes); }
  static u64 populate_small(uptr address, std::size_t bytes) { return vm::populate_small(address, bytes); }
  static std::size_t resident(uptr address, std::size_t bytes) { return vm::resident(address, bytes); }
  static bool can_move(std::size_t more_bytes) { return vm::can_move(more_bytes); }
  static bool move(uptr from, std::size_t old_bytes, uptr to, std::size_t new_bytes) {
    return vm::move(from, old_bytes, to, new_bytes);
  }
  static bool move_out(uptr from, std::size_t bytes, uptr to) { return vm::move_out(from, bytes, to); }
  static void copy(uptr to, uptr from, std::size_t bytes) {
    __builtin_memcpy(reinterpret_cast<void*>(to), reinterpret_cast<const void*>(from), bytes);
  }
  static bool resize(uptr address, std::size_t old_bytes, std::size_t new_bytes) {
    return vm::resize(address, old_bytes, new_bytes);
  }
  static bool release(uptr address, std::size_t bytes) { return vm::release(address, bytes); }
};

}  // namespace freeway
