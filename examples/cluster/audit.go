package main

import (
	"errors"
	"flag"
	"fmt"
	"math"
	"os"
	"strings"
	"time"

	"github.com/keelson-dev/keelson/apiserver/audit"
)

// retention holds the flags for keeping the audit log, and what it tells. The flags are kube-apiserver's.
type retention struct {
	policy            string // a file
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
	f.StringVar(&r.policy, "audit-policy", "", "")
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

// audit opens the log that the flags request, nil for none. It is closed after the last request has been answered.
func (s *settings) audit() (*audit.Log, func() error, error) {
	if s.auditLog == "" {
		return nil, func() error { return nil }, nil
	}
	policy, err := s.auditPolicy()
	if err != nil {
		return nil, nil, err
	}
	file, err := audit.OpenFile(s.auditLog, s.retention.options())
	if err != nil {
		return nil, nil, fmt.Errorf("--audit-log: %w", err)
	}
	log := audit.New(policy, file, audit.Options{Strangers: s.retention.strangers(), Logger: s.logger()})
	return log, func() error { return errors.Join(log.Flush(), file.Close()) }, nil
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

func (s *settings) auditPolicy() (*audit.Policy, error) {
	if s.retention.policy == "" {
		return audit.ParsePolicy([]byte(defaultPolicy))
	}
	data, err := os.ReadFile(s.retention.policy)
	if err != nil {
		return nil, fmt.Errorf("--audit-policy: %w", err)
	}
	policy, err := audit.ParsePolicy(data)
	if err != nil {
		return nil, fmt.Errorf("--audit-policy %s: %w", s.retention.policy, err)
	}
	return policy, nil
}
