//===- HostMemory.h - what this machine can give --------------------------===//
#ifndef MOERT_HOST_HOSTMEMORY_H
#define MOERT_HOST_HOSTMEMORY_H

#include "core/View.h"

#include <memory>

namespace moert::host {

/// Bytes that can be allocated and touched now: the least of the machine's available memory and the rests of the
/// control group and of the address space limit. INT64_MAX if none is known.
int64_t availableMemory();

/// "1.5 GiB", for messages.
std::string byteText(int64_t bytes);

struct FreeDeleter {
  void operator()(void *data) const;
};
using Block = std::unique_ptr<void, FreeDeleter>;

/// Allocates `bytes` (at least 1) aligned to 256, and does not touch them. `what` is for the text of the error.
Status allocateBlock(int64_t bytes, const std::string &what, Block &block);

} // namespace moert::host

#endif // MOERT_HOST_HOSTMEMORY_H
