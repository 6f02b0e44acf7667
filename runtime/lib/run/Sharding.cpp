//===- Sharding.cpp - from global values to the ranks' parts and back -----===//

#include "run/Sharding.h"

#include <cmath>
#include <cstring>

namespace moert::run {
namespace {

/// Calls visit(offset in the whole, offset in the part, length) in elements, for each run that is dense in both.
template <class Visit>
void forEachRun(const Value &value, const std::vector<Group> &groups, int64_t rank, Visit visit) {
  size_t dims = value.shape.size();
  // Dimensions from `inner` on make one run: all of those behind it are whole.
  size_t inner = dims;
  int64_t run = 1;
  while (inner > 0) {
    --inner;
    run *= value.localShape[inner];
    if (value.localShape[inner] != value.shape[inner])
      break;
  }
  // An empty part may have no address.
  int64_t runs = run > 0 ? 1 : 0;
  for (size_t dim = 0; dim < inner; ++dim)
    runs *= value.localShape[dim];
  std::array<int64_t, 4> start{};
  for (size_t dim = 0; dim < dims; ++dim)
    start[dim] = shardIndex(value, dim, groups, rank) * value.localShape[dim];
  for (int64_t r = 0; r < runs; ++r) {
    int64_t offset = 0, stride = 1, rest = r;
    for (size_t dim = dims; dim-- > 0; stride *= value.shape[dim]) {
      int64_t index = start[dim];
      if (dim < inner) {
        index += rest % value.localShape[dim];
        rest /= value.localShape[dim];
      }
      offset += index * stride;
    }
    visit(offset, r * run, run);
  }
}

} // namespace

void cutPart(const Tensor &global, const Value &value, const std::vector<Group> &groups, int64_t rank, char *local) {
  auto width = static_cast<int64_t>(dtypeSize(value.dtype));
  forEachRun(value, groups, rank, [&](int64_t whole, int64_t part, int64_t count) {
    std::memcpy(local + part * width, global.as<char>() + whole * width, static_cast<size_t>(count * width));
  });
}

std::vector<PartBlock> blocksOfPart(const Value &value, const std::vector<Group> &groups, int64_t rank) {
  std::vector<int64_t> offset;
  for (size_t dim = 0; dim < value.shape.size(); ++dim)
    offset.push_back(shardIndex(value, dim, groups, rank) * value.localShape[dim]);
  return {{value.name, value.shape, Region::box(std::move(offset), value.localShape), 0}};
}

Assembler::Assembler(const Value &value, const std::vector<Group> &groups, Tensor &global)
    : value(value), groups(groups), global(global) {
  int64_t parts = 1;
  for (size_t dim = 0; dim < value.shape.size(); ++dim)
    parts *= shardsOf(value, dim, groups);
  seen.resize(static_cast<size_t>(parts));
}

void Assembler::add(int64_t rank, const char *local) {
  int64_t index = 0;
  for (size_t dim = 0; dim < value.shape.size(); ++dim)
    index = index * shardsOf(value, dim, groups) + shardIndex(value, dim, groups, rank);
  bool replica = seen[static_cast<size_t>(index)];
  seen[static_cast<size_t>(index)] = true;
  auto width = static_cast<int64_t>(dtypeSize(value.dtype));
  double difference = 0;
  forEachRun(value, groups, rank, [&](int64_t whole, int64_t part, int64_t count) {
    char *to = global.as<char>() + whole * width;
    const char *from = local + part * width;
    if (!replica)
      std::memcpy(to, from, static_cast<size_t>(count * width));
    else if (std::memcmp(to, from, static_cast<size_t>(count * width)) != 0)
      difference += squaredDistance(from, to, value.dtype, count);
  });
  // NaN stays.
  if (!(difference <= largest))
    largest = std::isnan(largest) ? largest : difference;
}

double Assembler::disagreement() const { return std::sqrt(largest); }

bool Assembler::complete() const {
  for (bool part : seen)
    if (!part)
      return false;
  return true;
}

} // namespace moert::run
