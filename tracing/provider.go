package tracing

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/exporters/otlp/otlptrace"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracegrpc"
	"go.opentelemetry.io/otel/sdk/resource"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	semconv "go.opentelemetry.io/otel/semconv/v1.41.0"
	"go.opentelemetry.io/otel/trace"
)

// Options of a Provider.
type Options struct {
	// Service is the name of the program, such as "apiserver"; Instance tells it from others of that name.
	Service, Instance string
	// Flush is how long the last spans may take when Run ends; 0 is 5 s.
	Flush time.Duration
	// Logger gets a line if the last spans were lost; nil discards.
	Logger *slog.Logger
}

// Provider is a trace.TracerProvider that sends spans to a collector. Make one with New.
type Provider struct {
	trace.TracerProvider
	spans    *sdk.TracerProvider
	exporter *otlptrace.Exporter
	sampler  *whileRunning
	options  Options
}

// maxValue bounds attributes, in bytes: clients choose their URLs and names, and spans wait in memory.
const maxValue = 2048

// whileRunning samples nothing before the provider runs.
type whileRunning struct {
	sdk.Sampler
	runs atomic.Bool
}

// ShouldSample implements sdk.Sampler.
func (s *whileRunning) ShouldSample(p sdk.SamplingParameters) sdk.SamplingResult {
	if !s.runs.Load() {
		return sdk.NeverSample().ShouldSample(p)
	}
	return s.Sampler.ShouldSample(p)
}

// New makes a provider. Until it runs, and afterwards, nothing is recorded. Like every exporter of OpenTelemetry it takes
// what Config does not say from the environment's OTEL variables.
func New(c Config, o Options) (*Provider, error) {
	if err := c.validate(nil).ToAggregate(); err != nil {
		return nil, err
	}
	o.Flush = cmp.Or(o.Flush, 5*time.Second)
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	options := []otlptracegrpc.Option{otlptracegrpc.WithInsecure()}
	if c.Endpoint != nil {
		options = append(options, otlptracegrpc.WithEndpoint(*c.Endpoint))
	}
	exporter := otlptracegrpc.NewUnstarted(options...)
	sampler := sdk.NeverSample()
	if rate := c.SamplingRatePerMillion; rate != nil && *rate > 0 {
		sampler = sdk.TraceIDRatioBased(float64(*rate) / millionth)
	}
	running := &whileRunning{Sampler: sdk.ParentBased(sampler)}
	limits := sdk.NewSpanLimits()
	limits.AttributeValueLengthLimit = maxValue
	spans := sdk.NewTracerProvider(
		sdk.WithSampler(running), sdk.WithRawSpanLimits(limits),
		sdk.WithResource(resource.NewSchemaless(semconv.ServiceName(o.Service), semconv.ServiceInstanceID(o.Instance))),
	)
	return &Provider{spans, spans, exporter, running, o}, nil
}

// Run connects, when there are spans, and sends them until the context ends, and then those that are left. It is called
// once. It fails if the endpoint cannot be one; a collector that does not answer is not an error.
func (p *Provider) Run(ctx context.Context) error {
	if err := p.exporter.Start(ctx); err != nil {
		return fmt.Errorf("connecting to the collector of traces: %w", err)
	}
	p.spans.RegisterSpanProcessor(sdk.NewBatchSpanProcessor(p.exporter))
	p.sampler.runs.Store(true)
	<-ctx.Done()
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), p.options.Flush)
	defer cancel()
	if err := p.spans.Shutdown(last); err != nil {
		p.options.Logger.Warn("the last spans were not sent", "error", err)
	}
	return nil
}
