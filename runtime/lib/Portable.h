//===- Portable.h - an older version of a library's function ----*- C++ -*-===//
//
// With MOERT_PORTABLE each file includes this header first, so that the runtime also loads with the C++ library of
// GCC 11. GCC 12 has a new version of std::condition_variable::wait, which differs in noexcept alone.
//
//===----------------------------------------------------------------------===//
#ifndef MOERT_PORTABLE_H
#define MOERT_PORTABLE_H

#define MOERT_WAIT "_ZNSt18condition_variable4waitERSt11unique_lockISt5mutexE"
__asm__(".symver " MOERT_WAIT ", " MOERT_WAIT "@GLIBCXX_3.4.11");
#undef MOERT_WAIT

#endif // MOERT_PORTABLE_H
