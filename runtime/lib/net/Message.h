//===- Message.h - messages between processes -----------------------------===//
//
// Processes exchange messages: who they are, values, failures, and where they wait. Bytes become messages here, so that
// other code need not distrust them.
//
//===----------------------------------------------------------------------===//
#ifndef MOERT_NET_MESSAGE_H
#define MOERT_NET_MESSAGE_H

#include "net/Socket.h"

namespace moert::net {

struct Message {
  enum class Type : uint32_t {
    Challenge, ///< process 0 to a new connection: random bytes for the answer's proof
    Hello,     ///< identity, and a proof that it knows the secret; process 0 sends it when all have come
    Data,      ///< values
    Failed,    ///< an error, which ends the job
    Left,      ///< the process waits for nobody any more
    Done,      ///< the process is at its end
    Explain,   ///< a time-out passed: find out why
    Query,     ///< question where the process is
    Answer,
    Ping, ///< question whether the process is there
    Pong,
    Count
  };

  Type type = Type::Data;
  int64_t process = 0; ///< process that the message is about
  std::string text;
};

/// Encodes a message: a header of magic (u32), type (u32), process (i64) and the text's length (i64), then the text.
std::string encode(const Message &message);

/// Cuts bytes that arrive into messages.
class MessageReader {
public:
  /// `mostBytes`: most bytes of a message's text.
  explicit MessageReader(int64_t mostBytes) : mostBytes(mostBytes) {}
  void allow(int64_t bytes) { mostBytes = bytes; }

  void append(const char *bytes, size_t count) { received.append(bytes, count); }
  /// Appends the bytes that wait at the socket, at most 64 KiB. Returns false at the end of the connection.
  bool readFrom(const Socket &socket);
  /// Takes the next message. Returns false if it is not complete, or if the reader is broken.
  bool take(Message &message);
  /// Whether something arrived that is not a message, or is too long. Nothing more can be read then.
  bool isBroken() const { return broken; }

private:
  int64_t mostBytes;
  bool broken = false;
  std::string received;
  size_t taken = 0; ///< bytes of `received` that were messages
};

} // namespace moert::net

#endif // MOERT_NET_MESSAGE_H
