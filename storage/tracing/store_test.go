package tracing_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"go.opentelemetry.io/otel/codes"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/keelson-dev/keelson/storage"
	"github.com/keelson-dev/keelson/storage/memory"
	"github.com/keelson-dev/keelson/storage/storagetest"
	"github.com/keelson-dev/keelson/storage/tracing"
)

// TestContract: the store is as good as the one behind it.
func TestContract(t *testing.T) {
	storagetest.Run(t, storagetest.Backend{
		Open: func(t testing.TB) storage.Store {
			store := memory.New(memory.Options{History: 200})
			t.Cleanup(func() { _ = store.Close() })
			return tracing.New(store)
		},
		Forget: storagetest.ForgetByWriting(1000),
	})
}

var errDisk = errors.New("the disk is full")

// broken is a store that fails.
type broken struct{ storage.Store }

func (broken) Create(context.Context, string, []byte) (int64, error) { return 0, errDisk }

// TestSpans: each call is a span below the one that it is made in, with its key and its outcome.
func TestSpans(t *testing.T) {
	inner := memory.New(memory.Options{})
	defer inner.Close()
	store, recorder := tracing.New(inner), tracetest.NewSpanRecorder()
	if store.Unwrap() != inner {
		t.Error("it wraps another store")
	}
	tracer := sdk.NewTracerProvider(sdk.WithSpanProcessor(recorder)).Tracer("test")
	ctx, parent := tracer.Start(t.Context(), "request")
	created, err := store.Create(ctx, "/a", []byte("xy"))
	if err != nil {
		t.Fatal(err)
	}
	updated, err := store.Update(ctx, "/a", []byte("xyz"), created)
	if err != nil {
		t.Fatal(err)
	}
	record, err := store.Get(ctx, "/a")
	page, listErr := store.List(ctx, "/", storage.ListOptions{})
	if err != nil || listErr != nil || string(record.Value) != "xyz" || len(page.Records) != 1 {
		t.Errorf("%v, %v, %v, %v", record, err, page, listErr)
	}
	_, missing := store.Get(ctx, "/b")
	_, conflict := store.Update(ctx, "/a", nil, created)
	if !errors.Is(missing, storage.ErrNotFound) || !errors.Is(conflict, storage.ErrConflict) {
		t.Errorf("%v, %v", missing, conflict)
	}
	if _, err := store.Delete(ctx, "/a", updated); err != nil {
		t.Error(err)
	}
	if _, err := tracing.New(broken{inner}).Create(ctx, "/c", nil); !errors.Is(err, errDisk) {
		t.Error(err)
	}
	want := []string{
		"Create storage key=/a bytes=2", "Update storage key=/a bytes=3", "Get storage key=/a", "List storage prefix=/ records=1",
		"Get storage key=/b, with 1 event", "Update storage key=/a bytes=0, with 1 event", "Delete storage key=/a",
		"Create storage key=/c bytes=0, with 1 event, failed with the disk is full",
	}
	var got []string
	for _, s := range recorder.Ended() {
		line := s.Name()
		for _, a := range s.Attributes() {
			line += " " + string(a.Key) + "=" + a.Value.String()
		}
		if len(s.Events()) == 1 {
			line += ", with 1 event"
		}
		if s.Status().Code == codes.Error {
			line += ", failed with " + s.Status().Description
		}
		if s.Parent().SpanID() != parent.SpanContext().SpanID() {
			line += ", alone"
		}
		got = append(got, line)
	}
	if !slices.Equal(got, want) {
		t.Errorf("spans:\n%s\nwant:\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// TestUntraced: nothing is recorded of a call that is in no trace, or in one that is not sampled, and it takes no memory.
func TestUntraced(t *testing.T) {
	inner := memory.New(memory.Options{})
	defer inner.Close()
	store, recorder := tracing.New(inner), tracetest.NewSpanRecorder()
	tracer := sdk.NewTracerProvider(sdk.WithSampler(sdk.NeverSample()), sdk.WithSpanProcessor(recorder)).Tracer("test")
	unsampled, span := tracer.Start(t.Context(), "request")
	defer span.End()
	for name, ctx := range map[string]context.Context{"no trace": t.Context(), "not sampled": unsampled} {
		if detector {
			continue // which allocates by itself
		}
		plain := testing.AllocsPerRun(100, func() { _, _ = inner.Get(ctx, "/a") })
		if got := testing.AllocsPerRun(100, func() { _, _ = store.Get(ctx, "/a") }); got > plain {
			t.Errorf("%s: %v allocations, %v without", name, got, plain)
		}
	}
	if got := recorder.Ended(); len(got) > 0 {
		t.Errorf("%d spans", len(got))
	}
}
