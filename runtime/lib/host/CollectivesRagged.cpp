//===- CollectivesRagged.cpp - all_to_all_v, and the check of replicas ----===//

#include "host/Collectives.h"

#include <cmath>
#include <cstring>
#include <numeric>

namespace moert::host {
namespace {

/// One member's all_to_all_v, by the words of moert.h.
struct Ragged {
  View rows, addend, out;
  const int32_t *blockCounts;  ///< [blocks, experts]
  const int32_t *expertCounts; ///< [width * blocks, ownExperts]
  int64_t blocks, experts, copies, stored, ownExperts, blockRows, rowBytes;
  int64_t width;       ///< members in a block of them
  int64_t firstSource; ///< the first member of the block whose rows my expert side has in this phase
  int64_t firstHolder; ///< the first member of the block whose expert sides have my rows

  Ragged(const Call &call, int64_t size, int64_t member)
      : rows(call.views[0]), addend(call.views[3]), out(call.views[4]), blockCounts(call.views[1].as<int32_t>()),
        expertCounts(call.views[2].as<int32_t>()), blocks(call.views[1].dims[0]), experts(call.views[1].dims[1]),
        copies(call.ints[1]), stored(call.ints[2]), ownExperts(experts / (size / copies)), width(size / call.ints[4]) {
    bool toExperts = call.ints[0] == MOERT_TO_EXPERTS;
    const View &blockSide = toExperts ? rows : out;
    blockRows = blockSide.dims[0] / (blocks * (toExperts ? stored : copies));
    rowBytes = rows.dims[1] * static_cast<int64_t>(dtypeSize(rows.dtype));
    int64_t phase = call.ints[3], phases = call.ints[4], block = member / width;
    firstSource = (block + phase) % phases * width;
    firstHolder = (block + phases - phase) % phases * width;
  }

  /// Where the expert side has rows from: each block of each member that sends.
  int64_t sources() const { return width * blocks; }
  /// The first of the experts that member `holder` holds.
  int64_t firstExpert(int64_t holder) const { return holder / copies * ownExperts; }
  /// Rows of a block before those for `expert`.
  int64_t rowsBefore(int64_t block, int64_t expert) const {
    const int32_t *counts = blockCounts + block * experts;
    return std::accumulate(counts, counts + expert, int64_t(0));
  }

  void copyRows(Share &share, int64_t source, const View &from, int64_t fromRow, int64_t toRow, int64_t count) const {
    share.copy(source, out.as<char>() + toRow * rowBytes, from.as<char>() + fromRow * rowBytes, count * rowBytes);
  }
  /// Rows of the block side that no expert sends.
  void fillRows(Share &share, int64_t begin, int64_t end) const {
    if (addend)
      copyRows(share, share.member, addend, begin, begin, end - begin);
    else if (begin < end)
      std::memset(out.as<char>() + begin * rowBytes, 0, static_cast<size_t>((end - begin) * rowBytes));
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
  for (int64_t i = 0; i < ragged.sources() * ragged.ownExperts; ++i) {
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
  int64_t sources = mine.sources(), firstExpert = mine.firstExpert(share.member);
  int64_t copy = mine.stored > 1 ? share.member % mine.copies : 0;
  auto sourceOf = [&](int64_t s) -> const Ragged & {
    return all[static_cast<size_t>(mine.firstSource + s / mine.blocks)];
  };
  std::vector<int64_t> cursor(static_cast<size_t>(sources));
  for (int64_t s = 0; s < sources; ++s) {
    int64_t block = s % mine.blocks;
    cursor[static_cast<size_t>(s)] =
        (copy * mine.blocks + block) * mine.blockRows + sourceOf(s).rowsBefore(block, firstExpert);
  }
  int64_t to = 0;
  for (int64_t e = 0; e < mine.ownExperts; ++e)
    for (int64_t s = 0; s < sources; ++s) {
      const Ragged &other = sourceOf(s);
      int64_t count = mine.expertCounts[s * mine.ownExperts + e], source = mine.firstSource + s / mine.blocks;
      if (count != other.blockCounts[s % mine.blocks * mine.experts + firstExpert + e])
        return disagreement(source, share.member);
      mine.copyRows(share, source, other.rows, cursor[static_cast<size_t>(s)], to, count);
      cursor[static_cast<size_t>(s)] += count;
      to += count;
    }
  return {};
}

/// Takes this member's rows from what `owner` has; `cursor` is where the next row of each block of each copy goes.
Status takeFromOwner(const std::vector<Ragged> &all, Share &share, int64_t owner, std::vector<int64_t> &cursor) {
  const Ragged &mine = all[static_cast<size_t>(share.member)], &other = all[static_cast<size_t>(owner)];
  int64_t from = 0;
  for (int64_t e = 0; e < mine.ownExperts; ++e)
    for (int64_t s = 0; s < mine.sources(); ++s) {
      int64_t count = other.expertCounts[s * mine.ownExperts + e];
      if (other.firstSource + s / mine.blocks == share.member) {
        int64_t block = s % mine.blocks;
        if (count != mine.blockCounts[block * mine.experts + mine.firstExpert(owner) + e])
          return disagreement(share.member, owner);
        int64_t &row = cursor[static_cast<size_t>(owner % mine.copies * mine.blocks + block)];
        mine.copyRows(share, owner, other.rows, from, row, count);
        row += count;
      }
      from += count;
    }
  return {};
}

Status fromExperts(const std::vector<Ragged> &all, Share &share) {
  const Ragged &mine = all[static_cast<size_t>(share.member)];
  std::vector<int64_t> cursor(static_cast<size_t>(mine.copies * mine.blocks));
  for (size_t b = 0; b < cursor.size(); ++b) {
    int64_t begin = static_cast<int64_t>(b) * mine.blockRows;
    cursor[b] = begin + mine.rowsBefore(static_cast<int64_t>(b) % mine.blocks, mine.firstExpert(mine.firstHolder));
    mine.fillRows(share, begin, cursor[b]);
  }
  for (int64_t owner = mine.firstHolder; owner < mine.firstHolder + mine.width; ++owner)
    if (Status status = takeFromOwner(all, share, owner, cursor); !status.ok())
      return status;
  for (size_t b = 0; b < cursor.size(); ++b)
    mine.fillRows(share, cursor[b], static_cast<int64_t>(b + 1) * mine.blockRows);
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
    all.emplace_back(share.of(i), share.size(), i);
    const View &expertSide = share.of(i).views[isToExperts ? 4 : 0];
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
