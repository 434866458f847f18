package main

import (
	"flag"
	"fmt"
	"log/slog"
	"net/http"

	requests "github.com/keelson-dev/keelson/apiserver/tracing"
	"github.com/keelson-dev/keelson/cluster"
	"github.com/keelson-dev/keelson/lifecycle"
	store "github.com/keelson-dev/keelson/storage/tracing"
	"github.com/keelson-dev/keelson/tracing"
)

// spans says where spans of requests are sent, if anywhere.
type spans struct{ file string }

func (s *spans) define(f *flag.FlagSet) { f.StringVar(&s.file, "tracing-config-file", "", "") }

// wrap returns what continues traces over HTTP, nil if there are none.
func (s *spans) wrap() func(http.RoundTripper) http.RoundTripper {
	if s.file == "" {
		return nil
	}
	return tracing.Transport
}

// apply has requests and the store that the options have traced. What sends the spans is appended to beside.
func (s *spans) apply(o *cluster.Options, beside *[]lifecycle.Runnable, log *slog.Logger) error {
	if s.file == "" {
		return nil
	}
	config, err := tracing.Open(s.file)
	if err != nil {
		return fmt.Errorf("--tracing-config-file: %w", err)
	}
	p, err := tracing.New(config, tracing.Options{Service: "apiserver", Instance: o.Server.Address.String(), Logger: log})
	if err != nil {
		return fmt.Errorf("--tracing-config-file: %w", err)
	}
	o.Server.Tracer, o.Store = requests.New(p), store.New(o.Store)
	*beside = append(*beside, p)
	return nil
}
