package apiserver

import (
	"context"
	"sync"

	"k8s.io/apimachinery/pkg/runtime"

	"github.com/keelson-dev/keelson/flowcontrol"
	"github.com/keelson-dev/keelson/registry"
)

// includesPending reports whether the client asks for objects whose initializers are not done, by a parameter that upstream
// had up to 1.13. Without an initialization it is ignored, as it is there now.
func (c *call) includesPending() bool {
	if !c.backend.registry.HidesPending() {
		return false
	}
	values, ok := c.r.URL.Query()["includeUninitialized"]
	included := false
	if ok {
		_ = runtime.Convert_Slice_string_To_bool(&values, &included, nil) // which never fails
	}
	return included
}

// waits says what becomes of a create whose object is pending. While it waits, it gives its seat to others: to the
// initializers, for one.
func (c *call) waits(ctx context.Context) registry.Waits {
	leave, _ := ctx.Value(seatKey{}).(func())
	return registry.Waits{Pending: c.includesPending(), Waiting: leave}
}

type seatKey struct{}

// withSeat lets a request leave its seat early. The ticket is given back by the function that it returns, or has been.
func withSeat(ctx context.Context, t flowcontrol.Ticket) (context.Context, func()) {
	leave := sync.OnceFunc(t.Done)
	return context.WithValue(ctx, seatKey{}, leave), leave
}
