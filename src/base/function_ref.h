// SPDX-License-Identifier: MIT
// function_ref.h: a callable that the caller keeps: code that calls it is compiled once, not for each lambda.
#pragma once

namespace freeway {

template <class Signature> class FunctionRef;

template <class Result, class... Arguments> class FunctionRef<Result(Arguments...)> {
 public:
  // `f` lives for as long as this object is called: as an argument does.
  template <class F>
  FunctionRef(const F& f)
      : object_(&f), call_([](const void* object, Arguments... arguments) -> Result {
          return (*static_cast<const F*>(object))(arguments...);
        }) {}
  Result operator()(Arguments... arguments) const { return call_(object_, arguments...); }

 private:
  const void* object_;
  Result (*call_)(const void* object, Arguments... arguments);
};

}  // namespace freeway
