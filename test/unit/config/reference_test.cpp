#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

#include "config/load.h"

namespace metaroce::config {

TEST(Reference, page_is_current) {
  std::ifstream in(METAROCE_REFERENCE_PAGE);
  ASSERT_TRUE(in) << METAROCE_REFERENCE_PAGE;
  std::ostringstream page;
  page << in.rdbuf();
  EXPECT_EQ(page.str(), reference_markdown()) << "run: ninja -C build config-reference";
}

}  // namespace metaroce::config
