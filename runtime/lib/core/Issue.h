//===- Issue.h - checking and enqueueing what a program calls -------------===//
#ifndef MOERT_CORE_ISSUE_H
#define MOERT_CORE_ISSUE_H

#include "core/World.h"

#include <initializer_list>

namespace moert {

/// Checks op, stream, group and operands, then passes the call to the device or communicator. Operands and attributes
/// are those of the call's row in kernels.def; absent ones are null. Returns a moert_status.
int32_t issueCall(moert_rank_t rank, int64_t op, moert_stream_t stream, Kind kind,
                  std::initializer_list<const moert_buffer *> operands, std::initializer_list<int64_t> ints,
                  std::initializer_list<double> reals, const moert_group *group = nullptr);

/// Turns a call of another rank of the same program into the call that `rank` issued, which has other addresses and
/// another place in groups. Calls with `routing` cannot be bound.
Status bindCall(moert_rank &rank, Call &call);

/// Check and enqueue event calls.
int32_t issueRecord(moert_rank_t rank, int64_t event, moert_stream_t stream);
int32_t issueWait(moert_rank_t rank, int64_t event, moert_stream_t stream);

/// Check and enqueue calls about loops; see moert_repeat and moert_iteration.
int32_t issueRepeat(moert_rank_t rank, const moert_buffer *times, int64_t most, moert_stream_t stream, int64_t *count);
int32_t issueIteration(moert_rank_t rank, int64_t iteration);

} // namespace moert

#endif // MOERT_CORE_ISSUE_H
