//===- price_exchanges.cpp - seconds of exchanges, by the cost model ------===//
//
// price_exchanges PROFILE < rows. A row is `collective,nodes,members_per_node,bytes,form`, and form is `closed` or
// `link`. The group is the first members of each of the first nodes. Prints the seconds of each row, one per line.
//
//===----------------------------------------------------------------------===//
#include "moe/Cost/CostModel.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/Error.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/raw_ostream.h"

#include <iostream>
#include <map>

using namespace mlir::moe;

namespace {
struct Row {
  Collective collective = Collective::None;
  int64_t nodes = 0, perNode = 0, bytes = 0;
  CostForm form = CostForm::ClosedForm;
};
} // namespace

static llvm::Expected<Row> parse(llvm::StringRef line) {
  Row row;
  llvm::SmallVector<llvm::StringRef> cells;
  line.split(cells, ',');
  bool isNumber = cells.size() == 5 && llvm::to_integer(cells[1], row.nodes) &&
                  llvm::to_integer(cells[2], row.perNode) && llvm::to_integer(cells[3], row.bytes);
  if (isNumber)
    for (unsigned i = 1; i < kNumCollectives; ++i)
      if (getName(static_cast<Collective>(i)) == cells[0])
        row.collective = static_cast<Collective>(i);
  if (row.collective == Collective::None || (cells[4] != "closed" && cells[4] != "link"))
    return llvm::createStringError("expected 'collective,nodes,members_per_node,bytes,closed|link' but got '" + line +
                                   "'");
  row.form = cells[4] == "link" ? CostForm::LinkLevel : CostForm::ClosedForm;
  return row;
}

static GroupExchange makeExchange(const Row &row, int64_t devicesPerNode, std::vector<int64_t> &ranks) {
  ranks.clear();
  for (int64_t node = 0; node < row.nodes; ++node)
    for (int64_t device = 0; device < row.perNode; ++device)
      ranks.push_back(node * devicesPerNode + device);
  GroupExchange exchange;
  exchange.collective = row.collective;
  exchange.dtype = "f16";
  exchange.payload = row.bytes;
  exchange.ranks = ranks;
  return exchange;
}

int main(int argc, char **argv) {
  llvm::ExitOnError check("price_exchanges: ");
  if (argc != 2)
    check(llvm::createStringError("expected the path of a cluster profile"));
  ClusterProfile profile = check(ClusterProfile::load(argv[1]));
  std::map<std::pair<int64_t, CostForm>, std::unique_ptr<CostModel>> models;
  std::vector<int64_t> ranks;
  for (std::string line; std::getline(std::cin, line);) {
    Row row = check(parse(line));
    std::unique_ptr<CostModel> &model = models[{row.nodes, row.form}];
    if (!model)
      model = check(CostModel::create(profile, row.nodes * profile.devicesPerNode, row.form));
    GroupExchange exchange = makeExchange(row, profile.devicesPerNode, ranks);
    llvm::outs() << llvm::formatv("{0:e9}\n", check(model->getSeconds(exchange)));
  }
}
