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

/// Least and largest number: one from 1 to `max`, or `{"min": .., "max": ..}`.
std::pair<int64_t, int64_t> readRange(JsonReader &reader, llvm::StringRef key, int64_t max);
/// Reads `source`, which every object of figures has.
void readSource(JsonReader &reader);
/// Reads one of the first `count` of `dtypes`.
std::string readDtype(JsonReader &reader, size_t count);
/// Empty if the key is missing.
std::string readOptionalDtype(JsonReader &reader);

/// Reads `params`; empty if the key is missing.
std::vector<int64_t> readParams(JsonReader &reader);

/// Reads `relative_error`. None if the key is missing.
std::optional<double> readError(JsonReader &reader);

/// Reads the keys that fits of kernels and of collectives share.
template <typename Fit> void readFit(JsonReader &reader, Fit &fit) {
  reader.getNumber("r2", kAtMostOne, 1);
  fit.relativeError = readError(reader);
  for (const auto &[bytes, seconds] : reader.getPairs("points", kNotNegative, kPositive))
    fit.points.push_back({bytes, seconds});
}

/// Reads the list of objects at `key`, each with its source. `read` also gets the elements before.
template <typename Element>
std::vector<Element>
readList(JsonReader &parent, llvm::StringRef key,
         llvm::function_ref<void(JsonReader &reader, Element &element, llvm::ArrayRef<Element> earlier)> read) {
  std::vector<Element> list;
  for (JsonReader &reader : parent.getObjects(key)) {
    Element element;
    read(reader, element, list);
    readSource(reader);
    list.push_back(std::move(element));
  }
  return list;
}

/// Reads `device`.
void readDevice(JsonReader &reader, ClusterProfile &profile);
/// Reads `links`, `fabric`, `algorithms` and `protocols`.
void readNetwork(JsonReader &root, ClusterProfile &profile);
/// Reads `collectives`, which needs the sizes of the profile.
void readCollectives(JsonReader &root, ClusterProfile &profile);

/// Vertex where the nodes meet.
inline constexpr llvm::StringLiteral kNetwork = "network";

/// Vertices that `name` stands for in a node with `devices` devices, in order. The text of an error is the expectation:
/// `a name such as ..`.
llvm::Expected<llvm::SmallVector<std::string>> expandLinkName(llvm::StringRef name, int64_t devices);

/// Pairs of vertices that a pattern joins, in order. The text of an error is the expectation of `to`.
llvm::Expected<llvm::SmallVector<std::pair<std::string, std::string>>> expandLink(llvm::StringRef from,
                                                                                  llvm::StringRef to, int64_t devices);

} // namespace mlir::moe::profile

#endif // MOE_LIB_COST_PROFILEREADER_H
