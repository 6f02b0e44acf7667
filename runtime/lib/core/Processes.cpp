//===- Processes.cpp - what all processes do together ---------------------===//

#include "core/Processes.h"

namespace moert {

static std::vector<char> bytesOf(const std::string &text) { return {text.begin(), text.end()}; }

Status checkAgree(Processes &processes, const std::string &text) {
  std::vector<char> bytes = bytesOf(text);
  if (processes.index() != 0) {
    if (Status status = processes.send(bytes); !status.ok())
      return status;
  } else {
    std::vector<char> other, verdict;
    for (int64_t i = 1; i < processes.count(); ++i) {
      if (Status status = processes.receive(i, other); !status.ok())
        return status;
      if (other != bytes && verdict.empty())
        verdict = bytesOf("rank " + std::to_string(i) + " runs another plan than rank 0, or with other options");
    }
    bytes = verdict;
  }
  if (Status status = processes.broadcast(bytes); !status.ok())
    return status;
  return bytes.empty() ? Status{} : Status::error(MOERT_ERROR_INVALID_ARGUMENT, {bytes.begin(), bytes.end()});
}

/// One byte says whether the rest are the bytes, or an error's code and text.
static std::vector<char> pack(const Status &status, const std::vector<char> &bytes) {
  std::vector<char> packed{static_cast<char>(status.ok())};
  if (!status.ok()) {
    std::string text = std::to_string(status.code) + " " + status.message;
    packed.insert(packed.end(), text.begin(), text.end());
  } else {
    packed.insert(packed.end(), bytes.begin(), bytes.end());
  }
  return packed;
}

static Status unpack(const std::vector<char> &packed, std::vector<char> &bytes) {
  if (packed.empty())
    return Status::error(MOERT_ERROR_INTERNAL, "the processes do not ask for the same");
  bytes.assign(packed.begin() + 1, packed.end());
  if (packed[0])
    return {};
  std::string text(bytes.begin(), bytes.end());
  size_t space = text.find(' ');
  return Status::error(std::atoi(text.c_str()), text.substr(space == std::string::npos ? 0 : space + 1));
}

Status share(Processes &processes, int64_t from, const std::function<Status(std::vector<char> &)> &give,
             std::vector<char> &bytes) {
  std::vector<char> packed;
  if (processes.index() == from) {
    Status status = give(bytes);
    packed = pack(status, bytes);
    if (from != 0)
      if (Status sent = processes.send(packed); !sent.ok())
        return sent;
  }
  if (processes.index() == 0 && from != 0)
    if (Status status = processes.receive(from, packed); !status.ok())
      return status;
  if (Status status = processes.broadcast(packed); !status.ok())
    return status;
  return unpack(packed, bytes);
}

} // namespace moert
