//===- Ragged.cpp - one member's all_to_all_v -----------------------------===//

#include "core/Ragged.h"
#include "core/Attributes.h"

#include <numeric>

namespace moert {

RaggedSizes::RaggedSizes(const Call &call, int64_t size) {
  const auto its = attributes::AllToAllV::of(call);
  using operands::AllToAllV;
  const View &counts = call.views[AllToAllV::blockCounts];
  toExperts = its.direction == MOERT_TO_EXPERTS;
  blocks = counts.dims[0];
  experts = counts.dims[1];
  copies = its.copies;
  stored = its.stored;
  ownExperts = experts / (size / copies);
  phase = its.phase;
  phases = its.phases;
  width = size / phases;
  const View &in = call.views[AllToAllV::rows], &out = call.views[AllToAllV::out];
  expertRows = (toExperts ? out : in).dims[0];
  blockRows = (toExperts ? in : out).dims[0] / (blocks * (toExperts ? stored : copies));
  rowBytes = in.dims[1] * static_cast<int64_t>(dtypeSize(in.dtype));
}

Ragged::Ragged(const Call &call, int64_t size, int64_t member)
    : RaggedSizes(call, size), blockCounts(call.views[operands::AllToAllV::blockCounts].as<int32_t>()),
      expertCounts(call.views[operands::AllToAllV::expertCounts].as<int32_t>()), member(member),
      firstSource(firstSourceOf(member)), firstHolder(firstHolderOf(member)) {}

int64_t Ragged::rowsBefore(int64_t block, int64_t expert) const {
  const int32_t *counts = blockCounts + block * experts;
  return std::accumulate(counts, counts + expert, int64_t(0));
}

Status Ragged::check() const {
  auto bad = [&](const auto &...parts) { return invalid(parts..., " on member ", member); };
  for (int64_t b = 0; b < blocks; ++b) {
    int64_t sum = 0;
    for (int64_t e = 0; e < experts; ++e) {
      if (blockCount(b, e) < 0)
        return bad("block_counts holds ", blockCount(b, e));
      sum += blockCount(b, e);
    }
    if (sum > blockRows)
      return bad("block ", b, " of block_counts adds up to ", sum, " rows, expected at most ", blockRows);
  }
  int64_t sum = 0;
  for (int64_t i = 0; i < sources() * ownExperts; ++i) {
    if (expertCounts[i] < 0)
      return bad("expert_counts holds ", expertCounts[i]);
    sum += expertCounts[i];
  }
  if (sum > expertRows)
    return Status::error(MOERT_ERROR_OVERFLOW, sum, " rows arrived at member ", member, ", whose buffer has room for ",
                         expertRows, "; compile with a larger --max-load, or with --max-load=none for the worst case");
  return {};
}

template <class Visit> void Ragged::forEachFromExperts(Visit visit) const {
  int64_t row = 0;
  for (int64_t e = 0; e < ownExperts; ++e)
    for (int64_t s = 0; s < sources(); ++s) {
      visit(firstSource + s / blocks, rows(row, expertCount(s, e)));
      row += expertCount(s, e);
    }
}

void Ragged::listSent(int64_t to, Pieces &pieces) const {
  if (toExperts)
    return listToExperts(to, pieces);
  forEachFromExperts([&](int64_t member, Piece piece) {
    if (member == to)
      pieces.push_back(piece);
  });
}

void Ragged::listSentToAll(std::vector<Pieces> &byTarget) const {
  for (size_t to = 0; toExperts && to < byTarget.size(); ++to)
    listToExperts(static_cast<int64_t>(to), byTarget[to]);
  if (!toExperts)
    forEachFromExperts([&](int64_t member, Piece piece) { byTarget[member].push_back(piece); });
}

void Ragged::listReceived(std::vector<Pieces> &bySource) const {
  toExperts ? listArrived(bySource) : listReturned(bySource);
}

void Ragged::listToExperts(int64_t to, Pieces &pieces) const {
  if (!isHolder(to))
    return;
  const int64_t first = firstExpert(to);
  std::vector<int64_t> row(blocks);
  for (int64_t b = 0; b < blocks; ++b)
    row[b] = firstRow(to, b) + rowsBefore(b, first);
  for (int64_t e = first; e < first + ownExperts; ++e)
    for (int64_t b = 0; b < blocks; ++b) {
      pieces.push_back(rows(row[b], blockCount(b, e)));
      row[b] += blockCount(b, e);
    }
}

/// Lists the expert side, which has rows by expert, then by source.
void Ragged::listArrived(std::vector<Pieces> &bySource) const {
  int64_t row = 0;
  for (int64_t e = 0; e < ownExperts; ++e)
    for (int64_t s = 0; s < sources(); ++s) {
      bySource[firstSource + s / blocks].push_back(rows(row, expertCount(s, e)));
      row += expertCount(s, e);
    }
}

void Ragged::listReturned(std::vector<Pieces> &bySource) const {
  // Place of the next row of each block of each copy.
  std::vector<int64_t> row(copies * blocks);
  for (int64_t b = 0; b < copies * blocks; ++b)
    row[b] = b * blockRows + rowsBefore(b % blocks, firstExpert(firstHolder));
  for (int64_t owner = firstHolder; owner < firstHolder + width; ++owner)
    for (int64_t e = firstExpert(owner); e < firstExpert(owner) + ownExperts; ++e)
      for (int64_t b = 0; b < blocks; ++b) {
        int64_t &next = row[owner % copies * blocks + b];
        bySource[owner].push_back(rows(next, blockCount(b, e)));
        next += blockCount(b, e);
      }
}

void Ragged::listFilled(Pieces &pieces) const {
  if (toExperts)
    return;
  int64_t begin = firstExpert(firstHolder), end = firstExpert(firstHolder + width - 1) + ownExperts;
  for (int64_t b = 0; b < copies * blocks; ++b) {
    int64_t block = b % blocks, before = rowsBefore(block, begin), used = rowsBefore(block, end);
    pieces.push_back(rows(b * blockRows, before));
    pieces.push_back(rows(b * blockRows + used, blockRows - used));
  }
}

} // namespace moert
