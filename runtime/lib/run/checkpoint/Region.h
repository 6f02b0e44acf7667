//===- Region.h - which elements of a tensor lie in a block of memory -----===//
#ifndef MOERT_RUN_CHECKPOINT_REGION_H
#define MOERT_RUN_CHECKPOINT_REGION_H

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace moert::run {

/// Elements of a tensor, as they lie one after another: a box of its indices, flattened in row-major order, and of this
/// the range [begin, begin + count).
struct Region {
  std::vector<int64_t> offset;  ///< the first index of the box, by dimension
  std::vector<int64_t> lengths; ///< how many indices the box has, by dimension
  int64_t begin = 0, count = 0;

  /// A whole box.
  static Region box(std::vector<int64_t> offset, std::vector<int64_t> lengths);
  /// A whole tensor.
  static Region whole(std::vector<int64_t> shape);
  /// `count` of these elements, from element `first` on.
  Region part(int64_t first, int64_t count) const;

  int64_t boxElements() const;
  bool isBox() const { return begin == 0 && count == boxElements(); }
  /// Whether all elements are of a tensor of this shape.
  bool liesIn(const std::vector<int64_t> &shape) const;
  /// "[0:6, 0:128]", and with ".flat[5:9]" where it is a range.
  std::string text() const;

  auto operator<=>(const Region &) const = default;
};

/// Calls visit(first in a, first in b, how many) for each run of elements that lie one after another in both. The
/// places rise from run to run, in both. The regions are of one tensor.
void forEachCommonRun(const Region &a, const Region &b, const std::function<void(int64_t, int64_t, int64_t)> &visit);

} // namespace moert::run

#endif // MOERT_RUN_CHECKPOINT_REGION_H
