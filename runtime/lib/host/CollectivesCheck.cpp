//===- CollectivesCheck.cpp - operands of collectives ---------------------===//

#include "host/Collectives.h"

namespace moert::host {
namespace {

std::string text(const View &view) {
  return shapeText(std::vector<int64_t>(view.dims.begin(), view.dims.begin() + static_cast<size_t>(view.rank))) + " " +
         dtypeName(view.dtype);
}

Status expected(const std::string &what, const View &got) {
  return Status::error(MOERT_ERROR_INVALID_ARGUMENT, "expected " + what + " but got " + text(got));
}

/// `of` with dimension `dim` multiplied and divided.
View resized(View of, int64_t dim, int64_t multiply, int64_t divide) {
  of.dims[static_cast<size_t>(dim)] = of.dims[static_cast<size_t>(dim)] * multiply / divide;
  return of;
}

bool sameType(const View &a, const View &b) {
  if (a.dtype != b.dtype || a.rank != b.rank)
    return false;
  for (int64_t dim = 0; dim < a.rank; ++dim)
    if (a.dims[static_cast<size_t>(dim)] != b.dims[static_cast<size_t>(dim)])
      return false;
  return true;
}

Status checkDim(int64_t dim, const View &view, const char *name) {
  if (dim < 0 || dim >= view.rank)
    return Status::error(MOERT_ERROR_INVALID_ARGUMENT, std::string("expected ") + name + " below " +
                                                           std::to_string(view.rank) + " but got " +
                                                           std::to_string(dim));
  return {};
}

Status checkDivides(int64_t size, int64_t dim, const View &view) {
  if (view.dims[static_cast<size_t>(dim)] % size != 0)
    return expected("dimension " + std::to_string(dim) + " of the input to be a multiple of the group's size " +
                        std::to_string(size),
                    view);
  return {};
}

Status checkOut(const View &want, const View &out) {
  return sameType(want, out) ? Status{} : expected("an output " + text(want), out);
}

Status checkAllToAllV(const Call &call, int64_t size) {
  const View &rows = call.views[0], &blocks = call.views[1], &experts = call.views[2], &out = call.views[3];
  if (rows.rank != 2 || out.rank != 2 || rows.dtype != out.dtype || rows.dims[1] != out.dims[1])
    return expected("an output of two dimensions with the columns and dtype of the rows " + text(rows), out);
  if (blocks.dtype != MOERT_I32 || blocks.rank != 2 || blocks.dims[0] < 1 || blocks.dims[1] % size != 0)
    return expected("block_counts [blocks, a multiple of " + std::to_string(size) + "] i32", blocks);
  View want = resized(resized(blocks, 1, 1, size), 0, size, 1);
  if (!sameType(want, experts))
    return expected("expert_counts " + text(want), experts);
  int64_t direction = call.ints[0];
  if (direction != MOERT_TO_EXPERTS && direction != MOERT_FROM_EXPERTS)
    return Status::error(MOERT_ERROR_INVALID_ARGUMENT,
                         "expected direction 0 or 1 but got " + std::to_string(direction));
  const View &blockSide = direction == MOERT_TO_EXPERTS ? rows : out;
  if (blockSide.dims[0] % blocks.dims[0] != 0)
    return expected("the block side to have a multiple of " + std::to_string(blocks.dims[0]) + " rows", blockSide);
  return {};
}

Status checkAllReduce(const Call &call) {
  const View &in = call.views[0], &counts = call.views[1];
  if (counts && (counts.dtype != MOERT_I32 || in.rank < 1))
    return expected("counts i32 and rows of at least one dimension", counts);
  return checkOut(in, call.views[2]);
}

Status checkRoot(int64_t root, int64_t size) {
  if (root >= 0 && root < size)
    return {};
  return Status::error(MOERT_ERROR_INVALID_ARGUMENT, "expected a root below the group's size " + std::to_string(size) +
                                                         " but got " + std::to_string(root));
}

Status checkAllToAll(const Call &call, int64_t size) {
  const View &in = call.views[0];
  int64_t split = call.ints[0], concat = call.ints[1];
  if (Status status = checkDim(split, in, "split_dim"); !status.ok())
    return status;
  if (Status status = checkDim(concat, in, "concat_dim"); !status.ok())
    return status;
  if (Status status = checkDivides(size, split, in); !status.ok())
    return status;
  return checkOut(resized(resized(in, split, 1, size), concat, size, 1), call.views[1]);
}

} // namespace

Status checkCollective(const Call &call, int64_t size) {
  const View &in = call.views[0];
  int64_t dim = call.ints[0];
  switch (call.kind) {
  case Kind::AllGather:
    if (Status status = checkDim(dim, in, "dim"); !status.ok())
      return status;
    return checkOut(resized(in, dim, size, 1), call.views[1]);
  case Kind::ReduceScatter:
    if (Status status = checkDim(dim, in, "dim"); !status.ok())
      return status;
    if (Status status = checkDivides(size, dim, in); !status.ok())
      return status;
    return checkOut(resized(in, dim, 1, size), call.views[1]);
  case Kind::AllReduce:
    return checkAllReduce(call);
  case Kind::AllToAll:
    return checkAllToAll(call, size);
  case Kind::AllToAllV:
    return checkAllToAllV(call, size);
  case Kind::Broadcast:
  case Kind::Reduce:
    if (Status status = checkRoot(dim, size); !status.ok())
      return status;
    return checkOut(in, call.views[1]);
  default:
    return {};
  }
}

} // namespace moert::host
