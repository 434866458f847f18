package clientgo_test

import (
	"context"
	"testing"

	"k8s.io/client-go/tools/cache"

	"github.com/keelson-dev/keelson/informer/clientgo"
)

// shared is an informer that runs until the test ends and is in sync.
func shared(t *testing.T, s *source, share bool) *clientgo.Informer {
	t.Helper()
	i := clientgo.New(s, clientgo.Options{Share: share})
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		i.RunWithContext(ctx)
	}()
	t.Cleanup(func() { cancel(); <-ended })
	if !cache.WaitFor(ctx, "", i.HasSyncedChecker()) {
		t.Fatal("not in sync")
	}
	return i
}

// done reports whether a handler is done.
type done struct {
	cache.ResourceEventHandlerRegistration
}

func (done) Name() string { return "" }

func (d done) Done() <-chan struct{} {
	return d.ResourceEventHandlerRegistration.(interface{ ShutdownChan() <-chan struct{} }).ShutdownChan()
}
