//===- Stall.cpp - who holds up whom --------------------------------------===//

#include "net/Stall.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstdio>
#include <map>
#include <set>

namespace moert {
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Wait, what, key, ranks)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Whereabouts, inStep, waits, running)
} // namespace moert

namespace moert::net {
namespace {

/// Largest number of collectives in a report, and of ranks that delay them.
constexpr size_t kMostLines = 8;

/// A collective and the ranks that have reached it.
struct Stalled {
  const Wait *wait;
  std::vector<int64_t> here;
};

/// Collectives that ranks wait in, by key.
std::map<std::string, Stalled> findStalled(const std::vector<std::optional<Whereabouts>> &answers) {
  std::map<std::string, Stalled> found;
  for (size_t rank = 0; rank < answers.size(); ++rank)
    if (answers[rank])
      for (const Wait &wait : answers[rank]->waits) {
        Stalled &stalled = found[wait.key];
        stalled.wait = &wait;
        stalled.here.push_back(static_cast<int64_t>(rank));
      }
  return found;
}

std::vector<int64_t> missingOf(const Stalled &stalled) {
  std::vector<int64_t> missing;
  for (int64_t rank : stalled.wait->ranks)
    if (std::find(stalled.here.begin(), stalled.here.end(), rank) == stalled.here.end())
      missing.push_back(rank);
  return missing;
}

const char *verb(const std::vector<int64_t> &ranks, const char *one, const char *several) {
  return ranks.size() > 1 ? several : one;
}

std::string rankWord(const std::vector<int64_t> &ranks) {
  return (ranks.size() > 1 ? "ranks " : "rank ") + ranksText(ranks);
}

std::string rankText(size_t rank, const std::optional<Whereabouts> &answer, const std::string &name) {
  std::string text = "rank " + std::to_string(rank) + " (" + name + ") ";
  if (!answer)
    return text + "does not answer";
  if (!answer->running.empty())
    return text + "still runs " + answer->running;
  if (answer->waits.empty())
    return text + (answer->inStep ? "is between two calls" : "runs no step");
  return text + "waits elsewhere: " + answer->waits.front().what;
}

} // namespace

std::string ranksText(const std::vector<int64_t> &ranks) {
  std::string text;
  for (size_t begin = 0; begin < ranks.size();) {
    size_t end = begin + 1;
    while (end < ranks.size() && ranks[end] == ranks[end - 1] + 1)
      ++end;
    text += (begin ? ", " : "") + std::to_string(ranks[begin]);
    if (end - begin == 2)
      text += ", " + std::to_string(ranks[end - 1]);
    else if (end - begin > 2)
      text += " to " + std::to_string(ranks[end - 1]);
    begin = end;
  }
  return text;
}

std::string stallText(const std::vector<std::optional<Whereabouts>> &answers, const std::vector<std::string> &names) {
  std::string text;
  std::set<int64_t> suspects;
  size_t lines = 0;
  for (const auto &[key, stalled] : findStalled(answers)) {
    std::vector<int64_t> missing = missingOf(stalled);
    suspects.insert(missing.begin(), missing.end());
    if (++lines > kMostLines)
      continue;
    text += "\n  " + rankWord(stalled.here) + verb(stalled.here, " waits in ", " wait in ") + stalled.wait->what +
            (stalled.wait->ranks.size() > 1 ? " of ranks " + ranksText(stalled.wait->ranks) : "");
    text += missing.empty() ? ", where all have come" : " for " + rankWord(missing);
  }
  if (lines > kMostLines)
    text += "\n  and " + std::to_string(lines - kMostLines) + " more";
  for (size_t rank = 0; rank < answers.size(); ++rank)
    if (!answers[rank])
      suspects.insert(static_cast<int64_t>(rank));
  // Ranks that do not answer come first, because not all may be listed.
  lines = 0;
  for (bool isSilent : {true, false})
    for (int64_t rank : suspects)
      if (auto i = static_cast<size_t>(rank); isSilent == !answers[i] && ++lines <= kMostLines)
        text += "\n  " + rankText(i, answers[i], names[i]);
  return text;
}

std::string secondsText(double seconds) {
  char text[32];
  std::snprintf(text, sizeof text, "%g", seconds);
  return text;
}

std::string encode(const Whereabouts &whereabouts) {
  // Labels come from the user, and a byte that is not UTF-8 must not throw.
  return nlohmann::json(whereabouts).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

std::optional<Whereabouts> decode(const std::string &text) {
  try {
    return nlohmann::json::parse(text).get<Whereabouts>();
  } catch (const nlohmann::json::exception &) {
    return std::nullopt;
  }
}

} // namespace moert::net
