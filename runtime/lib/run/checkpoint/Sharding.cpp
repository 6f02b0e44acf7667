//===- Sharding.cpp - from global values to the ranks' parts and back -----===//

#include "run/checkpoint/Sharding.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>

namespace moert::run {
namespace {

/// Elements of a layout's part that a rank has, by their order in memory.
struct Range {
  int64_t begin, end;
};

Range rangeOf(const Value &value, const std::vector<Group> &groups, int64_t rank) {
  Range range{0, value.localElements()};
  if (!value.place || value.place->shards < 0)
    return range;
  int64_t member = groups[static_cast<size_t>(value.place->shards)].memberOf(rank);
  int64_t first = member * value.place->perRank - value.place->at;
  range.begin = std::clamp<int64_t>(first, 0, range.end);
  range.end = std::clamp<int64_t>(first + value.place->perRank, range.begin, range.end);
  return range;
}

/// Number of parts of a bucket.
int64_t rangesOf(const Value &value, const std::vector<Group> &groups) {
  return value.place && value.place->shards >= 0 ? groups[static_cast<size_t>(value.place->shards)].size : 1;
}
int64_t rangeIndex(const Value &value, const std::vector<Group> &groups, int64_t rank) {
  return rangesOf(value, groups) > 1 ? groups[static_cast<size_t>(value.place->shards)].memberOf(rank) : 0;
}

/// Calls visit(offset in the whole, offset in the part, length) in elements, for each run that is dense in both.
template <class Visit>
void forEachRun(const Value &value, const std::vector<Group> &groups, int64_t rank, Visit visit) {
  size_t dims = value.shape.size();
  // Dimensions from `inner` on make one run, because all after it are whole.
  size_t inner = dims;
  int64_t run = 1;
  while (inner > 0) {
    --inner;
    if (isCut(value, inner, groups)) {
      ++inner;
      break;
    }
    run *= value.localShape[inner];
    if (value.localShape[inner] != value.shape[inner])
      break;
  }
  // An empty part may have no address.
  int64_t runs = run > 0 ? 1 : 0;
  for (size_t dim = 0; dim < inner; ++dim)
    runs *= value.localShape[dim];
  const Range range = rangeOf(value, groups, rank);
  for (int64_t r = 0; r < runs; ++r) {
    int64_t offset = 0, stride = 1, rest = r;
    for (size_t dim = dims; dim-- > 0; stride *= value.shape[dim]) {
      int64_t place = 0;
      if (dim < inner) {
        place = rest % value.localShape[dim];
        rest /= value.localShape[dim];
      }
      offset += wholePlace(value, dim, groups, rank, place) * stride;
    }
    int64_t begin = std::max(r * run, range.begin), end = std::min((r + 1) * run, range.end);
    if (begin < end)
      visit(offset + begin - r * run, begin - range.begin, end - begin);
  }
}

} // namespace

PartBytes partOf(const Value &value, const std::vector<Group> &groups, int64_t rank) {
  const auto width = static_cast<int64_t>(dtypeSize(value.dtype));
  const Range range = rangeOf(value, groups, rank);
  int64_t begin = range.begin;
  if (value.place)
    begin += value.place->at - rangeIndex(value, groups, rank) * value.place->perRank;
  return {range.begin < range.end ? begin * width : 0, (range.end - range.begin) * width};
}

std::vector<PartBlock> blocksOfPart(const Value &value, const std::vector<Group> &groups, int64_t rank) {
  std::vector<PartBlock> blocks;
  auto add = [&](const Value &one) {
    const Range range = rangeOf(one, groups, rank);
    if (range.begin == range.end && !value.pieces.empty())
      return;
    std::vector<int64_t> offset;
    for (size_t dim = 0; dim < one.shape.size(); ++dim)
      offset.push_back(shardIndex(one, dim, groups, rank) * one.localShape[dim]);
    const Region box = Region::box(std::move(offset), one.localShape);
    int64_t at = partOf(one, groups, rank).begin / static_cast<int64_t>(dtypeSize(one.dtype));
    blocks.push_back({one.name, one.shape, box.part(range.begin, range.end - range.begin), at});
  };
  if (value.pieces.empty())
    add(value);
  std::for_each(value.pieces.begin(), value.pieces.end(), add);
  return blocks;
}

void cutPart(const Tensor &global, const Value &value, const std::vector<Group> &groups, int64_t rank, char *local) {
  auto width = static_cast<int64_t>(dtypeSize(value.dtype));
  forEachRun(value, groups, rank, [&](int64_t whole, int64_t part, int64_t count) {
    std::memcpy(local + part * width, global.as<char>() + whole * width, static_cast<size_t>(count * width));
  });
}

Assembler::Assembler(const Value &value, const std::vector<Group> &groups, Tensor &global)
    : value(value), groups(groups), global(global) {
  int64_t parts = 1;
  for (size_t dim = 0; dim < value.shape.size(); ++dim)
    parts *= shardsOf(value, dim, groups);
  seen.resize(static_cast<size_t>(parts * rangesOf(value, groups)));
}

void Assembler::add(int64_t rank, const char *local) {
  int64_t index = 0;
  for (size_t dim = 0; dim < value.shape.size(); ++dim)
    index = index * shardsOf(value, dim, groups) + shardIndex(value, dim, groups, rank);
  index = index * rangesOf(value, groups) + rangeIndex(value, groups, rank);
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
  // The negation keeps a NaN.
  if (!(difference <= largest))
    largest = std::isnan(largest) ? largest : difference;
}

double Assembler::disagreement() const { return std::sqrt(largest); }

bool Assembler::complete() const { return std::ranges::count(seen, false) == 0; }

} // namespace moert::run
