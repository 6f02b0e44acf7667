//===- Classes.cpp - ranks that do exactly the same -----------------------===//
#include "Engine.h"

#include "llvm/ADT/STLExtras.h"

using namespace mlir::moe;

std::vector<SimRank> mlir::moe::getAllRanks(const SimWorld &world) {
  std::vector<SimRank> ranks;
  for (int64_t rank = 0; rank < world.getNumRanks(); ++rank)
    ranks.push_back({rank, 1, world.programOfRank[rank]});
  return ranks;
}

/// Numbers the shapes of the instances of one group. `unitSizes` has the number of ranks of a node, and then of each
/// switch above.
static std::vector<uint32_t> numberShapes(const SimGroup &group, int64_t ranks, llvm::ArrayRef<int64_t> unitSizes) {
  std::vector<uint32_t> shapes, shape;
  std::map<std::vector<uint32_t>, uint32_t> numbers;
  for (int64_t instance = 0; instance < group.getNumInstances(ranks); ++instance) {
    shape.clear();
    for (int64_t unitSize : unitSizes) {
      // Units get numbers in order of appearance. Members are sorted, so a known unit is always the last one.
      llvm::SmallVector<int64_t> units;
      for (int64_t member = 0; member < group.size; ++member) {
        int64_t unit = group.getRank(instance, member) / unitSize;
        if (units.empty() || units.back() != unit)
          units.push_back(unit);
        shape.push_back(units.size());
      }
    }
    shapes.push_back(numbers.try_emplace(shape, numbers.size()).first->second);
  }
  return shapes;
}

static llvm::SmallVector<int64_t> getUnitSizes(const ClusterProfile &profile) {
  llvm::SmallVector<int64_t> sizes = {std::max<int64_t>(1, profile.devicesPerNode)};
  for (const FabricLevel &level : profile.fabric)
    sizes.push_back(sizes.front() * std::max<int64_t>(1, level.nodes));
  return sizes;
}

/// Whether a collective of the group exchanges data. Others do not affect times.
static bool isUsed(const SimWorld &world, uint32_t group) {
  return llvm::any_of(world.linked, [&](const LinkedProgram &program) {
    return llvm::any_of(program.meetings[group], [&](uint32_t launch) { return program.launches[launch].exchanges(); });
  });
}

/// Numbers ranks so that those with the same number do the same.
static std::vector<uint32_t> getSignatures(const SimWorld &world, const ClusterProfile &profile) {
  llvm::SmallVector<int64_t> unitSizes = getUnitSizes(profile);
  std::vector<uint32_t> signatures = world.programOfRank;
  for (auto [number, group] : llvm::enumerate(world.groups)) {
    if (group.size == 1 || !isUsed(world, number))
      continue;
    std::vector<uint32_t> shapes = numberShapes(group, world.getNumRanks(), unitSizes);
    std::map<std::pair<uint32_t, uint32_t>, uint32_t> numbers;
    for (int64_t rank = 0; rank < world.getNumRanks(); ++rank) {
      std::pair key(signatures[rank], group.contains(rank) ? shapes[group.getInstance(rank)] : ~0u);
      signatures[rank] = numbers.try_emplace(key, numbers.size()).first->second;
    }
  }
  return signatures;
}

/// Whether the members of each instance are in one class. In a channel, all partners of a class must be in one class.
static bool fitsClasses(const SimWorld &world, uint32_t group, llvm::ArrayRef<uint32_t> signatures) {
  const SimGroup &it = world.groups[group];
  std::map<uint32_t, uint32_t> partners;
  for (int64_t rank = 0; rank < world.getNumRanks(); ++rank) {
    if (!it.contains(rank))
      continue;
    int64_t other = it.getRank(it.getInstance(rank), it.isChannel() ? 1 - it.getMember(rank) : 0);
    uint32_t expected =
        it.isChannel() ? partners.try_emplace(signatures[rank], signatures[other]).first->second : signatures[rank];
    if (signatures[other] != expected)
      return false;
  }
  return true;
}

std::vector<SimRank> mlir::moe::findClasses(const SimWorld &world, const ClusterProfile &profile) {
  std::vector<uint32_t> signatures = getSignatures(world, profile);
  for (uint32_t group = 0; group < world.groups.size(); ++group)
    if (isUsed(world, group) && !fitsClasses(world, group, signatures))
      return getAllRanks(world);
  std::vector<SimRank> classes;
  std::vector<bool> seen(std::max<size_t>(world.getNumRanks(), world.programs.size()));
  for (int64_t rank = 0; rank < world.getNumRanks(); ++rank) {
    if (rank > 0 && signatures[rank] == signatures[rank - 1]) {
      ++classes.back().count;
      continue;
    }
    if (seen[signatures[rank]])
      return getAllRanks(world);
    seen[signatures[rank]] = true;
    classes.push_back({rank, 1, world.programOfRank[rank]});
  }
  return classes;
}
