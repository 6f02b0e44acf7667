//===- Region.cpp - which elements of a tensor lie in a block of memory ---===//

#include "run/checkpoint/Region.h"

#include <algorithm>

namespace moert::run {
namespace {

/// Distances of neighbours along each dimension in a flattened box.
std::vector<int64_t> stridesOf(const std::vector<int64_t> &lengths) {
  std::vector<int64_t> strides(lengths.size(), 1);
  for (size_t dim = lengths.size(); dim-- > 1;)
    strides[dim - 1] = strides[dim] * lengths[dim];
  return strides;
}

/// Narrows [first, end) to the indices of dimension 0 in which `region` has elements.
void narrow(const Region &region, const std::vector<int64_t> &strides, int64_t &first, int64_t &end) {
  first = std::max(first, region.offset[0] + region.begin / strides[0]);
  end = std::min(end, region.offset[0] + (region.begin + region.count + strides[0] - 1) / strides[0]);
}

/// Common box of two regions, as runs.
struct Overlap {
  std::vector<int64_t> first, end;
  size_t outer = 0; ///< dimensions before this one count the runs; the others make one run
  int64_t run = 1;

  bool isEmpty() const {
    return !std::equal(first.begin(), first.end(), end.begin(), [](int64_t a, int64_t b) { return a < b; });
  }
};

Overlap overlapOf(const Region &a, const Region &b, const std::vector<int64_t> &strideA,
                  const std::vector<int64_t> &strideB) {
  Overlap overlap;
  size_t dims = a.offset.size();
  for (size_t dim = 0; dim < dims; ++dim) {
    overlap.first.push_back(std::max(a.offset[dim], b.offset[dim]));
    overlap.end.push_back(std::min(a.offset[dim] + a.lengths[dim], b.offset[dim] + b.lengths[dim]));
  }
  if (dims == 0 || overlap.isEmpty())
    return overlap;
  // Large blocks are read range by range. Narrowing keeps the rows outside a range from being visited for each of them.
  narrow(a, strideA, overlap.first[0], overlap.end[0]);
  narrow(b, strideB, overlap.first[0], overlap.end[0]);
  overlap.outer = dims;
  bool isWhole = true;
  while (isWhole && overlap.outer > 0) {
    size_t dim = --overlap.outer;
    int64_t length = overlap.end[dim] - overlap.first[dim];
    overlap.run *= length;
    isWhole = length == a.lengths[dim] && length == b.lengths[dim];
  }
  return overlap;
}

} // namespace

Region Region::box(std::vector<int64_t> offset, std::vector<int64_t> lengths) {
  Region region{std::move(offset), std::move(lengths), 0, 0};
  region.count = region.boxElements();
  return region;
}

Region Region::whole(std::vector<int64_t> shape) {
  std::vector<int64_t> offset(shape.size());
  return box(std::move(offset), std::move(shape));
}

Region Region::part(int64_t first, int64_t size) const { return {offset, lengths, begin + first, size}; }

int64_t Region::boxElements() const {
  int64_t elements = 1;
  for (int64_t length : lengths)
    elements *= length;
  return elements;
}

bool Region::liesIn(const std::vector<int64_t> &shape) const {
  if (offset.size() != shape.size() || lengths.size() != shape.size())
    return false;
  for (size_t dim = 0; dim < shape.size(); ++dim)
    if (offset[dim] < 0 || lengths[dim] < 0 || lengths[dim] > shape[dim] || offset[dim] > shape[dim] - lengths[dim])
      return false;
  return begin >= 0 && count >= 0 && count <= boxElements() && begin <= boxElements() - count;
}

std::string Region::text() const {
  std::string text = "[";
  auto range = [](int64_t first, int64_t size) { return std::to_string(first) + ":" + std::to_string(first + size); };
  for (size_t dim = 0; dim < offset.size(); ++dim)
    text += (dim ? ", " : "") + range(offset[dim], lengths[dim]);
  return text + "]" + (isBox() ? "" : ".flat[" + range(begin, count) + "]");
}

void forEachCommonRun(const Region &a, const Region &b, const std::function<void(int64_t, int64_t, int64_t)> &visit) {
  const std::vector<int64_t> strideA = stridesOf(a.lengths), strideB = stridesOf(b.lengths);
  const Overlap overlap = overlapOf(a, b, strideA, strideB);
  if (overlap.isEmpty())
    return;
  std::vector<int64_t> index = overlap.first;
  for (;;) {
    int64_t placeA = -a.begin, placeB = -b.begin;
    for (size_t dim = 0; dim < index.size(); ++dim) {
      placeA += (index[dim] - a.offset[dim]) * strideA[dim];
      placeB += (index[dim] - b.offset[dim]) * strideB[dim];
    }
    int64_t skipped = std::max<int64_t>({0, -placeA, -placeB});
    int64_t size = std::min({overlap.run, a.count - placeA, b.count - placeB}) - skipped;
    if (size > 0)
      visit(placeA + skipped, placeB + skipped, size);
    size_t dim = overlap.outer;
    while (dim > 0 && ++index[dim - 1] == overlap.end[dim - 1]) {
      --dim;
      index[dim] = overlap.first[dim];
    }
    if (dim == 0)
      return;
  }
}

} // namespace moert::run
