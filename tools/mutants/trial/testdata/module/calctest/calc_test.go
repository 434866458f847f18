package calctest

import (
	"testing"

	"example.test/m/calc"
)

func TestElsewhere(t *testing.T) {
	if calc.Elsewhere(1) != 3 {
		t.Error("wrong")
	}
}
