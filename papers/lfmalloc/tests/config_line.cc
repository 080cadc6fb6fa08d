// SPDX-License-Identifier: MIT
#include "papers/lfmalloc/config.h"
