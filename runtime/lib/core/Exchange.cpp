//===- Exchange.cpp - who sends what to whom in a collective --------------===//

#include "core/Exchange.h"
#include "core/Attributes.h"
#include "core/Ragged.h"

#include <algorithm>

namespace moert {
namespace {

/// Runs of a box of elements that lies in two values of one rank, at one place in each. Both sides list the runs in one
/// order, because the end of a run depends on the shapes of both.
struct BoxRuns {
  const View &in;
  std::array<int64_t, 4> outDims, from{}, to{}, box{};
  bool ofOutput; ///< whether to list places in the output
  Pieces &pieces;

  void list(int64_t dim = 0, int64_t inOffset = 0, int64_t outOffset = 0) {
    inOffset = inOffset * in.dims[dim] + from[dim];
    outOffset = outOffset * outDims[dim] + to[dim];
    // If the box covers the inner dimensions, the rest is one run.
    auto width = static_cast<int64_t>(dtypeSize(in.dtype));
    bool whole = true;
    for (int64_t k = dim + 1; k < in.rank; ++k) {
      whole &= box[k] == in.dims[k] && box[k] == outDims[k];
      width *= box[k];
    }
    if (whole)
      return pieces.push_back({(ofOutput ? outOffset : inOffset) * width, box[dim] * width});
    for (int64_t i = 0; i < box[dim]; ++i)
      list(dim + 1, inOffset + i, outOffset + i);
  }
};

/// Members that send to `member` in this phase of an all_to_all: `count` members from `first` on.
struct Senders {
  int64_t first, count;

  Senders(const attributes::AllToAll &its, int64_t size, int64_t member) : count(size / its.phases) {
    first = (member / count + its.phase) % its.phases * count;
  }
};

/// Lists the box that `from` sends to `to` in an all_to_all.
void listBox(const Call &call, int64_t size, int64_t from, int64_t to, bool ofOutput, Pieces &pieces) {
  const auto its = attributes::AllToAll::of(call);
  Senders senders(its, size, to);
  if (from < senders.first || from >= senders.first + senders.count)
    return;
  const int64_t split = its.splitDim, concat = its.concatDim;
  const View &in = sentOperand(call);
  BoxRuns runs{in, receivedOperand(call).dims, {}, {}, in.dims, ofOutput, pieces};
  runs.box[split] /= size / its.copies;
  runs.from[split] = to / its.copies * runs.box[split];
  runs.to[concat] = (from - senders.first) * runs.box[concat];
  runs.list();
}

/// Bytes of the values of one expert.
int64_t expertBytes(const View &values) { return values.dims[0] ? values.bytes() / values.dims[0] : 0; }

/// Lists the shadowed experts of `owner`: their places in its own values, or among the shadows.
void listShadows(const Call &call, int64_t owner, bool ofOutput, Pieces &pieces) {
  const View &in = sentOperand(call);
  const int32_t *shadows = call.views[operands::BroadcastExperts::shadows].as<int32_t>();
  int64_t own = in.dims[0], bytes = expertBytes(in);
  int64_t place = std::count(shadows, shadows + owner * own, 1);
  for (int64_t i = 0; i < own; ++i)
    if (shadows[owner * own + i])
      pieces.push_back({(ofOutput ? place++ : i) * bytes, bytes});
}

Status checkShadowValues(const View &shadows, int64_t places) {
  int64_t used = 0;
  for (int64_t e = 0; e < shadows.elements(); ++e) {
    int32_t value = shadows.as<int32_t>()[e];
    if (value != 0 && value != 1)
      return invalid("expected shadows of 0 or 1 but expert ", e, " has ", value);
    used += value;
  }
  return invalidUnless(used <= places, "expected at most ", places, " shadows, one for each place, but got ", used);
}

/// Operands that a collective takes values from and gives them to, and those whose values control it.
struct Moved {
  size_t sent = 0, received = 0, valueCount = 0;
  std::array<size_t, 2> values{};
};

constexpr Moved readMoved(const KernelInfo &kernel) {
  Moved moved;
  int sent = -1, received = -1;
  for (int i = 0; i < kernel.operandCount; ++i) {
    const KernelInfo::Operand &operand = kernel.operands[i];
    if (kernel.type == CallType::Collective && operand.type == OperandType::I32)
      moved.values[moved.valueCount++] = i;
    else if (!operand.isOptional) // nobody sends an addend
      (operand.isOutput ? received : sent) = i;
  }
  moved.sent = sent < 0 ? received : sent;
  moved.received = received < 0 ? sent : received;
  return moved;
}

const Moved &movedBy(Kind kind) {
  static constexpr auto kMoved = [] {
    std::array<Moved, std::size(kKernels)> moved;
    std::transform(std::begin(kKernels), std::end(kKernels), moved.begin(), readMoved);
    return moved;
  }();
  return kMoved[static_cast<size_t>(kind)];
}

} // namespace

int64_t bytesOf(const Pieces &pieces) {
  int64_t bytes = 0;
  for (const Piece &piece : pieces)
    bytes += piece.bytes;
  return bytes;
}

Cut::Cut(const View &whole, int64_t dim, int64_t parts) : parts(parts) {
  for (int64_t i = 0; i < dim; ++i)
    outer *= whole.dims[i];
  int64_t pieces = outer * parts;
  run = pieces ? whole.bytes() / pieces : 0;
}

void Cut::pack(const char *from, char *to) const {
  for (int64_t part = 0; part < parts; ++part)
    for (int64_t o = 0; o < outer; ++o)
      to = std::copy_n(from + (o * parts + part) * run, run, to);
}

bool isExchange(Kind kind) {
  constexpr Kind kExchanges[] = {Kind::AllGather, Kind::AllToAll, Kind::AllToAllV, Kind::BroadcastExperts,
                                 Kind::Broadcast, Kind::Send,     Kind::Receive};
  return std::ranges::find(kExchanges, kind) != std::end(kExchanges);
}

std::span<const size_t> valueOperands(Kind kind) {
  const Moved &moved = movedBy(kind);
  return {moved.values.data(), moved.valueCount};
}

const View &sentOperand(const Call &call) { return call.views[movedBy(call.kind).sent]; }

const View &receivedOperand(const Call &call) { return call.views[movedBy(call.kind).received]; }

Status checkExchangeValues(const Call &call, int64_t size, int64_t member) {
  switch (call.kind) {
  case Kind::AllToAllV:
    return Ragged(call, size, member).check();
  case Kind::BroadcastExperts:
    return checkShadowValues(call.views[operands::BroadcastExperts::shadows], receivedOperand(call).dims[0]);
  case Kind::ReduceExperts:
    return checkShadowValues(call.views[operands::ReduceExperts::shadows], sentOperand(call).dims[0]);
  default:
    return {};
  }
}

Status checkAlike(const Call &call, int64_t member, const Call &first) {
  auto bad = [&](const std::string &expected, const std::string &here, int64_t other, int64_t value) {
    return invalid("expected all members' ", expected, ", but ", here, "member 0 has ", other, " and member ", member,
                   " has ", value);
  };
  if (call.kind == Kind::AllReduce)
    if (int64_t rows = usedRows(call), other = usedRows(first); rows != other)
      return bad("counts to add up to the same number of rows", "", other, rows);
  if (call.kind != Kind::BroadcastExperts && call.kind != Kind::ReduceExperts)
    return {};
  const size_t position = valueOperands(call.kind)[0];
  const View &shadows = call.views[position], &others = first.views[position];
  for (int64_t e = 0; e < shadows.elements(); ++e)
    if (int32_t value = shadows.as<int32_t>()[e], other = others.as<int32_t>()[e]; value != other)
      return bad("shadows to be equal", joined("for expert ", e, " "), other, value);
  return {};
}

void piecesSent(const Call &call, int64_t size, int64_t member, int64_t to, Pieces &pieces) {
  pieces.clear();
  const View &in = sentOperand(call);
  switch (call.kind) {
  case Kind::AllGather: {
    Cut cut(receivedOperand(call), attributes::AllGather::of(call).dim, size);
    for (int64_t o = 0; o < cut.outer; ++o)
      pieces.push_back({o * cut.run, cut.run});
    return;
  }
  case Kind::AllToAll:
    return listBox(call, size, member, to, false, pieces);
  case Kind::AllToAllV:
    return Ragged(call, size, member).listSent(to, pieces);
  case Kind::BroadcastExperts:
    return listShadows(call, member, false, pieces);
  case Kind::Broadcast:
    if (member == attributes::Broadcast::of(call).root)
      pieces.push_back({0, in.bytes()});
    return;
  case Kind::Send:
    if (to == 1)
      pieces.push_back({0, in.bytes()});
    return;
  default:
    return;
  }
}

void piecesSentToAll(const Call &call, int64_t size, int64_t member, std::vector<Pieces> &byTarget) {
  byTarget.resize(size);
  for (Pieces &pieces : byTarget)
    pieces.clear();
  if (call.kind == Kind::AllToAllV)
    return Ragged(call, size, member).listSentToAll(byTarget);
  for (int64_t to = 0; to < size; ++to)
    piecesSent(call, size, member, to, byTarget[to]);
}

void piecesReceived(const Call &call, int64_t size, int64_t member, std::vector<Pieces> &bySource) {
  bySource.resize(size);
  for (Pieces &pieces : bySource)
    pieces.clear();
  const View &out = receivedOperand(call);
  if (call.kind == Kind::AllToAllV)
    return Ragged(call, size, member).listReceived(bySource);
  for (int64_t source = 0; source < size; ++source) {
    Pieces &pieces = bySource[source];
    if (call.kind == Kind::AllGather) {
      Cut cut(out, attributes::AllGather::of(call).dim, size);
      for (int64_t o = 0; o < cut.outer; ++o)
        pieces.push_back({(o * size + source) * cut.run, cut.run});
    } else if (call.kind == Kind::AllToAll) {
      listBox(call, size, source, member, true, pieces);
    } else if (call.kind == Kind::BroadcastExperts) {
      listShadows(call, source, true, pieces);
    } else if ((call.kind == Kind::Broadcast && source == attributes::Broadcast::of(call).root) ||
               (call.kind == Kind::Receive && source == 0)) {
      pieces.push_back({0, out.bytes()});
    }
  }
}

void piecesFilled(const Call &call, int64_t size, int64_t member, Pieces &pieces, View &addend) {
  pieces.clear();
  addend = {};
  if (call.kind != Kind::AllToAllV)
    return;
  addend = call.views[operands::AllToAllV::addend];
  Ragged(call, size, member).listFilled(pieces);
}

int64_t summedBytes(const Call &call, int64_t size, int64_t member, int64_t count) {
  auto width = static_cast<int64_t>(dtypeSize(sentOperand(call).dtype));
  if (call.kind == Kind::ReduceScatter)
    return (size - 1) * receivedOperand(call).bytes();
  int64_t segment = count * (member + 1) / size - count * member / size;
  bool wantsAll = call.kind == Kind::AllReduce || member == attributes::Reduce::of(call).root;
  return ((size - 1) * segment + (wantsAll ? count - segment : 0)) * width;
}

Status reducedElements(const Call &call, int64_t &elements) {
  const View &in = call.views[operands::AllReduce::in];
  elements = in.elements();
  if (!call.views[operands::AllReduce::counts])
    return {};
  int64_t rows = usedRows(call), room = in.dims[0];
  if (rows < 0 || rows > room)
    return Status::error(MOERT_ERROR_OVERFLOW, "counts add up to ", rows, " rows, but there is room for ", room);
  elements = room ? elements / room * rows : 0;
  return {};
}

OwnedExperts::OwnedExperts(const Call &call, int64_t member) {
  const View &out = receivedOperand(call);
  const int32_t *shadows = call.views[operands::ReduceExperts::shadows].as<int32_t>();
  count = out.dims[0];
  elements = count ? out.elements() / count : 0;
  bytes = elements * static_cast<int64_t>(dtypeSize(out.dtype));
  first = member * count;
  for (int64_t e = 0; e < first; ++e)
    place += shadows[e];
}

Status checkPieces(const Side &from, const Side &to) {
  auto sameBytes = [](const Piece &a, const Piece &b) { return a.bytes == b.bytes; };
  bool same = std::equal(from.pieces.begin(), from.pieces.end(), to.pieces.begin(), to.pieces.end(), sameBytes);
  return same ? Status{} : piecesDisagree(to.call, from.member, to.member);
}

Status piecesDisagree(const Call &call, int64_t from, int64_t to) {
  if (call.kind != Kind::AllToAllV)
    return invalid("member ", from, " sends another number of bytes than member ", to, " expects from it");
  if (attributes::AllToAllV::of(call).direction == MOERT_FROM_EXPERTS)
    std::swap(from, to);
  return invalid("block_counts of member ", from, " and expert_counts of member ", to,
                 " disagree: expected expert_counts to be the all_to_all of block_counts");
}

} // namespace moert
