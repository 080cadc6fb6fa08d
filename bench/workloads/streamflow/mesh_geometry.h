// SPDX-License-Identifier: MIT
//
// mesh_geometry.h: questions about points with whole coordinates, answered exactly.
//
// Coordinates are below 2^28 in magnitude, differences of coordinates below 2^29: orientations and dot products fit
// into 64 bits, the in-circle determinant (4 x 29 bits and a few) into 128. So the triangulation never contradicts
// itself, which with rounded answers it would.
#ifndef FREEWAY_BENCH_STREAMFLOW_MESH_GEOMETRY_H
#define FREEWAY_BENCH_STREAMFLOW_MESH_GEOMETRY_H

#include <algorithm>
#include <cmath>
#include <cstdint>

namespace mesh {

struct Place {
  std::int32_t x, y;
  friend bool operator==(const Place&, const Place&) = default;
};

// Twice the signed area of a, b, c: positive if they turn left.
inline std::int64_t orientation(Place a, Place b, Place c) {
  return (std::int64_t{b.x} - a.x) * (std::int64_t{c.y} - a.y) - (std::int64_t{b.y} - a.y) * (std::int64_t{c.x} - a.x);
}

inline std::int64_t squared_distance(Place a, Place b) {
  const std::int64_t x = std::int64_t{a.x} - b.x, y = std::int64_t{a.y} - b.y;
  return x * x + y * y;
}

// Does p see the segment a, b under more than a right angle, that is, does it lie inside the circle over it?
inline bool encroaches(Place p, Place a, Place b) {
  const std::int64_t along_x = (std::int64_t{a.x} - p.x) * (std::int64_t{b.x} - p.x);
  return along_x + (std::int64_t{a.y} - p.y) * (std::int64_t{b.y} - p.y) < 0;
}

// Does p lie inside (not on) the circle through a, b, c, which turn left?
inline bool in_circle(Place a, Place b, Place c, Place p) {
  const std::int64_t ax = std::int64_t{a.x} - p.x, ay = std::int64_t{a.y} - p.y;
  const std::int64_t bx = std::int64_t{b.x} - p.x, by = std::int64_t{b.y} - p.y;
  const std::int64_t cx = std::int64_t{c.x} - p.x, cy = std::int64_t{c.y} - p.y;
  const auto product = [](std::int64_t lift, std::int64_t minor) { return static_cast<__int128>(lift) * minor; };
  return product(ax * ax + ay * ay, bx * cy - by * cx) + product(bx * bx + by * by, cx * ay - cy * ax) +
             product(cx * cx + cy * cy, ax * by - ay * bx) >
         0;
}

// The centre of the circle through a, b, c, rounded.
inline Place circumcentre(Place a, Place b, Place c) {
  const double bx = b.x - a.x, by = b.y - a.y, cx = c.x - a.x, cy = c.y - a.y;
  const double b2 = bx * bx + by * by, c2 = cx * cx + cy * cy, twice = 2 * (bx * cy - by * cx);
  // A very flat triangle's centre may lie anywhere; only whether it is inside the square matters then.
  const auto whole = [](double value) { return static_cast<std::int32_t>(std::lround(std::clamp(value, -1e9, 1e9))); };
  return {whole(a.x + (cy * b2 - by * c2) / twice), whole(a.y + (bx * c2 - cx * b2) / twice)};
}

// Is the circle's radius more than sqrt(2) times the shortest edge (the smallest angle below 20.7 degrees)? Then the
// triangle is to be refined; up to this bound Ruppert's method is known to end.
inline bool is_skinny(Place a, Place b, Place c) {
  const std::int64_t ab = squared_distance(a, b), bc = squared_distance(b, c), ca = squared_distance(c, a);
  const std::int64_t shortest = std::min({ab, bc, ca});
  const double area = static_cast<double>(orientation(a, b, c));  // twice
  const double radius = static_cast<double>(ab) * static_cast<double>(bc) * static_cast<double>(ca) / (4 * area * area);
  return radius > 2 * static_cast<double>(shortest);
}

}  // namespace mesh

#endif  // FREEWAY_BENCH_STREAMFLOW_MESH_GEOMETRY_H
