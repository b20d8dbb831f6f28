package schema

import (
	"reflect"
	"runtime"
	"strings"
)

// FuncName is the name of a function that is declared on its own, such as pkg.choose, and of each instance of a generic
// one. It is empty for a nil function, a closure, a method and a method value: two of those may have the same code and
// hold different things, or not say so.
func FuncName(fn any) string {
	v := reflect.ValueOf(fn)
	if v.Kind() != reflect.Func || v.IsNil() {
		return ""
	}
	name := runtime.FuncForPC(v.Pointer()).Name()
	within := strings.TrimSuffix(name[strings.LastIndex(name, "/")+1:], "[...]")
	if strings.Count(within, ".") != 1 || strings.HasSuffix(within, "-fm") {
		return ""
	}
	return name
}

// SameFunc tells if two functions are one that is declared on its own.
func SameFunc(a, b any) bool {
	return FuncName(a) != "" && reflect.ValueOf(a).Pointer() == reflect.ValueOf(b).Pointer()
}
