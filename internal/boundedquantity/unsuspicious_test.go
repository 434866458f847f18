package boundedquantity_test

import (
	"testing"

	"github.com/keelson-dev/keelson/internal/boundedquantity"
)

// TestUnsuspicious has texts that resemble quantities with large exponents: suspicion costs time.
func TestUnsuspicious(t *testing.T) {
	for _, text := range []string{"1234567", "8u", "queue", "1e1x00", "1e10x0", "1e100x", "1f1000"} {
		if boundedquantity.Suspicious([]byte(text)) {
			t.Errorf("%q is suspicious", text)
		}
	}
}
