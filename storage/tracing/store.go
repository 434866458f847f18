package tracing

import (
	"context"
	"errors"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/keelson-dev/keelson/storage"
)

// scope is the name of what makes the spans.
const scope = "github.com/keelson-dev/keelson/storage/tracing"

// Store is a storage.Wrapper that traces. Make one with New.
type Store struct {
	storage.Store
}

// New returns a store that does what the inner one does. Closing the inner one is up to the caller.
func New(inner storage.Store) *Store { return &Store{inner} }

// Unwrap implements storage.Wrapper.
func (s *Store) Unwrap() storage.Store { return s.Store }

// Get implements storage.Reader.
func (s *Store) Get(ctx context.Context, key string) (storage.Record, error) {
	parent := recording(ctx)
	if parent == nil {
		return s.Store.Get(ctx, key)
	}
	ctx, span := start(ctx, parent, "Get", attribute.String("key", key))
	r, err := s.Store.Get(ctx, key)
	end(span, err)
	return r, err
}

// List implements storage.Reader.
func (s *Store) List(ctx context.Context, prefix string, o storage.ListOptions) (storage.Page, error) {
	parent := recording(ctx)
	if parent == nil {
		return s.Store.List(ctx, prefix, o)
	}
	ctx, span := start(ctx, parent, "List", attribute.String("prefix", prefix))
	page, err := s.Store.List(ctx, prefix, o)
	if err == nil {
		span.SetAttributes(attribute.Int("records", len(page.Records)))
	}
	end(span, err)
	return page, err
}

// Create implements storage.Writer.
func (s *Store) Create(ctx context.Context, key string, value []byte) (int64, error) {
	parent := recording(ctx)
	if parent == nil {
		return s.Store.Create(ctx, key, value)
	}
	ctx, span := start(ctx, parent, "Create", attribute.String("key", key), attribute.Int("bytes", len(value)))
	revision, err := s.Store.Create(ctx, key, value)
	end(span, err)
	return revision, err
}

// Update implements storage.Writer.
func (s *Store) Update(ctx context.Context, key string, value []byte, expected int64) (int64, error) {
	parent := recording(ctx)
	if parent == nil {
		return s.Store.Update(ctx, key, value, expected)
	}
	ctx, span := start(ctx, parent, "Update", attribute.String("key", key), attribute.Int("bytes", len(value)))
	revision, err := s.Store.Update(ctx, key, value, expected)
	end(span, err)
	return revision, err
}

// Delete implements storage.Writer.
func (s *Store) Delete(ctx context.Context, key string, expected int64) (int64, error) {
	parent := recording(ctx)
	if parent == nil {
		return s.Store.Delete(ctx, key, expected)
	}
	ctx, span := start(ctx, parent, "Delete", attribute.String("key", key))
	revision, err := s.Store.Delete(ctx, key, expected)
	end(span, err)
	return revision, err
}

// recording returns the span of a context, nil if it does not record.
func recording(ctx context.Context) trace.Span {
	if span := trace.SpanFromContext(ctx); span.IsRecording() {
		return span
	}
	return nil
}

// start begins a span below another one.
func start(ctx context.Context, parent trace.Span, operation string, attributes ...attribute.KeyValue) (context.Context, trace.Span) {
	return parent.TracerProvider().Tracer(scope).Start(ctx, operation+" storage", trace.WithSpanKind(trace.SpanKindClient), trace.WithAttributes(attributes...))
}

// end ends a span. What the contract foresees, such as a conflict, is no failure of the store.
func end(span trace.Span, err error) {
	if err != nil {
		span.RecordError(err)
		if !expected(err) {
			span.SetStatus(codes.Error, err.Error())
		}
	}
	span.End()
}

func expected(err error) bool {
	for _, is := range []error{storage.ErrNotFound, storage.ErrExists, storage.ErrConflict, storage.ErrCompacted, storage.ErrFutureRevision} {
		if errors.Is(err, is) {
			return true
		}
	}
	return false
}
