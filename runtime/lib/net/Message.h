//===- Message.h - messages between processes -----------------------------===//
//
// Processes exchange messages: identities, values, failures, and where they wait. Received bytes are checked here, so
// that other code can trust messages.
//
//===----------------------------------------------------------------------===//
#ifndef MOERT_NET_MESSAGE_H
#define MOERT_NET_MESSAGE_H

#include "net/Socket.h"

namespace moert::net {

struct Message {
  enum class Type : uint32_t {
    Challenge, ///< process 0 to a new connection: random bytes for the answer's proof
    Hello,     ///< identity, and a proof of the secret; process 0 sends it when all are connected
    Data,      ///< values
    Failed,    ///< an error, which ends the job
    Left,      ///< the process takes part in no further exchange
    Done,      ///< the process has finished
    Explain,   ///< a time-out passed: process 0 is to ask all where they are
    Query,     ///< asks where the process is
    Answer,
    Ping, ///< asks whether the process responds
    Pong,
    Count
  };

  Type type = Type::Data;
  int64_t process = 0; ///< process that the message is about
  std::string text;
};

/// Encodes a message: a header of magic (u32), type (u32), process (i64) and the text's length (i64), then the text.
std::string encode(const Message &message);

/// Splits received bytes into messages.
class MessageReader {
public:
  /// `mostBytes`: largest length of a message's text.
  explicit MessageReader(int64_t mostBytes) : mostBytes(mostBytes) {}
  void allow(int64_t bytes) { mostBytes = bytes; }

  void append(const char *bytes, size_t count) { received.append(bytes, count); }
  /// Appends the bytes that the socket has received, at most 64 KiB. Returns false at the end of the connection.
  bool readFrom(const Socket &socket);
  /// Takes the next message. Returns false if it is not complete, or if the reader is broken.
  bool take(Message &message);
  /// Whether received bytes were no message, or one that is too long. The reader then returns no more messages.
  bool isBroken() const { return broken; }
  /// The system's number of the error that ended the connection. 0 if the other side closed it.
  int endedBy() const { return ending; }

private:
  int64_t mostBytes;
  bool broken = false;
  int ending = 0;
  std::string received;
  size_t taken = 0; ///< number of bytes of `received` that take() has returned
};

} // namespace moert::net

#endif // MOERT_NET_MESSAGE_H
