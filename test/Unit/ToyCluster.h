//===- ToyCluster.h - clusters with round numbers ---------------*- C++ -*-===//
#ifndef MOE_TEST_UNIT_TOYCLUSTER_H
#define MOE_TEST_UNIT_TOYCLUSTER_H

#include "moe/Cost/CostModel.h"

#include <gtest/gtest.h>

namespace mlir::moe {

/// Devices of 1000 FLOP/s and 100 bytes/s, without links.
inline ClusterProfile makeToyDevices(int64_t nodes, int64_t devicesPerNode) {
  ClusterProfile profile;
  profile.name = "toy";
  profile.maxNodes = nodes;
  profile.devicesPerNode = devicesPerNode;
  profile.memoryBytesPerSecond = 100;
  profile.rates = {{"f32", 1000, {{1}, {1}, {1}, {1}}, {}}};
  profile.algorithms = {Algorithm::Ring,     Algorithm::Ring, Algorithm::Ring, Algorithm::Ring,
                        Algorithm::Pairwise, Algorithm::Ring, Algorithm::Ring};
  return profile;
}

/// One node: each device has 10 bytes/s to a switch and from it. A path takes 1 s.
inline ClusterProfile makeToyNode(int64_t devices) {
  ClusterProfile profile = makeToyDevices(1, devices);
  profile.links = {{"device*", "switch", 10, 10, 0.5}};
  return profile;
}

/// Two nodes of two devices: 10 bytes/s everywhere, also into the network. A path between nodes takes 1 s, one inside
/// none.
inline ClusterProfile makeToyPair() {
  ClusterProfile profile = makeToyDevices(2, 2);
  profile.links = {{"device*", "switch", 10, 10, 0}, {"switch", "network", 10, 10, 0.5}};
  return profile;
}

std::unique_ptr<CostModel> makeModel(ClusterProfile &&profile, CostForm form,
                                     llvm::ArrayRef<LinkFault> faults = {}) = delete; // the model refers to its profile
inline std::unique_ptr<CostModel> makeModel(const ClusterProfile &profile, CostForm form,
                                            llvm::ArrayRef<LinkFault> faults = {}) {
  return llvm::cantFail(CostModel::create(profile, profile.getMaxDevices(), form, faults));
}

inline GroupExchange makeExchange(Collective collective, llvm::ArrayRef<int64_t> ranks, int64_t payload) {
  GroupExchange exchange;
  exchange.collective = collective;
  exchange.dtype = "f32";
  exchange.payload = payload;
  exchange.ranks = ranks;
  return exchange;
}

/// A phase of an all_to_all.
inline GroupExchange makePhase(llvm::ArrayRef<int64_t> ranks, int64_t payload, int64_t phase, int64_t phases) {
  GroupExchange exchange = makeExchange(Collective::AllToAll, ranks, payload);
  exchange.phase = phase;
  exchange.phases = phases;
  return exchange;
}

/// The value, or NaN and a test failure.
inline double getValue(llvm::Expected<double> seconds) {
  if (seconds)
    return *seconds;
  ADD_FAILURE() << llvm::toString(seconds.takeError());
  return std::numeric_limits<double>::quiet_NaN();
}

template <typename T> std::string getError(llvm::Expected<T> value) {
  if (value)
    return "no error";
  return llvm::toString(value.takeError());
}

} // namespace mlir::moe

#endif // MOE_TEST_UNIT_TOYCLUSTER_H
