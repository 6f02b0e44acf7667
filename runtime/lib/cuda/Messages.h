//===- Messages.h - an exchange as one message for each two members -------===//
#ifndef MOERT_CUDA_MESSAGES_H
#define MOERT_CUDA_MESSAGES_H

#include "cuda/PieceCopies.h"

#include <functional>

namespace moert::cuda {

/// What one member of a group sends in an exchange, and gets. Where what goes to a member, or comes from it, is one run
/// of an operand, the message is that run. Where it is pieces that lie apart, they are packed into a buffer, all of
/// them by one kernel, and unpacked from one. Both members list the pieces in one order, so that either may pack or
/// not.
class Messages {
public:
  struct Message {
    char *data = nullptr;
    int64_t bytes = 0;
  };
  /// Memory of the device until the exchange is over.
  using Reserve = std::function<Status(int64_t bytes, char *&data)>;
  /// What becomes of what a member keeps: it is copied, or a message as the others are.
  enum class Own { Copied, Message };

  static Status create(const Call &call, int64_t size, int64_t member, Own own, const Reserve &reserve,
                       Messages &messages);

  /// By member.
  std::vector<Message> sent, received;

  /// The bytes that come from other members.
  int64_t receivedBytes() const;
  /// Whether all messages, both ways, are of one size and lie one after the other.
  bool areEven() const;

  /// Before the messages go, and after they came.
  Status pack(const Target &target) const { return packing.launch(target); }
  Status unpack(const Target &target) const { return unpacking.launch(target); }

private:
  int64_t member = 0;
  PieceCopies packing, unpacking;
};

} // namespace moert::cuda

#endif // MOERT_CUDA_MESSAGES_H
