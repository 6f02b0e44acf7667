//===- Window.h - which rows a pass of a dropless layer serves --*- C++ -*-===//
//
// A worker serves its rows in passes of equally many rows. Rows are numbered by expert, then by the member that sends
// them, then in the member's order. Rows of other chunks, and of members of other exchange phases, arrive in other
// memory, so each chunk and phase has its own numbers. The runtime and the compiler's simulator share these functions,
// so that they agree.
//
//===----------------------------------------------------------------------===//
#ifndef MOERT_WINDOW_H
#define MOERT_WINDOW_H

#include <algorithm>
#include <cstdint>

namespace moert {

/// Rows that `members` members send to `experts` experts in `chunks` chunks; `gathered` is [members chunks, experts].
/// Each of `workers` workers has equally many experts. `phases` is the number of blocks of members. `workers` divides
/// `experts`, and `phases` divides `members`.
struct SentRows {
  const int32_t *gathered;
  int64_t members, experts, workers, chunks = 1, phases = 1;

  int64_t get(int64_t member, int64_t chunk, int64_t expert) const {
    return gathered[(member * chunks + chunk) * experts + expert];
  }
};

/// Number of passes of `rows` rows that the worker with the most rows needs; at least 1.
inline int64_t countPasses(const SentRows &sent, int64_t rows) {
  int64_t most = 1;
  const int64_t own = sent.experts / sent.workers, block = sent.members / sent.phases;
  for (int64_t chunk = 0; chunk < sent.chunks; ++chunk)
    for (int64_t first = 0; first < sent.members; first += block)
      for (int64_t worker = 0; worker < sent.workers; ++worker) {
        int64_t sum = 0;
        for (int64_t member = first; member < first + block; ++member)
          for (int64_t expert = worker * own; expert < (worker + 1) * own; ++expert)
            sum += sent.get(member, chunk, expert);
        most = std::max(most, (sum + rows - 1) / rows);
      }
  return most;
}

/// Calls visit(expert, first, count) for each expert in order. `member` sends rows to the expert in chunk `chunk`, and
/// pass `pass` serves `count` of them, from row `first` on. `rows` is the number of rows of a pass.
template <class Visit>
void forEachServed(const SentRows &sent, int64_t member, int64_t chunk, int64_t pass, int64_t rows, Visit visit) {
  const int64_t own = sent.experts / sent.workers, begin = pass * rows, end = begin + rows;
  const int64_t block = sent.members / sent.phases, firstMember = member / block * block;
  for (int64_t expert = 0, row = 0; expert < sent.experts; ++expert) {
    if (expert % own == 0)
      row = 0;
    for (int64_t other = firstMember; other < firstMember + block; ++other) {
      const int64_t next = row + sent.get(other, chunk, expert);
      if (other == member) {
        const int64_t from = std::clamp(begin, row, next);
        visit(expert, from - row, std::clamp(end, row, next) - from);
      }
      row = next;
    }
  }
}

} // namespace moert

#endif // MOERT_WINDOW_H
