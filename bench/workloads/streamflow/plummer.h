// SPDX-License-Identifier: MIT
//
// plummer.h: bodies to begin with, drawn from Plummer's model of a star cluster by the method of Aarseth, Henon and
// Wielen (1974): total mass 1, G = 1, virial radius 1, cut off at 9 units.
#ifndef FREEWAY_BENCH_STREAMFLOW_PLUMMER_H
#define FREEWAY_BENCH_STREAMFLOW_PLUMMER_H

#include <cmath>
#include <cstdint>
#include <numbers>

#include "support/measure.h"

namespace bodies {

struct Vector {
  double x = 0, y = 0, z = 0;
  Vector& operator+=(const Vector& other) {
    x += other.x;
    y += other.y;
    z += other.z;
    return *this;
  }
  friend Vector operator-(const Vector& a, const Vector& b) { return {a.x - b.x, a.y - b.y, a.z - b.z}; }
  friend Vector operator*(double factor, const Vector& a) { return {factor * a.x, factor * a.y, factor * a.z}; }
  double squared() const { return x * x + y * y + z * z; }
};

struct Body {
  Vector position, velocity, acceleration;
  double mass = 0;
};

class Plummer {
 public:
  explicit Plummer(std::uint64_t seed) : random_(seed) {}

  Body next(double mass) {
    double radius = 0;
    do {
      const double inverse = std::cbrt(1 / between(1e-9, 1));
      radius = 1 / std::sqrt(inverse * inverse - 1);
    } while (!(radius < 9));
    // Speed as a share of the escape speed: q, drawn by rejection from q^2 (1 - q^2)^3.5.
    double q = 0, rest = 0;
    do {
      q = between(0, 1);
      rest = 1 - q * q;
    } while (between(0, 0.1) > q * q * rest * rest * rest * std::sqrt(rest));
    const double speed = q * std::numbers::sqrt2 / std::sqrt(std::sqrt(1 + radius * radius));
    constexpr double kLength = 3 * std::numbers::pi / 16;
    return {direction(radius * kLength), direction(speed / std::sqrt(kLength)), {}, mass};
  }

 private:
  double between(double low, double high) {
    return low + (high - low) * static_cast<double>(random_.next() >> 11) * 0x1p-53;
  }
  // Of this length, in a direction that is uniform on the sphere.
  Vector direction(double length) {
    Vector v;
    do { v = {between(-1, 1), between(-1, 1), between(-1, 1)}; } while (v.squared() > 1 || v.squared() < 1e-6);
    return (length / std::sqrt(v.squared())) * v;
  }

  bench::Random random_;
};

}  // namespace bodies

#endif  // FREEWAY_BENCH_STREAMFLOW_PLUMMER_H
