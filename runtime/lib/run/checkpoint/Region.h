//===- Region.h - which elements of a tensor lie in a block of memory -----===//
#ifndef MOERT_RUN_CHECKPOINT_REGION_H
#define MOERT_RUN_CHECKPOINT_REGION_H

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace moert::run {

/// Elements of a tensor in memory: a box of its indices, flattened in row-major order, and of this the range [begin,
/// begin + count).
struct Region {
  std::vector<int64_t> offset;  ///< first index of the box, by dimension
  std::vector<int64_t> lengths; ///< number of indices of the box, by dimension
  int64_t begin = 0, count = 0;

  /// Region of a whole box.
  static Region box(std::vector<int64_t> offset, std::vector<int64_t> lengths);
  /// Region of a whole tensor.
  static Region whole(std::vector<int64_t> shape);
  /// Region of `count` of these elements, which begin at element `first`.
  Region part(int64_t first, int64_t count) const;

  int64_t boxElements() const;
  bool isBox() const { return begin == 0 && count == boxElements(); }
  /// Whether a tensor of this shape has all elements.
  bool liesIn(const std::vector<int64_t> &shape) const;
  /// Text of the region: "[0:6, 0:128]", or with ".flat[5:9]" for a range.
  std::string text() const;

  auto operator<=>(const Region &) const = default;
};

/// Calls visit(first in a, first in b, count) for each run of elements that is dense in both. The places rise in both.
/// The regions belong to one tensor.
void forEachCommonRun(const Region &a, const Region &b, const std::function<void(int64_t, int64_t, int64_t)> &visit);

} // namespace moert::run

#endif // MOERT_RUN_CHECKPOINT_REGION_H
