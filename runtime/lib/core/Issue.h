//===- Issue.h - checking and enqueueing what a program calls -------------===//
#ifndef MOERT_CORE_ISSUE_H
#define MOERT_CORE_ISSUE_H

#include "core/World.h"

#include <initializer_list>

namespace moert {

/// An operand of a call, by its name in moert.h.
struct Operand {
  const char *name;
  const moert_buffer *buffer;
  bool optional = false;
};

/// The attributes of a call besides its operands.
struct Attributes {
  std::initializer_list<int64_t> ints = {};
  std::initializer_list<double> reals = {};
  const moert_group *group = nullptr;
  int8_t countsView = -1;
  int32_t countsPart = 0;
  int32_t countsParts = 1;
};

/// Checks op, stream, group and operands, then hands the call to the device or communicator. Returns a moert_status.
int32_t issueCall(moert_rank_t rank, int64_t op, moert_stream_t stream, Kind kind,
                  std::initializer_list<Operand> operands, const Attributes &attributes = {});

/// Event calls likewise.
int32_t issueRecord(moert_rank_t rank, int64_t event, moert_stream_t stream);
int32_t issueWait(moert_rank_t rank, int64_t event, moert_stream_t stream);

/// Resolves a group of the program, by name, which must have that size and stride.
Status findGroup(const moert_rank &rank, const moert_group *group, int32_t &index);

} // namespace moert

#endif // MOERT_CORE_ISSUE_H
