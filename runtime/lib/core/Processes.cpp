//===- Processes.cpp - what all processes do together ---------------------===//

#include "core/Processes.h"

#include <map>
#include <sstream>

namespace moert {

/// Packs bytes, or an error's code and text. The first byte says which.
static std::vector<char> pack(const Status &status, const std::vector<char> &bytes) {
  std::vector<char> packed{static_cast<char>(status.ok())};
  if (!status.ok()) {
    std::string text = encoded(status);
    packed.insert(packed.end(), text.begin(), text.end());
  } else {
    packed.insert(packed.end(), bytes.begin(), bytes.end());
  }
  return packed;
}

static Status unpack(const std::vector<char> &packed, std::vector<char> &bytes) {
  if (packed.empty())
    return Status::error(MOERT_ERROR_INTERNAL, "this process asks for something else than rank 0");
  bytes.assign(packed.begin() + 1, packed.end());
  if (packed[0])
    return {};
  return decoded({bytes.begin(), bytes.end()});
}

/// Splits a text into its lines, "name: value".
static std::vector<std::pair<std::string, std::string>> linesOf(const std::string &text) {
  std::vector<std::pair<std::string, std::string>> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) {
    size_t colon = line.find(": ");
    lines.emplace_back(line.substr(0, colon), colon == std::string::npos ? "" : line.substr(colon + 2));
  }
  return lines;
}

/// Quotes a value for a message.
static std::string quoted(const std::string *value) {
  constexpr size_t kMost = 200;
  if (!value)
    return "nothing";
  return "'" + (value->size() > kMost ? value->substr(0, kMost) + ".." : *value) + "'";
}

/// Lists the lines in which the texts differ, by their names, with both values.
static std::string sayDifferences(const std::string &theirs, const std::string &ours) {
  constexpr size_t kMostLines = 8;
  std::map<std::string, std::string> other;
  for (auto &[name, value] : linesOf(theirs))
    other.emplace(name, value);
  std::string text;
  size_t count = 0;
  auto say = [&](const std::string &name, const std::string *expected, const std::string *got) {
    if (++count <= kMostLines)
      text += "\n  " + name + ": expected " + quoted(expected) + " but got " + quoted(got);
  };
  for (const auto &[name, value] : linesOf(ours)) {
    auto it = other.find(name);
    if (it == other.end() || it->second != value)
      say(name, &value, it == other.end() ? nullptr : &it->second);
    if (it != other.end())
      other.erase(it);
  }
  for (const auto &[name, value] : other)
    say(name, nullptr, &value);
  if (count > kMostLines)
    text += "\n  and " + std::to_string(count - kMostLines) + " more";
  return text;
}

static std::vector<char> bytesOf(const std::string &text) { return {text.begin(), text.end()}; }

/// Lets process 0 judge what all processes give. All get its result.
static Status judge(Processes &processes, const std::vector<char> &mine,
                    const std::function<Status(int64_t, const std::vector<char> &)> &look) {
  std::vector<char> bytes = mine;
  if (processes.index() != 0) {
    MOERT_RETURN_IF_ERROR(processes.send(bytes));
  } else {
    Status verdict = look(0, bytes);
    for (int64_t i = 1; i < processes.count(); ++i) {
      MOERT_RETURN_IF_ERROR(processes.receive(i, bytes));
      if (Status status = look(i, bytes); verdict.ok())
        verdict = status;
    }
    bytes = pack(verdict, {});
  }
  MOERT_RETURN_IF_ERROR(processes.broadcast(bytes));
  std::vector<char> nothing;
  return unpack(bytes, nothing);
}

Status checkAgree(Processes &processes, const std::string &text, const Status &ready) {
  return judge(processes, pack(ready, bytesOf(text)), [&](int64_t process, const std::vector<char> &given) -> Status {
    std::vector<char> theirs;
    std::string who = "rank " + std::to_string(process);
    if (Status status = unpack(given, theirs); !status.ok())
      return Status::error(status.code, who, ": ", status.message);
    if (theirs == bytesOf(text) || !ready.ok())
      return {};
    return invalid(who, " does not run the same as rank 0; start all ranks with the same plan, options and data:",
                   sayDifferences({theirs.begin(), theirs.end()}, text));
  });
}

Status checkDistinct(Processes &processes, const std::string &text, const std::string &both) {
  std::map<std::string, int64_t> owners;
  return judge(processes, bytesOf(text), [&](int64_t process, const std::vector<char> &given) -> Status {
    auto [owner, isNew] = owners.emplace(std::string(given.begin(), given.end()), process);
    if (given.empty() || isNew)
      return {};
    return invalid("ranks ", owner->second, " and ", process, " ", both);
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
      MOERT_RETURN_IF_ERROR(processes.send(packed));
  }
  if (processes.index() == 0 && from != 0)
    MOERT_RETURN_IF_ERROR(processes.receive(from, packed));
  MOERT_RETURN_IF_ERROR(processes.broadcast(packed));
  return unpack(packed, bytes);
}

} // namespace moert
