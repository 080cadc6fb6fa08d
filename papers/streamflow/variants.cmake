# SPDX-License-Identifier: MIT
#
# The paper compares three builds; the default is headerless. `packed` has the paper's 4-byte object classes, which do
# not keep malloc's alignment: for benchmarks of the paper's own workloads only. See build.h.
freeway_add_engine(streamflow VARIANT headers DEFINES FREEWAY_STREAMFLOW_BUILD=kHeaders)
freeway_add_engine(streamflow VARIANT superpages DEFINES FREEWAY_STREAMFLOW_BUILD=kSuperpages)
freeway_add_engine(streamflow VARIANT packed DEFINES FREEWAY_STREAMFLOW_BUILD=kPacked)
