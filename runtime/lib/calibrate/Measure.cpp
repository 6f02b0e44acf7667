//===- Measure.cpp - clocks, cold memory and repetition -------------------===//

#include "calibrate/Measure.h"
#include "core/Convert.h"
#include "host/Kernels.h"

#include <algorithm>
#include <cassert>
#include <cstring>
#include <ctime>
#include <unistd.h>

namespace moert::calibrate {
namespace {

double readClock(clockid_t clock) {
  timespec time;
  clock_gettime(clock, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

/// Next number of a sequence of both signs between 0.1 and 1 in size.
double numberFrom(uint32_t &state) {
  state = state * 1664525 + 1013904223;
  double value = 0.1 + 0.9 * (state >> 9) / (1 << 23);
  return state & 256 ? value : -value;
}

void store(char *to, int32_t dtype, double value) {
  auto put = [&](auto typed) { std::memcpy(to, &typed, sizeof typed); };
  auto narrow = static_cast<float>(value);
  dtype == MOERT_F64    ? put(value)
  : dtype == MOERT_BF16 ? put(toBf16(narrow))
  : dtype == MOERT_F16  ? put(toHalf(narrow))
                        : put(narrow);
}

} // namespace

double threadSeconds() { return readClock(CLOCK_THREAD_CPUTIME_ID); }
double processSeconds() { return readClock(CLOCK_PROCESS_CPUTIME_ID); }

int64_t coldBytes() {
  // Some systems return 0 or less for an unknown cache size.
  return std::clamp<int64_t>(4 * sysconf(_SC_LEVEL3_CACHE_SIZE), int64_t(128) << 20, int64_t(1) << 30);
}

Call callOf(Kind kind, std::initializer_list<View> views) {
  Call call;
  call.kind = kind;
  call.viewCount = static_cast<int8_t>(views.size());
  std::ranges::copy(views, call.views.begin());
  return call;
}

Call copyOf(void *from, void *to, int64_t bytes) {
  return callOf(Kind::Copy, {{from, MOERT_F32, 1, {bytes / 4}}, {to, MOERT_F32, 1, {bytes / 4}}});
}

Status Bench::time(const MakeCall &make, double &seconds) {
  constexpr double kEnough = 2e-5;
  constexpr double kMostCalls = 32;
  if (Status status = timeBatch(make, 1, seconds); !status.ok() || seconds > kEnough)
    return status;
  return timeBatch(make, static_cast<int>(std::clamp(kEnough / seconds, 2.0, kMostCalls)), seconds);
}

Status HostBench::allocate(int64_t bytes, void *&data) {
  Status status = host::allocateBlock(bytes, "operands", blocks.emplace_back());
  data = blocks.back().get();
  return status;
}

void HostBench::write(void *to, const void *from, int64_t bytes) { std::memcpy(to, from, static_cast<size_t>(bytes)); }

Status HostBench::timeBatch(const MakeCall &make, int count, double &seconds) {
  std::vector<Call> calls;
  for (int i = 0; i < count; ++i)
    calls.push_back(make());
  host::HostKernels kernels;
  double begin = threadSeconds();
  for (const Call &call : calls)
    MOERT_RETURN_IF_ERROR(launchKernel(kernels, call));
  seconds = (threadSeconds() - begin) / count;
  return {};
}

Status Pool::create(Bench &bench, int32_t type) {
  dtype = type;
  if (!owner) {
    owner = &bench;
    const Bench::Reach &most = bench.reach;
    const std::pair<Ring *, int64_t> rings[] = {
        {&inputs, most.cold + most.call}, {&outputs, most.cold + most.call}, {&tables, 2 * most.call}};
    for (const auto &[ring, bytes] : rings) {
      void *data = nullptr;
      MOERT_RETURN_IF_ERROR(bench.allocate(bytes, data));
      ring->data = static_cast<char *>(data);
    }
  }
  setReach(bench.reach.cold);
  std::vector<char> numbers(size_t(1) << 20);
  uint32_t state = 1;
  for (size_t at = 0; at < numbers.size(); at += dtypeSize(type))
    store(&numbers[at], type, numberFrom(state));
  // Outputs are filled too, so that the first touch of a page is not measured.
  const int64_t bytes = bench.reach.cold + bench.reach.call;
  for (Ring *ring : {&inputs, &outputs})
    for (int64_t at = 0; at < bytes; at += static_cast<int64_t>(numbers.size()))
      bench.write(ring->data + at, numbers.data(), std::min(bytes - at, static_cast<int64_t>(numbers.size())));
  return {};
}

void Pool::beginCall() {
  for (Ring *ring : {&inputs, &outputs})
    if (ring->at >= reach)
      ring->at = 0;
  if (tables.at >= owner->reach.call)
    tables.at = 0;
}

View Pool::integers(std::vector<int64_t> dims, const std::function<int64_t(int64_t)> &valueAt) {
  View view = take(tables, MOERT_I32, dims);
  std::vector<int32_t> values(static_cast<size_t>(view.elements()));
  for (size_t i = 0; i < values.size(); ++i)
    values[i] = static_cast<int32_t>(valueAt(static_cast<int64_t>(i)));
  owner->write(view.data, values.data(), view.bytes());
  return view;
}

View Pool::take(Ring &ring, int32_t type, const std::vector<int64_t> &dims) {
  View view;
  view.dtype = type;
  view.rank = static_cast<int64_t>(dims.size());
  std::copy(dims.begin(), dims.end(), view.dims.begin());
  view.data = ring.data + ring.at;
  ring.at += (view.bytes() + 255) / 256 * 256;
  assert(ring.at <= (&ring == &tables ? owner->reach.call : owner->reach.cold) + owner->reach.call);
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

Status measureKernels(Bench &bench, const std::vector<MakeCall> &calls, int passes, std::vector<double> &seconds,
                      std::ostream *out, const std::string &what) {
  Progress progress(out, what, calls.size() * static_cast<size_t>(passes));
  std::vector<std::vector<double>> times(calls.size());
  for (int pass = 0; pass < passes; ++pass)
    for (size_t i = 0; i < calls.size(); ++i) {
      MOERT_RETURN_IF_ERROR(bench.time(calls[i], times[i].emplace_back()));
      progress.step();
    }
  seconds.clear();
  for (std::vector<double> &one : times)
    seconds.push_back(typical(std::move(one)));
  if (std::any_of(seconds.begin(), seconds.end(), [](double time) { return !(time > 0); }))
    return Status::error(MOERT_ERROR_INTERNAL, "the clock is too coarse to measure a kernel");
  return {};
}

} // namespace moert::calibrate
