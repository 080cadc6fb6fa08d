# SPDX-License-Identifier: MIT
#
# LFMalloc's other forms, for comparison (config.h): the rows of the paper's Table 3 below its first, which is the default;
# two more protections, with either way to choose a heap; and the paper's locks on the remote list and the global heap.
foreach(protection Mutex Spin Cas)
  foreach(selection Cpu Thread)
    string(TOLOWER "${protection}-${selection}" variant)
    freeway_add_engine(lfmalloc VARIANT ${variant} DEFINES
      FREEWAY_LFMALLOC_PROTECTION=k${protection} FREEWAY_LFMALLOC_SELECTION=k${selection})
  endforeach()
endforeach()
freeway_add_engine(lfmalloc VARIANT paper DEFINES FREEWAY_LFMALLOC_REMOTE=kMutex FREEWAY_LFMALLOC_GLOBAL=kMutex)
freeway_add_engine(lfmalloc VARIANT remote-mutex DEFINES FREEWAY_LFMALLOC_REMOTE=kMutex)
freeway_add_engine(lfmalloc VARIANT global-mutex DEFINES FREEWAY_LFMALLOC_GLOBAL=kMutex)
