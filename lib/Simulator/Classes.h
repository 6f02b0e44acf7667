//===- Classes.h - ranks that do exactly the same ---------------*- C++ -*-===//
#ifndef MOE_LIB_SIMULATOR_CLASSES_H
#define MOE_LIB_SIMULATOR_CLASSES_H

#include "moe/Simulator/SimWorld.h"

#include "moe/Simulator/Simulator.h"

namespace mlir::moe {

/// Every rank for itself.
std::vector<SimRank> getAllRanks(const SimWorld &world);

/// One rank for each class: those of one program whose groups have one shape, which is how their members, in order,
/// spread over the nodes and over the switches above them. Devices of a node count as equal. Where a class is not one
/// run of consecutive ranks, or the members of a group are of several classes, no rank can stand for others and all are
/// returned.
std::vector<SimRank> findClasses(const SimWorld &world, const ClusterProfile &profile);

} // namespace mlir::moe

#endif // MOE_LIB_SIMULATOR_CLASSES_H
