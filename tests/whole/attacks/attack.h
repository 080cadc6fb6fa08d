// SPDX-License-Identifier: MIT
//
// attack.h: what the programs of attacks share: blocks whose contents are watched, and the words for the driver.
//
// A program says on fd 1 `attack` right before the fault and `after` right behind it, and at its end what came of it.
// What ends it in between is the allocator's doing: before `after` it stopped the fault at once, behind it late.
// Nothing here allocates but `take`, which is malloc.
#pragma once

#include <malloc.h>
#include <sched.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

namespace attack {

inline void say(const char* words) {
  if (write(1, words, strlen(words)) < 0) _exit(3);
}
inline void begin() { say("attack\n"); }
inline void done() { say("after\n"); }
[[noreturn]] inline void exploited(const char* how) {
  say("exploitable: ");
  say(how);
  say("\n");
  _exit(0);
}
[[noreturn]] inline void unharmed(const char* how = "") {
  say("unharmed: ");
  say(how);
  say("\n");
  _exit(0);
}

// The compiler must not know what is freed: it would drop or warn about what is done here on purpose.
template <class T> inline T* hide(T* pointer) {
  asm volatile("" : "+r"(pointer)::"memory");
  return pointer;
}
inline unsigned char* bytes(void* pointer) { return static_cast<unsigned char*>(hide(pointer)); }
inline uintptr_t address(const void* pointer) { return reinterpret_cast<uintptr_t>(pointer); }

struct Block {
  unsigned char* start;
  size_t size;  // all that malloc_usable_size grants
  unsigned char fill;
  bool live;
  bool watched;  // its contents are nobody's but the program's
};

constexpr int kMany = 2048;  // as many tries as the attacker has
constexpr int kMost = 4 * kMany;
inline Block blocks[kMost];
inline int count;

// A memory of the attacker's, outside the heap: an allocation in it is one at an address that he chose.
alignas(4096) inline unsigned char target[65536];

inline bool overlap(const Block& block, const unsigned char* start, size_t size) {
  return start < block.start + block.size && block.start < start + size;
}

inline void must_be_new(const unsigned char* start, size_t size) {
  if (start < target + sizeof target && target < start + size) exploited("an allocation at a chosen address");
  for (int i = 0; i < count; ++i)
    if (blocks[i].live && overlap(blocks[i], start, size)) exploited("two live blocks overlap");
}

// Notes a block as the program's own. Two that overlap are what most attackers want; that is looked for before the
// allocator is asked for the size, which may name such a block itself.
inline Block& own(void* pointer, size_t requested) {
  unsigned char* start = bytes(pointer);
  if (start == nullptr || count == kMost) _exit(3);
  must_be_new(start, requested);
  const size_t size = malloc_usable_size(start);
  must_be_new(start, size);
  blocks[count] = {start, size, static_cast<unsigned char>(1 + count % 251), true, true};
  memset(start, blocks[count].fill, size);
  return blocks[count++];
}
inline Block& take(size_t size) { return own(malloc(size), size); }

// free as a correct program calls it.
inline void give(Block& block) {
  block.live = false;
  free(hide(block.start));
}

inline void check_contents() {
  for (int i = 0; i < count; ++i) {
    if (!blocks[i].live || !blocks[i].watched) continue;
    for (size_t byte = 0; byte < blocks[i].size; ++byte)
      if (blocks[i].start[byte] != blocks[i].fill) exploited("a live block's contents changed");
  }
}

// What a program does with its heap afterwards: allocates, frees all that it has, allocates again, and looks whether
// all is its own.
inline void aftermath(size_t size) {
  const int many = size <= 32 * 1024 ? kMany : 64;  // large ones lie where they can, and cost memory
  for (int i = 0; i < many; ++i) take(size);
  check_contents();
  for (int i = 0; i < count; ++i)
    if (blocks[i].live) give(blocks[i]);
  for (int i = 0; i < many; ++i) take(size);
  check_contents();
}

// Keeps the calling thread on a CPU: where an allocator has a cache for each, being moved between two frees would
// decide what comes of them.
inline void stay_on(int cpu) {
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(cpu, &one);
  sched_setaffinity(0, sizeof one, &one);
}

inline cpu_set_t cpus;  // that the program may use

// What every program does first; returns the size it is to attack.
inline size_t start(int argc, char** argv) {
  sched_getaffinity(0, sizeof cpus, &cpus);
  stay_on(sched_getcpu());
  return argc > 1 ? strtoul(argv[1], nullptr, 10) : 64;
}

// A heap that has been in use: blocks of the size, every second of the last ones freed again if `holes`.
inline void settle(size_t size, bool holes = false) {
  for (int i = 0; i < 64; ++i) take(size);
  if (holes)
    for (int i = 0; i < 64; i += 2) give(blocks[i]);
}

// The live block behind which the next one lies closest.
inline Block& before_nearest() {
  Block* best = nullptr;
  uintptr_t least = UINTPTR_MAX;
  for (int i = 0; i < count; ++i)
    for (int j = 0; j < count; ++j)
      if (blocks[i].live && blocks[j].live && blocks[j].start > blocks[i].start &&
          address(blocks[j].start) - address(blocks[i].start) < least) {
        best = &blocks[i];
        least = address(blocks[j].start) - address(blocks[i].start);
      }
  return *best;
}
// The block that lies next behind `block`, null if it is the last.
inline Block* nearest_behind(const Block& block) {
  Block* best = nullptr;
  for (int i = 0; i < count; ++i)
    if (blocks[i].live && blocks[i].start > block.start && (best == nullptr || blocks[i].start < best->start))
      best = &blocks[i];
  return best;
}

// What an attacker of glibc writes over the size of a chunk whose block has `usable` bytes, to make it larger; to the
// others it is any number. Only the lowest byte differs from what was there.
inline size_t larger_chunk(size_t usable) {
  const size_t chunk = usable + sizeof(size_t);
  return chunk < 128 ? 2 * chunk + 1 : (chunk | 0xf0) + 1;
}

// Behind an overflow: both blocks are freed, and allocations of both sizes follow. A write that changed the neighbour's
// contents and was not noticed until then has succeeded.
[[noreturn]] inline void after_overflow(Block& from, Block* into, bool changed) {
  const size_t size = from.size;
  const size_t larger = (larger_chunk(size) & ~size_t{15}) - sizeof(size_t);
  if (into != nullptr) give(*into);
  for (int i = 0; i < 64; ++i) take(larger);
  give(from);
  aftermath(size);
  if (changed) exploited("a neighbour's contents changed unseen");
  unharmed();
}

// Whether `length` bytes from `start` hit the contents of a live block; its contents are no longer watched.
inline bool hit(const unsigned char* start, size_t length) {
  bool any = false;
  for (int i = 0; i < count; ++i)
    if (blocks[i].live && overlap(blocks[i], start, length)) {
      any = true;
      blocks[i].watched = false;
    }
  return any;
}

}  // namespace attack
