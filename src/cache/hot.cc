// SPDX-License-Identifier: MIT
#include "cache/hot.h"

extern "C" {
constinit FREEWAY_HIDDEN FREEWAY_LARGE freeway::Hot freeway_hot = {};
}
