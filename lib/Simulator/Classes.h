//===- Classes.h - ranks that do exactly the same ---------------*- C++ -*-===//
#ifndef MOE_LIB_SIMULATOR_CLASSES_H
#define MOE_LIB_SIMULATOR_CLASSES_H

#include "moe/Simulator/SimWorld.h"

#include "moe/Simulator/Simulator.h"

namespace mlir::moe {

/// Each rank stands for itself.
std::vector<SimRank> getAllRanks(const SimWorld &world);

/// Returns one rank for each class of ranks that do the same. The ranks of a class run one program, and their groups
/// have the same shape: in order, the members spread alike over nodes and over the switches above them. Devices of a
/// node count as equal. Returns all ranks if a class is not one run of consecutive ranks or the members of a group are
/// of several classes, because then no rank can stand for others.
std::vector<SimRank> findClasses(const SimWorld &world, const ClusterProfile &profile);

} // namespace mlir::moe

#endif // MOE_LIB_SIMULATOR_CLASSES_H
