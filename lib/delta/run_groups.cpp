// SPDX-License-Identifier: Apache-2.0
#include "delta/run_groups.hpp"

#include "delta/tensor_blocks.hpp"

#include <algorithm>

namespace wdelta {

GroupEncoder& RunGroups::encoder_for(std::size_t tensor, const Tensor& layout, std::uint64_t begin, const Ends& ends,
                                     CodedSegment& coded) {
  if (tensor_ == tensor) return encoder_;
  finish(coded);
  const ElementType type = element_type(layout);
  const auto elements_up_to = [&](std::uint64_t offset) {
    return (std::min(end_of_blocks_before(layout, offset), layout.end) - begin) / type.width_bytes;
  };
  encoder_.begin(type, {row_elements(layout), (begin - layout.begin) / type.width_bytes},
                 {elements_up_to(ends.segment), elements_up_to(ends.run), (ends.run - begin) / type.width_bytes});
  tensor_ = tensor;
  return encoder_;
}

void RunGroups::end_segment(bool ends_run, CodedSegment& coded) {
  if (ends_run || (tensor_ && encoder_.has_enough())) finish(coded);
  if (ends_run) encoder_.begin_run();
}

void RunGroups::finish(CodedSegment& coded) {
  if (!tensor_) return;
  coded.push_back({*tensor_, {}});
  encoder_.finish(coded.back().coded);
  tensor_.reset();
}

}  // namespace wdelta
