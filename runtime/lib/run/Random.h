//===- Random.h - numbers that depend on a key alone ------------*- C++ -*-===//
#ifndef MOERT_RUN_RANDOM_H
#define MOERT_RUN_RANDOM_H

#include <cstdint>

namespace moert::run {

/// Hashes a counter (splitmix64).
inline uint64_t mix(uint64_t x) {
  x += 0x9e3779b97f4a7c15;
  x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9;
  x = (x ^ x >> 27) * 0x94d049bb133111eb;
  return x ^ x >> 31;
}

} // namespace moert::run

#endif // MOERT_RUN_RANDOM_H
