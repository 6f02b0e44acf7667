//===- Message.cpp - what processes tell each other -----------------------===//

#include "net/Message.h"

#include <cstdlib>
#include <cstring>

namespace moert::net {
namespace {

constexpr uint32_t kMagic = 0x6d6f6572;
/// More than any machine has.
constexpr int64_t kMostData = int64_t(1) << 44;

struct Header {
  uint32_t magic;
  Message::Type type;
  int64_t process;
  int64_t bytes;
};

} // namespace

std::string encode(const Message &message) {
  Header header{kMagic, message.type, message.process, static_cast<int64_t>(message.text.size())};
  std::string bytes(reinterpret_cast<const char *>(&header), sizeof header);
  return bytes += message.text;
}

std::string encoded(const Status &status) { return std::to_string(status.code) + " " + status.message; }

Status decoded(const std::string &text) {
  size_t space = text.find(' ');
  int32_t code = space == std::string::npos ? 0 : std::atoi(text.c_str());
  return Status::error(code ? code : int32_t(MOERT_ERROR_INTERNAL), text.substr(space + 1));
}

bool MessageReader::take(Message &message) {
  Header header;
  if (broken || received.size() - taken < sizeof header)
    return false;
  std::memcpy(&header, received.data() + taken, sizeof header);
  bool isData = header.type == Message::Type::Data;
  broken = header.magic != kMagic || header.type >= Message::Type::Count || header.process < 0 ||
           header.process >= processes || header.bytes < 0 || header.bytes > (isData ? kMostData : mostText) ||
           (isData && !withValues);
  if (broken) {
    received.clear();
    return false;
  }
  auto bytes = static_cast<size_t>(header.bytes);
  if (received.size() - taken - sizeof header < bytes)
    return false;
  message = {header.type, header.process, received.substr(taken + sizeof header, bytes)};
  taken += sizeof header + bytes;
  // What was taken goes away once it is most of it: each byte is moved at most once, however many messages there are.
  if (taken * 2 >= received.size()) {
    received.erase(0, taken);
    taken = 0;
  }
  return true;
}

std::string MessageReader::takeRest() {
  std::string rest = received.substr(taken);
  received.clear();
  taken = 0;
  return rest;
}

} // namespace moert::net
