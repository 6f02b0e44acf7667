//===- Abi.cpp - the calls of compiled plans ------------------------------===//

#include "core/Issue.h"

using namespace moert;

extern "C" {

int32_t moert_record(moert_rank_t rank, int64_t event, moert_stream_t stream) {
  return issueRecord(rank, event, stream);
}

int32_t moert_wait(moert_rank_t rank, int64_t event, moert_stream_t stream) { return issueWait(rank, event, stream); }

int32_t moert_repeat(moert_rank_t rank, const moert_buffer *times, int64_t most, moert_stream_t stream,
                     int64_t *count) {
  return issueRepeat(rank, times, most, stream, count);
}

int32_t moert_iteration(moert_rank_t rank, int64_t iteration) { return issueIteration(rank, iteration); }

#define MOERT_ENTRY_POINTS
#include "moert/kernels.inc"

} // extern "C"
