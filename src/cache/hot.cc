// SPDX-License-Identifier: MIT
#include "cache/hot.h"

extern "C" {
constinit FREEWAY_HIDDEN freeway::Hot freeway_hot = {};
}
