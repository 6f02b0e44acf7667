//===- Call.h - one call of a plan, resolved ------------------------------===//
//
// What the ABI hands to a backend: addresses instead of buffers, a group's index instead of its name.
//
//===----------------------------------------------------------------------===//
#ifndef MOERT_CORE_CALL_H
#define MOERT_CORE_CALL_H

#include "core/RoutingBook.h"
#include "core/View.h"
#include "moert/KernelTable.h"

namespace moert {

inline const KernelInfo &infoOf(Kind kind) { return kKernels[static_cast<size_t>(kind)]; }
inline const char *kindName(Kind kind) { return infoOf(kind).name; }
inline bool isCollective(Kind kind) { return infoOf(kind).type != CallType::Compute; }
inline bool isPointToPoint(Kind kind) { return infoOf(kind).type == CallType::PointToPoint; }

struct Call;
struct Program;
/// "op 4 all_to_all 'layer0'".
std::string callName(const Program &program, const Call &call);

/// A loop that runs as often as a value of the run says.
struct Repetition {
  View times; ///< one i32; null for a call that is in no such loop
  int64_t most = 0;
  int64_t iteration = -1;               ///< of a call
  const moert_buffer *buffer = nullptr; ///< `times` as the program gave it, while it issues calls of the loop

  /// Fails where the loop runs `count` times, and may not.
  Status check(int64_t count) const;
};

/// Operands and attributes stand in the order of the C function: integers and flags, then real numbers.
struct Call {
  Kind kind = Kind::Copy;
  int8_t viewCount = 0;
  int8_t countsView = -1; ///< which view holds the rows that a ragged op uses, or -1
  int32_t countsPart = 0; ///< which of countsParts equal parts of its columns the op uses
  int32_t countsParts = 1;
  int32_t op = 0;
  int32_t group = -1; ///< index into Metadata::groups of a collective
  int64_t rank = 0;   ///< that calls
  int64_t member = 0; ///< of a kernel with a group: which member of how many the rank is
  int64_t members = 1;
  int64_t sequence = 0; ///< how many calls that meet the same members the rank issued before, set by the communicator
  std::array<double, 8> reals{};
  std::array<int64_t, 16> ints{};
  std::array<View, 12> views{};
  RoutingPage *routing = nullptr; ///< of a routing op that is told what to choose, or recorded
  int64_t leastShadows = 0;       ///< of an op that chooses shadows: that it makes even where they do not pay
  Repetition repetition;          ///< the loop that the call is in, where it may be one of too many iterations
  int32_t place = -1;             ///< index into Metadata::groups of the group that `member` is of, or -1
  /// The views as the program gave them, while it issues the call; null for absent ones, and for calls of no plan.
  std::array<const moert_buffer *, 12> buffers{};
};

/// visit(begin, end) of the bytes of each view that the call writes.
template <class Visit> Status forOutputs(const Call &call, Visit visit) {
  for (size_t i = 0; i < static_cast<size_t>(call.viewCount); ++i)
    if (const View &view = call.views[i]; view && infoOf(call.kind).operands[i].isOutput) {
      const char *begin = view.as<const char>();
      MOERT_RETURN_IF_ERROR(visit(begin, begin + view.bytes()));
    }
  return {};
}

/// The rows that a ragged call uses (known once its counts are computed), or -1 where it is not ragged.
int64_t usedRows(const Call &call);

} // namespace moert

#endif // MOERT_CORE_CALL_H
