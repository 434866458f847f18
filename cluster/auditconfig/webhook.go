package auditconfig

import (
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"k8s.io/client-go/rest"

	"github.com/keelson-dev/keelson/apiserver/audit/webhook"
	"github.com/keelson-dev/keelson/client/kubeconfig"
)

// Webhook are the values of kube-apiserver's flags about the webhook for audit events. NewWebhook has upstream's defaults.
type Webhook struct {
	// ConfigFile is --audit-webhook-config-file; empty is no webhook.
	ConfigFile string
	// Mode is --audit-webhook-mode: batch, blocking or blocking-strict.
	Mode string
	// Version is --audit-webhook-version: audit.k8s.io/v1.
	Version string
	// InitialBackoff is --audit-webhook-initial-backoff.
	InitialBackoff time.Duration
	// Batch are --audit-webhook-batch-*, for mode batch.
	Batch Batch
	// Truncate are --audit-webhook-truncate-*.
	Truncate Truncate
}

// Batch are the flags --audit-webhook-batch-*.
type Batch struct {
	BufferSize, MaxSize int           // --audit-webhook-batch-buffer-size, --audit-webhook-batch-max-size
	MaxWait             time.Duration // --audit-webhook-batch-max-wait
	ThrottleEnable      bool          // --audit-webhook-batch-throttle-enable
	ThrottleQPS         float64       // --audit-webhook-batch-throttle-qps
	ThrottleBurst       int           // --audit-webhook-batch-throttle-burst
}

// Truncate are the flags --audit-webhook-truncate-*.
type Truncate struct {
	Enabled                    bool  // --audit-webhook-truncate-enabled
	MaxBatchSize, MaxEventSize int64 // --audit-webhook-truncate-max-batch-size, --audit-webhook-truncate-max-event-size
}

// NewWebhook returns the values of flags that nobody gave.
func NewWebhook() Webhook {
	return Webhook{
		Mode: string(webhook.Batch), Version: "audit.k8s.io/v1", InitialBackoff: 10 * time.Second,
		Batch:    Batch{BufferSize: 10000, MaxSize: 400, MaxWait: 30 * time.Second, ThrottleEnable: true, ThrottleQPS: 10, ThrottleBurst: 15},
		Truncate: Truncate{MaxBatchSize: 10 << 20, MaxEventSize: 100 << 10},
	}
}

// Validate checks the values, if there is a webhook. Its words are upstream's.
func (w *Webhook) Validate() error {
	if w.ConfigFile == "" {
		return nil
	}
	errs := []error{w.validateBatch()}
	switch t := w.Truncate; {
	case t.MaxEventSize <= 0:
		errs = append(errs, fmt.Errorf("invalid audit truncate webhook max event size %v, must be a positive number", t.MaxEventSize))
	case t.MaxBatchSize < t.MaxEventSize:
		errs = append(errs, fmt.Errorf("invalid audit truncate webhook max batch size %v, must be greater than max event size (%v)", t.MaxBatchSize, t.MaxEventSize))
	}
	if w.Version != "audit.k8s.io/v1" {
		errs = append(errs, fmt.Errorf("invalid group version, allowed versions are %q", []string{"audit.k8s.io/v1"}))
	}
	return errors.Join(errs...)
}

func (w *Webhook) validateBatch() error {
	invalid := func(what string, value any) error {
		return fmt.Errorf("invalid audit batch webhook %s %v, must be a positive number", what, value)
	}
	modes := webhook.Modes()
	switch b := w.Batch; {
	case !slices.Contains(modes, webhook.Mode(w.Mode)):
		var names []string
		for _, m := range modes {
			names = append(names, string(m))
		}
		return fmt.Errorf("invalid audit webhook mode %s, allowed modes are %q", w.Mode, strings.Join(names, ","))
	case w.Mode != string(webhook.Batch):
		return nil // the others are not used
	case b.BufferSize <= 0:
		return invalid("buffer size", b.BufferSize)
	case b.MaxSize <= 0:
		return invalid("max batch size", b.MaxSize)
	case b.ThrottleEnable && b.ThrottleQPS <= 0:
		return invalid("throttle QPS", b.ThrottleQPS)
	case b.ThrottleEnable && b.ThrottleBurst <= 0:
		return invalid("throttle burst", b.ThrottleBurst)
	}
	return nil
}

// sink returns the webhook of valid values.
func (w *Webhook) sink(log *slog.Logger) (*webhook.Sink, error) {
	config, err := w.load()
	if err != nil {
		return nil, err
	}
	// What is 0 or less is as soon as possible, as for upstream, and not the default.
	o := webhook.Options{Mode: webhook.Mode(w.Mode), InitialBackoff: max(w.InitialBackoff, 1), Logger: log}
	if o.Mode == webhook.Batch {
		b := w.Batch
		o.Batching = webhook.Batching{
			BufferSize: b.BufferSize, MaxSize: b.MaxSize, MaxWait: max(b.MaxWait, time.Millisecond), NoThrottle: !b.ThrottleEnable,
		}
		if b.ThrottleEnable {
			o.Batching.QPS, o.Batching.Burst = float32(b.ThrottleQPS), b.ThrottleBurst
		}
	}
	if w.Truncate.Enabled {
		o.Truncate = &webhook.Truncate{MaxEventSize: w.Truncate.MaxEventSize, MaxBatchSize: w.Truncate.MaxBatchSize}
	}
	return webhook.New(config, o)
}

func (w *Webhook) load() (*rest.Config, error) {
	access, err := kubeconfig.Load(kubeconfig.Options{Path: w.ConfigFile})
	if err != nil {
		return nil, err
	}
	return access.Config, nil
}
