package main

import (
	"fmt"
	"os"

	"github.com/keelson-dev/keelson/apiserver/audit"
)

// The audit log takes at most this much space.
const (
	auditBytes = 20 << 20
	auditFiles = 5
)

// audit opens the log that the flags ask for, nil for none. It is closed when the last request was answered.
func (s *settings) audit() (*audit.Log, func() error, error) {
	if s.auditLog == "" {
		return nil, func() error { return nil }, nil
	}
	policy, err := s.auditPolicy()
	if err != nil {
		return nil, nil, err
	}
	file, err := audit.OpenFile(s.auditLog, audit.FileOptions{MaxSize: auditBytes, Keep: auditFiles})
	if err != nil {
		return nil, nil, fmt.Errorf("--audit-log: %w", err)
	}
	return audit.New(policy, file, audit.Options{Logger: s.logger()}), file.Close, nil
}

// defaultPolicy tells who did what, without what they sent and got.
const defaultPolicy = `
apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
- level: Metadata
`

func (s *settings) auditPolicy() (*audit.Policy, error) {
	if s.policy == "" {
		return audit.ParsePolicy([]byte(defaultPolicy))
	}
	data, err := os.ReadFile(s.policy)
	if err != nil {
		return nil, fmt.Errorf("--audit-policy: %w", err)
	}
	policy, err := audit.ParsePolicy(data)
	if err != nil {
		return nil, fmt.Errorf("--audit-policy %s: %w", s.policy, err)
	}
	return policy, nil
}
