//===- Error.h - from Status to the C ABI ---------------------------------===//
#ifndef MOERT_CORE_ERROR_H
#define MOERT_CORE_ERROR_H

#include "core/View.h"

#include <exception>
#include <new>

namespace moert {

/// Keeps the message for moert_last_error() on this thread. Returns the code.
int32_t report(Status status);
/// Last message that was kept on this thread.
const std::string &lastError();

/// Runs `body`, which returns a Status. No exception crosses the C ABI.
template <class Body> int32_t guarded(Body body) {
  try {
    return report(body());
  } catch (const std::bad_alloc &) {
    return report(Status::error(MOERT_ERROR_OUT_OF_MEMORY, "out of memory"));
  } catch (const std::exception &error) {
    return report(Status::error(MOERT_ERROR_INTERNAL, error.what()));
  }
}

} // namespace moert

#endif // MOERT_CORE_ERROR_H
