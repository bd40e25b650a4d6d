// doc/reference/ports.md against the code. After a change: copy the table that the failure prints.
#include <fstream>
#include <sstream>
#include <vector>

#include <gtest/gtest.h>

#include "drivers/registry.h"

namespace metaroce {

TEST(ports_md, the_table_is_what_the_code_reports) {
  std::ifstream f(METAROCE_PORTS_MD);
  ASSERT_TRUE(f) << METAROCE_PORTS_MD;
  std::stringstream text;
  text << f.rdbuf();
  // The page documents the oldest DPDK; only tap depends on the version.
  std::vector<PortCapabilities> rows(port_kinds().begin(), port_kinds().end());
  rows[static_cast<std::size_t>(PortKind::kTap)].max_frame = 1518;
  EXPECT_NE(text.str().find(capability_table(rows)), std::string::npos) << "the table should be\n"
                                                                        << capability_table(rows);
  for (const PortCapabilities& k : port_kinds())
    EXPECT_NE(text.str().find(std::string("## ") + k.name + "\n"), std::string::npos) << k.name;
}

TEST(port_kinds, are_in_the_order_of_the_enumeration_and_found_by_name) {
  for (std::size_t i = 0; i < kPortKinds; ++i) {
    EXPECT_EQ(static_cast<std::size_t>(port_kinds()[i].kind), i);
    EXPECT_EQ(find_port_kind(port_kinds()[i].name), port_kinds()[i].kind);
  }
  EXPECT_EQ(find_port_kind("vhost"), std::nullopt);
}

}  // namespace metaroce
