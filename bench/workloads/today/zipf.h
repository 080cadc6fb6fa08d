// SPDX-License-Identifier: MIT
//
// zipf.h: ranks 1 … n with probabilities proportional to rank^-s, in constant time and memory and without
// approximation: rejection-inversion (W. Hörmann and G. Derflinger, "Rejection-inversion to generate variates from
// monotone discrete distributions", ACM TOMACS 6(3), 1996).
//
// The histogram of the probabilities lies under the curve x^-s, whose integral H can be inverted. A point is drawn by
// H; it is taken if it falls under the bar of the integer next to it, as nearly all do.
#ifndef FREEWAY_BENCH_TODAY_ZIPF_H
#define FREEWAY_BENCH_TODAY_ZIPF_H

#include <cmath>

#include "support/measure.h"

namespace bench {

class Zipf {
 public:
  // n >= 1, s > 0.
  Zipf(std::uint64_t n, double s)
      : n_(static_cast<double>(n)),
        s_(s),
        low_(integral(1.5) - 1),  // the whole bar of rank 1, which has height 1
        high_(integral(n_ + 0.5)),
        surely_(2 - inverse(integral(2.5) - bar(2))) {}

  // In [1, n].
  std::uint64_t draw(Random& random) const {
    for (;;) {
      const double unit = static_cast<double>(random.next() >> 11) * 0x1p-53;
      const double area = high_ + unit * (low_ - high_);
      const double x = inverse(area);
      double rank = std::floor(x + 0.5);
      rank = rank < 1 ? 1 : rank > n_ ? n_ : rank;
      if (rank - x <= surely_ || area >= integral(rank + 0.5) - bar(rank)) return static_cast<std::uint64_t>(rank);
    }
  }

 private:
  double bar(double x) const { return std::pow(x, -s_); }
  double integral(double x) const { return s_ == 1 ? std::log(x) : (std::pow(x, 1 - s_) - 1) / (1 - s_); }
  double inverse(double y) const { return s_ == 1 ? std::exp(y) : std::pow(1 + y * (1 - s_), 1 / (1 - s_)); }

  double n_, s_, low_, high_, surely_;
};

}  // namespace bench

#endif  // FREEWAY_BENCH_TODAY_ZIPF_H
