package attacks

import "testing"

// TestAttacks makes them all against one cluster.
func TestAttacks(t *testing.T) {
	w := newWorld(t)
	w.bases()
	w.settle()
	before := w.snapshot()
	for _, attack := range []struct {
		name string
		try  func()
	}{
		{"paths", w.paths}, {"verbs", w.verbs}, {"subresources", w.subresources},
		{"tokens", w.tokens}, {"impersonation", w.impersonation}, {"headers", w.headers}, {"certificates", w.certificates},
		{"nodes", w.nodes}, {"escalation", w.escalation}, {"floods", w.floods},
	} {
		attack.try()
		t.Logf("%s: %d attempts so far", attack.name, w.attempts.Load())
	}
	w.unchanged(before)
	if n := w.attempts.Load(); n < 500 {
		t.Errorf("%d attempts", n)
	}
}
