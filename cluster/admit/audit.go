package admit

import (
	"maps"
	"strings"
	"sync"

	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"

	"github.com/keelson-dev/keelson/apiserver/audit"
)

// sink keeps the annotations of requests that somebody waits for, by their audit IDs.
type sink struct{ waiting sync.Map }

// annotations is the policy of the audit log.
func annotations() *audit.Policy { return audit.Everything(auditv1.LevelMetadata) }

// expect notes that the annotations of a request are wanted.
func (s *sink) expect(id string, into *map[string]string) { s.waiting.Store(id, into) }

func (s *sink) forget(id string) { s.waiting.Delete(id) }

// Write implements audit.Sink.
func (s *sink) Write(e *auditv1.Event) error {
	into, ok := s.waiting.Load(string(e.AuditID))
	if !ok || e.Stage != auditv1.StageResponseComplete {
		return nil
	}
	all := maps.Clone(e.Annotations)
	maps.DeleteFunc(all, func(key, _ string) bool { return strings.HasPrefix(key, "authorization.k8s.io/") })
	if len(all) > 0 {
		*into.(*map[string]string) = all
	}
	return nil
}
