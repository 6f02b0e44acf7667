//===- ProductMethods.h - the fastest methods of products -----------------===//
#ifndef MOERT_CALIBRATE_PRODUCTMETHODS_H
#define MOERT_CALIBRATE_PRODUCTMETHODS_H

#include "calibrate/Calibrate.h"
#include "calibrate/ProductCalls.h"

#include <functional>

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
  std::vector<std::string> leftOut; ///< products for which there was no time, for messages
};

/// Products of experts to measure, in the order of their worth: experts have 256 rows most often, and then more.
std::vector<RaggedShape> raggedShapes(const Settings &settings);

/// Saves the products that were measured so far.
using SaveMethods = std::function<Status(const MethodTable &)>;

/// Measures each method of the backend's device on products of layers of known models, and each algorithm of its
/// library for dense ones. Products that are worth most come first, and none begins after `settings.limit`. Calls
/// `save` after each. The backend has one process.
Status calibrateMethods(const Settings &settings, const SaveMethods &save, MethodTable &table);

/// Writes the table that MOERT_PRODUCTS names (docs/Clusters.md).
void writeMethods(const MethodTable &table, std::ostream &out);
/// Replaces a file by the table in one step, so that the file is complete at any time. It is written as `file`.new.
Status saveMethods(const MethodTable &table, const std::string &file);

} // namespace moert::calibrate

#endif // MOERT_CALIBRATE_PRODUCTMETHODS_H
