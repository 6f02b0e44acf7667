//===- Message.h - what processes tell each other -------------------------===//
#ifndef MOERT_NET_MESSAGE_H
#define MOERT_NET_MESSAGE_H

#include "core/View.h"

namespace moert::net {

struct Message {
  enum class Type : uint32_t {
    Challenge, ///< process 0 to whoever connects: how it is to show that it knows the secret
    Hello,     ///< who it is
    Welcome,   ///< all have come
    Data,      ///< values
    Failed,    ///< an error, which ends the job
    Left,      ///< the process waits for nobody any more
    Done,      ///< the process is at its end
    Explain,   ///< a time-out passed: find out why
    Query,     ///< where are you?
    Answer,
    Ping, ///< are you there?
    Pong,
    Count
  };

  Type type = Type::Data;
  int64_t process = 0; ///< that the message is about
  std::string text;
};

/// The bytes of a message: a header of magic (u32), type (u32), process (i64) and the text's length (i64), then the
/// text.
std::string encode(const Message &message);

/// An error as a message's text, and back.
std::string encoded(const Status &status);
Status decoded(const std::string &text);

/// Cuts what arrives into messages. What is no message, or one that is too large, is noticed before anything is kept
/// for it.
class MessageReader {
public:
  /// Messages are about processes below `processes`. Values may have any length, other texts `mostText` bytes.
  /// `withValues` says whether there may be values.
  MessageReader(int64_t processes, int64_t mostText, bool withValues)
      : processes(processes), mostText(mostText), withValues(withValues) {}

  void append(const char *bytes, size_t count) { received.append(bytes, count); }
  /// The next message, if all of it is there. False where it is not, or where the reader is broken.
  bool take(Message &message);
  /// Whether something arrived that is no message. Nothing more can be read then.
  bool isBroken() const { return broken; }
  /// The bytes that no message was taken of.
  std::string takeRest();

private:
  int64_t processes, mostText;
  bool withValues;
  bool broken = false;
  std::string received;
  size_t taken = 0; ///< bytes of `received` that were messages
};

} // namespace moert::net

#endif // MOERT_NET_MESSAGE_H
