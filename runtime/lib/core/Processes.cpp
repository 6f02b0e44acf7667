//===- Processes.cpp - what all processes do together ---------------------===//

#include "core/Processes.h"

#include <algorithm>
#include <sstream>

namespace moert {

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

/// The first line in which they differ, where a person would read it.
static std::string sayDifference(const std::string &theirs, const std::string &ours) {
  constexpr size_t kMost = 100;
  std::istringstream here(ours), there(theirs);
  std::string mine, other;
  do {
    mine.clear();
    other.clear();
    std::getline(here, mine);
    std::getline(there, other);
  } while (mine == other && here && there);
  if (mine.empty() || other.empty() || std::max(mine.size(), other.size()) > kMost)
    return "";
  return ": '" + other + "' rather than '" + mine + "'";
}

static std::vector<char> bytesOf(const std::string &text) { return {text.begin(), text.end()}; }

/// Process 0 looks at what all give, and all get what it finds.
static Status judge(Processes &processes, const std::vector<char> &mine,
                    const std::function<Status(int64_t, const std::vector<char> &)> &look) {
  std::vector<char> bytes = mine;
  if (processes.index() != 0) {
    if (Status status = processes.send(bytes); !status.ok())
      return status;
  } else {
    Status verdict = look(0, bytes);
    for (int64_t i = 1; i < processes.count(); ++i) {
      if (Status status = processes.receive(i, bytes); !status.ok())
        return status;
      if (Status status = look(i, bytes); verdict.ok())
        verdict = status;
    }
    bytes = pack(verdict, {});
  }
  if (Status status = processes.broadcast(bytes); !status.ok())
    return status;
  std::vector<char> nothing;
  return unpack(bytes, nothing);
}

Status checkAgree(Processes &processes, const std::string &text, const Status &ready) {
  return judge(processes, pack(ready, bytesOf(text)), [&](int64_t process, const std::vector<char> &given) -> Status {
    std::vector<char> theirs;
    std::string who = "rank " + std::to_string(process);
    if (Status status = unpack(given, theirs); !status.ok())
      return Status::error(status.code, who + ": " + status.message);
    if (theirs == bytesOf(text) || !ready.ok())
      return {};
    return Status::error(MOERT_ERROR_INVALID_ARGUMENT, who + " runs another plan than rank 0, or with other options" +
                                                           sayDifference({theirs.begin(), theirs.end()}, text));
  });
}

Status agreeOnAll(Processes &processes, bool &all) {
  const std::vector<char> yes{1};
  Status status = judge(processes, {static_cast<char>(all)}, [&](int64_t, const std::vector<char> &given) {
    return given == yes ? Status{} : Status::error(MOERT_ERROR_UNSUPPORTED, "not in all processes");
  });
  all = status.ok();
  return processes.failure();
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
