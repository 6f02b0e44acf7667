//===- Issue.cpp - the calls of programs, checked and enqueued ------------===//

#include "core/Attributes.h"
#include "core/Error.h"
#include "core/Instrument.h"
#include "core/World.h"

#include <algorithm>
#include <tuple>

namespace moert {
namespace {

std::string range(const char *what, int64_t value, int64_t count) {
  return joined("expected ", what, " from 0 to ", count - 1, " but got ", value);
}

int64_t partsOf(const moert_buffer &buffer) { return buffer.parts > 1 ? buffer.parts : 1; }

/// Index of the part of `rank`. No sum overflows, whatever the shift.
int64_t partOf(const moert_buffer &buffer, int64_t rank) {
  if (buffer.parts <= 1)
    return 0;
  int64_t own = rank / buffer.stride % buffer.parts, shift = buffer.shift % buffer.parts;
  int64_t part = own + (shift > 0 ? shift - buffer.parts : shift);
  return part < 0 ? part + buffer.parts : part;
}

/// Number of elements of all parts, or -1 if the sizes make no sense.
int64_t bufferElements(const moert_buffer &buffer) {
  int64_t count = partsOf(buffer);
  for (int64_t dim = 0; dim < buffer.rank; ++dim)
    if (buffer.dims[dim] < 0 || __builtin_mul_overflow(count, buffer.dims[dim], &count))
      return -1;
  return count <= INT64_MAX / 8 ? count : -1;
}

/// Whether the buffer is the whole argument, or a piece of it if it is a view.
bool fitsArgument(const moert_buffer &buffer, const Value &value, int64_t bytes) {
  int64_t whole = value.localBytes();
  if ((buffer.parts == 0 && buffer.begin == 0) || bytes == 0)
    return bytes == whole && buffer.begin == 0;
  return buffer.begin <= whole - bytes;
}

/// Sets where byte `begin` of the buffer's arena or argument lies on the rank.
Status place(const moert_rank &rank, const moert_buffer &buffer, int64_t begin, View &view) {
  if (rank.instrument)
    return rank.instrument->place(rank, buffer, begin, view);
  const bool isArgument = buffer.space == MOERT_SPACE_ARGUMENT;
  view.data = (isArgument ? rank.values[buffer.offset] : rank.arenas[buffer.space]) + begin;
  return {};
}

Status resolveArgument(const moert_rank &rank, const moert_buffer &buffer, View &view) {
  const Program &program = *rank.program;
  if (buffer.offset < 0 || buffer.offset >= program.valueCount())
    return invalid(range("the index of an argument", buffer.offset, program.valueCount()));
  const Value &value = program.value(buffer.offset);
  if (buffer.begin < 0 || buffer.begin % static_cast<int64_t>(dtypeSize(buffer.dtype)) != 0)
    return invalid("expected a begin of 0 or more that is aligned for ", dtypeName(buffer.dtype), " but got ",
                   buffer.begin);
  if (buffer.dtype != value.dtype || !fitsArgument(buffer, value, partsOf(buffer) * view.bytes())) {
    std::string parts = buffer.parts > 1 ? joined(buffer.parts, " parts of ") : "";
    std::string from = buffer.begin > 0 ? joined(" from byte ", buffer.begin, " on") : "";
    const char *piece = buffer.parts > 0 || buffer.begin > 0 ? " or a piece of it" : "";
    return invalid("expected '", value.name, "' to be used as ", shapeText(value.localShape), " ",
                   dtypeName(value.dtype), piece, " but got ", parts, view.elements(), " elements of ",
                   dtypeName(buffer.dtype), from);
  }
  return place(rank, buffer, buffer.begin + partOf(buffer, rank.rank) * view.bytes(), view);
}

Status resolveArena(moert_rank &rank, const moert_buffer &buffer, View &view) {
  int64_t size = rank.program->arenaBytes[buffer.space];
  int64_t bytes = partsOf(buffer) * view.bytes();
  if (buffer.begin != 0)
    return invalid("expected a begin of 0 in an arena, where the offset includes it, but got ", buffer.begin);
  if (buffer.offset < 0 || buffer.offset > size || bytes > size - buffer.offset)
    return invalid("bytes ", buffer.offset, " to ", static_cast<uint64_t>(buffer.offset) + static_cast<uint64_t>(bytes),
                   " lie outside the arena of ", size, " bytes");
  if (buffer.offset % static_cast<int64_t>(dtypeSize(buffer.dtype)) != 0)
    return invalid("offset ", buffer.offset, " is not aligned for ", dtypeName(buffer.dtype));
  const int64_t begin = buffer.offset + partOf(buffer, rank.rank) * view.bytes(), end = begin + view.bytes();
  // A call that is bound again finds its bytes already counted.
  if (end > begin && end > rank.touched[buffer.space])
    rank.touched[buffer.space] = end;
  return place(rank, buffer, begin, view);
}

Status resolve(moert_rank &rank, const moert_buffer &buffer, View &view) {
  if (dtypeSize(buffer.dtype) == 0 || buffer.dtype == kFieldType)
    return invalid("unknown dtype ", buffer.dtype);
  if (buffer.rank < 0 || buffer.rank > 4)
    return invalid(range("a rank", buffer.rank, 5));
  if (buffer.parts < 0)
    return invalid("expected parts of 0 or more but got ", buffer.parts);
  if (buffer.parts > 1 && buffer.stride < 1)
    return invalid("expected a stride of 1 or more for parts but got ", buffer.stride);
  if (bufferElements(buffer) < 0)
    return invalid("the dimensions are negative or too large");
  view.dtype = buffer.dtype;
  view.rank = buffer.rank;
  for (int64_t dim = 0; dim < buffer.rank; ++dim)
    view.dims[dim] = buffer.dims[dim];
  switch (buffer.space) {
  case MOERT_SPACE_DEVICE:
  case MOERT_SPACE_HOST_PINNED:
    return resolveArena(rank, buffer, view);
  case MOERT_SPACE_ARGUMENT:
    return resolveArgument(rank, buffer, view);
  default:
    return invalid("unknown memory space ", buffer.space);
  }
}

Status checkStream(const moert_rank &rank, moert_stream_t stream) {
  auto count = std::ssize(rank.program->streams);
  return stream >= 0 && stream < count ? Status{} : invalid(range("a stream", stream, count));
}

/// Block of the group that a member sends to in a phase, and number of blocks. {0, 1} if the phase makes no sense,
/// which the communicator reports.
std::pair<int32_t, int32_t> partSent(int64_t member, int64_t size, int64_t phase, int64_t phases) {
  if (phases < 1 || phases > size || size % phases != 0 || phase < 0 || phase >= phases)
    return {0, 1};
  const int64_t block = member / (size / phases);
  return {static_cast<int32_t>((block + phases - phase) % phases), static_cast<int32_t>(phases)};
}

/// Adds to some calls what only the runtime knows.
void complete(moert_rank &rank, Call &call) {
  if (call.kind == Kind::Route || call.kind == Kind::RouterMeans) {
    call.routingPage = rank.routing.next(call.op, rank.program->ops.size());
    call.routing = rank.routing.find(call.routingPage);
  }
  if (call.kind == Kind::ChooseShadows)
    call.leastShadows = rank.leastShadows;
}

/// Finds the operand that holds the numbers of used rows.
void findCounts(Call &call) {
  call.countsView = infoOf(call.kind).ragged;
  if (call.kind != Kind::AllToAllV)
    return;
  // A rank sends the rows of the side that it reads. On the block side they are those for the block of this phase.
  using operands::AllToAllV;
  const auto its = attributes::AllToAllV::of(call);
  const bool toExperts = its.direction == MOERT_TO_EXPERTS;
  call.countsView = static_cast<int8_t>(toExperts ? AllToAllV::blockCounts : AllToAllV::expertCounts);
  if (toExperts)
    std::tie(call.countsPart, call.countsParts) = partSent(call.member, call.members, its.phase, its.phases);
}

Status resolveOperands(moert_rank &rank, std::initializer_list<const moert_buffer *> operands, Call &call) {
  const KernelInfo &info = infoOf(call.kind);
  for (const moert_buffer *buffer : operands) {
    const KernelInfo::Operand &operand = info.operands[call.viewCount];
    View &view = call.views[call.viewCount++];
    call.buffers[call.viewCount - 1] = buffer;
    if (!buffer && operand.isOptional)
      continue;
    Status status = buffer ? resolve(rank, *buffer, view) : invalid("expected a buffer but got null");
    if (!status.ok())
      return invalid("operand '", operand.name, "': ", status.message);
  }
  return {};
}

/// Finds a group of the program by name. It must have the same size and stride.
Status findGroup(const moert_rank &rank, const moert_group *group, int32_t &index) {
  if (!group || !group->name)
    return invalid("expected a group but got null");
  for (size_t i = 0; i < rank.groups->size(); ++i) {
    const Group &known = (*rank.groups)[i];
    if (known.name != group->name)
      continue;
    if (known.size != group->size || known.stride != group->stride)
      return invalid("group '", known.name, "' has size ", known.size, " and stride ", known.stride,
                     " in the metadata, but ", group->size, " and ", group->stride, " here");
    index = static_cast<int32_t>(i);
    return {};
  }
  return invalid("unknown group '", group->name, "'");
}

/// Sets the group's index and the rank's place in it.
Status resolveGroup(const moert_rank &rank, const Op &entry, const moert_group *group, Call &call) {
  int32_t index = -1;
  MOERT_RETURN_IF_ERROR(findGroup(rank, group, index));
  call.place = index;
  call.member = (*rank.groups)[index].memberOf(rank.rank);
  call.members = group->size;
  if (!isCollective(call.kind))
    return {};
  if (entry.group != index)
    return invalid("expected the group that the metadata has for this op but got '", group->name, "'");
  call.group = index;
  return {};
}

Status buildCall(moert_rank &rank, int64_t op, moert_stream_t stream,
                 std::initializer_list<const moert_buffer *> operands, const moert_group *group, Call &call) {
  const Program &program = *rank.program;
  if (op < 0 || op >= std::ssize(program.ops))
    return invalid(range("an op", op, std::ssize(program.ops)));
  MOERT_RETURN_IF_ERROR(checkStream(rank, stream));
  const Op &entry = program.ops[op];
  if (entry.stream != stream)
    return invalid("expected stream '", program.streams[entry.stream],
                   "', which the metadata has for this op, but the program issues it on '", program.streams[stream],
                   "'");
  const KernelInfo &info = infoOf(call.kind);
  if (info.hasGroup)
    MOERT_RETURN_IF_ERROR(resolveGroup(rank, entry, group, call));
  call.op = static_cast<int32_t>(op);
  call.rank = rank.rank;
  if (rank.repetition.times && rank.repetition.iteration >= 0)
    call.repetition = rank.repetition;
  findCounts(call);
  complete(rank, call);
  return resolveOperands(rank, operands, call);
}

Status locate(const Status &status, const moert_rank &rank, int64_t op, Kind kind) {
  if (status.ok())
    return status;
  const std::vector<Op> &ops = rank.program->ops;
  std::string label = op >= 0 && op < std::ssize(ops) ? joined(" '", ops[op].label, "'") : "";
  return Status::error(status.code, "op ", op, " ", kindName(kind), label, ": ", status.message);
}

template <class Body> int32_t issueEvent(moert_rank_t rank, int64_t event, moert_stream_t stream, Body body) {
  return guarded([&]() -> Status {
    if (!rank)
      return invalid("expected a rank but got null");
    if (event < 0 || event >= rank->program->events)
      return invalid(range("an event", event, rank->program->events));
    MOERT_RETURN_IF_ERROR(checkStream(*rank, stream));
    return body(*rank->device);
  });
}

/// Checks op, stream, group and operands, then passes the call to the device or communicator. Operands and attributes
/// are those of the call's row in kernels.def; absent ones are null. Returns a moert_status.
int32_t issueCall(moert_rank_t rank, int64_t op, moert_stream_t stream, Kind kind,
                  std::initializer_list<const moert_buffer *> operands, std::initializer_list<int64_t> ints,
                  std::initializer_list<double> reals, const moert_group *group = nullptr) {
  return guarded([&]() -> Status {
    if (!rank)
      return invalid("expected a rank but got null");
    Call call;
    call.kind = kind;
    std::copy(ints.begin(), ints.end(), call.ints.begin());
    std::copy(reals.begin(), reals.end(), call.reals.begin());
    Status status = buildCall(*rank, op, stream, operands, group, call);
    if (status.ok())
      status = isCollective(kind) ? rank->communicator->issue(rank->rank, stream, call)
                                  : rank->device->launch(rank->rank, stream, call);
    return locate(status, *rank, op, kind);
  });
}

thread_local std::string lastMessage;

} // namespace

int32_t report(Status status) {
  if (!status.ok())
    lastMessage = std::move(status.message);
  return status.code;
}

const std::string &lastError() { return lastMessage; }

Status bindCall(moert_rank &rank, Call &call) {
  call.rank = rank.rank;
  if (call.routing)
    call.routing = rank.routing.find(call.routingPage);
  if (call.place >= 0)
    call.member = (*rank.groups)[call.place].memberOf(rank.rank);
  findCounts(call);
  if (Repetition &loop = call.repetition; loop.times)
    MOERT_RETURN_IF_ERROR(resolve(rank, *loop.buffer, loop.times));
  for (int i = 0; i < call.viewCount; ++i)
    if (call.buffers[i])
      MOERT_RETURN_IF_ERROR(resolve(rank, *call.buffers[i], call.views[i]));
  return {};
}

} // namespace moert

using namespace moert;

extern "C" {

const char *moert_last_error(void) { return lastError().c_str(); }

int32_t moert_record(moert_rank_t rank, int64_t event, moert_stream_t stream) {
  return issueEvent(rank, event, stream, [&](Device &device) { return device.record(rank->rank, event, stream); });
}

int32_t moert_wait(moert_rank_t rank, int64_t event, moert_stream_t stream) {
  return issueEvent(rank, event, stream, [&](Device &device) { return device.wait(rank->rank, event, stream); });
}

int32_t moert_repeat(moert_rank_t rank, const moert_buffer *times, int64_t most, moert_stream_t stream,
                     int64_t *count) {
  return guarded([&]() -> Status {
    if (!rank || !times || !count)
      return invalid("expected a rank, a buffer and a place for a number but got null");
    MOERT_RETURN_IF_ERROR(checkStream(*rank, stream));
    Repetition loop;
    loop.most = most;
    loop.buffer = times;
    if (Status status = resolve(*rank, *times, loop.times); !status.ok())
      return invalid("operand 'times': ", status.message);
    if (loop.times.dtype != MOERT_I32 || loop.times.elements() != 1 || most < 0)
      return invalid("expected 'times' to be one i32, and 'most' to be 0 or more");
    std::optional<int64_t> known;
    MOERT_RETURN_IF_ERROR(rank->device->readTimes(rank->rank, stream, loop.times, known));
    if (known)
      MOERT_RETURN_IF_ERROR(loop.check(*known));
    *count = known.value_or(most);
    // If the value is known, only calls of its iterations are issued, and they need not ask for it.
    rank->repetition = known ? Repetition() : loop;
    return {};
  });
}

int32_t moert_iteration(moert_rank_t rank, int64_t iteration) {
  return guarded([&]() -> Status {
    if (!rank)
      return invalid("expected a rank but got null");
    rank->repetition.iteration = iteration;
    return {};
  });
}

#define MOERT_ENTRY_POINTS
#include "moert/kernels.inc"

} // extern "C"
