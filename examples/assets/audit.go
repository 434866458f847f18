package main

import (
	"errors"
	"fmt"
	"log/slog"
	"math"
	"os"
	"time"

	"github.com/spf13/pflag"

	"github.com/keelson-dev/keelson/apiserver/audit"
)

// auditFlags are upstream's flags of the audit log.
type auditFlags struct {
	path, policy, format string
	days, files, size    int
}

func (a *auditFlags) define(f *pflag.FlagSet) {
	f.StringVar(&a.path, "audit-log-path", "", "the file for the audit log")
	f.StringVar(&a.policy, "audit-policy-file", "", "what it tells, an audit.k8s.io/v1 Policy; without one it tells nothing")
	f.StringVar(&a.format, "audit-log-format", "json", "json is the only one")
	f.IntVar(&a.days, "audit-log-maxage", 0, "for how many days old files are kept; 0 is no limit")
	f.IntVar(&a.files, "audit-log-maxbackup", 0, "how many old files are kept; 0 is no limit")
	f.IntVar(&a.size, "audit-log-maxsize", 0, "how many MiB a file grows to; 0 is no limit")
}

// open opens the log; nil if there is none. The returned function closes it, after the last request.
func (a *auditFlags) open(tell func(format string, args ...any), logger *slog.Logger) (*audit.Log, func() error, error) {
	nothing := func() error { return nil }
	switch {
	case a.path == "":
		return nil, nothing, nil
	case a.policy == "":
		tell("--audit-log-path: there is no --audit-policy-file, so nothing is logged")
		return nil, nothing, nil
	case a.path == "-":
		tell("--audit-log-path=-: only files are written, so nothing is logged")
		return nil, nothing, nil
	case a.format != "json":
		tell("--audit-log-format=%s: it is json", a.format)
	}
	text, err := os.ReadFile(a.policy)
	if err != nil {
		return nil, nil, fmt.Errorf("--audit-policy-file: %w", err)
	}
	policy, err := audit.ParsePolicy(text)
	if err != nil {
		return nil, nil, fmt.Errorf("--audit-policy-file %s: %w", a.policy, err)
	}
	o := audit.FileOptions{MaxSize: int64(a.size) << 20, Keep: a.files, MaxAge: time.Duration(a.days) * 24 * time.Hour}
	if a.size == 0 {
		o.MaxSize = math.MaxInt64
	}
	if a.files == 0 {
		o.Keep = -1
	}
	file, err := audit.OpenFile(a.path, o)
	if err != nil {
		return nil, nil, fmt.Errorf("--audit-log-path: %w", err)
	}
	log := audit.New(policy, file, audit.Options{Logger: logger})
	return log, func() error { return errors.Join(log.Flush(), file.Close()) }, nil
}
