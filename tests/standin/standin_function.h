// SPDX-License-Identifier: Apache-2.0
// Fn<&Table::member> is the type of the function that the member points to.
#pragma once

namespace echelon::standin {

template <typename Table, typename F>
F* pointer_of(F* Table::*);

template <typename F>
struct Pointee;
template <typename F>
struct Pointee<F*> {
  using Type = F;
};

template <auto kMember>
using Fn = typename Pointee<decltype(pointer_of(kMember))>::Type;

}  // namespace echelon::standin
