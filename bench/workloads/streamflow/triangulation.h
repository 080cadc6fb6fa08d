// SPDX-License-Identifier: MIT
//
// triangulation.h: the Delaunay triangulation of one square's points, to which points are added as Bowyer and Watson
// do: the triangles whose circle holds the new point are removed, and the star-shaped hole is filled with a fan around
// it.
//
// Points (12 bytes) and triangles (40 bytes) are blocks of the allocator under test. A triangle names its corners by
// their numbers in the square: with pointers the mean size would be well above the paper's 35 bytes, which were
// measured with pointers of 32 bits.
#ifndef FREEWAY_BENCH_STREAMFLOW_TRIANGULATION_H
#define FREEWAY_BENCH_STREAMFLOW_TRIANGULATION_H

#include <new>

#include "streamflow/mapped_vector.h"
#include "streamflow/mesh_geometry.h"

namespace mesh {

struct Point {
  Place at;
  std::uint32_t fan;  // scratch of Triangulation::fill: which new triangle begins here
};

// Corners turn left; neighbour[i] lies across the edge opposite corner[i], null at the square's border.
struct Triangle {
  Triangle* neighbour[3];
  std::uint32_t corner[3];
  std::uint32_t due : 31;     // 1 + its place on the list of triangles to refine, 0 if it is not on it
  std::uint32_t in_hole : 1;  // scratch
};
static_assert(sizeof(Point) == 12 && sizeof(Triangle) == 40);

inline constexpr unsigned kNext[3] = {1, 2, 0}, kPrevious[3] = {2, 0, 1};

// An edge of a triangle: the one opposite corner[side].
struct Edge {
  Triangle* triangle;
  std::uint64_t side;
};

// What a thread needs while it adds points; one for each worker.
struct Scratch {
  struct Rim {
    Triangle* outside;  // null at the border
    std::uint32_t from, to;
  };
  bench::MappedVector<Triangle*> hole;  // the triangles to remove
  bench::MappedVector<Rim> rim;         // the edges around them
  bench::MappedVector<Triangle*> fan;   // the triangles that replaced them
};

template <class Blocks> class Triangulation {
 public:
  // The square between two corners, as two triangles.
  Triangulation(Place low, Place high) {
    for (const Place corner : {low, Place{high.x, low.y}, high, Place{low.x, high.y}}) add_point(corner);
    Triangle* lower = make(0, 1, 2);
    Triangle* upper = make(0, 2, 3);
    lower->neighbour[1] = upper;
    upper->neighbour[2] = lower;
    recent_ = lower;
  }

  Place at(std::uint32_t point) const { return points_[point]->at; }
  Place corner(const Triangle* triangle, std::uint64_t i) const { return at(triangle->corner[i]); }
  std::size_t points() const { return points_.size(); }

  // The triangle that holds `p`, from `start` on always across an edge that has p on its other side; such a walk ends
  // in a Delaunay triangulation. If p is beyond the border, the border edge in its way, else side = 3.
  Edge locate(Place p, Triangle* start) const {
    for (Triangle* triangle = start;;) {
      Edge blocked{triangle, 3};
      Triangle* next = nullptr;
      for (unsigned i = 0; i < 3 && next == nullptr; ++i) {
        if (orientation(corner(triangle, kNext[i]), corner(triangle, kPrevious[i]), p) >= 0) continue;
        next = triangle->neighbour[i];
        if (next == nullptr) blocked.side = i;
      }
      if (next == nullptr) return blocked;
      triangle = next;
    }
  }
  Triangle* recent() const { return recent_; }

  bool is_corner(const Triangle* triangle, Place p) const {
    return corner(triangle, 0) == p || corner(triangle, 1) == p || corner(triangle, 2) == p;
  }

  // Finds the hole that `p`, inside `start`, makes, and its rim. Nothing is changed until fill; keep undoes it.
  void dig(Place p, Triangle* start, Scratch& scratch) const {
    scratch.hole.clear();
    scratch.rim.clear();
    start->in_hole = 1;
    scratch.hole.push(start);
    for (std::size_t i = 0; i < scratch.hole.size(); ++i) {
      Triangle* triangle = scratch.hole[i];
      for (unsigned side = 0; side < 3; ++side) {
        Triangle* other = triangle->neighbour[side];
        if (other != nullptr && other->in_hole) continue;
        if (other != nullptr && in_circle(corner(other, 0), corner(other, 1), corner(other, 2), p)) {
          other->in_hole = 1;
          scratch.hole.push(other);
        } else {
          scratch.rim.push({other, triangle->corner[kNext[side]], triangle->corner[kPrevious[side]]});
        }
      }
    }
  }
  void keep(Scratch& scratch) const {
    for (Triangle* triangle : scratch.hole) triangle->in_hole = 0;
  }

  // Puts `p` into the hole that dig found; the new triangles are in scratch.fan.
  void fill(Place p, Scratch& scratch) {
    const std::uint32_t apex = add_point(p);
    scratch.fan.clear();
    for (const Scratch::Rim& rim : scratch.rim) {
      // p lies on the border edge that it splits: no triangle there, the fan is open.
      if (rim.outside == nullptr && orientation(at(rim.from), at(rim.to), p) == 0) continue;
      Triangle* triangle = make(rim.from, rim.to, apex);
      triangle->neighbour[2] = rim.outside;
      if (rim.outside != nullptr) rim.outside->neighbour[side_towards(rim.outside, rim.to)] = triangle;
      points_[rim.from]->fan = static_cast<std::uint32_t>(scratch.fan.size());
      scratch.fan.push(triangle);
    }
    for (Triangle* triangle : scratch.fan) {
      const std::uint32_t follower = points_[triangle->corner[1]]->fan;
      if (follower >= scratch.fan.size() || scratch.fan[follower]->corner[0] != triangle->corner[1]) continue;
      triangle->neighbour[0] = scratch.fan[follower];
      scratch.fan[follower]->neighbour[1] = triangle;
    }
    for (Triangle* triangle : scratch.hole) remove(triangle);
    recent_ = scratch.fan[0];
  }

  // --- Triangles to refine: the last one put on the list is the next to be taken; one that is removed leaves it.
  // -------

  void put_due(Triangle* triangle) {
    if (triangle->due != 0) due_[triangle->due - 1] = nullptr;
    due_.push(triangle);
    triangle->due = static_cast<std::uint32_t>(due_.size()) & 0x7fff'ffffu;
  }
  // Null if there is none.
  Triangle* take_due() {
    while (!due_.empty()) {
      if (Triangle* triangle = due_.pop()) {
        triangle->due = 0;
        return triangle;
      }
    }
    return nullptr;
  }

  // Calls f for each triangle once.
  template <class F> void for_each(F f) {
    bench::MappedVector<Triangle*> seen;
    seen.push(recent_);
    recent_->in_hole = 1;
    for (std::size_t i = 0; i < seen.size(); ++i) {
      for (Triangle* other : seen[i]->neighbour) {
        if (other == nullptr || other->in_hole) continue;
        other->in_hole = 1;
        seen.push(other);
      }
    }
    for (Triangle* triangle : seen) triangle->in_hole = 0;
    for (Triangle* triangle : seen) f(*triangle);
  }

 private:
  // The side of `triangle` whose edge begins at `point` (seen from inside it).
  static unsigned side_towards(const Triangle* triangle, std::uint32_t point) {
    for (unsigned i = 0; i < 2; ++i)
      if (triangle->corner[kNext[i]] == point) return i;
    return 2;
  }

  std::uint32_t add_point(Place at) {
    points_.push(new (Blocks::allocate(sizeof(Point))) Point{at, 0});
    return static_cast<std::uint32_t>(points_.size() - 1);
  }
  static Triangle* make(std::uint32_t a, std::uint32_t b, std::uint32_t c) {
    return new (Blocks::allocate(sizeof(Triangle))) Triangle{{nullptr, nullptr, nullptr}, {a, b, c}, 0, 0};
  }
  void remove(Triangle* triangle) {
    if (triangle->due != 0) due_[triangle->due - 1] = nullptr;
    Blocks::free(triangle);
  }

  bench::MappedVector<Point*> points_;
  bench::MappedVector<Triangle*> due_;
  Triangle* recent_;  // one of the newest: where the next walk begins
};

}  // namespace mesh

#endif  // FREEWAY_BENCH_STREAMFLOW_TRIANGULATION_H
