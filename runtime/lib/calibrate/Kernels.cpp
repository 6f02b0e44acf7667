//===- Kernels.cpp - every kernel that is no product ----------------------===//

#include "calibrate/Calibrate.h"
#include "moert/shadows.h"

#include <iterator>
#include <memory>
#include <numeric>

namespace moert::calibrate {
namespace {

constexpr int64_t kColumns = 512;
constexpr int64_t kExperts = 64, kChoices = 4;

/// A kernel on S rows. Operands stand in the order of the ABI.
struct KernelCase {
  Kind kind;
  std::vector<int64_t> params; ///< those that the entry names
  std::function<void(Call &, Pool &, int64_t)> fill;
};

void addViews(Call &call, std::initializer_list<View> views) {
  for (const View &view : views)
    call.views[static_cast<size_t>(call.viewCount++)] = view;
}

/// A slot of its own for each choice, neighbours apart; in memory of its own that the call's maker keeps.
View makeSlots(int64_t tokens, int64_t choices) {
  // All calls of one size share a table: the kernels only read it.
  static std::vector<std::unique_ptr<std::vector<int32_t>>> tables;
  int64_t count = tokens * choices;
  for (const auto &table : tables)
    if (static_cast<int64_t>(table->size()) == count)
      return {table->data(), MOERT_I32, 2, {tokens, choices}};
  // A step that has no divisor in common with the count visits every slot.
  int64_t step = 617;
  while (std::gcd(step, count) != 1)
    step += 2;
  auto &table = tables.emplace_back(std::make_unique<std::vector<int32_t>>());
  for (int64_t i = 0; i < count; ++i)
    table->push_back(static_cast<int32_t>(i * step % count));
  return {table->data(), MOERT_I32, 2, {tokens, choices}};
}

bool isGated(int64_t activation) { return activation == MOERT_SWIGLU || activation == MOERT_SWIGLU_CLAMPED; }

void addActivations(std::vector<KernelCase> &cases) {
  for (int64_t kind = MOERT_RELU; kind <= MOERT_SIGMOID; ++kind) {
    int64_t width = isGated(kind) ? 2 : 1;
    cases.push_back({Kind::Activation, {kind}, [=](Call &call, Pool &pool, int64_t rows) {
                       call.ints = {kind};
                       addViews(call, {pool.input({rows, kColumns}), View(), pool.output({rows, kColumns / width})});
                     }});
    cases.push_back({Kind::ActivationGrad, {kind}, [=](Call &call, Pool &pool, int64_t rows) {
                       call.ints = {kind};
                       addViews(call, {pool.input({rows, kColumns}), pool.input({rows, kColumns / width}), View(),
                                       pool.output({rows, kColumns})});
                     }});
  }
}

void addElementwise(std::vector<KernelCase> &cases) {
  cases.push_back(
      {Kind::Add, {}, [](Call &call, Pool &pool, int64_t rows) {
         addViews(call, {pool.input({rows, kColumns}), pool.input({rows, kColumns}), pool.output({rows, kColumns})});
       }});
  for (Kind kind : {Kind::Scale, Kind::Copy})
    cases.push_back({kind, {}, [](Call &call, Pool &pool, int64_t rows) {
                       call.reals[0] = 0.5;
                       addViews(call, {pool.input({rows, kColumns}), pool.output({rows, kColumns})});
                     }});
  cases.push_back(
      {Kind::BiasAdd, {}, [](Call &call, Pool &pool, int64_t rows) {
         call.reals[0] = 1;
         addViews(call, {pool.input({rows, kColumns}), pool.input({kColumns}), View(), pool.output({rows, kColumns})});
       }});
  cases.push_back({Kind::BiasGrad, {}, [](Call &call, Pool &pool, int64_t rows) {
                     call.reals[0] = 1;
                     addViews(call, {pool.input({rows, kColumns}), View(), View(), pool.output({kColumns})});
                   }});
  cases.push_back({Kind::RowScale, {}, [](Call &call, Pool &pool, int64_t rows) {
                     addViews(call,
                              {pool.input({rows, kColumns}), pool.input({rows, 1}), pool.output({rows, kColumns})});
                   }});
  cases.push_back({Kind::RowDot, {}, [](Call &call, Pool &pool, int64_t rows) {
                     addViews(call,
                              {pool.input({rows, kColumns}), pool.input({rows, kColumns}), pool.output({rows, 1})});
                   }});
}

void addShapes(std::vector<KernelCase> &cases) {
  cases.push_back({Kind::Slice, {}, [](Call &call, Pool &pool, int64_t rows) {
                     call.ints = {1, 1, 2};
                     addViews(call, {pool.input({rows, 2, kColumns}), pool.output({rows, 1, kColumns})});
                   }});
  cases.push_back({Kind::Dump, {}, [](Call &call, Pool &pool, int64_t rows) {
                     call.ints = {1, 1};
                     addViews(call, {pool.input({rows, kColumns}), pool.output({rows, 2 * kColumns})});
                   }});
  cases.push_back({Kind::LocalReduce, {}, [](Call &call, Pool &pool, int64_t rows) {
                     call.ints = {1, 1};
                     addViews(call, {pool.input({rows, 2 * kColumns}), pool.output({rows, kColumns})});
                   }});
}

void addTokens(std::vector<KernelCase> &cases) {
  cases.push_back(
      {Kind::Dispatch, {}, [](Call &call, Pool &pool, int64_t rows) {
         addViews(call, {pool.input({rows, kColumns}), makeSlots(rows, 2), View(), pool.output({2 * rows, kColumns})});
       }});
  cases.push_back({Kind::Combine, {}, [](Call &call, Pool &pool, int64_t rows) {
                     addViews(call, {pool.input({2 * rows, kColumns}), makeSlots(rows, 2), pool.input({rows, 2}),
                                     pool.output({rows, kColumns})});
                   }});
  cases.push_back({Kind::SlotDot, {}, [](Call &call, Pool &pool, int64_t rows) {
                     addViews(call, {pool.input({rows, kColumns}), pool.input({2 * rows, kColumns}), makeSlots(rows, 2),
                                     pool.output({rows, 2})});
                   }});
  cases.push_back({Kind::SliceCounts, {}, [](Call &call, Pool &pool, int64_t rows) {
                     int64_t experts = rows * kExperts;
                     call.ints = {experts, 0, 2};
                     View counts = pool.outputOf(MOERT_I32, {1, experts});
                     std::fill_n(counts.as<int32_t>(), experts, 1);
                     addViews(call, {counts, pool.outputOf(MOERT_I32, {1, experts})});
                   }});
}

/// Any experts do: the slots of as many tokens, which are all below tokens * kChoices, do not.
View makeChoices(Pool &pool, int64_t tokens) {
  View experts = pool.outputOf(MOERT_I32, {tokens, kChoices});
  for (int64_t i = 0; i < tokens * kChoices; ++i)
    experts.as<int32_t>()[i] = static_cast<int32_t>(i * 7 % kExperts);
  return experts;
}

/// Rows are tokens times kColumns / kExperts, so that sizes are like those of the others.
void addRouting(std::vector<KernelCase> &cases) {
  for (int64_t score : {MOERT_SOFTMAX, MOERT_SIGMOID_SCORE}) {
    cases.push_back({Kind::Route, {score}, [=](Call &call, Pool &pool, int64_t rows) {
                       int64_t tokens = rows * kColumns / kExperts, capacity = 2 * tokens * kChoices / kExperts;
                       call.ints = {score, 1, 1, 1, MOERT_GROUP_MAX, capacity, 1, 1, 0, -1, 1, 1, 1, 0};
                       call.reals[0] = 1;
                       auto choices = [&](int32_t type) { return pool.outputOf(type, {tokens, kChoices}); };
                       addViews(call, {pool.input({tokens, kExperts}), View(), pool.output({tokens, kExperts}),
                                       choices(MOERT_I32), choices(MOERT_I32), choices(pool.type()),
                                       pool.outputOf(MOERT_I32, {1, kExperts}), pool.output({})});
                     }});
    cases.push_back({Kind::RouteGrad, {score}, [=](Call &call, Pool &pool, int64_t rows) {
                       int64_t tokens = rows * kColumns / kExperts;
                       call.ints = {score, 1, 1};
                       call.reals[0] = 1;
                       addViews(call,
                                {pool.input({tokens, kExperts}), makeChoices(pool, tokens),
                                 pool.input({tokens, kChoices}), pool.input({}), pool.output({tokens, kExperts})});
                     }});
  }
}

/// Rows are tokens times kColumns / kExperts to divide, and sources to choose by, of as many workers as there can be.
void addShadows(std::vector<KernelCase> &cases) {
  for (int64_t policy : {MOERT_SHADOWS_ALGORITHM1, MOERT_SHADOWS_PREFIX, MOERT_SHADOWS_SIMULATE})
    cases.push_back({Kind::ChooseShadows, {policy}, [=](Call &call, Pool &pool, int64_t rows) {
                       int64_t workers = std::gcd(rows, kExperts);
                       call.ints = {policy, workers, std::gcd<int64_t>(workers, 8), kExperts / 4, 0, 1};
                       call.reals = {1e-6, 1e-6, 1e-6, 1e-6, 1e-5, 1e-5};
                       View counts = pool.outputOf(MOERT_I32, {rows, kExperts});
                       for (int64_t i = 0; i < rows * kExperts; ++i)
                         counts.as<int32_t>()[i] = static_cast<int32_t>(1000 / (i % kExperts + 1));
                       addViews(call, {counts, pool.outputOf(MOERT_I32, {1, kExperts})});
                     }});
  cases.push_back({Kind::DivideChoices, {}, [](Call &call, Pool &pool, int64_t rows) {
                     int64_t tokens = rows * kColumns / kExperts;
                     call.ints = {1, 0};
                     View experts = makeChoices(pool, tokens), shadows = pool.outputOf(MOERT_I32, {1, kExperts});
                     for (int64_t e = 0; e < kExperts; ++e)
                       shadows.as<int32_t>()[e] = e % 4 == 0;
                     auto integers = [&](int64_t count, int64_t columns) {
                       return pool.outputOf(MOERT_I32, {count, columns});
                     };
                     addViews(call, {experts, shadows, integers(tokens, kChoices), integers(1, kExperts),
                                     integers(tokens, kChoices), integers(1, kExperts / 4)});
                   }});
}

std::vector<KernelCase> allCases() {
  std::vector<KernelCase> cases;
  addActivations(cases);
  addElementwise(cases);
  addShapes(cases);
  addTokens(cases);
  addRouting(cases);
  addShadows(cases);
  return cases;
}

/// As the compiler counts them: all operands, but of a slice only the part that is read.
double countBytes(const Call &call) {
  if (call.kind == Kind::Slice)
    return 2 * static_cast<double>(call.views[1].bytes());
  double bytes = 0;
  for (int i = 0; i < call.viewCount; ++i)
    if (call.views[static_cast<size_t>(i)])
      bytes += static_cast<double>(call.views[static_cast<size_t>(i)].bytes());
  return bytes;
}

} // namespace

Status calibrateKernels(Pool &pool, const Settings &settings, std::vector<KernelFit> &fits) {
  pool.setReach(kRecentBytes);
  const std::vector<KernelCase> cases = allCases();
  std::vector<int64_t> sizes = {1, 4, 16, 64, 256, 1024, 4096};
  if (settings.quick)
    sizes = {1, 32, 1024};
  std::vector<MakeCall> calls;
  for (const KernelCase &one : cases)
    for (int64_t rows : sizes)
      calls.push_back([&pool, &one, rows] {
        pool.beginCall();
        Call call;
        call.kind = one.kind;
        one.fill(call, pool, rows);
        return call;
      });
  const int passes = settings.quick ? 3 : 7;
  std::vector<double> seconds;
  std::string dtype = dtypeName(pool.type());
  Progress progress(settings.progress, "kernels of " + dtype, calls.size() * static_cast<size_t>(passes));
  if (Status status = measureKernels(calls, passes, progress, seconds); !status.ok())
    return status;
  for (size_t c = 0; c < cases.size(); ++c) {
    KernelFit &fit = fits.emplace_back();
    fit.calls = {kindName(cases[c].kind), cases[c].params};
    fit.dtype = dtype;
    for (size_t s = 0; s < sizes.size(); ++s)
      fit.samples.push_back({countBytes(calls[c * sizes.size() + s]()), seconds[c * sizes.size() + s]});
    fit.fit = fitLine(fit.samples);
    if (fit.fit.perByte <= 0)
      return Status::error(MOERT_ERROR_INTERNAL, "the times of '" + fit.calls.kernel +
                                                     "' do not grow with its size: too much else runs on this machine");
  }
  return {};
}

} // namespace moert::calibrate
