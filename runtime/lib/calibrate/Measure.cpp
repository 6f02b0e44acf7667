//===- Measure.cpp - clocks, cold memory and repetition -------------------===//

#include "calibrate/Measure.h"
#include "host/HostKernels.h"

#include <algorithm>
#include <ctime>
#include <unistd.h>

namespace moert::calibrate {
namespace {

double readClock(clockid_t clock) {
  timespec time;
  clock_gettime(clock, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

template <class T> void fill(T *data, int64_t count) {
  uint32_t state = 1;
  for (int64_t i = 0; i < count; ++i) {
    state = state * 1664525 + 1013904223;
    T value = T(0.1) + T(0.9) * static_cast<T>(state >> 9) / T(1 << 23);
    data[i] = state & 256 ? value : -value;
  }
}

/// Seconds of one of `count` calls.
Status timeBatch(const MakeCall &make, int count, double &seconds) {
  std::vector<Call> calls;
  for (int i = 0; i < count; ++i)
    calls.push_back(make());
  host::HostKernels kernels;
  double begin = threadSeconds();
  for (const Call &call : calls)
    if (Status status = launchKernel(kernels, call); !status.ok())
      return status;
  seconds = (threadSeconds() - begin) / count;
  return {};
}

/// Short calls are timed several at once, because reading the clock takes as long as they.
Status timeCall(const MakeCall &make, double &seconds) {
  constexpr double kEnough = 2e-5;
  constexpr double kMostCalls = 32;
  if (Status status = timeBatch(make, 1, seconds); !status.ok() || seconds > kEnough)
    return status;
  return timeBatch(make, static_cast<int>(std::clamp(kEnough / seconds, 2.0, kMostCalls)), seconds);
}

} // namespace

double threadSeconds() { return readClock(CLOCK_THREAD_CPUTIME_ID); }
double processSeconds() { return readClock(CLOCK_PROCESS_CPUTIME_ID); }

int64_t coldBytes() {
  // Some systems do not say how large their cache is, and then 0 or less.
  return std::clamp<int64_t>(4 * sysconf(_SC_LEVEL3_CACHE_SIZE), int64_t(128) << 20, int64_t(1) << 30);
}

Status Pool::create(int32_t type) {
  reach = coldBytes();
  dtype = type;
  const int64_t bytes = reach + kLargestCall;
  for (Ring *ring : {&inputs, &outputs}) {
    if (Status status = host::allocateBlock(bytes, "operands", ring->block); !status.ok())
      return status;
    // Outputs too, because the first touch of a page is not what is measured.
    if (dtype == MOERT_F64)
      fill(static_cast<double *>(ring->block.get()), bytes / 8);
    else
      fill(static_cast<float *>(ring->block.get()), bytes / 4);
  }
  return {};
}

void Pool::beginCall() {
  for (Ring *ring : {&inputs, &outputs})
    if (ring->at >= reach)
      ring->at = 0;
}

View Pool::take(Ring &ring, int32_t type, const std::vector<int64_t> &dims) {
  View view;
  view.dtype = type;
  view.rank = static_cast<int64_t>(dims.size());
  std::copy(dims.begin(), dims.end(), view.dims.begin());
  view.data = static_cast<char *>(ring.block.get()) + ring.at;
  ring.at += (view.bytes() + 255) / 256 * 256;
  return view;
}

Progress::~Progress() {
  if (out && done > 0)
    *out << "\r" << what << ": done\n" << std::flush;
}

void Progress::step() {
  size_t percent = ++done * 100 / std::max<size_t>(total, 1);
  if (!out || percent == shown)
    return;
  shown = percent;
  *out << "\r" << what << ": " << percent << "%" << std::flush;
}

double typical(std::vector<double> seconds) {
  auto middle = seconds.begin() + static_cast<std::ptrdiff_t>((seconds.size() - 1) / 2);
  std::nth_element(seconds.begin(), middle, seconds.end());
  return *middle;
}

Status measureKernels(const std::vector<MakeCall> &calls, int passes, Progress &progress,
                      std::vector<double> &seconds) {
  std::vector<std::vector<double>> times(calls.size());
  for (int pass = 0; pass < passes; ++pass)
    for (size_t i = 0; i < calls.size(); ++i) {
      if (Status status = timeCall(calls[i], times[i].emplace_back()); !status.ok())
        return status;
      progress.step();
    }
  seconds.clear();
  for (std::vector<double> &one : times)
    seconds.push_back(typical(std::move(one)));
  if (std::any_of(seconds.begin(), seconds.end(), [](double time) { return !(time > 0); }))
    return Status::error(MOERT_ERROR_INTERNAL, "the clock of CPU time is too coarse to measure a kernel");
  return {};
}

} // namespace moert::calibrate
