//===- RaggedMethods.h - the fastest methods of products of experts -------===//
#ifndef MOERT_CALIBRATE_RAGGEDMETHODS_H
#define MOERT_CALIBRATE_RAGGEDMETHODS_H

#include "calibrate/DenseAlgorithms.h"
#include "calibrate/Ragged.h"

namespace moert::calibrate {

/// A product, and the times of the methods that can compute it: with equal rows, and with skewed ones.
struct MeasuredProduct {
  struct Method {
    std::string name;
    std::vector<double> seconds;
  };
  RaggedShape shape;
  int32_t dtype = 0;
  std::vector<Method> methods;

  /// Method with the least sum of times; there must be one.
  const Method &fastest() const;
};

struct MethodTable {
  std::string device, source;
  std::vector<MeasuredProduct> products;
  std::vector<MeasuredDense> dense;
};

/// Measures each method of the backend's device on products of layers of known models, and each algorithm of its
/// library for dense ones. The backend has one process.
Status calibrateMethods(const Settings &settings, MethodTable &table);

/// Writes the table that MOERT_PRODUCTS names (docs/Clusters.md).
void writeMethods(const MethodTable &table, std::ostream &out);

} // namespace moert::calibrate

#endif // MOERT_CALIBRATE_RAGGEDMETHODS_H
