//===- Memory.cpp - memory of ranks in runs that verify -------------------===//

#include "verify/Memory.h"
#include "core/Listing.h"

#include <algorithm>

namespace moert::verify {

/// 0xff bytes are NaN in every floating-point dtype and -1 as an index, so a read before the first write is noticed.
constexpr char kPoison = static_cast<char>(0xff);

/// Size class of a value that is `growth` = 1, 2 or 4 times as large as in the plan.
static size_t classOf(int64_t growth) { return static_cast<size_t>(growth / 2); }

Memory::Memory(const WorldPrograms &programs, const std::vector<Group> &groups, const VerifyModes &modes,
               std::optional<int64_t> guard)
    : programs(programs), groups(groups), wideType(modes.wideType), beginsAsNaN(modes.beginsAsNaN),
      liesApart(guard.has_value()), fences(guard.value_or(0)) {
  if (!isWide())
    return;
  sizeClasses = 2;
  for (const Program &program : programs.programs)
    for (int64_t i = 0; i < program.valueCount(); ++i)
      if (isNarrow(program.value(i).dtype))
        sizeClasses = kSizeClasses;
}

int32_t Memory::typeOf(int32_t dtype) const { return isWide() && isFloating(dtype) ? wideType : dtype; }

int64_t Memory::bytesOf(const Value &value) const {
  return value.localElements() * static_cast<int64_t>(dtypeSize(typeOf(value.dtype)));
}

double Memory::arenaBytes(const Program &program) const {
  return (static_cast<double>(program.arenaBytes[0]) + static_cast<double>(program.arenaBytes[1])) *
         ((1 << sizeClasses) - 1);
}

/// Sorts parts, and joins those that overlap or touch.
void Memory::join(std::vector<Bytes> &parts) {
  std::sort(parts.begin(), parts.end(), [](const auto &a, const auto &b) { return a.begin < b.begin; });
  size_t count = 0;
  for (const Bytes &part : parts)
    if (count > 0 && part.begin <= parts[count - 1].end)
      parts[count - 1].end = std::max(parts[count - 1].end, part.end);
    else
      parts[count++] = part;
  parts.resize(count);
}

Status Memory::listUses() {
  if (!isWide() || liesApart)
    return {};
  uses.resize(programs.programs.size());
  for (size_t i = 0; i < uses.size(); ++i) {
    auto visit = [&](const Call &call) -> Status {
      for (int v = 0; v < call.viewCount; ++v)
        if (const View &view = call.views[v]; view && view.bytes() > 0)
          if (auto place = arenaPlaceOf(view)) {
            const auto growth = static_cast<int64_t>(dtypeSize(typeOf(view.dtype)) / dtypeSize(view.dtype));
            uses[i][place->space][classOf(growth)].push_back({place->offset, place->offset + view.bytes()});
          }
      return {};
    };
    const Program &program = programs.programs[i];
    MOERT_RETURN_IF_ERROR(listCalls(program, groups, programs.entries[i], program.firstRank, visit));
    for (auto &ofSpace : uses[i])
      std::for_each(ofSpace.begin(), ofSpace.end(), join);
  }
  return {};
}

Status Memory::poison(Device &device, char *data, int64_t bytes) const {
  std::vector<char> pattern(std::min<int64_t>(bytes, 1 << 20), kPoison);
  for (int64_t done = 0; done < bytes; done += std::ssize(pattern)) {
    int64_t part = std::min(bytes - done, std::ssize(pattern));
    MOERT_RETURN_IF_ERROR(device.write(data + done, pattern.data(), part));
  }
  return {};
}

/// `phase`: the address modulo 256.
Status Memory::allocateBlock(Device &device, int64_t rank, int32_t space, int64_t bytes, int64_t phase,
                             const std::string &what, char *&data) {
  return fences.allocate(device, rank, space, bytes, phase, what + " of rank " + std::to_string(rank), data);
}

Status Memory::listPiecesOf(const moert_rank &rank, Pieces &pieces) const {
  if (liesApart)
    return listPieces(*rank.program, groups, programs.entries[programIndex(programs.programs, rank.rank)], rank.rank,
                      pieces);
  for (size_t space = 0; space < pieces.size(); ++space)
    pieces[space] = {{0, rank.program->arenaBytes[space], {}, {}}};
  return {};
}

/// Poisons the bytes that calls use. The other bytes of an arena that has several size classes stay untouched, so that
/// they take no memory.
Status Memory::poisonUses(Device &device, const moert_rank &rank, const Pieces &pieces) const {
  const Uses &own = uses[programIndex(programs.programs, rank.rank)];
  for (size_t space = 0; space < own.size(); ++space)
    for (size_t k = 0; k < own[space].size(); ++k)
      for (const Bytes &used : own[space][k])
        MOERT_RETURN_IF_ERROR(
            poison(device, pieces[space].front().data[k] + (used.begin << k), (used.end - used.begin) << k));
  return {};
}

/// Allocates each piece. Its address modulo 256 is as in the arena.
Status Memory::allocateArenas(Device &device, const moert_rank &rank, Pieces &pieces) {
  const bool isWhole = isWide() && !liesApart;
  for (int32_t space : {MOERT_SPACE_DEVICE, MOERT_SPACE_HOST_PINNED})
    for (ArenaPiece &piece : pieces[space])
      for (int k = 0; k < sizeClasses; ++k) {
        const int64_t bytes = (piece.end - piece.begin) << k;
        const char *arena = space == MOERT_SPACE_DEVICE ? "the device arena" : "the host arena";
        MOERT_RETURN_IF_ERROR(allocateBlock(device, rank.rank, space, bytes, (piece.begin << k) % 256,
                                            liesApart ? pieceText(*rank.program, space, piece) : arena, piece.data[k]));
        if (beginsAsNaN && !isWhole)
          MOERT_RETURN_IF_ERROR(poison(device, piece.data[k], bytes));
      }
  return beginsAsNaN && isWhole ? poisonUses(device, rank, pieces) : Status{};
}

Status Memory::allocate(Device &device, moert_rank &rank) {
  ranks.resize(std::max(ranks.size(), static_cast<size_t>(rank.rank) + 1));
  Pieces &pieces = ranks[rank.rank];
  MOERT_RETURN_IF_ERROR(listPiecesOf(rank, pieces));
  MOERT_RETURN_IF_ERROR(allocateArenas(device, rank, pieces));
  for (size_t i = 0; i < rank.values.size(); ++i) {
    const Value &value = rank.program->value(static_cast<int64_t>(i));
    MOERT_RETURN_IF_ERROR(allocateBlock(device, rank.rank, MOERT_SPACE_DEVICE, bytesOf(value), 0,
                                        "'" + value.name + "'", rank.values[i]));
    if (beginsAsNaN)
      MOERT_RETURN_IF_ERROR(poison(device, rank.values[i], bytesOf(value)));
  }
  return {};
}

Status Memory::place(const moert_rank &rank, const moert_buffer &buffer, int64_t begin, View &view) const {
  const int64_t end = begin + view.bytes();
  const auto narrowSize = static_cast<int64_t>(dtypeSize(view.dtype));
  view.dtype = typeOf(view.dtype);
  const int64_t growth = static_cast<int64_t>(dtypeSize(view.dtype)) / narrowSize;
  if (buffer.space == MOERT_SPACE_ARGUMENT) {
    view.data = rank.values[buffer.offset] + begin * growth;
    return {};
  }
  const ArenaPiece *piece = findPiece(ranks[rank.rank][buffer.space], begin, end);
  if (!piece)
    return invalid("expected a buffer that the program also had when it was listed for MOERT_GUARD but got bytes ",
                   begin, " to ", end);
  view.data = piece->data[classOf(growth)] + (begin - piece->begin) * growth;
  return {};
}

} // namespace moert::verify
