//===- Interference.cpp - work of several kinds on one device -------------===//
//
// Each kind of work is repeated on a stream of its own for about as long as the others. While all of them run, an
// operation takes longer than alone. The ratio is its speed among the others.
//
//===----------------------------------------------------------------------===//

#include "calibrate/Calibrate.h"
#include "core/Error.h"

#include <algorithm>
#include <cmath>

namespace moert::calibrate {
namespace {

struct Work {
  const char *kind; ///< name of the kind in profiles
  int64_t stream;
  std::function<int32_t(moert_rank_t)> issue; ///< issues one operation
  double alone = 0;                           ///< seconds of one operation alone
  int64_t repeats = 4;
};

using Works = std::vector<const Work *>;

/// Typical seconds of the operations whose middle is from `begin` to `end`, or of all if there are none.
double typicalWithin(const std::vector<OpTime> &times, int64_t begin, int64_t end) {
  std::vector<double> within, all;
  for (const OpTime &time : times) {
    int64_t middle = time.begin + (time.end - time.begin) / 2;
    all.push_back(static_cast<double>(time.end - time.begin) * 1e-9);
    if (middle >= begin && middle <= end)
      within.push_back(all.back());
  }
  return std::max(typical(within.empty() ? all : within), 1e-9);
}

/// Measures an operation of each work while all of them run.
Status measureTogether(Ranks &ranks, const Works &works, int passes, std::vector<double> &seconds) {
  auto issue = [&](moert_rank_t rank) {
    int32_t code = MOERT_OK;
    for (const Work *work : works)
      for (int64_t i = 0; i < work->repeats && !code; ++i)
        code = work->issue(rank);
    return code;
  };
  std::vector<std::vector<double>> measured(works.size());
  for (int pass = 0; pass <= passes; ++pass) {
    Ranks::StepTime time;
    MOERT_RETURN_IF_ERROR(ranks.run(issue, time));
    std::vector<std::vector<OpTime>> times;
    for (const Work *work : works) {
      times.push_back(ranks.device().timeline(ranks.local(), work->stream));
      if (times.back().size() != static_cast<size_t>(work->repeats))
        return Status::error(MOERT_ERROR_INTERNAL, "the device timed " + std::to_string(times.back().size()) + " of " +
                                                       std::to_string(work->repeats) + " operations of kind '" +
                                                       work->kind + "'");
    }
    const std::vector<double> once = secondsTogether(times);
    for (size_t w = 0; w < works.size() && pass > 0; ++w)
      measured[w].push_back(once[w]);
  }
  seconds.clear();
  for (std::vector<double> &one : measured)
    seconds.push_back(typical(std::move(one)));
  return {};
}

/// Measures each work alone, and sets its repeats so that all take about as long. All processes repeat as often.
Status measureAlone(Ranks &ranks, std::vector<Work> &works, int passes) {
  double longest = 0;
  for (Work &work : works) {
    std::vector<double> seconds;
    MOERT_RETURN_IF_ERROR(measureTogether(ranks, {&work}, passes, seconds));
    work.alone = seconds[0];
    MOERT_RETURN_IF_ERROR(ranks.agree(work.alone));
    longest = std::max(longest, work.alone);
  }
  constexpr double kMostRepeats = 64;
  for (Work &work : works)
    work.repeats = static_cast<int64_t>(std::min(kMostRepeats, std::ceil(8 * longest / work.alone)));
  return {};
}

Status makeCopy(DeviceBench &bench, int64_t bytes, Work &work) {
  void *from = nullptr, *to = nullptr;
  MOERT_RETURN_IF_ERROR(bench.allocateIn(MOERT_SPACE_DEVICE, bytes, from));
  MOERT_RETURN_IF_ERROR(bench.allocateIn(MOERT_SPACE_HOST_PINNED, bytes, to));
  work = {"copy", Ranks::kCopy, [=](moert_rank_t rank) {
            return guarded([&] { return rank->device->launch(rank->rank, Ranks::kCopy, copyOf(from, to, bytes)); });
          }};
  return {};
}

/// Work of all-to-alls of `bytes`, in the last bytes of the arena; products have the first ones.
Work makeCommunication(Ranks &ranks, size_t group, int64_t arena, int64_t bytes) {
  return {"communication", Ranks::kMeet, [=, &ranks](moert_rank_t rank) {
            const moert_group &members = ranks.group(group);
            int64_t inner = bytes / 4 / members.size;
            moert_buffer in = Ranks::buffer(MOERT_F32, arena - 2 * bytes, {members.size, 1, inner});
            moert_buffer out = Ranks::buffer(MOERT_F32, arena - bytes, {1, members.size, inner});
            return moert_all_to_all(rank, Ranks::kMeet + static_cast<int64_t>(group), &in, &out, 0, 1, 1, 0, 1,
                                    &members, Ranks::kMeet);
          }};
}

} // namespace

std::vector<double> secondsTogether(const std::vector<std::vector<OpTime>> &streams) {
  int64_t begin = 0, end = INT64_MAX;
  for (const std::vector<OpTime> &times : streams) {
    begin = std::max(begin, times.front().begin);
    end = std::min(end, times.back().end);
  }
  std::vector<double> seconds;
  for (const std::vector<OpTime> &times : streams)
    seconds.push_back(typicalWithin(times, begin, end));
  return seconds;
}

Status calibrateInterference(DeviceBench &bench, const Settings &settings, std::optional<size_t> group,
                             std::vector<Interference> &sets) {
  Ranks &ranks = bench.ranks();
  const int64_t arena = settings.device.arenaBytes, bytes = settings.device.copyBytes;
  std::vector<Work> works = {{"compute", Ranks::kCompute, [&](moert_rank_t rank) { return bench.issueBallast(rank); }}};
  if (group)
    works.push_back(makeCommunication(ranks, *group, arena, bytes));
  MOERT_RETURN_IF_ERROR(makeCopy(bench, bytes, works.emplace_back()));
  const int passes = settings.quick ? 3 : 7;
  MOERT_RETURN_IF_ERROR(measureAlone(ranks, works, passes));
  for (unsigned chosen = 1; chosen < 1u << works.size(); ++chosen) {
    Works together;
    for (size_t w = 0; w < works.size(); ++w)
      if (chosen >> w & 1)
        together.push_back(&works[w]);
    if (together.size() < 2)
      continue;
    std::vector<double> seconds;
    MOERT_RETURN_IF_ERROR(measureTogether(ranks, together, passes, seconds));
    Interference &set = sets.emplace_back();
    for (size_t w = 0; w < together.size(); ++w) {
      set.running.push_back(together[w]->kind);
      set.speeds.push_back(std::min(1.0, together[w]->alone / seconds[w]));
    }
  }
  return {};
}

} // namespace moert::calibrate
