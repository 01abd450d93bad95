/* GCC before 13.3 declares that _tile_loadconfig(p) reads 8 bytes of the 64 that the
 * instruction reads. It then drops the stores that fill the other 56, and the first tile load
 * dies of an illegal instruction. Force-included, this states all 64 bytes as input.
 * See docs/install.md, "AMX". */
#ifndef SPECCHAT_AMX_TILE_CONFIG_H
#define SPECCHAT_AMX_TILE_CONFIG_H

#if defined(__GNUC__) && !defined(__clang__) && defined(__AMX_TILE__)
#include <immintrin.h>
#undef _tile_loadconfig
#define _tile_loadconfig(config) \
    __asm__ volatile("ldtilecfg %0" ::"m"(*(const char(*)[64])(config)))
#endif

#endif
