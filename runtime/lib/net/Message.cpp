//===- Message.cpp - messages between processes ---------------------------===//

#include "net/Message.h"

#include <cerrno>
#include <cstring>

namespace moert::net {
namespace {

constexpr uint32_t kMagic = 0x6d6f6572;

struct Header {
  uint32_t magic;
  Message::Type type;
  int64_t process;
  int64_t bytes;
};

} // namespace

std::string encode(const Message &message) {
  Header header{kMagic, message.type, message.process, std::ssize(message.text)};
  std::string bytes(reinterpret_cast<const char *>(&header), sizeof header);
  return bytes += message.text;
}

bool MessageReader::readFrom(const Socket &socket) {
  char buffer[1 << 16];
  int64_t count = socket.read(buffer, sizeof buffer);
  if (count > 0)
    append(buffer, static_cast<size_t>(count));
  else if (count < 0)
    ending = errno;
  return count >= 0;
}

bool MessageReader::take(Message &message) {
  Header header;
  if (broken || received.size() - taken < sizeof header)
    return false;
  std::memcpy(&header, received.data() + taken, sizeof header);
  broken =
      header.magic != kMagic || header.type >= Message::Type::Count || header.bytes < 0 || header.bytes > mostBytes;
  if (broken) {
    received.clear();
    return false;
  }
  auto bytes = static_cast<size_t>(header.bytes);
  if (received.size() - taken - sizeof header < bytes)
    return false;
  message = {header.type, header.process, received.substr(taken + sizeof header, bytes)};
  taken += sizeof header + bytes;
  // Drops taken bytes once they are half of the buffer, so that each byte moves at most once.
  if (taken * 2 >= received.size()) {
    received.erase(0, taken);
    taken = 0;
  }
  return true;
}

} // namespace moert::net
