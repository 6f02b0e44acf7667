//===- CollectivesRagged.cpp - all_to_all_v, and the check of replicas ----===//

#include "host/Collectives.h"

#include <cmath>
#include <cstring>

namespace moert::host {
namespace {

/// One member's all_to_all_v, by the words of moert.h.
struct Ragged {
  View rows, out;
  const int32_t *blockCounts;  ///< [blocks, experts]
  const int32_t *expertCounts; ///< [size * blocks, ownExperts]
  int64_t blocks, experts, size, copies, stored, ownExperts, blockRows, rowBytes;

  Ragged(const Call &call, int64_t size)
      : rows(call.views[0]), out(call.views[3]), blockCounts(call.views[1].as<int32_t>()),
        expertCounts(call.views[2].as<int32_t>()), blocks(call.views[1].dims[0]), experts(call.views[1].dims[1]),
        size(size), copies(call.ints[1]), stored(call.ints[2]), ownExperts(experts / (size / copies)) {
    bool toExperts = call.ints[0] == MOERT_TO_EXPERTS;
    const View &blockSide = toExperts ? rows : out;
    blockRows = blockSide.dims[0] / (blocks * (toExperts ? stored : copies));
    rowBytes = rows.dims[1] * static_cast<int64_t>(dtypeSize(rows.dtype));
  }

  /// The first of the experts that member `holder` holds.
  int64_t firstExpert(int64_t holder) const { return holder / copies * ownExperts; }

  void copyRows(Share &share, int64_t source, const View &from, int64_t fromRow, int64_t toRow, int64_t count) const {
    share.copy(source, out.as<char>() + toRow * rowBytes, from.as<char>() + fromRow * rowBytes, count * rowBytes);
  }
};

/// Counts come from device memory: what they say must stay inside both sides.
Status checkCounts(const Ragged &ragged, int64_t expertRows, int64_t member) {
  auto bad = [&](const std::string &text) {
    return Status::error(MOERT_ERROR_INVALID_ARGUMENT, text + " on member " + std::to_string(member));
  };
  for (int64_t b = 0; b < ragged.blocks; ++b) {
    int64_t sum = 0;
    for (int64_t e = 0; e < ragged.experts; ++e) {
      int32_t count = ragged.blockCounts[b * ragged.experts + e];
      if (count < 0)
        return bad("block_counts holds " + std::to_string(count));
      sum += count;
    }
    if (sum > ragged.blockRows)
      return bad("block " + std::to_string(b) + " of block_counts adds up to " + std::to_string(sum) +
                 " rows, expected at most " + std::to_string(ragged.blockRows));
  }
  int64_t sum = 0;
  for (int64_t i = 0; i < ragged.size * ragged.blocks * ragged.ownExperts; ++i) {
    if (ragged.expertCounts[i] < 0)
      return bad("expert_counts holds " + std::to_string(ragged.expertCounts[i]));
    sum += ragged.expertCounts[i];
  }
  if (sum > expertRows)
    return Status::error(MOERT_ERROR_OVERFLOW, std::to_string(sum) + " rows arrived at member " +
                                                   std::to_string(member) + ", whose buffer has room for " +
                                                   std::to_string(expertRows) + "; compile with a larger --max-load");
  return {};
}

Status disagreement(int64_t from, int64_t to) {
  return Status::error(MOERT_ERROR_INVALID_ARGUMENT,
                       "block_counts of member " + std::to_string(from) + " and expert_counts of member " +
                           std::to_string(to) + " disagree: expected the latter to be the all_to_all of the former");
}

/// `all` holds every member's view of the exchange.
Status toExperts(const std::vector<Ragged> &all, Share &share) {
  const Ragged &mine = all[static_cast<size_t>(share.member)];
  int64_t sources = mine.size * mine.blocks, firstExpert = mine.firstExpert(share.member);
  int64_t copy = mine.stored > 1 ? share.member % mine.copies : 0;
  std::vector<int64_t> cursor(static_cast<size_t>(sources));
  for (int64_t s = 0; s < sources; ++s) {
    int64_t block = s % mine.blocks;
    int64_t &row = cursor[static_cast<size_t>(s)] = (copy * mine.blocks + block) * mine.blockRows;
    const int32_t *counts = all[static_cast<size_t>(s / mine.blocks)].blockCounts + block * mine.experts;
    for (int64_t e = 0; e < firstExpert; ++e)
      row += counts[e];
  }
  int64_t to = 0;
  for (int64_t e = 0; e < mine.ownExperts; ++e)
    for (int64_t s = 0; s < sources; ++s) {
      int64_t source = s / mine.blocks;
      const Ragged &other = all[static_cast<size_t>(source)];
      int64_t count = mine.expertCounts[s * mine.ownExperts + e];
      if (count != other.blockCounts[s % mine.blocks * mine.experts + firstExpert + e])
        return disagreement(source, share.member);
      mine.copyRows(share, source, other.rows, cursor[static_cast<size_t>(s)], to, count);
      cursor[static_cast<size_t>(s)] += count;
      to += count;
    }
  return {};
}

Status fromExperts(const std::vector<Ragged> &all, Share &share) {
  const Ragged &mine = all[static_cast<size_t>(share.member)];
  // Where the next row of each block of each copy goes.
  std::vector<int64_t> cursor(static_cast<size_t>(mine.copies * mine.blocks));
  for (size_t b = 0; b < cursor.size(); ++b)
    cursor[b] = static_cast<int64_t>(b) * mine.blockRows;
  for (int64_t owner = 0; owner < mine.size; ++owner) {
    const Ragged &other = all[static_cast<size_t>(owner)];
    int64_t from = 0;
    for (int64_t e = 0; e < mine.ownExperts; ++e)
      for (int64_t s = 0; s < mine.size * mine.blocks; ++s) {
        int64_t count = other.expertCounts[s * mine.ownExperts + e];
        if (s / mine.blocks == share.member) {
          int64_t block = s % mine.blocks;
          if (count != mine.blockCounts[block * mine.experts + mine.firstExpert(owner) + e])
            return disagreement(share.member, owner);
          int64_t &row = cursor[static_cast<size_t>(owner % mine.copies * mine.blocks + block)];
          mine.copyRows(share, owner, other.rows, from, row, count);
          row += count;
        }
        from += count;
      }
  }
  for (size_t b = 0; b < cursor.size(); ++b) {
    int64_t used = cursor[b], end = static_cast<int64_t>(b + 1) * mine.blockRows;
    if (used < end)
      std::memset(mine.out.as<char>() + used * mine.rowBytes, 0, static_cast<size_t>((end - used) * mine.rowBytes));
  }
  return {};
}

double element(const View &view, int64_t index) {
  switch (view.dtype) {
  case MOERT_F32:
    return view.as<float>()[index];
  case MOERT_F64:
    return view.as<double>()[index];
  case MOERT_I32:
    return view.as<int32_t>()[index];
  default: {
    uint32_t bits = uint32_t(view.as<uint16_t>()[index]) << 16;
    float value;
    std::memcpy(&value, &bits, sizeof value);
    return value;
  }
  }
}

} // namespace

Status pullAllToAllV(Share &share) {
  bool isToExperts = share.mine().ints[0] == MOERT_TO_EXPERTS;
  std::vector<Ragged> all;
  for (int64_t i = 0; i < share.size(); ++i) {
    all.emplace_back(share.of(i), share.size());
    const View &expertSide = share.of(i).views[isToExperts ? 3 : 0];
    if (Status status = checkCounts(all.back(), expertSide.dims[0], i); !status.ok())
      return status;
  }
  return isToExperts ? toExperts(all, share) : fromExperts(all, share);
}

Status compareReplicas(Share &share, const Group &group, int64_t instance) {
  const View &mine = share.mine().views[0], &first = share.of(0).views[0];
  if (share.member == 0)
    return {};
  share.received += first.bytes();
  // Equal NaNs pass too: that they are there is for the check of the results to say.
  if (std::memcmp(mine.data, first.data, static_cast<size_t>(mine.bytes())) == 0)
    return {};
  double difference = 0, norm = 0;
  for (int64_t i = 0, e = mine.elements(); i < e; ++i) {
    double a = element(mine, i), b = element(first, i);
    difference += (a - b) * (a - b);
    norm += b * b;
  }
  double limit = roundingTolerance(mine.dtype) * std::sqrt(norm);
  // Written so that NaN fails.
  if (std::sqrt(difference) <= limit)
    return {};
  std::string ranks;
  for (int64_t i = 0; i < std::min<int64_t>(group.size, 8); ++i)
    ranks += (i ? ", " : "") + std::to_string(group.rankOf(instance, i));
  char text[64];
  std::snprintf(text, sizeof text, "%.3g, norm %.3g", std::sqrt(difference), std::sqrt(norm));
  return Status::error(MOERT_ERROR_NOT_REPLICATED, "assumed equal on group '" + group.name + "' (ranks " + ranks +
                                                       (group.size > 8 ? ", ..." : "") + "), but ranks " +
                                                       std::to_string(group.rankOf(instance, 0)) + " and " +
                                                       std::to_string(group.rankOf(instance, share.member)) +
                                                       " differ (norm of the difference " + text + ")");
}

} // namespace moert::host
