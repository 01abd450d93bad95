// The few vector operations that the kernels consist of, for the instructions that this file is
// compiled for: AVX-512 with VNNI, 256 bits with VNNI, or plain AVX2. Elsewhere SPECCHAT_SIMD is 0
// and nothing of the kernels is compiled.
//
// A register has a lane of 32 bits for each of `kLanes` outputs. Wherever floats are multiplied and
// added, the kernels say whether it is one rounding (`fused`) or two: a compiler must not choose,
// so these files are compiled without contraction (kernels.cmake).
#pragma once

#if defined(__AVX512F__) && defined(__AVX512BW__) && defined(__AVX512VNNI__)
#define SPECCHAT_SIMD 512
#elif defined(__AVX2__) && (defined(_MSC_VER) || (defined(__FMA__) && defined(__F16C__)))
#define SPECCHAT_SIMD 256  // MSVC has no macros for FMA and F16C: they come with AVX2
#else
#define SPECCHAT_SIMD 0
#endif

#if SPECCHAT_SIMD

#include <immintrin.h>

#include <cstdint>
#include <cstring>

#if defined(_MSC_VER) && !defined(__clang__)
#define SPECCHAT_INLINE __forceinline
#define SPECCHAT_UNROLL
#elif defined(__clang__)
#define SPECCHAT_INLINE inline __attribute__((always_inline))
#define SPECCHAT_UNROLL _Pragma("unroll")
#else
#define SPECCHAT_INLINE inline __attribute__((always_inline))
#define SPECCHAT_UNROLL _Pragma("GCC unroll 16")
#endif

// In a build for many CPUs every variant of ggml's library has kernels of the same names: hidden,
// none can be taken for another's.
#if defined(_WIN32)
#define SPECCHAT_KERNELS_BEGIN namespace specchat {
#else
#define SPECCHAT_KERNELS_BEGIN namespace specchat __attribute__((visibility("hidden"))) {
#endif

SPECCHAT_KERNELS_BEGIN
namespace simd {

// The same four bytes, whatever they are, for every lane.
SPECCHAT_INLINE int32_t four_bytes(const void* p) {
    int32_t bytes;
    memcpy(&bytes, p, sizeof bytes);
    return bytes;
}

SPECCHAT_INLINE float one_float(const void* p) {
    float value;
    memcpy(&value, p, sizeof value);
    return value;
}

SPECCHAT_INLINE float sum_of_eight(__m256 a) {
    const __m128 four = _mm_add_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps(a, 1));
    const __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
    return _mm_cvtss_f32(_mm_add_ss(two, _mm_movehdup_ps(two)));
}

#if SPECCHAT_SIMD == 512

constexpr int kLanes = 16;
using Ints = __m512i;
using Floats = __m512;

SPECCHAT_INLINE Ints load(const void* p) { return _mm512_load_si512(p); }
SPECCHAT_INLINE void store(void* p, Ints a) { _mm512_store_si512(p, a); }
SPECCHAT_INLINE void store(float* p, Floats a) { _mm512_storeu_ps(p, a); }
SPECCHAT_INLINE Floats load_floats(const float* p) { return _mm512_loadu_ps(p); }
SPECCHAT_INLINE Ints spread(const void* p) { return _mm512_set1_epi32(four_bytes(p)); }
SPECCHAT_INLINE Floats spread_float(const void* p) { return _mm512_set1_ps(one_float(p)); }
SPECCHAT_INLINE Floats floats(float a) { return _mm512_set1_ps(a); }
SPECCHAT_INLINE Ints bytes(char a) { return _mm512_set1_epi8(a); }
SPECCHAT_INLINE Ints no_ints() { return _mm512_setzero_si512(); }
SPECCHAT_INLINE Floats no_floats() { return _mm512_setzero_ps(); }

// Adds four products of an unsigned byte of `weights` and a signed one of `values` to each lane.
SPECCHAT_INLINE Ints dot(Ints sums, Ints weights, Ints values) {
    return _mm512_dpbusd_epi32(sums, weights, values);
}
// The same of weights above 127.
SPECCHAT_INLINE Ints dot_wide(Ints sums, Ints weights, Ints values) {
    return dot(sums, weights, values);
}
// Adds two products of signed 16 bits to each lane.
SPECCHAT_INLINE Ints dot_pairs(Ints sums, Ints a, Ints b) {
    return _mm512_dpwssd_epi32(sums, a, b);
}

SPECCHAT_INLINE Floats to_floats(Ints a) { return _mm512_cvtepi32_ps(a); }
SPECCHAT_INLINE Floats times(Floats a, Floats b) { return _mm512_mul_ps(a, b); }
SPECCHAT_INLINE Floats fused(Floats a, Floats b, Floats c) { return _mm512_fmadd_ps(a, b, c); }

SPECCHAT_INLINE Ints both(Ints a, Ints b) { return _mm512_and_si512(a, b); }
SPECCHAT_INLINE Ints either(Ints a, Ints b) { return _mm512_or_si512(a, b); }
// The bits of `a` where `mask` has ones, else those of `b`.
SPECCHAT_INLINE Ints choose(Ints mask, Ints a, Ints b) {
    return _mm512_ternarylogic_epi32(mask, a, b, 0xCA);
}
// Shifts of 16 bits at a time; what crosses from byte to byte is for the caller to mask.
template <int N> SPECCHAT_INLINE Ints left(Ints a) { return _mm512_slli_epi16(a, N); }
template <int N> SPECCHAT_INLINE Ints right(Ints a) { return _mm512_srli_epi16(a, N); }

// kLanes numbers of 16-bit floating point, of unsigned or of signed bytes.
SPECCHAT_INLINE Floats halves(const void* p) {
    return _mm512_cvtph_ps(_mm256_loadu_si256(static_cast<const __m256i*>(p)));
}
SPECCHAT_INLINE Ints unsigned_bytes(const void* p) {
    return _mm512_cvtepu8_epi32(_mm_loadu_si128(static_cast<const __m128i*>(p)));
}
SPECCHAT_INLINE Ints signed_bytes(const void* p) {
    return _mm512_cvtepi8_epi32(_mm_loadu_si128(static_cast<const __m128i*>(p)));
}
// Twice kLanes unsigned bytes as 16 bits each.
SPECCHAT_INLINE Ints unsigned_pairs(const void* p) {
    return _mm512_cvtepu8_epi16(_mm256_loadu_si256(static_cast<const __m256i*>(p)));
}

// Magnitudes as integers: they are in the order of the numbers, infinity and then NaN above all.
SPECCHAT_INLINE Ints magnitudes(const float* p) {
    return both(_mm512_castps_si512(load_floats(p)), _mm512_set1_epi32(0x7fffffff));
}
SPECCHAT_INLINE Ints larger(Ints a, Ints b) { return _mm512_max_epi32(a, b); }
SPECCHAT_INLINE int32_t largest(Ints a) { return _mm512_reduce_max_epi32(a); }
// kLanes numbers, rounded to the nearest byte there is.
SPECCHAT_INLINE void store_rounded(int8_t* p, Floats a) {
    const __m128i rounded = _mm512_cvtsepi32_epi8(_mm512_cvtps_epi32(a));
    _mm_storeu_si128(reinterpret_cast<__m128i*>(p), rounded);
}
// The sum of all lanes, in one order.
SPECCHAT_INLINE float sum_of_lanes(Floats a) {
    const __m256 upper = _mm256_castpd_ps(_mm512_extractf64x4_pd(_mm512_castps_pd(a), 1));
    return sum_of_eight(_mm256_add_ps(_mm512_castps512_ps256(a), upper));
}

#else  // 256 bits

constexpr int kLanes = 8;
using Ints = __m256i;
using Floats = __m256;

SPECCHAT_INLINE Ints load(const void* p) {
    return _mm256_load_si256(static_cast<const __m256i*>(p));
}
SPECCHAT_INLINE void store(void* p, Ints a) { _mm256_store_si256(static_cast<__m256i*>(p), a); }
SPECCHAT_INLINE void store(float* p, Floats a) { _mm256_storeu_ps(p, a); }
SPECCHAT_INLINE Floats load_floats(const float* p) { return _mm256_loadu_ps(p); }
SPECCHAT_INLINE Ints spread(const void* p) { return _mm256_set1_epi32(four_bytes(p)); }
SPECCHAT_INLINE Floats spread_float(const void* p) { return _mm256_set1_ps(one_float(p)); }
SPECCHAT_INLINE Floats floats(float a) { return _mm256_set1_ps(a); }
SPECCHAT_INLINE Ints bytes(char a) { return _mm256_set1_epi8(a); }
SPECCHAT_INLINE Ints no_ints() { return _mm256_setzero_si256(); }
SPECCHAT_INLINE Floats no_floats() { return _mm256_setzero_ps(); }

#if defined(__AVXVNNI__)
SPECCHAT_INLINE Ints dot(Ints sums, Ints weights, Ints values) {
    return _mm256_dpbusd_avx_epi32(sums, weights, values);
}
#elif defined(__AVX512VNNI__) && defined(__AVX512VL__)
SPECCHAT_INLINE Ints dot(Ints sums, Ints weights, Ints values) {
    return _mm256_dpbusd_epi32(sums, weights, values);
}
#else
SPECCHAT_INLINE Ints dot(Ints sums, Ints weights, Ints values) {
    const Ints pairs = _mm256_maddubs_epi16(weights, values);
    return _mm256_add_epi32(sums, _mm256_madd_epi16(pairs, _mm256_set1_epi16(1)));
}
#endif
SPECCHAT_INLINE Ints dot_pairs(Ints sums, Ints a, Ints b) {
    return _mm256_add_epi32(sums, _mm256_madd_epi16(a, b));
}
#if defined(__AVXVNNI__) || (defined(__AVX512VNNI__) && defined(__AVX512VL__))
SPECCHAT_INLINE Ints dot_wide(Ints sums, Ints weights, Ints values) {
    return dot(sums, weights, values);
}
#else  // two products of such bytes do not fit the 16 bits of `dot`: even and odd ones apart
SPECCHAT_INLINE Ints dot_wide(Ints sums, Ints weights, Ints values) {
    const Ints even = _mm256_srai_epi16(_mm256_slli_epi16(values, 8), 8);
    sums = dot_pairs(sums, _mm256_and_si256(weights, _mm256_set1_epi16(255)), even);
    return dot_pairs(sums, _mm256_srli_epi16(weights, 8), _mm256_srai_epi16(values, 8));
}
#endif

SPECCHAT_INLINE Floats to_floats(Ints a) { return _mm256_cvtepi32_ps(a); }
SPECCHAT_INLINE Floats times(Floats a, Floats b) { return _mm256_mul_ps(a, b); }
SPECCHAT_INLINE Floats fused(Floats a, Floats b, Floats c) { return _mm256_fmadd_ps(a, b, c); }

SPECCHAT_INLINE Ints both(Ints a, Ints b) { return _mm256_and_si256(a, b); }
SPECCHAT_INLINE Ints either(Ints a, Ints b) { return _mm256_or_si256(a, b); }
SPECCHAT_INLINE Ints choose(Ints mask, Ints a, Ints b) {
    return either(both(mask, a), _mm256_andnot_si256(mask, b));
}
template <int N> SPECCHAT_INLINE Ints left(Ints a) { return _mm256_slli_epi16(a, N); }
template <int N> SPECCHAT_INLINE Ints right(Ints a) { return _mm256_srli_epi16(a, N); }

SPECCHAT_INLINE Floats halves(const void* p) {
    return _mm256_cvtph_ps(_mm_loadu_si128(static_cast<const __m128i*>(p)));
}
SPECCHAT_INLINE Ints unsigned_bytes(const void* p) {
    return _mm256_cvtepu8_epi32(_mm_loadl_epi64(static_cast<const __m128i*>(p)));
}
SPECCHAT_INLINE Ints signed_bytes(const void* p) {
    return _mm256_cvtepi8_epi32(_mm_loadl_epi64(static_cast<const __m128i*>(p)));
}
SPECCHAT_INLINE Ints unsigned_pairs(const void* p) {
    return _mm256_cvtepu8_epi16(_mm_loadu_si128(static_cast<const __m128i*>(p)));
}

SPECCHAT_INLINE Ints magnitudes(const float* p) {
    return both(_mm256_castps_si256(load_floats(p)), _mm256_set1_epi32(0x7fffffff));
}
SPECCHAT_INLINE Ints larger(Ints a, Ints b) { return _mm256_max_epi32(a, b); }
SPECCHAT_INLINE int32_t largest(Ints a) {
    alignas(32) int32_t lanes[kLanes];
    store(lanes, a);
    int32_t result = lanes[0];
    for (int32_t lane : lanes) result = lane > result ? lane : result;
    return result;
}
SPECCHAT_INLINE void store_rounded(int8_t* p, Floats a) {
    const __m256i rounded = _mm256_cvtps_epi32(a);
    const __m128i words =
        _mm_packs_epi32(_mm256_castsi256_si128(rounded), _mm256_extracti128_si256(rounded, 1));
    _mm_storel_epi64(reinterpret_cast<__m128i*>(p), _mm_packs_epi16(words, words));
}

SPECCHAT_INLINE float sum_of_lanes(Floats a) { return sum_of_eight(a); }

#endif

constexpr int kRegister = 4 * kLanes;  // bytes

// Hardware does not prefetch fast enough for one core to read at the speed of the memory: this
// asks for what comes some 64 lines later.
SPECCHAT_INLINE void fetch_ahead(const uint8_t* p) {
    _mm_prefetch(reinterpret_cast<const char*>(p) + 4096, _MM_HINT_T0);
}

}  // namespace simd
}  // namespace specchat

#endif  // SPECCHAT_SIMD
