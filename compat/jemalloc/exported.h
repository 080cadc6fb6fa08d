// SPDX-License-Identifier: MIT
// exported.h: the public header as this library's own files include it: what it declares can be seen outside.
#pragma once

#pragma GCC visibility push(default)
#include "jemalloc/jemalloc.h"
#pragma GCC visibility pop
