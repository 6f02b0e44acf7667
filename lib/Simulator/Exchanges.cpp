//===- Exchanges.cpp - exchanges of groups --------------------------------===//
#include "Exchanges.h"

#include <cmath>

using namespace mlir::moe;

/// With even routing, members differ by no more than a remainder, and the payload is enough.
bool Exchanges::hasMatrix(const SimLaunch &launch) const {
  return launch.cost.raggedRows > 0 && launch.cost.collective == Collective::AllToAll && !counts.isEven();
}

llvm::Expected<double> Exchanges::getUse(int64_t rank, uint32_t index) {
  const OpCost &cost = world.getLaunch(rank, index).cost;
  if (cost.raggedRows == 0)
    return 1;
  llvm::Expected<const Counts::Value *> value = counts.get(rank, index);
  if (!value)
    return value.takeError();
  return static_cast<double>(counts.getRows(**value, rank, index)) / static_cast<double>(cost.raggedRows);
}

/// Adds one member's row to the matrix of a ragged all_to_all.
llvm::Error Exchanges::addRow(int64_t rank, uint32_t index, int64_t members, llvm::SmallVectorImpl<int64_t> &bytes) {
  const OpCost &cost = world.getLaunch(rank, index).cost;
  llvm::Expected<const Counts::Value *> value = counts.get(rank, index);
  if (!value)
    return value.takeError();
  int64_t parts = Counts::getNumParts(cost, members);
  if ((cost.peerDim == 0 ? (*value)->rows : (*value)->columns) % parts != 0)
    return makeLaunchError(world.getProgram(rank), index,
                           "expected counts in " + llvm::Twine(parts) + " equal parts, one for each " +
                               (cost.phases > 1 && cost.peerDim == 0 ? "member of a phase"
                                : parts == members                   ? "member"
                                                                     : "member and its copies"));
  int64_t from = world.groups[world.getMeeting(rank, index).group].getMember(rank);
  double rowBytes = static_cast<double>(cost.payload) / static_cast<double>(cost.raggedRows);
  for (int64_t member = 0; member < members; ++member)
    bytes.push_back(
        std::llround(rowBytes * static_cast<double>(Counts::getRowsFor(**value, cost, members, from, member))));
  return llvm::Error::success();
}

llvm::ArrayRef<int64_t> Exchanges::getMembers(int64_t rank, uint32_t index) {
  MeetingId id = world.getMeeting(rank, index);
  ranks.clear();
  for (int64_t member = 0; member < world.groups[id.group].size; ++member)
    ranks.push_back(world.getRank(id, member));
  return ranks;
}

llvm::Expected<GroupExchange> Exchanges::make(int64_t rank, uint32_t index) {
  const SimLaunch &launch = world.getLaunch(rank, index);
  MeetingId id = world.getMeeting(rank, index);
  int64_t members = getMembers(rank, index).size();
  llvm::Expected<double> use = getUse(rank, index);
  if (!use)
    return use.takeError();
  int64_t payload = std::llround(*use * static_cast<double>(launch.cost.payload));
  GroupExchange exchange{launch.cost.collective,
                         launch.dtype,
                         payload,
                         launch.cost.root,
                         ranks,
                         {},
                         launch.cost.getSendPhase(),
                         launch.cost.phases,
                         launch.cost.getRowBytes()};
  if (!hasMatrix(launch))
    return exchange;
  matrix.clear();
  for (int64_t other : ranks)
    if (llvm::Error error = addRow(other, *world.getMeetingLaunch(other, id), members, matrix))
      return error;
  exchange.payload = launch.cost.payload;
  exchange.matrix = matrix;
  return exchange;
}

llvm::Expected<llvm::SmallVector<int64_t>> Exchanges::getPairBytes(int64_t rank, uint32_t index) {
  llvm::SmallVector<int64_t> row;
  if (hasMatrix(world.getLaunch(rank, index)))
    if (llvm::Error error = addRow(rank, index, world.groups[world.getMeeting(rank, index).group].size, row))
      return error;
  return row;
}

llvm::Error Exchanges::addBytesSent(int64_t rank, uint32_t index, llvm::MutableArrayRef<double> to, double times) {
  const SimLaunch &launch = world.getLaunch(rank, index);
  MeetingId id = world.getMeeting(rank, index);
  const SimGroup &group = world.groups[id.group];
  int64_t from = group.getMember(rank);
  llvm::Expected<double> use = getUse(rank, index);
  if (!use)
    return use.takeError();
  llvm::Expected<llvm::SmallVector<int64_t>> row = getPairBytes(rank, index);
  if (!row)
    return row.takeError();
  for (int64_t member = 0; member < group.size; ++member) {
    if (member == from)
      continue;
    double even = *use * static_cast<double>(launch.cost.getBytesToPeer(group.size, from, member));
    to[world.getRank(id, member)] += times * (row->empty() ? even : static_cast<double>((*row)[member]));
  }
  return llvm::Error::success();
}

llvm::Expected<double> Exchanges::getBytesSent(int64_t rank, uint32_t index) {
  const SimLaunch &launch = world.getLaunch(rank, index);
  const SimGroup &group = world.groups[world.getMeeting(rank, index).group];
  if (!hasMatrix(launch)) {
    llvm::Expected<double> use = getUse(rank, index);
    if (!use)
      return use.takeError();
    if (group.isChannel())
      return group.isSender(rank) ? static_cast<double>(launch.cost.payload) : 0.0;
    return *use * static_cast<double>(launch.cost.getBytesSent(group.size));
  }
  llvm::SmallVector<int64_t> row;
  if (llvm::Error error = addRow(rank, index, group.size, row))
    return error;
  row[group.getMember(rank)] = 0;
  double sum = 0;
  for (int64_t bytes : row)
    sum += static_cast<double>(bytes);
  return sum;
}
