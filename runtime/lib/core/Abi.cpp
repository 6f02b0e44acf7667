//===- Abi.cpp - the calls of compiled plans ------------------------------===//

#include "core/Issue.h"

using namespace moert;

extern "C" {

int32_t moert_record(moert_rank_t rank, int64_t event, moert_stream_t stream) {
  return issueRecord(rank, event, stream);
}

int32_t moert_wait(moert_rank_t rank, int64_t event, moert_stream_t stream) { return issueWait(rank, event, stream); }

#define MOERT_ENTRY_POINTS
#include "moert/kernels.inc"

} // extern "C"
