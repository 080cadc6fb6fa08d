// SPDX-License-Identifier: MIT
//
// octree.h: Barnes and Hut's octree over bodies, built by inserting one body after another. Cells (56 bytes) and leaves
// (16 bytes, one body each) are blocks of the allocator under test.
//
// A body's key holds its place in the cube, three bits for each level. Which cells exist follows from the keys alone,
// and children are kept in the order of their octants: the tree, and so the order of all sums over it, is the same
// whoever builds it.
#ifndef FREEWAY_BENCH_STREAMFLOW_OCTREE_H
#define FREEWAY_BENCH_STREAMFLOW_OCTREE_H

#include <algorithm>
#include <new>

#include "streamflow/plummer.h"

namespace bodies {

using Key = std::uint64_t;
inline constexpr unsigned kLevels = 21;  // 3 x 21 bits

inline unsigned octant_of(Key key, unsigned level) {
  return level < kLevels ? static_cast<unsigned>(key >> (3 * (kLevels - 1 - level))) & 7 : 0;
}

// The key of a place in the cube from -half to half.
inline Key key_of(const Vector& at, double half) {
  const auto spread = [half](double coordinate) {
    const double scaled = (coordinate / half + 1) * 0.5 * (1 << kLevels);
    Key bits = static_cast<Key>(std::clamp(scaled, 0.0, static_cast<double>((1 << kLevels) - 1)));
    bits = (bits | bits << 32) & 0x001f00000000ffff;
    bits = (bits | bits << 16) & 0x001f0000ff0000ff;
    bits = (bits | bits << 8) & 0x100f00f00f00f00f;
    bits = (bits | bits << 4) & 0x10c30c30c30c30c3;
    return (bits | bits << 2) & 0x1249249249249249;
  };
  return spread(at.x) << 2 | spread(at.y) << 1 | spread(at.z);
}

// The smallest cube around the origin, its half side a power of two, that holds all bodies.
inline double half_cube(const Body* all, std::size_t count) {
  double reach = 0;
  for (std::size_t i = 0; i < count; ++i)
    reach = std::max({reach, std::abs(all[i].position.x), std::abs(all[i].position.y), std::abs(all[i].position.z)});
  return std::exp2(std::ceil(std::log2(std::max(reach, 1e-9))));
}

inline constexpr std::uint32_t kCell = ~std::uint32_t{0};

struct Node {
  Node* sibling;       // the parent's next child
  std::uint32_t body;  // kCell: this is a Cell
  std::uint32_t octant;
};
struct Cell : Node {
  Node* child;
  double mass;
  Vector centre;  // of mass
};
static_assert(sizeof(Node) == 16 && sizeof(Cell) == 56);

inline bool is_cell(const Node* node) { return node->body == kCell; }

template <class Blocks> class Octree {
 public:
  Octree(const Body* all, const Key* keys) : all_(all), keys_(keys) {}

  // Adds a body to the tree whose root, a cell of `level`, is *root (null: empty).
  void insert(Node*& root, std::uint32_t body, unsigned level) const {
    const Key key = keys_[body];
    Node** link = &root;
    while (*link != nullptr) {
      Cell* cell = is_cell(*link) ? static_cast<Cell*>(*link) : split(*link, level);
      *link = cell;
      const unsigned octant = octant_of(key, level++);
      link = &cell->child;
      while (*link != nullptr && (*link)->octant < octant) link = &(*link)->sibling;
      if (*link != nullptr && (*link)->octant == octant && level <= kLevels) continue;
      // Below the last level a cell is a list of bodies in the same place, the last one first.
      *link = leaf(body, octant, *link);
      return;
    }
    root = leaf(body, 0, nullptr);
  }

  static Cell* make_cell(Node* sibling, unsigned octant, Node* child) {
    return new (Blocks::allocate(sizeof(Cell))) Cell{{sibling, kCell, octant}, child, 0, {}};
  }

  // Masses and centres of all cells from `node` down.
  void weigh(Node* node) const {
    if (!is_cell(node)) return;
    Cell* cell = static_cast<Cell*>(node);
    for (Node* child = cell->child; child != nullptr; child = child->sibling) weigh(child);
    sum(cell);
  }
  // Of one cell whose children are weighed.
  void sum(Cell* cell) const {
    double mass = 0;
    Vector moment;
    for (const Node* child = cell->child; child != nullptr; child = child->sibling) {
      const double part = is_cell(child) ? static_cast<const Cell*>(child)->mass : all_[child->body].mass;
      moment += part * (is_cell(child) ? static_cast<const Cell*>(child)->centre : all_[child->body].position);
      mass += part;
    }
    cell->mass = mass;
    cell->centre = (1 / mass) * moment;
  }

  static void free(Node* node) {
    if (is_cell(node)) {
      for (Node* child = static_cast<Cell*>(node)->child; child != nullptr;) {
        Node* next = child->sibling;
        free(child);
        child = next;
      }
    }
    Blocks::free(node);
  }

 private:
  // The cell that takes the place of `old`, a leaf, and holds it.
  Cell* split(Node* old, unsigned level) const {
    Cell* cell = make_cell(old->sibling, old->octant, old);
    old->sibling = nullptr;
    old->octant = octant_of(keys_[old->body], level);
    return cell;
  }
  static Node* leaf(std::uint32_t body, unsigned octant, Node* sibling) {
    return new (Blocks::allocate(sizeof(Node))) Node{sibling, body, octant};
  }

  const Body* const all_;
  const Key* const keys_;
};

// Gravity as Barnes and Hut approximate it: a cell that is seen from the body under a small enough angle counts as one
// mass at its centre. `softening` keeps close encounters finite.
class Gravity {
 public:
  Gravity(double theta, double softening, const Body* all)
      : theta2_(theta * theta), softening2_(softening * softening), all_(all) {}

  // Upon body `self`, by everything below `root`, a cell with side `side`.
  Vector at(std::uint32_t self, const Node* root, double side) const {
    Vector sum;
    add(self, root, side * side, sum);
    return sum;
  }

 private:
  void add(std::uint32_t self, const Node* node, double side2, Vector& sum) const {
    if (!is_cell(node)) {
      if (node->body != self) pull(all_[node->body].position - all_[self].position, all_[node->body].mass, sum);
      return;
    }
    const Cell* cell = static_cast<const Cell*>(node);
    const Vector way = cell->centre - all_[self].position;
    if (side2 < theta2_ * way.squared()) return pull(way, cell->mass, sum);
    for (const Node* child = cell->child; child != nullptr; child = child->sibling) add(self, child, side2 / 4, sum);
  }
  void pull(const Vector& way, double mass, Vector& sum) const {
    const double distance2 = way.squared() + softening2_;
    sum += (mass / (distance2 * std::sqrt(distance2))) * way;
  }

  const double theta2_, softening2_;
  const Body* const all_;
};

}  // namespace bodies

#endif  // FREEWAY_BENCH_STREAMFLOW_OCTREE_H
