package auditconfig

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/keelson-dev/keelson/apiserver/audit"
	"github.com/keelson-dev/keelson/apiserver/audit/webhook"
	"github.com/keelson-dev/keelson/cluster"
	"github.com/keelson-dev/keelson/cluster/internal/reload"
)

var (
	// ErrNowhere says that neither a webhook nor another sink gets the events.
	ErrNowhere = errors.New("audit events go nowhere: there is neither a webhook nor another sink")
	// ErrNoPolicy says that nothing tells which requests to record.
	ErrNoPolicy = errors.New("there is no audit policy")
)

// patience is how long the log's last words may take at the end.
const patience = 10 * time.Second

// Options of Open.
type Options struct {
	// PolicyFile is the file of the policy. Without one, Policy is in force, which does not change.
	PolicyFile string
	Policy     *audit.Policy
	// Webhook gets the events, unless it has no ConfigFile.
	Webhook Webhook
	// Sink gets the events before it; nil is none. Whoever opened it closes it, when Run has returned.
	Sink audit.Sink
	// Audit are the options of the log. Its Strict is about Sink, and its Logger is also told of the files.
	Audit audit.Options
	// Interval is how often the files are read; 0 means once a second.
	Interval time.Duration
	// Server identifies this server in metrics; it may be empty.
	Server string
}

// Audit is an audit log by files. Make one with Open, use Log as cluster.Server.Audit, add Extension to
// cluster.Options.Extensions, and have Run run until after the last request. It serves one cluster.
type Audit struct {
	o       Options
	log     *audit.Log
	webhook *webhook.Sink // nil if there is none
	files   []watched
}

// watched is a file with what is done when it has changed.
type watched struct {
	*reload.File
	use func(text []byte) error
}

// Open reads the files. It starts nothing.
func Open(o Options) (*Audit, error) {
	if err := o.Webhook.Validate(); err != nil {
		return nil, err
	}
	a := &Audit{o: o}
	policy := o.Policy
	if o.PolicyFile != "" {
		if err := a.watch(o.PolicyFile, "audit_policy", func(text []byte) (err error) {
			policy, err = readPolicy(o.PolicyFile, text)
			return err
		}, a.usePolicy); err != nil {
			return nil, err
		}
	}
	if policy == nil {
		return nil, ErrNoPolicy
	}
	outputs := o.Audit.Also
	if o.Webhook.ConfigFile != "" {
		if err := a.watch(o.Webhook.ConfigFile, "audit_webhook", func([]byte) (err error) {
			a.webhook, err = o.Webhook.sink(o.Audit.Logger)
			return err
		}, a.useWebhook); err != nil {
			return nil, err
		}
		outputs = append(outputs[:len(outputs):len(outputs)], audit.Output{Sink: a.webhook, Strict: o.Webhook.Mode == string(webhook.BlockingStrict)})
	}
	first := audit.Output{Sink: o.Sink, Strict: o.Audit.Strict}
	if o.Sink == nil {
		if len(outputs) == 0 {
			return nil, ErrNowhere
		}
		first, outputs = outputs[0], outputs[1:]
	}
	logging := o.Audit
	logging.Strict, logging.Also = first.Strict, outputs
	a.log = audit.New(policy, first.Sink, logging)
	return a, nil
}

// watch reads a file for the first time, and has Run call use when it changes.
func (a *Audit) watch(path, what string, first, use func(text []byte) error) error {
	text, err := reload.Read(path)
	if err == nil {
		err = first(text)
	}
	if err != nil {
		return err
	}
	file := reload.New(text, reload.Options{Path: path, What: what, Server: a.o.Server, Interval: a.o.Interval, Log: a.o.Audit.Logger})
	a.files = append(a.files, watched{file, use})
	return nil
}

func readPolicy(path string, text []byte) (*audit.Policy, error) {
	policy, err := audit.ParsePolicy(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return policy, nil
}

func (a *Audit) usePolicy(text []byte) error {
	policy, err := readPolicy(a.o.PolicyFile, text)
	if err != nil {
		return err
	}
	a.log.Use(policy)
	return nil
}

func (a *Audit) useWebhook([]byte) error {
	config, err := a.o.Webhook.load()
	if err != nil {
		return err
	}
	return a.webhook.Use(config)
}

// Log returns the log.
func (a *Audit) Log() *audit.Log { return a.log }

// Run posts events to the webhook until ctx ends, which must be after the last request. Then it posts those that are left, as long as
// that takes no longer than some seconds. It must run once.
func (a *Audit) Run(ctx context.Context) error {
	if a.webhook == nil {
		<-ctx.Done()
		return a.log.Flush()
	}
	posting, end := context.WithCancel(context.WithoutCancel(ctx))
	defer end()
	ran := make(chan error, 1)
	go func() { ran <- a.webhook.Run(posting) }()
	<-ctx.Done()
	timer := time.AfterFunc(patience, end)
	defer timer.Stop()
	err := a.log.Flush()
	end()
	return errors.Join(err, <-ran)
}

// Extension reads the files again when they change, and serves the metrics of that.
func (a *Audit) Extension() cluster.Extension {
	return cluster.Extension{Name: "audit-config", New: func(*cluster.ExtensionParts) (cluster.Extended, error) { return extended{a}, nil }}
}
