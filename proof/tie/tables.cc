// SPDX-License-Identifier: MIT
// tables.cc: what the shipped headers' pure functions compute, for the arguments of ../tables.v in its order.
//
// One line for each line that tables.v evaluates: the build of the proof compares them.
#include <cstdio>
#include <utility>
#include <vector>

#include "pages/chunk_word.h"
#include "superblock/anchor.h"
#include "sync/tagged_stack.h"

namespace {

using namespace freeway;
using Words = std::vector<u64>;

struct Shape {
  unsigned size_class, words;
};
constexpr Shape kShapes[] = {{0, 1}, {1, 2}, {45, 64}, {255, 262143}};

u64 anchor_of(u64 unlisted, u64 held, u64 size_class, u64 entry, i64 nz, i64 full) {
  return unlisted + 2 * held + 4 * size_class + 1024 * entry + 4096 * static_cast<u64>(nz) +
         4294967296 * static_cast<u64>(full);
}
Words anchors(u64 size_class, const std::vector<i64>& non_zero, const std::vector<i64>& full) {
  Words all;
  for (u64 u = 0; u < 2; ++u)
    for (u64 h = 0; h < 2; ++h)
      for (u64 e = 0; e < 2; ++e)
        for (i64 nz : non_zero)
          for (i64 f : full) all.push_back(anchor_of(u, h, size_class, e, nz, f));
  return all;
}
Words random_words(unsigned count, u64 x) {
  Words all;
  for (; count > 0; --count, x = 6364136223846793005 * x + 1442695040888963407) all.push_back(x);
  return all;
}
Words operator+(Words a, const Words& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

// A checksum of a list: too many rows to print.
u64 sum(const Words& list) {
  u64 s = 7;
  for (u64 x : list) s = s * 31 + x + 1;
  return s;
}

Words anchor_rows(Shape k, const Words& all) {
  Words rows;
  for (u64 a : all) {
    const anchor::Popped popped = anchor::popped(a, k.size_class, k.words);
    const unsigned flags = anchor::is_unlisted(a) + 2u * anchor::is_held(a) + 4u * anchor::has_entry(a) +
                           8u * anchor::is_empty(a, k.size_class, k.words) +
                           16u * anchor::is_in_use(a, k.size_class, k.words) + 32u * anchor::wants_listing(a) +
                           64u * anchor::may_take(a, k.size_class, k.words);
    rows = std::move(rows) + Words{flags, static_cast<u64>(i64{anchor::non_zero_words(a)}), anchor::class_of(a),
                                   popped.word, static_cast<u64>(popped.find)};
  }
  return rows;
}

void print(const Words& line) {
  for (u64 x : line) std::printf("%llu;", static_cast<unsigned long long>(x));
  std::printf("\n");
}

void print_anchors() {
  const std::vector<i64> corners = {-524288, -262144, -3, -2, -1, 0, 1, 2, 3, 63, 64, 65, 262143, 524287};
  const std::vector<i64> fulls = {-262144, -2, -1, 0, 1, 2, 63, 64, 262143};
  const std::vector<i64> few = {-1, 0, 1, 2, 63, 64, 262143};
  constexpr u64 kWord = anchor::kNonZero + anchor::kFull;
  const Words owings = {0,         anchor::kNonZero, anchor::kFull, kWord, -anchor::kNonZero, -anchor::kFull,
                        3 * kWord, 64 * kWord,       262143 * kWord};
  Words line;
  for (Shape k : kShapes) line.push_back(sum(anchor_rows(k, anchors(k.size_class, corners, fulls))));
  for (Shape k : kShapes) line.push_back(sum(anchor_rows(k, random_words(2000, k.size_class))));
  for (Shape k : kShapes) {
    Words rows;
    for (u64 owed : owings)
      for (u64 a : anchors(k.size_class, few, few) + random_words(200, k.words)) {
        const anchor::LetGo next = anchor::let_go(a, owed, k.size_class, k.words);
        rows = std::move(rows) + Words{next.word, static_cast<u64>(next.duty)};
      }
    line.push_back(sum(rows));
  }
  for (Shape k : kShapes) line.push_back(anchor::born(k.size_class, k.words));
  print(line);
}

u64 sum_of_changes(const Words& values) {
  Words rows;
  for (u64 old : values)
    for (u64 mask : values)
      for (u64 full : values)
        rows = std::move(rows) +
               Words{anchor::plus(old, mask, full), anchor::is_over(old, mask, full), anchor::minus(old, mask, full)};
  return sum(rows);
}

void print_chunks() {
  namespace word = freeway::chunk_word;
  const Words used = Words{0,
                           1,
                           2,
                           9223372036854775808u,
                           18446744073709551614u,
                           9223372036854775807,
                           6148914691236517205,
                           12297829382473034410u,
                           1085102592571150095,
                           18374686479671623680u,
                           281474976645120,
                           65536,
                           18446462603027742720u} +
                     random_words(8, 5);
  const unsigned alignments[] = {1, 2, 4, 8, 16, 32, 64};
  Words rows, masks, lowest, starts;
  for (u64 bits : used)
    for (unsigned frames = 1; frames <= kChunkFrames; ++frames) {
      rows.push_back(word::run_starts(bits, frames));
      for (unsigned alignment : alignments) rows.push_back(word::find_run(bits, frames, alignment));
    }
  for (unsigned first = 0; first <= kChunkFrames; ++first)
    for (unsigned frames = 1; first + frames <= kChunkFrames; ++frames) masks.push_back(word::run_mask(first, frames));
  for (u64 bits : used + random_words(200, 77))
    if (bits != 0) lowest.push_back(word::lowest_run(bits));
  for (unsigned alignment : alignments) starts.push_back(word::aligned_starts(alignment));
  print({sum(rows), sum(masks), sum(lowest), sum(starts)});
}

}  // namespace

int main() {
  print_anchors();
  Words nibbles;
  for (u64 n = 0; n < 16; ++n) nibbles.push_back(n);
  const Words far = {0, 1, u64{1} << 63, (u64{1} << 63) + 1, ~u64{1}, ~u64{0}, u64{1} << 32};
  print({sum_of_changes(nibbles), sum_of_changes(far)});
  print_chunks();
  Words heads;
  for (u64 head : random_words(100, 9) + far)
    for (u32 node : {0u, 1u, 67108863u}) heads.push_back(StackHead::next(head, node));
  for (u64 head : random_words(100, 9)) heads.push_back(StackHead::index(head));
  print({sum(heads)});
}
