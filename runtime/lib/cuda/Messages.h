//===- Messages.h - an exchange as one message for each two members -------===//
#ifndef MOERT_CUDA_MESSAGES_H
#define MOERT_CUDA_MESSAGES_H

#include "cuda/PieceCopies.h"

#include <functional>

namespace moert::cuda {

/// Messages that one member of a group sends and receives in an exchange. A message that is one run of an operand is
/// sent from there. Other messages are packed into a buffer, all by one kernel, and unpacked from one. Both members
/// list the pieces in the same order, so either may pack or not.
class Messages {
public:
  struct Message {
    char *data = nullptr;
    int64_t bytes = 0;
  };
  /// Reserves memory of the device until the exchange is over.
  using Reserve = std::function<Status(int64_t bytes, char *&data)>;
  /// Treatment of the part that a member keeps: copied, or a message like the others.
  enum class Own { Copied, Message };

  static Status create(const Call &call, int64_t size, int64_t member, Own own, const Reserve &reserve,
                       Messages &messages);

  /// Messages by member.
  std::vector<Message> sent, received;

  /// Bytes that come from other members.
  int64_t receivedBytes() const;
  /// Whether all messages, in both directions, have one size and follow each other without gaps.
  bool areEven() const;

  /// Pack the messages before they are sent, and unpack them after they are received.
  Status pack(const Target &target) const { return packing.launch(target); }
  Status unpack(const Target &target) const { return unpacking.launch(target); }

private:
  int64_t member = 0;
  PieceCopies packing, unpacking;
};

} // namespace moert::cuda

#endif // MOERT_CUDA_MESSAGES_H
