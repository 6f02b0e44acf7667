//===- ProductMethods.h - the fastest methods of products -----------------===//
#ifndef MOERT_CALIBRATE_PRODUCTMETHODS_H
#define MOERT_CALIBRATE_PRODUCTMETHODS_H

#include "calibrate/Calibrate.h"
#include "calibrate/ProductCalls.h"

namespace moert::calibrate {

struct MeasuredMethod {
  std::string name;
  std::vector<double> seconds;
};

/// A product, and the times of the methods that can compute it.
template <class Shape> struct MeasuredProduct {
  Shape shape;
  int32_t dtype = 0;
  std::vector<MeasuredMethod> methods;
};

struct MethodTable {
  std::string device, source;
  /// Products of experts, by the methods of the device: times with equal rows, and with skewed ones.
  std::vector<MeasuredProduct<RaggedShape>> products;
  /// Dense products, by the algorithms of the device's library, the one that it proposes first. Empty if the library
  /// has one algorithm.
  std::vector<MeasuredProduct<DenseShape>> dense;
};

/// Measures each method of the backend's device on products of layers of known models, and each algorithm of its
/// library for dense ones. The backend has one process.
Status calibrateMethods(const Settings &settings, MethodTable &table);

/// Writes the table that MOERT_PRODUCTS names (docs/Clusters.md).
void writeMethods(const MethodTable &table, std::ostream &out);

} // namespace moert::calibrate

#endif // MOERT_CALIBRATE_PRODUCTMETHODS_H
