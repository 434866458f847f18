package bridge_test

import (
	"context"
	"testing"
)

// ctx is a context that also clean-up functions may use.
func ctx(t testing.TB) context.Context { return context.WithoutCancel(t.Context()) }
