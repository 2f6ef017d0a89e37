// Which of Highway's instruction sets the CPU kernels are compiled for: scalar, SSE4, AVX2,
// AVX-512. To be included before any header of Highway.
#pragma once

#ifndef HWY_DISABLED_TARGETS
#define HWY_DISABLED_TARGETS (HWY_SSSE3 | HWY_AVX3_DL)
#endif
