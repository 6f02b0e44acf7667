//===- ProfileReader.h - the parts of a cluster profile ---------*- C++ -*-===//
//
// Parts that the readers of a profile share, and the readers. They report errors to their JsonReader.
//
//===----------------------------------------------------------------------===//
#ifndef MOE_LIB_COST_PROFILEREADER_H
#define MOE_LIB_COST_PROFILEREADER_H

#include "moe/Cost/ClusterProfile.h"
#include "moe/Support/JsonReader.h"

namespace mlir::moe::profile {

constexpr int64_t nodesLimit = 1 << 16;
/// Types of computation first, then types that are only moved.
inline constexpr llvm::StringLiteral dtypes[] = {"f64", "f32", "tf32", "bf16", "f16", "i32"};
constexpr size_t numComputeDtypes = 5;

struct Range {
  int64_t min = 0, max = 0;
  bool operator==(const Range &) const = default;
};

/// A number from 1 to `max`, or `{"min": .., "max": ..}`.
Range readRange(JsonReader &reader, llvm::StringRef key, int64_t max);
/// Reads `source`, which every object of figures has.
void readSource(JsonReader &reader);
/// Reads one of the first `count` of `dtypes`.
std::string readDtype(JsonReader &reader, size_t count);
/// Empty if the key is missing.
std::string readOptionalDtype(JsonReader &reader);

/// Reads the keys that fits of kernels and of collectives share.
template <typename Fit> void readFit(JsonReader &reader, Fit &fit) {
  fit.r2 = reader.getNumber("r2", kAtMostOne, 1);
  if (double error = reader.getNumber("relative_error", kNotNegative, 0); reader.find("relative_error"))
    fit.relativeError = error;
  for (const auto &[bytes, seconds] : reader.getPairs("points", kNotNegative, kPositive))
    fit.points.push_back({bytes, seconds});
}

/// These read `device`, `links`, `fabric`, `algorithms`, `protocols` and `collectives`. The last one needs the sizes of
/// the profile.
void readDevice(JsonReader &reader, ClusterProfile &profile);
std::vector<LinkPattern> readLinks(JsonReader &root, int64_t devices);
std::vector<FabricLevel> readFabric(JsonReader &root);
std::array<Algorithm, kNumCollectives> readAlgorithms(JsonReader &root);
std::vector<Protocol> readProtocols(JsonReader &root);
std::vector<CollectiveFit> readCollectives(JsonReader &root, const ClusterProfile &profile);

} // namespace mlir::moe::profile

#endif // MOE_LIB_COST_PROFILEREADER_H
