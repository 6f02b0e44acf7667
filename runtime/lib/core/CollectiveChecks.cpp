//===- CollectiveChecks.cpp - operands of collectives ---------------------===//

#include "core/Attributes.h"
#include "core/Checker.h"
#include "core/Exchange.h"
#include "core/Metadata.h"

namespace moert {
namespace {

std::string text(const View &view) {
  return shapeText(std::vector<int64_t>(view.dims.begin(), view.dims.begin() + static_cast<size_t>(view.rank))) + " " +
         dtypeName(view.dtype);
}

Status expected(const std::string &what, const View &got) { return invalid("expected ", what, " but got ", text(got)); }

/// Returns `of` with dimension `dim` multiplied and divided.
View resized(View of, int64_t dim, int64_t multiply, int64_t divide) {
  of.dims[static_cast<size_t>(dim)] = of.dims[static_cast<size_t>(dim)] * multiply / divide;
  return of;
}

bool sameShape(const View &a, const View &b) {
  if (a.rank != b.rank)
    return false;
  for (int64_t dim = 0; dim < a.rank; ++dim)
    if (a.dims[static_cast<size_t>(dim)] != b.dims[static_cast<size_t>(dim)])
      return false;
  return true;
}

Status checkDim(int64_t dim, const View &view, const char *name) {
  if (dim < 0 || dim >= view.rank)
    return invalid("expected ", name, " below ", view.rank, " but got ", dim);
  return {};
}

/// Checks that the group's size divided by `copies` divides dimension `dim`.
Status checkDivides(int64_t size, int64_t dim, const View &view, int64_t copies = 1) {
  if (view.dims[static_cast<size_t>(dim)] % (size / copies) != 0)
    return expected("dimension " + std::to_string(dim) + " of the input to be a multiple of the group's size " +
                        std::to_string(size) + (copies > 1 ? " over " + std::to_string(copies) + " copies" : ""),
                    view);
  return {};
}

/// Checks that `value` divides the group's size divided by `copies`.
Status checkPartOfSize(const char *name, int64_t value, int64_t size, int64_t copies = 1) {
  if (value >= 1 && size / copies % value == 0)
    return {};
  return invalid("expected ", name, " that divide the group's size ", size,
                 copies > 1 ? " over " + std::to_string(copies) + " copies" : "", " but got ", value);
}

Status checkPhase(int64_t phase, int64_t phases, int64_t size, int64_t copies = 1) {
  MOERT_RETURN_IF_ERROR(checkPartOfSize("phases", phases, size, copies));
  if (phase >= 0 && phase < phases)
    return {};
  return invalid("expected a phase below ", phases, " but got ", phase);
}

Status checkOut(const View &want, const View &out) {
  return sameShape(want, out) ? Status{} : expected("an output " + text(want), out);
}

Status checkRaggedAttributes(const attributes::AllToAllV &its, int64_t size) {
  MOERT_RETURN_IF_ERROR(checkPartOfSize("copies", its.copies, size));
  if (its.direction != MOERT_TO_EXPERTS && its.direction != MOERT_FROM_EXPERTS)
    return invalid("expected direction 0 or 1 but got ", its.direction);
  if (its.direction == MOERT_TO_EXPERTS && its.stored != 1 && its.stored != its.copies)
    return invalid("expected 1 or all of ", its.copies, " copies to be stored but got ", its.stored);
  return checkPhase(its.phase, its.phases, size, its.copies);
}

/// Checks the addend, which gives the rows that nobody writes on the way back.
Status checkAddend(const View &addend, const View &out, bool allowed) {
  if (!addend)
    return {};
  if (!allowed)
    return expected("no addend to the experts", addend);
  return sameShape(addend, out) ? Status{} : expected("an addend " + text(out), addend);
}

Status checkAllToAllV(const Call &call, int64_t size) {
  using operands::AllToAllV;
  const View &rows = call.views[AllToAllV::rows], &out = call.views[AllToAllV::out];
  const View &blocks = call.views[AllToAllV::blockCounts], &experts = call.views[AllToAllV::expertCounts];
  const auto its = attributes::AllToAllV::of(call);
  MOERT_RETURN_IF_ERROR(checkRaggedAttributes(its, size));
  const int64_t copies = its.copies;
  const bool toExperts = its.direction == MOERT_TO_EXPERTS;
  if (blocks.dims[0] < 1 || blocks.dims[1] % (size / copies) != 0)
    return expected("block_counts [blocks, a multiple of " + std::to_string(size / copies) + "] i32", blocks);
  View want = resized(resized(blocks, 1, copies, size), 0, size / its.phases, 1);
  if (!sameShape(want, experts))
    return expected("expert_counts " + text(want), experts);
  const View &blockSide = toExperts ? rows : out;
  int64_t parts = blocks.dims[0] * (toExperts ? its.stored : copies);
  if (blockSide.dims[0] % parts != 0)
    return expected("the block side to have a multiple of " + std::to_string(parts) + " rows", blockSide);
  return checkAddend(call.views[AllToAllV::addend], out, !toExperts);
}

/// Checks that `experts` has one row for each of a member's experts, and `places` one for each place of a shadow.
Status checkShadows(const View &experts, const View &shadows, const View &places, int64_t size) {
  if (experts.rank < 1)
    return expected("values of experts of at least one dimension", experts);
  if (shadows.rank != 2 || shadows.dims[0] != 1 || shadows.dims[1] != experts.dims[0] * size)
    return expected("shadows [1, " + std::to_string(experts.dims[0] * size) + "] i32 for " +
                        std::to_string(experts.dims[0]) + " experts on each of " + std::to_string(size) + " members",
                    shadows);
  View want = experts;
  want.dims[0] = places.dims[0];
  return sameShape(want, places) ? Status{}
                                 : expected("places of shadows that are like the experts " + text(experts), places);
}

Status checkRoot(int64_t root, int64_t size) {
  if (root >= 0 && root < size)
    return {};
  return invalid("expected a root below the group's size ", size, " but got ", root);
}

Status checkPeer(int64_t peer, int64_t size, int64_t member) {
  if (peer >= 0 && peer < size && peer != member)
    return {};
  return invalid("expected another member of the group as peer, below its size ", size, " and not this rank's ", member,
                 ", but got ", peer);
}

Status checkAllToAll(const Call &call, int64_t size) {
  const View &in = sentOperand(call);
  const auto its = attributes::AllToAll::of(call);
  MOERT_RETURN_IF_ERROR(checkDim(its.splitDim, in, "split_dim"));
  MOERT_RETURN_IF_ERROR(checkDim(its.concatDim, in, "concat_dim"));
  MOERT_RETURN_IF_ERROR(checkPartOfSize("copies", its.copies, size));
  MOERT_RETURN_IF_ERROR(checkPhase(its.phase, its.phases, size));
  MOERT_RETURN_IF_ERROR(checkDivides(size, its.splitDim, in, its.copies));
  View want = resized(resized(in, its.splitDim, its.copies, size), its.concatDim, size / its.phases, 1);
  return checkOut(want, receivedOperand(call));
}

Status checkAllGather(const Call &call, int64_t size) {
  const View &in = sentOperand(call);
  const int64_t dim = attributes::AllGather::of(call).dim;
  MOERT_RETURN_IF_ERROR(checkDim(dim, in, "dim"));
  return checkOut(resized(in, dim, size, 1), receivedOperand(call));
}

Status checkReduceScatter(const Call &call, int64_t size) {
  const View &in = sentOperand(call);
  const int64_t dim = attributes::ReduceScatter::of(call).dim;
  MOERT_RETURN_IF_ERROR(checkDim(dim, in, "dim"));
  MOERT_RETURN_IF_ERROR(checkDivides(size, dim, in));
  return checkOut(resized(in, dim, 1, size), receivedOperand(call));
}

} // namespace

Status checkCollective(const Call &call, int64_t size, int64_t member) {
  const View &in = sentOperand(call), &out = receivedOperand(call);
  Checker check(call.kind);
  if (!check.operands(call.views.data(), nullptr).ok())
    return check.take();
  switch (call.kind) {
  case Kind::AllGather:
    return checkAllGather(call, size);
  case Kind::ReduceScatter:
    return checkReduceScatter(call, size);
  case Kind::AllReduce:
    return call.views[operands::AllReduce::counts] && in.rank < 1 ? expected("rows of at least one dimension", in)
                                                                  : Status{};
  case Kind::AllToAll:
    return checkAllToAll(call, size);
  case Kind::AllToAllV:
    return checkAllToAllV(call, size);
  case Kind::BroadcastExperts:
    return checkShadows(in, call.views[operands::BroadcastExperts::shadows], out, size);
  case Kind::ReduceExperts:
    return checkShadows(out, call.views[operands::ReduceExperts::shadows], in, size);
  case Kind::Broadcast:
    return checkRoot(attributes::Broadcast::of(call).root, size);
  case Kind::Reduce:
    return checkRoot(attributes::Reduce::of(call).root, size);
  case Kind::Send:
  case Kind::Receive:
    return checkPeer(peerOf(call), size, member);
  default:
    return {};
  }
}

} // namespace moert
