package audit

import (
	"slices"
	"sync"

	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
)

// Memory is a Sink for tests: it keeps all events. The zero value is ready.
type Memory struct {
	mu     sync.Mutex
	events []auditv1.Event
}

// Write keeps a copy of the event.
func (m *Memory) Write(e *auditv1.Event) error {
	kept := e.DeepCopy()
	m.mu.Lock()
	defer m.mu.Unlock()
	m.events = append(m.events, *kept)
	return nil
}

// Events returns what was written, in order.
func (m *Memory) Events() []auditv1.Event {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.events)
}
