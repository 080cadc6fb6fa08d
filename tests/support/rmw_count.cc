// SPDX-License-Identifier: MIT
#include "arch/rmw_count.h"

namespace freeway {
__thread u64 rmw_count;
}
