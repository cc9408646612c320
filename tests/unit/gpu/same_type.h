// SPDX-License-Identifier: Apache-2.0
// Whether two function types are the same to a caller, whatever their handles, enumerations and
// structures are called.
#pragma once

#include <cstddef>
#include <type_traits>

namespace echelon {

template <std::size_t kSize, std::size_t kAlign>
struct Bytes {};  // a structure that is passed by value

template <typename T>
struct Plain;

template <typename T>
constexpr auto plain_value() {
  if constexpr (std::is_enum_v<T>) {
    return std::type_identity<Bytes<sizeof(T), 0>>{};  // an integer of that size
  } else if constexpr (std::is_class_v<T>) {
    return std::type_identity<Bytes<sizeof(T), alignof(T)>>{};
  } else {
    return std::type_identity<T>{};
  }
}

template <typename T>
struct Plain {
  using Type = typename decltype(plain_value<T>())::type;
};

template <typename T>
struct Plain<const T> {
  using Type = const typename Plain<T>::Type;
};

// A pointer to a structure may be one to a type that is nowhere defined.
template <typename T>
struct Plain<T*> {
  using Pointee = std::conditional_t<std::is_class_v<T>, void, T>;
  using Kept = std::conditional_t<std::is_const_v<T>, const Pointee, Pointee>;
  using Type = typename Plain<Kept>::Type*;
};

template <typename R, typename... A>
struct Plain<R(A...)> {
  using Type = typename Plain<R>::Type(typename Plain<A>::Type...);
};

template <typename A, typename B>
inline constexpr bool kSameType = std::is_same_v<typename Plain<A>::Type, typename Plain<B>::Type>;

// Of a function of a library's header, and the member of a table that points to it.
template <auto kFunction, auto kMember>
struct Matches;

template <typename F, F* kFunction, typename Table, typename G, G* Table::*kMember>
struct Matches<kFunction, kMember> : std::bool_constant<kSameType<F, G>> {};

}  // namespace echelon
