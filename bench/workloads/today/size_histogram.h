// SPDX-License-Identifier: MIT
//
// size_histogram.h: sizes drawn from a table of counts, in constant time and with the table's exact shares: the alias
// method (A. J. Walker, 1977; M. D. Vose, 1991). A table of a hundred rows takes 2.4 KiB: drawing leaves the CPU's
// cache to the allocator.
#ifndef FREEWAY_BENCH_TODAY_SIZE_HISTOGRAM_H
#define FREEWAY_BENCH_TODAY_SIZE_HISTOGRAM_H

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>

namespace bench {

// Requests for first to last bytes, both inclusive.
struct SizeRow {
  std::uint32_t first, last;
  std::uint64_t count;
};

struct NamedSizes {
  const char* name;
  std::span<const SizeRow> rows;
};

class SizeSampler {
 public:
  static constexpr std::size_t kMostRows = 256;

  // At most kMostRows rows, with at least one request.
  explicit SizeSampler(std::span<const SizeRow> rows) : count_(static_cast<std::uint32_t>(rows.size())) {
    double total = 0;
    for (const SizeRow& row : rows) total += static_cast<double>(row.count);
    double scaled[kMostRows];  // share of each row, in units of an equal share
    std::uint32_t poor[kMostRows], rich[kMostRows];
    std::size_t poor_count = 0, rich_count = 0;
    for (std::uint32_t i = 0; i < count_; ++i) {
      cells_[i] = {rows[i].first, rows[i].last - rows[i].first + 1, kWhole, i};
      scaled[i] = static_cast<double>(rows[i].count) * count_ / total;
      (scaled[i] < 1 ? poor[poor_count++] : rich[rich_count++]) = i;
    }
    // A poor row's cell is filled up with a rich row, which may become poor by that.
    while (poor_count > 0 && rich_count > 0) {
      const std::uint32_t low = poor[--poor_count];
      const std::uint32_t high = rich[rich_count - 1];
      cells_[low].own = static_cast<std::uint64_t>(std::llround(scaled[low] * static_cast<double>(kWhole)));
      cells_[low].other = high;
      scaled[high] -= 1 - scaled[low];
      if (scaled[high] < 1) {
        --rich_count;
        poor[poor_count++] = high;
      }
    }
  }

  // A size, from 64 random bits.
  std::size_t draw(std::uint64_t bits) const {
    const std::uint64_t place = (bits >> 32) * count_;
    const Cell* cell = &cells_[place >> 32];
    if ((place & 0xffff'ffffu) >= cell->own) cell = &cells_[cell->other];
    return cell->first + (((bits & 0xffff'ffffu) * cell->width) >> 32);
  }

 private:
  static constexpr std::uint64_t kWhole = std::uint64_t{1} << 32;

  struct Cell {
    std::uint32_t first, width;  // of the row with the cell's number
    std::uint64_t own;           // the part of the cell that is its own row's, of 2^32
    std::uint32_t other;         // whose the rest is
  };

  std::uint32_t count_;
  Cell cells_[kMostRows];
};

}  // namespace bench

#endif  // FREEWAY_BENCH_TODAY_SIZE_HISTOGRAM_H
