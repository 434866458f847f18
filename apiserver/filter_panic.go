package apiserver

import (
	"fmt"
	"log/slog"
	"net/http"
	"runtime/debug"
)

// panicFilter answers for handlers that panic.
type panicFilter struct {
	log *slog.Logger
}

// answer is deferred. A response that has begun is broken off: more text would pass for a part of it.
func (f *panicFilter) answer(x *exchange) {
	p := recover()
	if p == nil {
		return
	}
	value, stack := p, []byte(nil)
	if carried, ok := p.(*handlerPanic); ok {
		value, stack = carried.value, carried.stack
	}
	if value == http.ErrAbortHandler {
		panic(value)
	}
	if stack == nil {
		stack = debug.Stack()
	}
	f.log.Error("request handler panicked", "method", x.method, "path", x.request.Path, "audit-id", x.shortID(), "panic", fmt.Sprint(value), "stack", string(stack))
	if x.code != 0 {
		panic(http.ErrAbortHandler)
	}
	http.Error(x.w, "This request caused apiserver to panic. Look in the logs for details.", http.StatusInternalServerError)
}
