//===- DenseAlgorithms.h - the fastest algorithms of dense products -------===//
#ifndef MOERT_CALIBRATE_DENSEALGORITHMS_H
#define MOERT_CALIBRATE_DENSEALGORITHMS_H

#include "calibrate/Calibrate.h"

namespace moert::calibrate {

/// Types of products in a table that MOERT_PRODUCTS names.
inline constexpr int32_t kTableTypes[] = {MOERT_BF16, MOERT_F16};
/// Calls `measure` with a pool of each type in the memory of `ranks`. A call takes at most `callBytes`.
Status measureTypes(const Settings &settings, Ranks &ranks, int64_t callBytes,
                    const std::function<Status(Pool &)> &measure);

/// Shape of the product c [m,n] = op(a) op(b).
struct DenseShape {
  int64_t m = 0, n = 0, k = 0;
  bool transposeA = false, transposeB = false;

  bool operator==(const DenseShape &) const = default;
};

/// A product, and the times of the library's algorithms, the one that it proposes first.
struct MeasuredDense {
  struct Algorithm {
    std::string name; ///< text of Device::describeAlgorithm
    double seconds;
  };
  DenseShape shape;
  int32_t dtype = 0;
  std::vector<Algorithm> algorithms;

  /// The fastest algorithm; there must be one.
  const Algorithm &fastest() const;
};

/// Measures each algorithm on products of layers of known models. There are no products if the device's library has one
/// algorithm.
Status calibrateDense(const Settings &settings, std::vector<MeasuredDense> &products);

} // namespace moert::calibrate

#endif // MOERT_CALIBRATE_DENSEALGORITHMS_H
