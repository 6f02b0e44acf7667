//===- Copies.cpp - work of collectives on one device ---------------------===//

#include "cuda/Copies.h"

namespace moert::cuda {

Status fillUnsent(cudaStream_t stream, const Call &call, int64_t size, int64_t member) {
  Pieces pieces;
  View addend;
  piecesFilled(call, size, member, pieces, addend);
  char *out = receivedOperand(call).as<char>();
  for (const Piece &piece : pieces)
    MOERT_RETURN_IF_ERROR(addend ? copyBytes(stream, out + piece.offset, addend.as<char>() + piece.offset, piece.bytes)
                                 : clearBytes(stream, out + piece.offset, piece.bytes));
  return {};
}

Status HostValues::fetch(const StreamContext &stream, View &view) {
  MOERT_RETURN_IF_ERROR(stream.checkMayWait());
  std::vector<char> &copy = values.emplace_back(static_cast<size_t>(view.bytes()));
  MOERT_RETURN_IF_ERROR(copyBytes(stream.stream, copy.data(), view.data, view.bytes()));
  view.data = copy.data();
  return check(cudaStreamSynchronize(stream.stream), "a call before a collective failed");
}

Status HostValues::fetchOperands(const StreamContext &stream, Call &call) {
  for (size_t operand : valueOperands(call.kind)) {
    View &view = call.views[operand];
    if (!view)
      continue;
    MOERT_RETURN_IF_ERROR(stream.readCounts(view, counts.emplace_back()));
    view.data = const_cast<int32_t *>(counts.back()->data());
  }
  return {};
}

} // namespace moert::cuda
