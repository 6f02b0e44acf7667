//===- SpmdAxesTest.cpp - groups, axes and layouts against brute force ----===//
//
// Checks axes for every chain of (mp, ep, esp) in every world of up to 64 ranks, rank by rank, only from the definition
// of a group in design section 2 (rank r is member (r / stride) mod size).
//
//===----------------------------------------------------------------------===//
#include <set>
#include <vector>

#include "mlir/IR/Builders.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/MLIRContext.h"
#include "gtest/gtest.h"

#include "moe/Dialect/Moe/IR/MoeDialect.h"
#include "moe/Dialect/Moe/IR/SpmdAxes.h"

using namespace mlir;
using namespace mlir::moe;

namespace {

/// Partition of the ranks into instances: for each rank, the lowest rank of its instance.
using Partition = std::vector<int64_t>;

Partition getInstances(GroupAttr group, int64_t world) {
  Partition instances;
  for (int64_t rank = 0; rank < world; ++rank)
    instances.push_back(rank - rank / group.getStride() % group.getSize() * group.getStride());
  return instances;
}

/// Ranks that differ from each other only in the members of some of `groups`.
Partition join(ArrayRef<GroupAttr> groups, int64_t world) {
  Partition result(world);
  for (int64_t rank = 0; rank < world; ++rank) {
    result[rank] = rank;
    for (GroupAttr group : groups)
      result[rank] -= result[rank] / group.getStride() % group.getSize() * group.getStride();
  }
  return result;
}

class SpmdAxesTest : public ::testing::Test {
protected:
  SpmdAxesTest() { context.loadDialect<MoeDialect>(); }

  GroupAttr getGroup(int64_t size, int64_t stride) { return GroupAttr::get(&context, "g", size, stride); }
  LayoutAttr getLayout(ArrayRef<StringRef> groups) { return LayoutAttr::get(&context, groups); }

  /// Calls `check` for each division of each world of up to 64 ranks, which are at least a thousand.
  void forEachWorld(llvm::function_ref<void(ParallelAttr)> check) {
    int64_t count = 0;
    auto ignore = [&] { return mlir::detail::getDefaultDiagnosticEmitFn(&context)(); };
    ScopedDiagnosticHandler quiet(&context, [](Diagnostic &) { return success(); });
    for (int64_t world = 1; world <= 64; ++world)
      for (int64_t pp : {1, 2})
        for (int64_t mp = 1; mp <= world; ++mp)
          for (int64_t ep = 1; ep <= world; ++ep)
            for (int64_t esp = 1; ep * esp <= world; ++esp)
              for (int64_t cp : {1, 2, 3}) {
                if (world % (pp * cp * mp) != 0 || world % (pp * ep * esp) != 0)
                  continue;
                int64_t dp = world / (pp * cp * mp);
                auto parallel = ParallelAttr::getChecked(ignore, &context, world, pp, dp, mp, ep, esp, cp);
                if (!parallel)
                  continue;
                ++count;
                check(parallel);
                if (HasFatalFailure())
                  return;
              }
    EXPECT_GT(count, 1000);
  }

  MLIRContext context;
};

/// Union of the groups of getGroups, as a set of axes again. They must not overlap.
AxisSet getUnion(const SpmdAxes &axes, ArrayRef<GroupAttr> groups) {
  AxisSet all;
  for (GroupAttr group : groups) {
    AxisSet set = *axes.getAxes(group);
    EXPECT_TRUE((all & set).empty());
    all = all | set;
  }
  return all;
}

TEST_F(SpmdAxesTest, NamedGroupsHoldTheirRanks) {
  forEachWorld([&](ParallelAttr parallel) {
    SpmdAxes axes(parallel);
    int64_t world = parallel.getWorld();
    for (StringRef name : ParallelAttr::getGroupNames()) {
      GroupAttr group = parallel.getGroup(name);
      FailureOr<AxisSet> set = axes.getAxes(group);
      ASSERT_TRUE(succeeded(set)) << name.str();
      EXPECT_EQ(set->empty(), group.getSize() == 1) << name.str();
      // Printed as groups again, the axes divide the ranks as the group does.
      SmallVector<GroupAttr> groups = axes.getGroups(*set);
      EXPECT_EQ(groups.size(), group.getSize() == 1 ? 0u : 1u) << name.str();
      EXPECT_EQ(join(groups, world), getInstances(group, world)) << name.str();
    }
  });
}

TEST_F(SpmdAxesTest, StatesOfGroupsAreThoseOfTheirRanks) {
  forEachWorld([&](ParallelAttr parallel) {
    SpmdAxes axes(parallel);
    int64_t world = parallel.getWorld();
    for (StringRef left : ParallelAttr::getGroupNames())
      for (StringRef right : ParallelAttr::getGroupNames()) {
        GroupAttr a = parallel.getGroup(left), b = parallel.getGroup(right);
        // A group contains another one if each of its instances is a union of the other's.
        Partition outer = getInstances(a, world), inner = getInstances(b, world);
        bool contains = true, meet = false;
        for (int64_t rank = 0; rank < world; ++rank) {
          contains &= outer[rank] == outer[inner[rank]];
          for (int64_t other = 0; other < rank; ++other)
            meet |= outer[rank] == outer[other] && inner[rank] == inner[other];
        }
        EXPECT_EQ(axes.getAxes(a)->contains(*axes.getAxes(b)), contains) << left.str() << " " << right.str();
        EXPECT_EQ(!(*axes.getAxes(a) & *axes.getAxes(b)).empty(), meet) << left.str() << " " << right.str();
      }
  });
}

TEST_F(SpmdAxesTest, AnyGroupIsAcceptedExactlyOnBoundaries) {
  forEachWorld([&](ParallelAttr parallel) {
    SpmdAxes axes(parallel);
    std::set<int64_t> boundaries = {1};
    for (StringRef name : ParallelAttr::getGroupNames()) {
      GroupAttr group = parallel.getGroup(name);
      boundaries.insert({group.getStride(), group.getStride() * group.getSize()});
    }
    for (int64_t stride = 1; stride <= parallel.getWorld(); ++stride)
      for (int64_t size = 2; size * stride <= 2 * parallel.getWorld(); ++size)
        EXPECT_EQ(succeeded(axes.getAxes(getGroup(size, stride))),
                  boundaries.count(stride) && boundaries.count(stride * size))
            << size << " " << stride;
  });
}

/// Whether each boundary divides the next one, up to that of the world.
bool isChain(const std::set<int64_t> &boundaries, int64_t world) {
  int64_t lower = 1;
  for (int64_t upper : boundaries) {
    if (upper % lower != 0)
      return false;
    lower = upper;
  }
  return lower == world;
}

TEST_F(SpmdAxesTest, RefinedAxesHoldTheRanksOfEveryGroup) {
  forEachWorld([&](ParallelAttr parallel) {
    int64_t world = parallel.getWorld();
    const SpmdAxes ofWorld(parallel);
    std::set<int64_t> boundaries = {1};
    for (StringRef name : ParallelAttr::getGroupNames()) {
      GroupAttr group = parallel.getGroup(name);
      boundaries.insert({group.getStride(), group.getStride() * group.getSize()});
    }
    for (int64_t stride = 1; stride <= world; ++stride)
      for (int64_t size = 2; size * stride <= 2 * world; ++size) {
        SpmdAxes axes = ofWorld;
        GroupAttr group = getGroup(size, stride);
        std::set<int64_t> refined = boundaries;
        refined.insert({stride, stride * size});
        ASSERT_EQ(succeeded(axes.refine(group)), isChain(refined, world)) << size << " " << stride;
        // A refused refinement changes nothing.
        ASSERT_EQ(axes.getEach().size(), (isChain(refined, world) ? refined : boundaries).size() - 1);
        ASSERT_EQ(succeeded(axes.getAxes(group)), isChain(refined, world)) << size << " " << stride;
        if (!isChain(refined, world))
          continue;
        ASSERT_EQ(join(axes.getGroups(*axes.getAxes(group)), world), getInstances(group, world));
        for (StringRef name : ParallelAttr::getGroupNames()) {
          GroupAttr whole = parallel.getGroup(name);
          AxisSet set = *axes.getAxes(whole);
          ASSERT_EQ(join(axes.getGroups(set), world), getInstances(whole, world)) << name.str();
          // Casts keep their groups.
          ASSERT_EQ(axes.getGroups(set), ofWorld.getGroups(*ofWorld.getAxes(whole))) << name.str();
          ASSERT_EQ(*axes.getAxes(getLayout({"", name})), set) << name.str();
        }
      }
  });
}

TEST_F(SpmdAxesTest, GroupsThatDoNotFitTogetherAreRefused) {
  SpmdAxes axes(ParallelAttr::get(&context, /*world=*/12, /*pp=*/1, /*dp=*/12, /*mp=*/1, /*ep=*/12, /*esp=*/1));
  ASSERT_TRUE(succeeded(axes.refine(getGroup(2, 1))));
  EXPECT_TRUE(failed(axes.refine(getGroup(3, 1))));
  EXPECT_TRUE(failed(axes.refine(getGroup(24, 1))));
  EXPECT_TRUE(succeeded(axes.refine(getGroup(3, 2))));
  EXPECT_TRUE(succeeded(axes.refine(getGroup(1, 5))));
  EXPECT_EQ(axes.getEach().size(), 3u);
  EXPECT_TRUE(failed(axes.getAxes(getGroup(3, 1))));

  SmallVector<std::string> errors;
  ScopedDiagnosticHandler handler(&context, [&](Diagnostic &error) { errors.push_back(error.str()); });
  OwningOpRef<ModuleOp> module = ModuleOp::create(UnknownLoc::get(&context));
  EXPECT_TRUE(failed(axes.getAxes(*module, getGroup(3, 1))));
  ASSERT_EQ(errors.size(), 1u);
  EXPECT_NE(errors[0].find("expected stride and stride * size of group #moe.group<\"g\", 3, 1> to divide, or be "
                           "multiples of, those of the groups of the module's moe.parallel and of the program: 1, 2, "
                           "6, 12; and not to exceed the last, but got 1 and 3"),
            std::string::npos)
      << errors[0];
}

TEST_F(SpmdAxesTest, RefinedAxesHaveTheNamesOfTheirGroups) {
  SpmdAxes axes(ParallelAttr::get(&context, /*world=*/16, /*pp=*/1, /*dp=*/16, /*mp=*/1, /*ep=*/16, /*esp=*/1));
  GroupAttr node = GroupAttr::get(&context, "node", 4, 1), nodes = GroupAttr::get(&context, "nodes", 4, 4);
  ASSERT_TRUE(succeeded(axes.refine(node)));
  AxisSet inside = *axes.getAxes(node), between = *axes.getAxes(nodes);
  EXPECT_EQ(axes.describe(between), "'stride4'");
  ASSERT_TRUE(succeeded(axes.refine(nodes)));
  EXPECT_EQ(axes.describe(inside), "'node'");
  EXPECT_EQ(axes.describe(between), "'nodes'");
  EXPECT_EQ(axes.describe(inside | between), "'dp'");
}

TEST_F(SpmdAxesTest, GetGroupsCoversEverySetExactly) {
  forEachWorld([&](ParallelAttr parallel) {
    SpmdAxes axes(parallel);
    AxisSet all = *axes.getAxes(parallel.getGroup("world"));
    for (uint64_t bits = 0; bits <= all.bits; ++bits) {
      SmallVector<GroupAttr> groups = axes.getGroups({bits});
      EXPECT_EQ(getUnion(axes, groups).bits, bits);
      // There are as few groups as runs of neighbouring axes.
      EXPECT_EQ(groups.size(), static_cast<size_t>(llvm::popcount(bits & ~(bits << 1))));
      EXPECT_EQ(axes.describe({bits}) == "none", bits == 0);
    }
  });
}

TEST_F(SpmdAxesTest, LayoutsVaryOverTheirGroups) {
  forEachWorld([&](ParallelAttr parallel) {
    SpmdAxes axes(parallel);
    for (StringRef name : ParallelAttr::getGroupNames()) {
      FailureOr<AxisSet> set = axes.getAxes(getLayout({"", name}));
      ASSERT_TRUE(succeeded(set));
      EXPECT_EQ(*set, *axes.getAxes(parallel.getGroup(name)));
    }
    EXPECT_EQ(*axes.getAxes(getLayout({"ep", "", "esp"})), *axes.getAxes(parallel.getGroup("ep_esp")));
    EXPECT_TRUE(axes.getAxes(getLayout({"", ""}))->empty());
    EXPECT_TRUE(axes.getAxes(getLayout({}))->empty());
    EXPECT_TRUE(failed(axes.getAxes(getLayout({"tp"}))));
  });
}

TEST_F(SpmdAxesTest, NamesAreThoseOfTheWorld) {
  SpmdAxes axes(ParallelAttr::get(&context, /*world=*/16, /*pp=*/1, /*dp=*/4, /*mp=*/4, /*ep=*/4, /*esp=*/2));
  AxisSet esp = *axes.getAxes(getGroup(2, 1)), dp = *axes.getAxes(getGroup(4, 4));
  EXPECT_EQ(axes.describe(esp), "'esp'");
  EXPECT_EQ(axes.describe(dp), "'dp'");
  EXPECT_EQ(axes.describe(esp | dp), "'esp', 'dp'");
  EXPECT_EQ(axes.describe(*axes.getAxes(getGroup(2, 2))), "'stride2'");
  EXPECT_EQ(axes.describe({}), "none");
}

TEST_F(SpmdAxesTest, LayoutsGiveShards) {
  auto parallel = ParallelAttr::get(&context, /*world=*/16, /*pp=*/1, /*dp=*/4, /*mp=*/4, /*ep=*/4, /*esp=*/2);
  auto global = RankedTensorType::get({8, 6, 4}, Float32Type::get(&context));
  SmallVector<std::string> errors;
  ScopedDiagnosticHandler handler(&context, [&](Diagnostic &error) {
    errors.push_back(error.str());
    return success();
  });
  auto getLocal = [&](ArrayRef<StringRef> groups) {
    return getLayout(groups).getLocalType(global, parallel, "w", [&] { return emitError(UnknownLoc::get(&context)); });
  };
  FailureOr<RankedTensorType> local = getLocal({"ep", "", "esp"});
  ASSERT_TRUE(succeeded(local));
  EXPECT_EQ(*local, RankedTensorType::get({2, 6, 2}, Float32Type::get(&context)));
  EXPECT_TRUE(errors.empty());

  EXPECT_TRUE(failed(getLocal({"", "mp", ""})));
  EXPECT_TRUE(failed(getLocal({"tp", "", ""})));
  EXPECT_TRUE(failed(getLocal({"", ""})));
  EXPECT_TRUE(failed(getLocal({"dp", "", "ep"})));
  ASSERT_EQ(errors.size(), 4u);
  EXPECT_EQ(errors[0], "expected dimension 1 of 'w', 6, to be divisible by mp = 4");
  EXPECT_NE(errors[1].find("to name groups among dp, mp, cp, dp_cp, ep, esp, edp, ep_esp, pp, world"),
            std::string::npos);
  EXPECT_EQ(errors[2], "expected the layout of 'w' to have 3 dimensions but got #moe.layout<[], []>");
  EXPECT_EQ(errors[3], "expected the groups of the layout of 'w' not to overlap but got #moe.layout<[dp], [], [ep]>");

  // Two groups on one dimension multiply.
  Builder builder(&context);
  SmallVector<ArrayAttr> dims = {builder.getStrArrayAttr({"ep", "esp"}), builder.getArrayAttr({}),
                                 builder.getArrayAttr({})};
  auto both = LayoutAttr::get(&context, dims);
  EXPECT_EQ(*both.getParts(0, parallel), 8);
  EXPECT_EQ(both.getGroups(0).size(), 2u);
}

} // namespace
