//===- DenseAlgorithms.h - the fastest algorithms of dense products -------===//
#ifndef MOERT_CALIBRATE_DENSEALGORITHMS_H
#define MOERT_CALIBRATE_DENSEALGORITHMS_H

#include "calibrate/Calibrate.h"

namespace moert::calibrate {

/// Of the products in a table that MOERT_PRODUCTS names.
inline constexpr int32_t kTableTypes[] = {MOERT_BF16, MOERT_F16};
/// Calls `measure` with operands of each of them in the memory of `ranks`; a call takes at most `callBytes`.
Status measureTypes(const Settings &settings, Ranks &ranks, int64_t callBytes,
                    const std::function<Status(Pool &)> &measure);

/// c [m,n] = op(a) op(b).
struct DenseShape {
  int64_t m = 0, n = 0, k = 0;
  bool transposeA = false, transposeB = false;

  bool operator==(const DenseShape &) const = default;
};

/// A product, and what the library's algorithms take, the one that it thinks best first.
struct MeasuredDense {
  struct Algorithm {
    std::string name; ///< Device::describeAlgorithm
    double seconds;
  };
  DenseShape shape;
  int32_t dtype = 0;
  std::vector<Algorithm> algorithms;

  /// There is one.
  const Algorithm &fastest() const;
};

/// Each algorithm on products of layers of known models; no products where the device's library has one algorithm.
Status calibrateDense(const Settings &settings, std::vector<MeasuredDense> &products);

} // namespace moert::calibrate

#endif // MOERT_CALIBRATE_DENSEALGORITHMS_H
