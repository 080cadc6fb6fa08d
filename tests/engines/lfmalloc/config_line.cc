// SPDX-License-Identifier: MIT
#include "engine/lfmalloc/config.h"
