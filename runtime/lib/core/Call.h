//===- Call.h - one call of a plan, resolved ------------------------------===//
//
// What the ABI hands to a backend: addresses instead of buffers, a group's index instead of its name.
//
//===----------------------------------------------------------------------===//
#ifndef MOERT_CORE_CALL_H
#define MOERT_CORE_CALL_H

#include "core/RoutingBook.h"
#include "core/View.h"

namespace moert {

enum class Kind : uint8_t {
  Matmul,
  Add,
  Scale,
  Copy,
  RowScale,
  RowDot,
  Slice,
  Dump,
  LocalReduce,
  GroupedMatmul,
  GroupedMatmulWgrad,
  BiasAdd,
  BiasGrad,
  Activation,
  ActivationGrad,
  Route,
  RouteGrad,
  Dispatch,
  Combine,
  SlotDot,
  SliceCounts,
  LocalSlots,
  ChooseShadows,
  DivideChoices,
  Positions,
  IndexAffine,
  Fill,
  Cast,
  Embedding,
  EmbeddingGrad,
  Norm,
  NormGrad,
  NormWgrad,
  InverseRoot,
  InverseRootGrad,
  Rotary,
  AppendToHeads,
  AppendToHeadsGrad,
  Attention,
  AttentionGrad,
  AttentionBiasGrad,
  AttentionSinksGrad,
  RelativeBias,
  RelativeBiasGrad,
  Dropout,
  RowLogsumexp,
  RowLogsumexpGrad,
  Pick,
  PickGrad,
  LabelSum,
  LabelSumGrad,
  Divide,
  SumSquares,
  ClipFactor,
  SquareRoot,
  Sgd,
  Adam,
  // Collectives from here on.
  AllGather,
  ReduceScatter,
  AllReduce,
  AllToAll,
  AllToAllV,
  BroadcastExperts,
  ReduceExperts,
  Broadcast,
  Reduce,
  AssumeReplicated,
  // Of these, only the two members of a channel meet.
  Send,
  Receive
};

inline bool isCollective(Kind kind) { return kind >= Kind::AllGather; }
inline bool isPointToPoint(Kind kind) { return kind >= Kind::Send; }

/// "all_gather": the name in the ABI without its prefix.
const char *kindName(Kind kind);

struct Call;
struct Program;
/// "op 4 all_to_all 'layer0'".
std::string callName(const Program &program, const Call &call);

/// Operands and attributes stand in the order of the ABI function.
struct Call {
  Kind kind = Kind::Copy;
  int8_t viewCount = 0;
  int8_t countsView = -1; ///< which view holds the rows that a ragged op uses, or -1
  int32_t countsPart = 0; ///< which of countsParts equal parts of its columns the op uses
  int32_t countsParts = 1;
  int32_t op = 0;
  int32_t group = -1;   ///< index into Metadata::groups of a collective
  int64_t sequence = 0; ///< how many calls that meet the same members the rank issued before, set by the communicator
  std::array<double, 6> reals{};
  std::array<int64_t, 14> ints{};
  std::array<View, 12> views{};
  RoutingPage *routing = nullptr; ///< of a routing op that is told what to choose, or recorded
};

/// The rows that a ragged call uses (known once its counts are computed), or -1 where it is not ragged.
int64_t usedRows(const Call &call);

} // namespace moert

#endif // MOERT_CORE_CALL_H
