// SPDX-License-Identifier: MIT
// names.h: the names of mallctl. Each is a row of one table: what it is called, of what type it is, what it does.
#pragma once

#include <cstddef>

#include "call.h"

namespace freeway_jemalloc {

constexpr unsigned kMostParts = 5;    // of a name: stats.arenas.0.small.allocated
constexpr unsigned kMostNumbers = 1;  // in a name

enum class Type { kBool, kUnsigned, kUint32, kSize, kSigned, kUint64, kString, kAction };

struct Name {
  const char* text;  // # stands for a number
  Type type;         // of what it reads; kAction: it does something, or reads nothing by itself
  int (*act)(const Call&);
};

unsigned name_count();
const Name& name(unsigned index);

// Finds `text` and the numbers in it; name_count() if there is no such name.
unsigned find(const char* text, std::size_t numbers[kMostNumbers]);

// What mallctlbymib is given: how many parts the name has, and the number for each of its parts but those that are
// numbers.
unsigned part_count(unsigned index);
bool is_number(unsigned index, unsigned part);
std::size_t part_id(unsigned index, unsigned part);

// Whether the number in the name stands for something.
bool number_exists(unsigned index, std::size_t number);

// What mallctl("version") says.
const char* version();

}  // namespace freeway_jemalloc
