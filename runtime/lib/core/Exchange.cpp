//===- Exchange.cpp - who sends what to whom in a collective --------------===//

#include "core/Exchange.h"
#include "core/Ragged.h"

#include <algorithm>

namespace moert {
namespace {

/// Runs of a box of elements that lies in two values of one rank, at a place of its own in each. Both sides list the
/// runs in one order, because where a run ends hangs on the shapes of both.
struct BoxRuns {
  const View &in;
  std::array<int64_t, 4> outDims, from{}, to{}, box{};
  bool ofOutput; ///< whether to list places in the output
  Pieces &pieces;

  void list(size_t dim = 0, int64_t inOffset = 0, int64_t outOffset = 0) {
    inOffset = inOffset * in.dims[dim] + from[dim];
    outOffset = outOffset * outDims[dim] + to[dim];
    // Where all of the inner dimensions is copied, the rest is one run.
    auto width = static_cast<int64_t>(dtypeSize(in.dtype));
    bool whole = true;
    for (size_t k = dim + 1; k < static_cast<size_t>(in.rank); ++k) {
      whole &= box[k] == in.dims[k] && box[k] == outDims[k];
      width *= box[k];
    }
    if (whole)
      return pieces.push_back({(ofOutput ? outOffset : inOffset) * width, box[dim] * width});
    for (int64_t i = 0; i < box[dim]; ++i)
      list(dim + 1, inOffset + i, outOffset + i);
  }
};

/// The members that send to `member` in this phase of an all_to_all are so many from `first` on.
struct Senders {
  int64_t first, count;

  Senders(const Call &call, int64_t size, int64_t member) : count(size / call.ints[4]) {
    int64_t phase = call.ints[3], phases = call.ints[4];
    first = (member / count + phase) % phases * count;
  }
};

/// The box that `from` sends to `to` in an all_to_all.
void listBox(const Call &call, int64_t size, int64_t from, int64_t to, bool ofOutput, Pieces &pieces) {
  Senders senders(call, size, to);
  if (from < senders.first || from >= senders.first + senders.count)
    return;
  auto split = static_cast<size_t>(call.ints[0]), concat = static_cast<size_t>(call.ints[1]);
  int64_t copies = call.ints[2];
  BoxRuns runs{call.views[0], call.views[1].dims, {}, {}, call.views[0].dims, ofOutput, pieces};
  runs.box[split] /= size / copies;
  runs.from[split] = to / copies * runs.box[split];
  runs.to[concat] = (from - senders.first) * runs.box[concat];
  runs.list();
}

/// Bytes of what one expert has.
int64_t expertBytes(const View &values) { return values.dims[0] ? values.bytes() / values.dims[0] : 0; }

/// The shadowed experts that `owner` has: places in its own values, or those of the shadows.
void listShadows(const Call &call, int64_t owner, bool ofOutput, Pieces &pieces) {
  const View &in = call.views[0];
  const int32_t *shadows = call.views[1].as<int32_t>();
  int64_t own = in.dims[0], bytes = expertBytes(in);
  int64_t place = std::count(shadows, shadows + owner * own, 1);
  for (int64_t i = 0; i < own; ++i)
    if (shadows[owner * own + i])
      pieces.push_back({(ofOutput ? place++ : i) * bytes, bytes});
}

Status checkShadowValues(const View &shadows, int64_t places) {
  auto bad = [](const std::string &text) { return Status::error(MOERT_ERROR_INVALID_ARGUMENT, text); };
  int64_t used = 0;
  for (int64_t e = 0; e < shadows.elements(); ++e) {
    int32_t value = shadows.as<int32_t>()[e];
    if (value != 0 && value != 1)
      return bad("expected shadows of 0 or 1 but expert " + std::to_string(e) + " has " + std::to_string(value));
    used += value;
  }
  if (used > places)
    return bad("expected at most " + std::to_string(places) + " shadows, one for each place, but got " +
               std::to_string(used));
  return {};
}

} // namespace

Cut::Cut(const View &whole, int64_t dim, int64_t parts) {
  for (int64_t i = 0; i < dim; ++i)
    outer *= whole.dims[static_cast<size_t>(i)];
  int64_t pieces = outer * parts;
  run = pieces ? whole.bytes() / pieces : 0;
}

bool isExchange(Kind kind) {
  switch (kind) {
  case Kind::AllGather:
  case Kind::AllToAll:
  case Kind::AllToAllV:
  case Kind::BroadcastExperts:
  case Kind::Broadcast:
  case Kind::Send:
  case Kind::Receive:
    return true;
  default:
    return false;
  }
}

std::span<const size_t> valueOperands(Kind kind) {
  static constexpr size_t kCounts[] = {1, 2};
  switch (kind) {
  case Kind::AllToAllV:
    return kCounts;
  case Kind::BroadcastExperts:
  case Kind::ReduceExperts:
  case Kind::AllReduce:
    return {kCounts, 1};
  default:
    return {};
  }
}

const View &sentOperand(const Call &call) { return call.views[0]; }

const View &receivedOperand(const Call &call) {
  switch (call.kind) {
  case Kind::AllToAllV:
    return call.views[4];
  case Kind::BroadcastExperts:
    return call.views[2];
  case Kind::Send:
  case Kind::Receive:
    return call.views[0];
  default:
    return call.views[1];
  }
}

Status checkExchangeValues(const Call &call, int64_t size, int64_t member) {
  switch (call.kind) {
  case Kind::AllToAllV:
    return Ragged(call, size, member).check();
  case Kind::BroadcastExperts:
    return checkShadowValues(call.views[1], call.views[2].dims[0]);
  case Kind::ReduceExperts:
    return checkShadowValues(call.views[1], call.views[0].dims[0]);
  default:
    return {};
  }
}

Status checkAlike(const Call &call, int64_t member, const Call &first) {
  auto bad = [&](const std::string &expected, const std::string &here, int64_t other, int64_t value) {
    return Status::error(MOERT_ERROR_INVALID_ARGUMENT, "expected all members' " + expected + ", but " + here +
                                                           "member 0 has " + std::to_string(other) + " and member " +
                                                           std::to_string(member) + " has " + std::to_string(value));
  };
  if (call.kind == Kind::AllReduce)
    if (int64_t rows = usedRows(call), other = usedRows(first); rows != other)
      return bad("counts to add up to the same number of rows", "", other, rows);
  if (call.kind != Kind::BroadcastExperts && call.kind != Kind::ReduceExperts)
    return {};
  const View &shadows = call.views[1], &others = first.views[1];
  for (int64_t e = 0; e < shadows.elements(); ++e)
    if (int32_t value = shadows.as<int32_t>()[e], other = others.as<int32_t>()[e]; value != other)
      return bad("shadows to be equal", "for expert " + std::to_string(e) + " ", other, value);
  return {};
}

void piecesSent(const Call &call, int64_t size, int64_t member, int64_t to, Pieces &pieces) {
  pieces.clear();
  const View &in = sentOperand(call);
  switch (call.kind) {
  case Kind::AllGather: {
    Cut cut(receivedOperand(call), call.ints[0], size);
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
    if (member == call.ints[0])
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

void piecesReceived(const Call &call, int64_t size, int64_t member, std::vector<Pieces> &bySource) {
  bySource.resize(static_cast<size_t>(size));
  for (Pieces &pieces : bySource)
    pieces.clear();
  const View &out = receivedOperand(call);
  if (call.kind == Kind::AllToAllV)
    return Ragged(call, size, member).listReceived(bySource);
  for (int64_t source = 0; source < size; ++source) {
    Pieces &pieces = bySource[static_cast<size_t>(source)];
    if (call.kind == Kind::AllGather) {
      Cut cut(out, call.ints[0], size);
      for (int64_t o = 0; o < cut.outer; ++o)
        pieces.push_back({(o * size + source) * cut.run, cut.run});
    } else if (call.kind == Kind::AllToAll) {
      listBox(call, size, source, member, true, pieces);
    } else if (call.kind == Kind::BroadcastExperts) {
      listShadows(call, source, true, pieces);
    } else if ((call.kind == Kind::Broadcast && source == call.ints[0]) ||
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
  addend = call.views[3];
  Ragged(call, size, member).listFilled(pieces);
}

int64_t summedBytes(const Call &call, int64_t size, int64_t member, int64_t count) {
  auto width = static_cast<int64_t>(dtypeSize(call.views[0].dtype));
  if (call.kind == Kind::ReduceScatter)
    return (size - 1) * call.views[1].bytes();
  int64_t segment = count * (member + 1) / size - count * member / size;
  bool wantsAll = call.kind == Kind::AllReduce || member == call.ints[0];
  return ((size - 1) * segment + (wantsAll ? count - segment : 0)) * width;
}

Status reducedElements(const Call &call, int64_t &elements) {
  elements = call.views[0].elements();
  if (!call.views[1])
    return {};
  int64_t rows = usedRows(call), room = call.views[0].dims[0];
  if (rows < 0 || rows > room)
    return Status::error(MOERT_ERROR_OVERFLOW, "counts add up to " + std::to_string(rows) +
                                                   " rows, but there is room for " + std::to_string(room));
  elements = room ? elements / room * rows : 0;
  return {};
}

OwnedExperts::OwnedExperts(const Call &call, int64_t member) {
  const View &out = call.views[3];
  const int32_t *shadows = call.views[1].as<int32_t>();
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
    return Status::error(MOERT_ERROR_INVALID_ARGUMENT, "member " + std::to_string(from) +
                                                           " does not send what member " + std::to_string(to) +
                                                           " expects of it");
  if (call.ints[0] == MOERT_FROM_EXPERTS)
    std::swap(from, to);
  return Status::error(MOERT_ERROR_INVALID_ARGUMENT,
                       "block_counts of member " + std::to_string(from) + " and expert_counts of member " +
                           std::to_string(to) + " disagree: expected the latter to be the all_to_all of the former");
}

} // namespace moert
