//===- HostMemory.h - what this machine can give --------------------------===//
#ifndef MOERT_HOST_HOSTMEMORY_H
#define MOERT_HOST_HOSTMEMORY_H

#include "core/View.h"

#include <memory>

namespace moert::host {

/// Bytes that can be allocated and touched now: the least of the machine's available memory, the control group's and
/// the address space limit's rest. INT64_MAX where none is known.
int64_t availableMemory();

/// "1.5 GiB", for messages.
std::string byteText(int64_t bytes);

struct FreeDeleter {
  void operator()(void *data) const;
};
using Block = std::unique_ptr<void, FreeDeleter>;

/// `bytes` (at least 1) aligned to 256, not touched. `what` is for the message of the error.
Status allocateBlock(int64_t bytes, const std::string &what, Block &block);

} // namespace moert::host

#endif // MOERT_HOST_HOSTMEMORY_H
