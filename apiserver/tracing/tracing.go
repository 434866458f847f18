package tracing

import (
	"context"
	"net"
	"net/http"
	"slices"
	"strconv"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	semconv "go.opentelemetry.io/otel/semconv/v1.41.0"
	"go.opentelemetry.io/otel/trace"

	"github.com/keelson-dev/keelson/apiserver"
	"github.com/keelson-dev/keelson/apiserver/audit"
	"github.com/keelson-dev/keelson/authn"
)

// scope is the name of what makes the spans.
const scope = "github.com/keelson-dev/keelson/apiserver/tracing"

// monitoring is the group of those who watch over the cluster.
const monitoring = "system:monitoring"

// Tracer is an apiserver.Tracer. Make one with New.
type Tracer struct {
	tracer  trace.Tracer
	context propagation.TextMapPropagator
}

// New returns a tracer whose spans go to a provider. It is safe for concurrent use.
func New(p trace.TracerProvider) *Tracer {
	return &Tracer{p.Tracer(scope), propagation.NewCompositeTextMapPropagator(propagation.TraceContext{}, propagation.Baggage{})}
}

// Trace implements apiserver.Tracer.
func (t *Tracer) Trace(ctx context.Context, r *http.Request, about *apiserver.Traced) (_ context.Context, end func(code int)) {
	ctx = t.context.Extract(ctx, propagation.HeaderCarrier(r.Header))
	options := []trace.SpanStartOption{trace.WithSpanKind(trace.SpanKindServer), trace.WithTimestamp(about.Received)}
	if sent := trace.SpanContextFromContext(ctx); sent.IsValid() && !trusted(about.User) {
		options = append(options, trace.WithNewRoot(), trace.WithLinks(trace.Link{SpanContext: sent}))
	}
	ctx, span := t.tracer.Start(ctx, name(r.Method, about.Request), options...)
	if !span.IsRecording() {
		return ctx, func(int) { span.End() }
	}
	span.SetAttributes(attributes(r)...)
	span.SetAttributes(attribute.String("audit-id", about.AuditID))
	return ctx, func(code int) {
		if code != 0 {
			span.SetAttributes(semconv.HTTPResponseStatusCode(code))
		}
		if code >= http.StatusInternalServerError {
			span.SetStatus(codes.Error, "")
		}
		span.End()
	}
}

// trusted tells whose trace contexts are continued.
func trusted(user *authn.Identity) bool {
	return user != nil && (slices.Contains(user.Groups, authn.GroupMasters) || slices.Contains(user.Groups, monitoring))
}

// name is upstream's name of a request's span.
func name(method string, about *apiserver.Request) string {
	if !about.IsResource {
		return method
	}
	text := method + " /" + about.Prefix
	if about.Group != "" {
		text += "/" + about.Group
	}
	text += "/" + about.Version
	if about.Namespace != "" {
		text += "/namespaces/{:namespace}"
	}
	text += "/" + about.Resource
	if about.Name != "" {
		text += "/{:name}"
	}
	if about.Subresource != "" {
		text += "/" + about.Subresource
	}
	return text
}

// attributes are those of the semantic conventions for HTTP, and upstream's http.target, without the token that may be in it.
func attributes(r *http.Request) []attribute.KeyValue {
	scheme := "http"
	if r.TLS != nil {
		scheme = "https"
	}
	all := []attribute.KeyValue{
		semconv.HTTPRequestMethodKey.String(r.Method), semconv.URLScheme(scheme), semconv.URLPath(r.URL.Path),
		attribute.String("http.target", audit.RequestURI(r.URL)), semconv.NetworkProtocolVersion(strconv.Itoa(r.ProtoMajor) + "." + strconv.Itoa(r.ProtoMinor)),
	}
	if host, _, err := net.SplitHostPort(r.Host); r.Host != "" {
		if err != nil {
			host = r.Host
		}
		all = append(all, semconv.ServerAddress(host))
	}
	if peer, _, err := net.SplitHostPort(r.RemoteAddr); err == nil {
		all = append(all, semconv.NetworkPeerAddress(peer), semconv.ClientAddress(peer))
	}
	if agent := r.UserAgent(); agent != "" {
		all = append(all, semconv.UserAgentOriginal(agent))
	}
	return all
}
