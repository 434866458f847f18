package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/keelson-dev/keelson/apiserver/audit"
	"github.com/keelson-dev/keelson/cluster"
	"github.com/keelson-dev/keelson/cluster/auditconfig"
)

// auditing holds the flags about the audit of requests.
type auditing struct {
	file      string // the log; empty is none
	policy    string // a file
	retention retention
	webhook   auditconfig.Webhook
}

func (a *auditing) define(f *flag.FlagSet) {
	f.StringVar(&a.file, "audit-log", "DIR/audit.log", "")
	f.StringVar(&a.policy, "audit-policy", "", "")
	f.StringVar(&a.policy, "audit-policy-file", "", "")
	a.retention.define(f)
	w := &a.webhook
	*w = auditconfig.NewWebhook()
	f.StringVar(&w.ConfigFile, "audit-webhook-config-file", "", "")
	f.StringVar(&w.Mode, "audit-webhook-mode", w.Mode, "")
	f.StringVar(&w.Version, "audit-webhook-version", w.Version, "")
	f.DurationVar(&w.InitialBackoff, "audit-webhook-initial-backoff", w.InitialBackoff, "")
	f.IntVar(&w.Batch.BufferSize, "audit-webhook-batch-buffer-size", w.Batch.BufferSize, "")
	f.IntVar(&w.Batch.MaxSize, "audit-webhook-batch-max-size", w.Batch.MaxSize, "")
	f.DurationVar(&w.Batch.MaxWait, "audit-webhook-batch-max-wait", w.Batch.MaxWait, "")
	f.BoolVar(&w.Batch.ThrottleEnable, "audit-webhook-batch-throttle-enable", w.Batch.ThrottleEnable, "")
	f.Float64Var(&w.Batch.ThrottleQPS, "audit-webhook-batch-throttle-qps", w.Batch.ThrottleQPS, "")
	f.IntVar(&w.Batch.ThrottleBurst, "audit-webhook-batch-throttle-burst", w.Batch.ThrottleBurst, "")
	f.BoolVar(&w.Truncate.Enabled, "audit-webhook-truncate-enabled", w.Truncate.Enabled, "")
	f.Int64Var(&w.Truncate.MaxBatchSize, "audit-webhook-truncate-max-batch-size", w.Truncate.MaxBatchSize, "")
	f.Int64Var(&w.Truncate.MaxEventSize, "audit-webhook-truncate-max-event-size", w.Truncate.MaxEventSize, "")
}

// check is called after the flags have been parsed.
func (a *auditing) check(f *flag.FlagSet) error {
	errs := []error{a.retention.check(f, a.file), a.webhook.Validate()}
	if a.webhook.ConfigFile == "" {
		f.Visit(func(given *flag.Flag) {
			if strings.HasPrefix(given.Name, "audit-webhook-") {
				errs = append(errs, fmt.Errorf("--%s: there is no audit webhook: add --audit-webhook-config-file, or leave it out", given.Name))
			}
		})
	}
	return errors.Join(errs...)
}

// retention holds the flags for keeping the audit log. The flags are kube-apiserver's.
type retention struct {
	days, files, size int
	named             []string // the flags that were given
}

const (
	auditDays  = 30
	auditFiles = 50
	auditSize  = 20 // MiB
	// maxDays and maxSize are upper limits for plausible values.
	maxDays = 36500
	maxSize = 1 << 20
)

func (r *retention) define(f *flag.FlagSet) {
	f.IntVar(&r.days, "audit-log-maxage", auditDays, "")
	f.IntVar(&r.files, "audit-log-maxbackup", auditFiles, "")
	f.IntVar(&r.size, "audit-log-maxsize", auditSize, "")
}

// check is called after the flags have been parsed.
func (r *retention) check(f *flag.FlagSet, file string) error {
	f.Visit(func(given *flag.Flag) {
		if strings.HasPrefix(given.Name, "audit-log-max") {
			r.named = append(r.named, "--"+given.Name)
		}
	})
	switch {
	case r.days < 0 || r.days > maxDays:
		return fmt.Errorf("--audit-log-maxage %d: choose a number of days from 1 to %d, or 0 to keep old files whatever their age", r.days, maxDays)
	case r.files < 0:
		return fmt.Errorf("--audit-log-maxbackup %d: choose how many old files are kept, or 0 for all", r.files)
	case r.size < 0 || r.size > maxSize:
		return fmt.Errorf("--audit-log-maxsize %d: choose a number of MiB from 1 to %d, or 0 for a file that is never put aside", r.size, maxSize)
	case file == "" && len(r.named) > 0:
		return fmt.Errorf("%s: there is no audit log, for --audit-log is empty: name a file, or leave %[1]s out", r.named[0])
	}
	return nil
}

// options returns those of the file.
func (r *retention) options() audit.FileOptions {
	o := audit.FileOptions{MaxSize: int64(r.size) << 20, Keep: r.files, MaxAge: time.Duration(r.days) * 24 * time.Hour}
	if r.size == 0 {
		o.MaxSize = math.MaxInt64
	}
	if r.files == 0 {
		o.Keep = -1
	}
	return o
}

// strangers limits the log of unauthenticated requests: over the time that files are kept, it may take at most a
// quarter of their size.
func (r *retention) strangers() audit.Budget {
	o := r.options()
	if r.days == 0 || r.files == 0 || r.size == 0 {
		return audit.Budget{} // nothing is removed by size, or not by age: the default
	}
	const least = 64 << 10 // the minimum for a burst to be useful
	all := o.MaxSize / 4 * int64(r.files+1)
	parts := max(1, min(int64(o.MaxAge/(3*time.Hour)), all/least))
	return audit.Budget{Bytes: all / parts, Every: o.MaxAge / time.Duration(parts)}
}

// audit opens the log that the flags request, nil for none. The returned function closes it, after the last request has been answered.
func (s *settings) audit(o *cluster.Options) (func() error, error) {
	a := &s.auditing
	if a.file == "" && a.webhook.ConfigFile == "" {
		return func() error { return nil }, nil
	}
	options := auditconfig.Options{PolicyFile: a.policy, Webhook: a.webhook, Audit: audit.Options{Logger: s.logger()}}
	if a.policy == "" {
		var err error
		if options.Policy, err = audit.ParsePolicy([]byte(defaultPolicy)); err != nil {
			return nil, err
		}
	}
	closeFile := func() error { return nil }
	if a.file != "" {
		file, err := audit.OpenFile(a.file, a.retention.options())
		if err != nil {
			return nil, fmt.Errorf("--audit-log: %w", err)
		}
		options.Sink, options.Audit.Strangers, closeFile = file, a.retention.strangers(), file.Close
	}
	opened, err := auditconfig.Open(options)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("--audit-*: %w", err), closeFile())
	}
	o.Server.Audit, o.Extensions = opened.Log(), append(o.Extensions, opened.Extension())
	ctx, end := context.WithCancel(context.Background())
	ran := make(chan error, 1)
	go func() { ran <- opened.Run(ctx) }()
	return func() error {
		end()
		return errors.Join(<-ran, closeFile())
	}, nil
}

// defaultPolicy records who did what, without bodies of requests and responses. Unauthenticated probes are left out:
// they would crowd out other unauthenticated requests.
const defaultPolicy = `
apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
- level: None
  users: ["system:anonymous"]
  verbs: [get]
  nonResourceURLs: [/healthz, /livez, /readyz]
- level: Metadata
`
