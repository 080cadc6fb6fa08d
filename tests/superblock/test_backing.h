// SPDX-License-Identifier: MIT
//
// test_backing.h: where superblocks of the unit tests get their spans and descriptors from: real memory, refusal on
// demand, and a check that every span is given back once, by somebody who may.
#ifndef FREEWAY_TESTS_UNIT_TEST_BACKING_H
#define FREEWAY_TESTS_UNIT_TEST_BACKING_H

#include <gtest/gtest.h>

#include <array>
#include <deque>
#include <map>
#include <mutex>

#include "superblock/superblocks.h"
#include "tests/support/test_env.h"

namespace freeway::test {

constexpr SizeClass make_test_class(u32 size, u32 blocks) {
  SizeClass k{};
  k.size = size;
  k.blocks = blocks;
  k.words = static_cast<u32>(ceil_div(blocks, 64));
  k.span_frames = static_cast<u32>(ceil_div(u64{size} * blocks, kFrameSize));
  k.last_word = low_bits(blocks - (k.words - 1) * 64);
  k.magic = static_cast<u32>(((u64{1} << 35) + size - 1) / size);
  return k;
}

// Small ones: a word and a bit, one word, one block, three words and a bit; blocks of a third of a page, of three
// pages.
inline constexpr std::array<SizeClass, 7> kTestClasses = {SizeClass{},
                                                          make_test_class(16, 65),
                                                          make_test_class(64, 64),
                                                          make_test_class(32768, 1),
                                                          make_test_class(16, 193),
                                                          make_test_class(1360, 190),
                                                          make_test_class(12288, 21)};

template <class Env, const auto& kTable> class TestBacking {
 public:
  static constexpr unsigned kClasses = kTable.size();

  static const SizeClass& size_class(unsigned c) { return kTable[c]; }

  Descriptor<Env>& descriptor(u32 index) {
    const std::lock_guard lock(mutex_);
    EXPECT_TRUE(index >= 1 && index <= descriptors_.size());
    return *reinterpret_cast<Descriptor<Env>*>(&descriptors_[index - 1]);
  }

  u32 make_descriptor(unsigned c) {
    const std::lock_guard lock(mutex_);
    if (descriptors_left == 0) return 0;
    --descriptors_left;
    descriptors_.emplace_back();
    const u32 index = static_cast<u32>(descriptors_.size());
    descriptor(index).size_class.store_relaxed(c);
    return index;
  }

  uptr take_span(unsigned c, u32 d) {
    const std::lock_guard lock(mutex_);
    if (spans_left == 0) return 0;
    --spans_left;
    const uptr span = kernel().map(size_class(c).span_bytes(), std::size_t{1} << log2_ceil(size_class(c).span_bytes()));
    spans_[span] = {c, d};
    return span;
  }

  u32 descriptor_at(uptr span, unsigned c) {
    const std::lock_guard lock(mutex_);
    const auto at = spans_.find(span);
    return at == spans_.end() || at->second.size_class != c ? 0 : at->second.descriptor;
  }

  void give_span(uptr span, unsigned c) {
    const std::lock_guard lock(mutex_);
    const auto at = spans_.find(span);
    ASSERT_NE(at, spans_.end()) << "given back twice, or never taken";
    EXPECT_EQ(at->second.size_class, c);
    spans_.erase(at);
    ++given;
    if (spans_left != ~0u) ++spans_left;
    kernel().release(span, size_class(c).span_bytes());
  }

  unsigned node() const { return on_node; }

  // The descriptor of the superblock that a block lies in, and its span; 0 and 0 if it lies in none.
  std::pair<u32, uptr> find(const void* block) {
    const std::lock_guard lock(mutex_);
    auto at = spans_.upper_bound(reinterpret_cast<uptr>(block));
    if (at == spans_.begin()) return {};
    --at;
    if (reinterpret_cast<uptr>(block) >= at->first + size_class(at->second.size_class).span_bytes()) return {};
    return {at->second.descriptor, at->first};
  }

  std::size_t spans() const { return spans_.size(); }
  std::size_t descriptors() const { return descriptors_.size(); }

  unsigned spans_left = ~0u, descriptors_left = ~0u;  // before they are refused
  unsigned given = 0;                                 // spans that came back
  unsigned on_node = 0;                               // where the calling thread is

 private:
  struct Span {
    unsigned size_class;
    u32 descriptor;
  };
  struct alignas(64) DescriptorMemory {
    unsigned char bytes[640] = {};
  };
  std::recursive_mutex mutex_;
  std::map<uptr, Span> spans_;
  std::deque<DescriptorMemory> descriptors_;
};

}  // namespace freeway::test

#endif  // FREEWAY_TESTS_UNIT_TEST_BACKING_H
