// SPDX-License-Identifier: MIT
//
// mpcdm's mesh: the finished whole is the Delaunay triangulation of its points, covers the region once, has no angle
// below the bound and no triangle above the largest area, and is the same for every number of threads.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <map>
#include <set>
#include <vector>

#include "streamflow/mesh_refinement.h"

namespace {

using bench::Malloc;
using mesh::Place;
using Corners = std::array<Place, 3>;

bool before(Place a, Place b) { return a.x != b.x ? a.x < b.x : a.y < b.y; }
struct Before {
  bool operator()(Place a, Place b) const { return before(a, b); }
};

template <class Mesh> void add_triangles(Mesh& mesh, std::vector<Corners>& all) {
  mesh.for_each([&](const mesh::Triangle& triangle) {
    Corners corners{mesh.corner(&triangle, 0), mesh.corner(&triangle, 1), mesh.corner(&triangle, 2)};
    std::rotate(corners.begin(), std::min_element(corners.begin(), corners.end(), before), corners.end());
    all.push_back(corners);
  });
}

std::vector<Corners> refined(std::size_t side, std::size_t triangles, std::size_t threads, std::uint64_t seed = 1) {
  mesh::Region<Malloc> region(side, triangles, seed);
  bench::Scheduler<Malloc> scheduler(threads);
  region.refine(scheduler);
  std::vector<Corners> all;
  for (std::size_t i = 0; i < side * side; ++i) add_triangles(region.subdomain(i % side, i / side).mesh(), all);
  std::sort(all.begin(), all.end(), [](const Corners& a, const Corners& b) {
    return std::lexicographical_compare(a.begin(), a.end(), b.begin(), b.end(), before);
  });
  return all;
}

std::int64_t twice_area(const Corners& t) { return mesh::orientation(t[0], t[1], t[2]); }

// No point of the set lies inside the circle of any triangle: the definition, in square time.
void expect_empty_circles(const std::vector<Corners>& all) {
  std::set<Place, Before> points;
  for (const Corners& corners : all) points.insert(corners.begin(), corners.end());
  for (const Corners& t : all)
    for (const Place& p : points) ASSERT_FALSE(mesh::in_circle(t[0], t[1], t[2], p));
}

// By Delaunay's lemma it is enough that this holds across each edge. Also: each directed edge occurs once, and has its
// opposite unless it lies on the square's border; so triangles fit together, and with the right area they cover it
// once.
void expect_delaunay_and_closed(const std::vector<Corners>& all, std::int32_t extent) {
  const auto pair_before = [](const std::pair<Place, Place>& a, const std::pair<Place, Place>& b) {
    return a.first == b.first ? before(a.second, b.second) : before(a.first, b.first);
  };
  std::map<std::pair<Place, Place>, Place, decltype(pair_before)> apex(pair_before);
  for (const Corners& t : all) {
    ASSERT_GT(twice_area(t), 0);
    for (unsigned i = 0; i < 3; ++i)
      ASSERT_TRUE(apex.emplace(std::pair{t[i], t[mesh::kNext[i]]}, t[mesh::kPrevious[i]]).second);
  }
  for (const auto& [edge, top] : apex) {
    const auto& [a, b] = edge;
    const auto other = apex.find({b, a});
    if (other == apex.end()) {
      const bool on_border = (a.x == b.x && (a.x == 0 || a.x == extent)) || (a.y == b.y && (a.y == 0 || a.y == extent));
      ASSERT_TRUE(on_border) << a.x << "," << a.y << " - " << b.x << "," << b.y << " has one side only";
    } else {
      ASSERT_FALSE(mesh::in_circle(a, b, top, other->second));
    }
  }
}

TEST(Geometry, InCircleIsExact) {
  // (3, 4) turned about: all of these lie on the circle of radius 5; one step inwards or outwards decides.
  const Place a{5, 0}, b{0, 5}, c{-5, 0};
  for (const Place on : {Place{3, -4}, Place{-4, -3}, Place{0, -5}, Place{4, 3}}) {
    EXPECT_FALSE(mesh::in_circle(a, b, c, on));
    EXPECT_TRUE(mesh::in_circle(a, b, c, {on.x - (on.x > 0) + (on.x < 0), on.y - (on.y > 0) + (on.y < 0)}));
  }
  // The same with coordinates so large that doubles would not do.
  const std::int32_t k = 50'000'000;
  const Place far_a{5 * k, 0}, far_b{0, 5 * k}, far_c{-5 * k, 0};
  EXPECT_FALSE(mesh::in_circle(far_a, far_b, far_c, {3 * k, -4 * k}));
  EXPECT_TRUE(mesh::in_circle(far_a, far_b, far_c, {3 * k, -4 * k + 1}));
  EXPECT_FALSE(mesh::in_circle(far_a, far_b, far_c, {3 * k, -4 * k - 1}));
}

TEST(Geometry, SkinnyMeansAnAngleBelowTheBound) {
  for (int degrees = 5; degrees <= 60; ++degrees) {
    // An isosceles triangle with this angle at the top; for angles up to 60 degrees it is the smallest.
    const double half = degrees * 3.14159265358979 / 360;
    const auto x = static_cast<std::int32_t>(1e6 * std::sin(half)), y = static_cast<std::int32_t>(1e6 * std::cos(half));
    EXPECT_EQ(mesh::is_skinny({0, 0}, {x, y}, {-x, y}), degrees <= 20) << degrees;
  }
}

TEST(Geometry, CircumcentreIsAsFarFromAllCorners) {
  bench::Random random(5);
  for (int i = 0; i < 1000; ++i) {
    const auto place = [&] {
      return Place{static_cast<std::int32_t>(random.below(1 << 21)), static_cast<std::int32_t>(random.below(1 << 21))};
    };
    const Place a = place(), b = place(), c = place();
    if (mesh::orientation(a, b, c) <= 0 || mesh::is_skinny(a, b, c)) continue;
    const Place centre = mesh::circumcentre(a, b, c);
    const double r = std::sqrt(static_cast<double>(mesh::squared_distance(centre, a)));
    EXPECT_NEAR(std::sqrt(static_cast<double>(mesh::squared_distance(centre, b))), r, 2);
    EXPECT_NEAR(std::sqrt(static_cast<double>(mesh::squared_distance(centre, c))), r, 2);
  }
}

TEST(Triangulation, OfRandomPointsIsDelaunay) {
  for (const std::uint64_t range : {1u << 20, 40u}) {  // the small range: many on one line or one circle
    const std::int32_t extent = static_cast<std::int32_t>(range);
    mesh::Triangulation<Malloc> mesh({0, 0}, {extent, extent});
    mesh::Scratch scratch;
    bench::Random random(range);
    for (int i = 0; i < 300; ++i) {
      const Place p{static_cast<std::int32_t>(random.between(1, range - 1)),
                    static_cast<std::int32_t>(random.between(1, range - 1))};
      mesh::Triangle* triangle = mesh.locate(p, mesh.recent()).triangle;
      if (mesh.is_corner(triangle, p)) continue;
      mesh.dig(p, triangle, scratch);
      mesh.keep(scratch);  // as if never asked
      mesh.dig(p, triangle, scratch);
      mesh.fill(p, scratch);
    }
    std::vector<Corners> all;
    add_triangles(mesh, all);
    // Euler: with the 4 corners of the square as hull, 2 n - 6 triangles of n points.
    EXPECT_EQ(all.size(), 2 * mesh.points() - 6);
    std::int64_t area = 0;
    for (const Corners& t : all) area += twice_area(t);
    EXPECT_EQ(area, 2 * std::int64_t{extent} * extent);
    expect_empty_circles(all);
    expect_delaunay_and_closed(all, extent);
  }
}

TEST(Refinement, SmallMeshHasEmptyCircles) {
  const std::vector<Corners> all = refined(2, 1500, 2);
  expect_empty_circles(all);
}

TEST(Refinement, WholeIsDelaunayCoversTheSquareOnceAndKeepsItsBounds) {
  constexpr std::size_t kSide = 4, kTriangles = 40'000;
  for (const std::uint64_t seed : {1, 2, 3}) {
    const std::vector<Corners> all = refined(kSide, kTriangles, 2, seed);
    EXPECT_NEAR(static_cast<double>(all.size()), kTriangles, 0.1 * kTriangles);
    expect_delaunay_and_closed(all, static_cast<std::int32_t>(kSide) * mesh::kSquare);
    const std::int64_t whole = 2 * std::int64_t{kSide * kSide} * mesh::kSquare * mesh::kSquare;
    std::int64_t area = 0, largest = 0;
    for (const Corners& t : all) {
      area += twice_area(t);
      largest = std::max(largest, twice_area(t));
      ASSERT_FALSE(mesh::is_skinny(t[0], t[1], t[2]));
    }
    EXPECT_EQ(area, whole);
    EXPECT_LE(static_cast<double>(largest), 1.6 * static_cast<double>(whole) / kTriangles);
  }
}

TEST(Refinement, IsTheSameForEveryNumberOfThreads) {
  const std::vector<Corners> one = refined(5, 20'000, 1);
  EXPECT_EQ(refined(5, 20'000, 2), one);
  EXPECT_EQ(refined(5, 20'000, 7), one);
  EXPECT_NE(refined(5, 20'000, 1, 2), one);  // another seed
}

TEST(Refinement, PresetIsTable1) { EXPECT_EQ(mesh::kStreamflowTriangles, 10'000'000); }

}  // namespace
