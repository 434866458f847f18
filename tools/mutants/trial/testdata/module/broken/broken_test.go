package broken_test

import (
	"os"
	"strings"
	"testing"

	"example.test/m/broken"
)

func TestFails(t *testing.T) {
	if broken.Add(1, 1) != 3 {
		t.Error("of itself")
	}
}

func TestPanics(t *testing.T) { panic("of itself") }

// It sees what there is of the host.
func TestSurroundings(t *testing.T) {
	for _, v := range os.Environ() {
		if name, _, _ := strings.Cut(v, "="); name == "SECRET_OF_THE_HOST" {
			t.Error(v)
		}
	}
	if os.Getuid() == 0 {
		t.Error("as root")
	}
}

func TestSkipped(t *testing.T) { t.Error("although the plan says no") }
