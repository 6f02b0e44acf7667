//===- Call.h - one call of a plan, resolved ------------------------------===//
//
// Backends get calls in this form: addresses instead of buffers, and a group's index instead of its name.
//
//===----------------------------------------------------------------------===//
#ifndef MOERT_CORE_CALL_H
#define MOERT_CORE_CALL_H

#include "core/View.h"
#include "moert/KernelTable.h"

#include <vector>

namespace moert {

inline const KernelInfo &infoOf(Kind kind) { return kKernels[static_cast<size_t>(kind)]; }
inline const char *kindName(Kind kind) { return infoOf(kind).name; }
inline bool isCollective(Kind kind) { return infoOf(kind).type != CallType::Compute; }
inline bool isPointToPoint(Kind kind) { return infoOf(kind).type == CallType::PointToPoint; }

struct Call;
struct Program;
/// "op 4 all_to_all 'layer0'".
std::string callName(const Program &program, const Call &call);

/// A loop whose number of iterations is a value of the run.
struct Repetition {
  View times; ///< one i32; null for a call outside such a loop
  int64_t most = 0;
  int64_t iteration = -1;               ///< iteration of a call
  const moert_buffer *buffer = nullptr; ///< `times` as the program gave it, while it issues the loop's calls

  /// Fails if the loop must not run `count` times.
  Status check(int64_t count) const;
};

/// Choices of one call of a routing op of one rank: experts [S, k], in host memory.
struct RoutingPage {
  std::vector<int32_t> forced; ///< experts that it takes instead of choosing; empty: it chooses
  bool isRecorded = false;
  bool recordsOwn = false;     ///< record the own choices even if others are forced
  std::vector<int32_t> chosen; ///< choices of the last step, if recorded
};

/// Operands and attributes are in the order of the C function: integers and flags, then real numbers.
struct Call {
  Kind kind = Kind::Copy;
  int8_t viewCount = 0;
  int8_t countsView = -1; ///< view that holds the numbers of rows that a ragged op uses, or -1
  int32_t countsPart = 0; ///< the op uses this one of countsParts equal parts of its columns
  int32_t countsParts = 1;
  int32_t op = 0;
  int32_t group = -1; ///< for a collective: index into Metadata::groups
  int64_t rank = 0;   ///< rank that calls
  int64_t member = 0; ///< for a kernel with a group: the rank's index among `members` members
  int64_t members = 1;
  int64_t sequence = 0; ///< number of earlier calls of the rank that meet the same members, set by the communicator
  std::array<double, 8> reals{};
  std::array<int64_t, 16> ints{};
  std::array<View, 12> views{};
  RoutingPage *routing = nullptr; ///< for a routing op that is forced or recorded
  int64_t routingPage = -1;       ///< its number in the rank's book
  int64_t leastShadows = 0;       ///< for an op that chooses shadows: least number that it makes; negative: none
  Repetition repetition;          ///< loop of the call, if the loop may not have the call's iteration
  int32_t place = -1;             ///< index into Metadata::groups of the group of `member`, or -1
  /// The views as the program gave them, while it issues the call. Null for absent ones, and for calls outside a plan.
  std::array<const moert_buffer *, 12> buffers{};
};

/// Calls visit(begin, end) with the bytes of each view that the call writes.
template <class Visit> Status forOutputs(const Call &call, Visit visit) {
  for (int i = 0; i < call.viewCount; ++i)
    if (const View &view = call.views[i]; view && infoOf(call.kind).operands[i].isOutput) {
      const char *begin = view.as<const char>();
      MOERT_RETURN_IF_ERROR(visit(begin, begin + view.bytes()));
    }
  return {};
}

/// "[2, 3] f32".
std::string operandText(const View &view);

/// Number of rows that a ragged call uses, once its counts are computed; -1 for other calls.
int64_t usedRows(const Call &call);

} // namespace moert

#endif // MOERT_CORE_CALL_H
