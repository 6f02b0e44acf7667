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
  int64_t blocks, experts, size, ownExperts, blockRows, rowBytes;

  Ragged(const Call &call, int64_t size)
      : rows(call.views[0]), out(call.views[3]), blockCounts(call.views[1].as<int32_t>()),
        expertCounts(call.views[2].as<int32_t>()), blocks(call.views[1].dims[0]), experts(call.views[1].dims[1]),
        size(size), ownExperts(experts / size) {
    const View &blockSide = call.ints[0] == MOERT_TO_EXPERTS ? rows : out;
    blockRows = blockSide.dims[0] / blocks;
    rowBytes = rows.dims[1] * static_cast<int64_t>(dtypeSize(rows.dtype));
  }

  void copyRows(const View &from, int64_t fromRow, int64_t toRow, int64_t count) const {
    if (count > 0)
      std::memcpy(out.as<char>() + toRow * rowBytes, from.as<char>() + fromRow * rowBytes,
                  static_cast<size_t>(count * rowBytes));
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
Status toExperts(const std::vector<Ragged> &all, int64_t member) {
  const Ragged &mine = all[static_cast<size_t>(member)];
  int64_t sources = mine.size * mine.blocks, firstExpert = member * mine.ownExperts;
  std::vector<int64_t> cursor(static_cast<size_t>(sources));
  for (int64_t s = 0; s < sources; ++s) {
    int64_t block = s % mine.blocks;
    int64_t &row = cursor[static_cast<size_t>(s)] = block * mine.blockRows;
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
        return disagreement(source, member);
      mine.copyRows(other.rows, cursor[static_cast<size_t>(s)], to, count);
      cursor[static_cast<size_t>(s)] += count;
      to += count;
    }
  return {};
}

Status fromExperts(const std::vector<Ragged> &all, int64_t member) {
  const Ragged &mine = all[static_cast<size_t>(member)];
  std::vector<int64_t> cursor(static_cast<size_t>(mine.blocks));
  for (int64_t b = 0; b < mine.blocks; ++b)
    cursor[static_cast<size_t>(b)] = b * mine.blockRows;
  for (int64_t owner = 0; owner < mine.size; ++owner) {
    const Ragged &other = all[static_cast<size_t>(owner)];
    int64_t from = 0;
    for (int64_t e = 0; e < mine.ownExperts; ++e)
      for (int64_t s = 0; s < mine.size * mine.blocks; ++s) {
        int64_t count = other.expertCounts[s * mine.ownExperts + e];
        if (s / mine.blocks == member) {
          int64_t block = s % mine.blocks;
          if (count != mine.blockCounts[block * mine.experts + owner * mine.ownExperts + e])
            return disagreement(member, owner);
          mine.copyRows(other.rows, from, cursor[static_cast<size_t>(block)], count);
          cursor[static_cast<size_t>(block)] += count;
        }
        from += count;
      }
  }
  for (int64_t b = 0; b < mine.blocks; ++b) {
    int64_t used = cursor[static_cast<size_t>(b)], end = (b + 1) * mine.blockRows;
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

Status pullAllToAllV(Calls calls, int64_t member) {
  std::vector<Ragged> all;
  for (size_t i = 0; i < calls.size(); ++i) {
    all.emplace_back(*calls[i], static_cast<int64_t>(calls.size()));
    const View &expertSide = calls[i]->views[calls[i]->ints[0] == MOERT_TO_EXPERTS ? 3 : 0];
    if (Status status = checkCounts(all.back(), expertSide.dims[0], static_cast<int64_t>(i)); !status.ok())
      return status;
  }
  return calls[0]->ints[0] == MOERT_TO_EXPERTS ? toExperts(all, member) : fromExperts(all, member);
}

Status compareReplicas(Calls calls, int64_t member, const Group &group, int64_t instance) {
  const View &mine = calls[static_cast<size_t>(member)]->views[0], &first = calls[0]->views[0];
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
                                                       std::to_string(group.rankOf(instance, member)) +
                                                       " differ (norm of the difference " + text + ")");
}

} // namespace moert::host
