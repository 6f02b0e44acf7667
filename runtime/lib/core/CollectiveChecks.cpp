//===- CollectiveChecks.cpp - operands of collectives ---------------------===//

#include "core/Attributes.h"
#include "core/Checker.h"
#include "core/Exchange.h"

namespace moert {
namespace {

/// Fails unless `condition`. The parts say what was expected.
template <class... Parts> Status expect(bool condition, const View &got, const Parts &...parts) {
  return invalidUnless(condition, "expected ", parts..., " but got ", operandText(got));
}

/// Returns `of` with dimension `dim` multiplied and divided.
View resized(View of, int64_t dim, int64_t multiply, int64_t divide) {
  of.dims[dim] = of.dims[dim] * multiply / divide;
  return of;
}

Status checkDim(int64_t dim, const View &view, const char *name) {
  return invalidUnless(dim >= 0 && dim < view.rank, "expected ", name, " below ", view.rank, " but got ", dim);
}

std::string overCopies(int64_t copies) { return copies > 1 ? joined(" over ", copies, " copies") : ""; }

/// Checks that the group's size divided by `copies` divides dimension `dim`.
Status checkDivides(int64_t size, int64_t dim, const View &view, int64_t copies = 1) {
  return expect(view.dims[dim] % (size / copies) == 0, view, "dimension ", dim,
                " of the input to be a multiple of the group's size ", size, overCopies(copies));
}

/// Checks that `value` divides the group's size divided by `copies`.
Status checkPartOfSize(const char *name, int64_t value, int64_t size, int64_t copies = 1) {
  return invalidUnless(value >= 1 && size / copies % value == 0, "expected ", name, " that divide the group's size ",
                       size, overCopies(copies), " but got ", value);
}

Status checkPhase(int64_t phase, int64_t phases, int64_t size, int64_t copies = 1) {
  MOERT_RETURN_IF_ERROR(checkPartOfSize("phases", phases, size, copies));
  return invalidUnless(phase >= 0 && phase < phases, "expected a phase below ", phases, " but got ", phase);
}

Status checkOut(const View &want, const View &out) {
  return expect(want.hasShapeOf(out), out, "an output ", operandText(want));
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
  MOERT_RETURN_IF_ERROR(expect(!addend || allowed, addend, "no addend to the experts"));
  return expect(!addend || addend.hasShapeOf(out), addend, "an addend ", operandText(out));
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
    return expect(false, blocks, "block_counts [blocks, a multiple of ", size / copies, "] i32");
  View want = resized(resized(blocks, 1, copies, size), 0, size / its.phases, 1);
  MOERT_RETURN_IF_ERROR(expect(want.hasShapeOf(experts), experts, "expert_counts ", operandText(want)));
  const View &blockSide = toExperts ? rows : out;
  int64_t parts = blocks.dims[0] * (toExperts ? its.stored : copies);
  MOERT_RETURN_IF_ERROR(
      expect(blockSide.dims[0] % parts == 0, blockSide, "the block side to have a multiple of ", parts, " rows"));
  return checkAddend(call.views[AllToAllV::addend], out, !toExperts);
}

/// Checks that `experts` has one row for each of a member's experts, and `places` one for each place of a shadow.
Status checkShadows(const View &experts, const View &shadows, const View &places, int64_t size) {
  MOERT_RETURN_IF_ERROR(expect(experts.rank >= 1, experts, "values of experts of at least one dimension"));
  const int64_t own = experts.dims[0], all = own * size;
  MOERT_RETURN_IF_ERROR(expect(shadows.rank == 2 && shadows.dims[0] == 1 && shadows.dims[1] == all, shadows,
                               "shadows [1, ", all, "] i32 for ", own, " experts on each of ", size, " members"));
  View want = experts;
  want.dims[0] = places.dims[0];
  return expect(want.hasShapeOf(places), places, "places of shadows that are like the experts ", operandText(experts));
}

Status checkRoot(int64_t root, int64_t size) {
  return invalidUnless(root >= 0 && root < size, "expected a root below the group's size ", size, " but got ", root);
}

Status checkPeer(int64_t peer, int64_t size, int64_t member) {
  return invalidUnless(peer >= 0 && peer < size && peer != member,
                       "expected another member of the group as peer, below its size ", size, " and not this rank's ",
                       member, ", but got ", peer);
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
    return expect(!call.views[operands::AllReduce::counts] || in.rank >= 1, in, "rows of at least one dimension");
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
