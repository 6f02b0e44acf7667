//===- Guard.cpp - memory that shows calls which leave their buffers ------===//

#include "verify/Guard.h"
#include "core/Listing.h"

#include <algorithm>
#include <cerrno>
#include <cstdlib>

namespace moert::verify {

/// Content of fences. Unlike zeros or the bytes of a NaN, no kernel writes it by chance.
constexpr char kFence = static_cast<char>(0xa5);
/// Alignment of Device::allocate.
constexpr int64_t kAlignment = 256;
/// Largest number of ops that an error names.
constexpr size_t kMostNamed = 6;

Status readGuard(std::optional<int64_t> &width) {
  width.reset();
  const char *text = std::getenv("MOERT_GUARD");
  if (!text || !*text)
    return {};
  char *end;
  errno = 0;
  const long long value = std::strtoll(text, &end, 10);
  if (*end || errno || value < 0 || value > int64_t(1) << 30)
    return invalid("expected MOERT_GUARD to be a number of bytes from 0 to 2^30 but got '", text, "'");
  width = value;
  return {};
}

/// Joins pieces that overlap. Those that only touch stay apart.
static void join(std::vector<ArenaPiece> &pieces) {
  std::stable_sort(pieces.begin(), pieces.end(),
                   [](const ArenaPiece &a, const ArenaPiece &b) { return a.begin < b.begin; });
  std::vector<ArenaPiece> joined;
  for (ArenaPiece &piece : pieces) {
    if (joined.empty() || piece.begin >= joined.back().end) {
      joined.push_back(std::move(piece));
      continue;
    }
    ArenaPiece &last = joined.back();
    last.end = std::max(last.end, piece.end);
    last.ops.insert(last.ops.end(), piece.ops.begin(), piece.ops.end());
  }
  for (ArenaPiece &piece : joined) {
    std::sort(piece.ops.begin(), piece.ops.end());
    piece.ops.erase(std::unique(piece.ops.begin(), piece.ops.end()), piece.ops.end());
  }
  pieces = std::move(joined);
}

Status listPieces(const Program &program, const std::vector<Group> &groups, ProgramEntry entry, int64_t rank,
                  std::array<std::vector<ArenaPiece>, 2> &pieces) {
  auto visit = [&](const Call &call) -> Status {
    for (int i = 0; i < call.viewCount; ++i) {
      const View &view = call.views[i];
      if (auto place = view ? arenaPlaceOf(view) : std::nullopt)
        // An empty buffer has an address too, so it counts as one byte.
        pieces[place->space].push_back(
            {place->offset, place->offset + std::max<int64_t>(view.bytes(), 1), {call.op}, {}});
    }
    return {};
  };
  Status status = listCalls(program, groups, entry, rank, visit);
  for (std::vector<ArenaPiece> &some : pieces)
    join(some);
  return status;
}

const ArenaPiece *findPiece(const std::vector<ArenaPiece> &pieces, int64_t begin, int64_t end) {
  auto next = std::upper_bound(pieces.begin(), pieces.end(), begin,
                               [](int64_t value, const ArenaPiece &piece) { return value < piece.begin; });
  if (next == pieces.begin() || std::prev(next)->end < end)
    return nullptr;
  return &*std::prev(next);
}

std::string pieceText(const Program &program, int32_t space, const ArenaPiece &piece) {
  std::string text = joined("bytes ", piece.begin, " to ", piece.end, " of the ",
                            space == MOERT_SPACE_DEVICE ? "device" : "host", " arena, used by");
  for (size_t i = 0; i < std::min(piece.ops.size(), kMostNamed); ++i) {
    const Op &op = program.ops[piece.ops[i]];
    text += joined(i ? ", op " : " op ", piece.ops[i], " ", op.name, op.label.empty() ? "" : " '" + op.label + "'");
  }
  return piece.ops.size() > kMostNamed ? joined(text, " and ", piece.ops.size() - kMostNamed, " more") : text;
}

Status Fences::raise(Device &device, Fence fence) {
  std::vector<char> pattern(fence.bytes, kFence);
  fences.push_back(std::move(fence));
  return device.write(fences.back().begin, pattern.data(), fences.back().bytes);
}

Status Fences::allocate(Device &device, int64_t rank, int32_t space, int64_t bytes, int64_t phase,
                        const std::string &what, char *&data) {
  const int64_t before = (width + kAlignment - 1) / kAlignment * kAlignment + phase;
  void *block = nullptr;
  MOERT_RETURN_IF_ERROR(device.allocate(rank, space, before + bytes + width, what, block));
  data = static_cast<char *>(block) + before;
  if (width == 0)
    return {};
  MOERT_RETURN_IF_ERROR(raise(device, {rank, what, data - before, before, "before"}));
  return raise(device, {rank, what, data + bytes, width, "after"});
}

Status Fences::check(Device &device) const {
  std::vector<char> bytes;
  for (const Fence &fence : fences) {
    bytes.resize(fence.bytes);
    MOERT_RETURN_IF_ERROR(device.read(bytes.data(), fence.begin, fence.bytes));
    auto isChanged = [](char byte) { return byte != kFence; };
    const auto changed = std::count_if(bytes.begin(), bytes.end(), isChanged);
    if (changed == 0)
      continue;
    const auto first = std::find_if(bytes.begin(), bytes.end(), isChanged) - bytes.begin();
    const bool isBefore = fence.side[0] == 'b';
    return Status::error(MOERT_ERROR_INTERNAL, "rank ", fence.rank, ": a call wrote outside its buffers: ", changed,
                         " of the ", fence.bytes, " bytes ", fence.side, " a buffer changed, the first ",
                         isBefore ? fence.bytes - first : first, " bytes ", fence.side, " it; the buffer is ",
                         fence.what);
  }
  return {};
}

} // namespace moert::verify
