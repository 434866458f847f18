package calc_test

import (
	"testing"
	"time"

	"example.test/m/calc"
)

func TestLarger(t *testing.T) {
	if calc.Larger(1, 2) != 2 || calc.Larger(2, 1) != 2 {
		t.Error("wrong")
	}
}

func TestSign(t *testing.T) {
	if calc.Sign(5) != 1 {
		t.Error("wrong")
	}
}

func TestSlow(t *testing.T) {
	time.Sleep(2200 * time.Millisecond)
	if calc.Slow(1) != 4 {
		t.Error("wrong")
	}
}
