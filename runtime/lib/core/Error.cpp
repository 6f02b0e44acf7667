//===- Error.cpp - the last error of each thread --------------------------===//

#include "core/Error.h"

namespace moert {

static thread_local std::string lastMessage;

int32_t report(Status status) {
  if (!status.ok())
    lastMessage = std::move(status.message);
  return status.code;
}

const std::string &lastError() { return lastMessage; }

} // namespace moert

extern "C" const char *moert_last_error(void) { return moert::lastError().c_str(); }
