//===- Messages.cpp - an exchange as one message for each two members -----===//

#include "cuda/Messages.h"

namespace moert::cuda {
namespace {

/// Whether the pieces are contiguous. `begin` becomes the offset of the first.
bool areOneRun(const Pieces &pieces, int64_t &begin) {
  int64_t end = -1;
  for (const Piece &piece : pieces) {
    if (piece.bytes == 0)
      continue;
    if (end < 0)
      begin = piece.offset;
    else if (piece.offset != end)
      return false;
    end = piece.offset + piece.bytes;
  }
  return true;
}

/// The same pieces packed from the first byte on.
Pieces packed(const Pieces &pieces) {
  Pieces result;
  int64_t offset = 0;
  for (const Piece &piece : pieces) {
    result.push_back({offset, piece.bytes});
    offset += piece.bytes;
  }
  return result;
}

/// Messages of one direction, and the places in the buffer of those that are not contiguous in the operand.
struct Direction {
  const std::vector<Pieces> &pieces; ///< by member
  std::vector<Messages::Message> messages;
  std::vector<int64_t> offsets; ///< in the buffer, or -1

  /// Takes `used` bytes of the buffer. Even messages follow each other without gaps. Uneven ones are aligned for wide
  /// accesses.
  Direction(char *operand, const std::vector<Pieces> &pieces, bool areEven, int64_t &used)
      : pieces(pieces), messages(pieces.size()), offsets(pieces.size(), -1) {
    used = (used + 15) / 16 * 16;
    for (size_t i = 0; i < pieces.size(); ++i) {
      int64_t begin = 0;
      messages[i].bytes = bytesOf(pieces[i]);
      if (areOneRun(pieces[i], begin)) {
        messages[i].data = operand + begin;
        continue;
      }
      offsets[i] = used;
      used += areEven ? messages[i].bytes : (messages[i].bytes + 15) / 16 * 16;
    }
  }

  void place(char *buffer) {
    for (size_t i = 0; i < messages.size(); ++i)
      if (offsets[i] >= 0)
        messages[i].data = buffer + offsets[i];
  }
};

bool areEvenOnes(const std::vector<Messages::Message> &messages) {
  for (size_t i = 1; i < messages.size(); ++i)
    if (messages[i].bytes != messages[0].bytes || messages[i].data != messages[i - 1].data + messages[0].bytes)
      return false;
  return true;
}

} // namespace

Status Messages::create(const Call &call, int64_t size, int64_t member, Own own, const Reserve &reserve,
                        Messages &messages) {
  const auto self = static_cast<size_t>(member);
  std::vector<Pieces> leaving(static_cast<size_t>(size)), arriving;
  for (int64_t to = 0; to < size; ++to)
    piecesSent(call, size, member, to, leaving[static_cast<size_t>(to)]);
  piecesReceived(call, size, member, arriving);
  char *in = sentOperand(call).as<char>(), *out = receivedOperand(call).as<char>();
  messages = Messages();
  messages.member = member;
  if (own == Own::Copied) {
    MOERT_RETURN_IF_ERROR(checkPieces({call, member, leaving[self]}, {call, member, arriving[self]}));
    messages.unpacking.add(in, leaving[self], out, arriving[self]);
    leaving[self].clear();
    arriving[self].clear();
  }
  int64_t bytes = 0;
  Direction sends(in, leaving, own == Own::Message, bytes), receives(out, arriving, own == Own::Message, bytes);
  if (bytes > 0) {
    char *buffer = nullptr;
    MOERT_RETURN_IF_ERROR(reserve(bytes, buffer));
    sends.place(buffer);
    receives.place(buffer);
  }
  for (size_t i = 0; i < leaving.size(); ++i) {
    if (sends.offsets[i] >= 0)
      messages.packing.add(in, leaving[i], sends.messages[i].data, packed(leaving[i]));
    if (receives.offsets[i] >= 0)
      messages.unpacking.add(receives.messages[i].data, packed(arriving[i]), out, arriving[i]);
  }
  messages.sent = std::move(sends.messages);
  messages.received = std::move(receives.messages);
  return {};
}

int64_t Messages::receivedBytes() const {
  int64_t bytes = 0;
  for (size_t i = 0; i < received.size(); ++i)
    bytes += static_cast<int64_t>(i) == member ? 0 : received[i].bytes;
  return bytes;
}

bool Messages::areEven() const { return areEvenOnes(sent) && areEvenOnes(received); }

} // namespace moert::cuda
