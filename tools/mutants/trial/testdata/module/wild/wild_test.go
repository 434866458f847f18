package wild_test

import (
	"testing"

	"example.test/m/wild"
)

func TestUntil(t *testing.T) {
	if wild.Until(3) != 3 {
		t.Error("wrong")
	}
}

func TestAllocate(t *testing.T) {
	if wild.Allocate(3) != 3 {
		t.Error("wrong")
	}
}

func TestLeave(t *testing.T) {
	if err := wild.Leave(1); err != nil {
		t.Error(err)
	}
}
